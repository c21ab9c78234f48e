"""Asking coordinators that move, are busy, or go away in the middle."""

from typing import Any

import pytest
from tests.unit.pipelines.fakes import FakeBrokers

from hutong.foundation.errors import Refused
from hutong.pipelines.client.cluster import TopicPartition
from hutong.pipelines.client.connection import FIND_COORDINATOR
from hutong.pipelines.client.coordinators import Coordinators
from hutong.pipelines.client.group_offsets import commit_offsets, fetch_offsets
from hutong.pipelines.client.identities import Identity, Producer, TransactionOutcome
from hutong.pipelines.client.transactions import TransactionClient
from hutong.pipelines.errors import Unavailable
from hutong.wire.kafka.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)
from hutong.wire.kafka.apis.k09_offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from hutong.wire.kafka.apis.k10_find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from hutong.wire.kafka.apis.k26_end_txn import EndTxnRequest, EndTxnResponse
from hutong.wire.kafka.apis.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from hutong.wire.kafka.apis.shared import PartitionErrorCode
from hutong.wire.kafka.error_codes import ErrorCode

P0 = TopicPartition("t", 0)
A, B, C = (Identity(name, Producer(number, 3)) for number, name in enumerate("abc"))


class Coordinating:
    """Brokers 1 and 2; `of` says which coordinates a key. Each of `faults` is the answer to one request, in turn."""

    def __init__(self) -> None:
        self.brokers = FakeBrokers({P0: 1, TopicPartition("t", 1): 2})
        self.brokers.answers = {node: self._answering(node) for node in (0, 1, 2)}
        self.of: dict[str, int] = {}
        self.faults: list[ErrorCode | Unavailable] = []
        self.ended: list[tuple[int, str]] = []
        self.lookups = 0
        self.transactions = TransactionClient(self.brokers.cluster())

    def _answering(self, node: int) -> Any:
        return lambda request: self._answer(node, request)

    def _answer(self, node: int, request: Any) -> Any:
        if isinstance(request, FindCoordinatorRequest):
            self.lookups += 1
            keys = request.coordinator_keys or [request.key]
            found = [Coordinator(key, self.of.get(key, 1), f"host-{self.of.get(key, 1)}", 9092) for key in keys]
            return FindCoordinatorResponse(host=found[0].host, port=9092, coordinators=found)
        fault = self.faults.pop(0) if self.faults else ErrorCode.NONE
        if isinstance(fault, Unavailable):
            raise fault
        key = getattr(request, "transactional_id", "")
        if key and self.of.get(key, 1) != node:
            fault = ErrorCode.NOT_COORDINATOR
        if isinstance(request, InitProducerIdRequest):
            return InitProducerIdResponse(error_code=fault, producer_id=5, producer_epoch=6)
        if isinstance(request, EndTxnRequest):
            if fault is ErrorCode.NONE:
                self.ended.append((node, key))
            return EndTxnResponse(error_code=fault)
        if isinstance(request, OffsetCommitRequest):
            return OffsetCommitResponse(
                topics=[
                    OffsetCommitResponseTopic(
                        topic.name, partitions=[PartitionErrorCode(0, fault) for _ in topic.partitions]
                    )
                    for topic in request.topics
                ]
            )
        raise AssertionError(request)


@pytest.fixture
def coordinating() -> Coordinating:
    return Coordinating()


def test_a_coordinator_is_looked_for_once(coordinating: Coordinating) -> None:
    assert coordinating.transactions.init_producer("a", 1000) == Identity("a", Producer(5, 6))
    assert coordinating.transactions.init_producer("a", 1000).producer == (5, 6)
    assert coordinating.lookups == 1


def test_a_coordinator_that_moved_is_followed(coordinating: Coordinating) -> None:
    coordinating.transactions.init_producer("a", 1000)
    coordinating.of["a"] = 2
    coordinating.transactions.init_producer("a", 1000)
    assert coordinating.lookups == 2


def test_who_is_busy_is_asked_again(coordinating: Coordinating) -> None:
    coordinating.faults = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    coordinating.transactions.init_producer("a", 1000)
    assert len(coordinating.brokers.slept_s) == 2


