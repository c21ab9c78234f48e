"""Markers of a transaction: written in the order of its partitions, which no process chooses."""

from types import SimpleNamespace
from typing import Any

import pytest

from hutong.broker.coordinators.transaction_markers import TransactionMarkers
from hutong.broker.topics.group_standing import GroupStanding
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Continuation
from hutong.transactions.messages import ProducerIdentity
from hutong.wire.kafka.error_codes import ErrorCode


class NoTopics:
    """Hosts no partition; notes which were looked for."""

    def __init__(self) -> None:
        self.sought: list[tuple[str, int]] = []

    def partition(self, name: str, index: int) -> None:
        if (name, index) not in self.sought:
            self.sought.append((name, index))


def test_markers_are_written_in_the_order_of_their_partitions() -> None:
    topics: Any = NoTopics()
    partitions = frozenset((f"topic-{number}", index) for number in range(20) for index in range(3))
    failed: list[frozenset[tuple[str, int]]] = []
    TransactionMarkers(topics, []).write(  # no offsets are part of it
        ProducerIdentity(1, 0), partitions, failed.append, is_commit=True, coordinator_epoch=0
    )
    assert topics.sought == sorted(partitions)
    assert failed == [frozenset()], "a partition that was deleted needs no marker"


class KnownOffsets:
    """The offsets of one shard of groups; notes whose were ended."""

    def __init__(self) -> None:
        self.ended: list[int] = []

    def end(self, producer_id: int, then: Continuation[None], *, is_commit: bool) -> None:
        self.ended.append(producer_id)
        then(None)


class OffsetsTopic:
    """Has `__consumer_offsets` of three partitions. Transactions of shard 1 have had a leader more than the others."""

    standings = {  # noqa: RUF012
        "transactions": GroupStanding(1, 7, is_led_here=False),
        "transactions-1": GroupStanding(1, 8, is_led_here=False),
        "transactions-2": GroupStanding(1, 7, is_led_here=False),
    }

    def partition(self, _name: str, _index: int) -> Any:
        return SimpleNamespace(is_internal=True)


@pytest.mark.parametrize(
    ("epoch", "shard", "is_taken"), [(7, 0, True), (7, 1, False), (8, 1, True), (7, 2, True), (6, 2, False)]
)
def test_a_former_coordinator_is_known_by_its_shard_and_epoch(epoch: int, shard: int, is_taken: bool) -> None:
    offsets: list[Any] = [KnownOffsets() for _ in range(3)]
    topics: Any = OffsetsTopic()
    markers = TransactionMarkers(topics, offsets)
    outcomes: list[HutongError | None] = []
    markers.write_one(
        ProducerIdentity(5, 0),
        ("__consumer_offsets", 2),
        outcomes.append,
        is_commit=True,
        coordinator_epoch=markers.number_of(epoch, shard),
    )
    assert [each.ended for each in offsets] == [[], [], [5] if is_taken else []]
    codes = [outcome.code if isinstance(outcome, Refused) else outcome for outcome in outcomes]
    assert codes == [None if is_taken else ErrorCode.TRANSACTION_COORDINATOR_FENCED]


def test_numbers_of_coordinators_rise_with_the_epoch_within_each_shard() -> None:
    offsets: list[Any] = [KnownOffsets() for _ in range(3)]
    markers = TransactionMarkers(Any, offsets)  # type: ignore[arg-type]  # no topic is looked for
    numbers = [[markers.number_of(epoch, shard) for epoch in range(9)] for shard in range(3)]
    assert all(each == sorted(set(each)) for each in numbers)
    assert len({number for each in numbers for number in each}) == 27