def test_what_will_not_pass_is_raised(coordinating: Coordinating) -> None:
    coordinating.faults = [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    with pytest.raises(Refused, match="no transaction can be begun for a: TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        coordinating.transactions.init_producer("a", 1000)


def test_several_are_ended_at_their_coordinators(coordinating: Coordinating) -> None:
    coordinating.of = {"b": 2}
    assert coordinating.transactions.end([A, B, C], is_commit=True) == []
    assert sorted(coordinating.ended) == [(1, "a"), (1, "c"), (2, "b")]


def test_those_that_were_ended_are_not_asked_for_again(coordinating: Coordinating) -> None:
    coordinating.faults = [ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE]
    (refused,) = coordinating.transactions.end([A, B, C], is_commit=True)
    assert str(refused) == "transaction c cannot be committed: INVALID_TXN_STATE"
    assert coordinating.ended == [(1, "a"), (1, "b")]


def test_a_broker_that_goes_away_in_the_middle_is_asked_again(coordinating: Coordinating) -> None:
    coordinating.faults = [ErrorCode.NONE, Unavailable("gone")]
    assert coordinating.transactions.end([A, B, C], is_commit=False) == []
    assert [name for _, name in coordinating.ended] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("state", "epoch", "outcome"),
    [
        ("Ongoing", 3, TransactionOutcome.OPEN),
        ("Ongoing", 4, TransactionOutcome.ABORTED),
        ("PrepareCommit", 3, TransactionOutcome.COMMITTED),
        ("CompleteCommit", 4, TransactionOutcome.COMMITTED),
        ("PrepareAbort", 3, TransactionOutcome.ABORTED),
        ("CompleteAbort", 4, TransactionOutcome.ABORTED),
        ("PrepareEpochFence", 4, TransactionOutcome.ABORTED),
        ("Empty", 3, TransactionOutcome.ABORTED),
        ("Dead", 3, TransactionOutcome.ABORTED),
    ],
)
def test_what_became_of_a_transaction(
    coordinating: Coordinating, state: str, epoch: int, outcome: TransactionOutcome
) -> None:
    def describe(request: Any) -> Any:
        if isinstance(request, DescribeTransactionsRequest):
            return DescribeTransactionsResponse(
                transaction_states=[TransactionState(0, "a", state, 0, 0, A.producer.producer_id, epoch)]
            )
        return coordinating._answer(1, request)

    coordinating.brokers.answers = dict.fromkeys((0, 1), describe)
    assert coordinating.transactions.outcomes([A]) == {"a": outcome}


def test_offsets_are_committed_for_a_group(coordinating: Coordinating) -> None:
    # The second: a coordinator that has not heard of a new topic yet.
    coordinating.faults = [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    cluster = coordinating.brokers.cluster()
    commit_offsets(Coordinators(cluster), "g", {P0: 7})
    commit_offsets(Coordinators(cluster), "g", {})
    asked = [one for one in coordinating.brokers.connection(1).asked if isinstance(one, OffsetCommitRequest)]
    assert [one.topics[0].partitions[0].committed_offset for one in asked] == [7, 7, 7]
    coordinating.faults = [ErrorCode.UNKNOWN_MEMBER_ID]
    with pytest.raises(Refused, match="offsets of t-0 cannot be committed for group g: UNKNOWN_MEMBER_ID"):
        commit_offsets(Coordinators(cluster), "g", {P0: 7})


def test_older_brokers_are_asked_for_one_group(coordinating: Coordinating, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(request: Any) -> Any:
        if isinstance(request, FindCoordinatorRequest):
            return FindCoordinatorResponse(host="host-1", port=9092)
        assert request.group_id == "g"
        answers = [OffsetFetchResponsePartition(0, 7, metadata="m"), OffsetFetchResponsePartition(1, -1)]
        return OffsetFetchResponse(topics=[OffsetFetchResponseTopic("t", answers)])

    coordinating.brokers.answers = dict.fromkeys((0, 1), fetch)
    monkeypatch.setattr("tests.unit.pipelines.fakes.VERSION_MAX", {FIND_COORDINATOR: 3, 9: 7})
    assert fetch_offsets(coordinating.transactions.coordinators, "g") == {P0: (7, "m")}
