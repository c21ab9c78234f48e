"""A transaction whose coordinator is on one node, and whose partitions and offsets are on another."""

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.wire_node import WireClient, batch_of, client_of, fetch_request

from hutong.broker.broker import Broker
from hutong.broker.coordinators.other_nodes import RemoteMarkers, RoutedGateway
from hutong.broker.dispatch.forwarded import ForwardedRequests
from hutong.broker.handling.cluster_view import AloneView, CoordinationKind
from hutong.broker.handling.listeners import Listener, SecurityProtocol
from hutong.foundation.errors import HutongError, OwnerGone
from hutong.foundation.waiting.pending import Continuation
from hutong.security.principals import ANONYMOUS
from hutong.server.broker import broker_verticle
from hutong.server.broker.broker_part import BrokerPart
from hutong.server.configuration.sections.network import KafkaSettings
from hutong.server.configuration.sections.node import NodeSettings
from hutong.server.configuration.settings import Address, Settings
from hutong.server.serving import node_of
from hutong.transactions.messages import ProducerIdentity
from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hutong.wire.kafka.apis.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdRequest
from hutong.wire.kafka.apis.k24_add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from hutong.wire.kafka.apis.k26_end_txn import EndTxnRequest
from hutong.wire.kafka.apis.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from hutong.wire.kafka.apis.k65_describe_transactions import DescribeTransactionsRequest
from hutong.wire.kafka.batch.records import TRANSACTIONAL
from hutong.wire.kafka.error_codes import ErrorCode

NOW_MS = time.time_ns() // 1_000_000
COORDINATOR, LEADER = 1, 2
COMMITTED = 1


class PairedView(AloneView):
    """One of two nodes: the first coordinates transactions, the second leads everything else."""

    is_alone = False

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.other: ForwardedRequests
        self.is_cut = False
        self.coordinator = COORDINATOR
        self.asked: list[int] = []

    def coordinator_of(self, kind: CoordinationKind, key: str) -> int:
        return self.coordinator if kind is CoordinationKind.TRANSACTION else LEADER

    def ask_node(self, node: int, frame: bytes, then: Continuation[bytes]) -> None:
        assert node == 3 - self.controller_id
        self.asked.append(int.from_bytes(frame[:2], "big"))
        if self.is_cut:
            then(OwnerGone("there is no link"))
            return
        self.other.handle_frame(frame, self.other.session_of(ANONYMOUS, "127.0.0.1"), then)


class Pair:
    """Clients of both nodes, and what is behind them."""

    def __init__(self, brokers: list[Broker], views: list[PairedView], clients: list[WireClient]) -> None:
        self.brokers, self.views = brokers, views
        self.coordinator, self.leader = clients
        self.producer_id, self.epoch = -1, -1

    async def init(self) -> None:
        answer = await self.coordinator.ask(InitProducerIdRequest("x", 60_000), 4)
        assert answer.error_code == ErrorCode.NONE
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    async def add(self) -> int:
        topics = [AddPartitionsToTxnTopic("t", [0])]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )
        answer = await self.coordinator.ask(request, 3)
        code: int = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        return code

    async def produce(self, sequence: int = 0, version: int = 11) -> int:
        batch = batch_of(
            b"v",
            timestamp_ms=NOW_MS,
            attributes=TRANSACTIONAL,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
        )
        data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, memoryview(batch))])]
        answer = await self.leader.ask(ProduceRequest("x", -1, 1000, data), version)
        code: int = answer.responses[0].partition_responses[0].error_code
        return code

    async def commit_offset(self, offset: int) -> int:
        topics = [TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, offset, -1, "")])]
        request = TxnOffsetCommitRequest("x", "g", self.producer_id, self.epoch, topics=topics)
        answer = await self.leader.ask(request, 5)
        code: int = answer.topics[0].partitions[0].error_code
        return code

    async def end(self, *, is_commit: bool) -> int:
        request = EndTxnRequest("x", self.producer_id, self.epoch, is_commit)
        answer = await self.coordinator.ask(request, 3)
        code: int = answer.error_code
        return code

    async def state(self) -> str:
        answer = await self.coordinator.ask(DescribeTransactionsRequest(["x"]), 0)
        state: str = answer.transaction_states[0].transaction_state
        return state

    async def visible(self) -> int:
        """The end of what a committed reader sees."""
        request = fetch_request(0)
        request.isolation_level = COMMITTED
        answer = await self.leader.ask(request, 12)
        end: int = answer.responses[0].partitions[0].last_stable_offset
        return end

    async def committed(self) -> int:
        answer = await self.leader.ask(OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0])]), 5)
        offset: int = answer.topics[0].partitions[0].committed_offset
        return offset


@asynccontextmanager
async def pair_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pair]:
    brokers: list[Broker] = []
    views = [PairedView(COORDINATOR), PairedView(LEADER)]

    def make(**parts: Any) -> Broker:
        broker = Broker(**(parts | {"cluster": views[len(brokers)]}))
        broker.transaction_markers.remote = RemoteMarkers(broker.cluster)
        broker.routed_gateway = RoutedGateway(broker)
        brokers.append(broker)
        return broker

    monkeypatch.setattr(broker_verticle, "Broker", make)
    async with AsyncExitStack() as stack:
        clients = []
        for number in (COORDINATOR, LEADER):
            address = await stack.enter_async_context(node_in(tmp_path / str(number), number))
            clients.append(await stack.enter_async_context(client_of(address)))
            await clients[-1].create("t")
        for view, broker in zip(views, reversed(brokers), strict=True):
            listener = Listener("PLAINTEXT", SecurityProtocol.PLAINTEXT, "127.0.0.1", 9092)
            view.other = ForwardedRequests(broker, listener, asyncio.get_running_loop().call_soon)
        for group, standing in brokers[0].topics.standings.items():
            if group != "transactions":
                standing.leader, standing.is_led_here = LEADER, False
        brokers[1].topics.standings["transactions"].leader = COORDINATOR
        yield Pair(brokers, views, clients)


@asynccontextmanager
async def node_in(data_dir: Path, number: int) -> AsyncIterator[Address]:
    node_settings = NodeSettings(data_dir=data_dir, id=number)
    settings = dataclasses.replace(Settings(), node=node_settings, kafka=KafkaSettings(listen=Address("127.0.0.1", 0)))
    node = node_of(BrokerPart(settings))
    try:
        yield (await node.start()).kafka
    finally:
        await node.stop()


@pytest.mark.parametrize("is_commit", [True, False])
async def test_a_transaction_ends_in_partitions_and_offsets_of_another_node(
    is_commit: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair_in(tmp_path, monkeypatch) as pair:
        await pair.init()
        assert await pair.add() == ErrorCode.NONE
        assert await pair.produce() == ErrorCode.NONE
        assert await pair.commit_offset(7) == ErrorCode.NONE
        assert pair.views[1].asked == [24, 24]
        assert (await pair.visible(), await pair.committed()) == (0, -1)
        assert await pair.end(is_commit=is_commit) == ErrorCode.NONE
        assert (await pair.visible(), await pair.committed()) == (2, 7 if is_commit else -1)
        assert await pair.state() == ("CompleteCommit" if is_commit else "CompleteAbort")
        assert pair.views[0].asked == [27]


async def test_a_batch_is_refused_that_its_transaction_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair_in(tmp_path, monkeypatch) as pair:
        await pair.init()
        assert await pair.produce() in (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE)
        # KIP-890: with version 12 the batch itself adds its partition.
        assert await pair.produce(version=12) == ErrorCode.NONE
        assert await pair.state() == "Ongoing"


async def test_nobody_who_can_be_asked_is_a_reason_to_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair_in(tmp_path, monkeypatch) as pair:
        await pair.init()
        assert await pair.add() == ErrorCode.NONE
        pair.views[1].is_cut = True
        assert await pair.produce() == ErrorCode.NOT_ENOUGH_REPLICAS
        pair.views[1].is_cut, pair.views[1].coordinator = False, -1
        assert await pair.produce() == ErrorCode.NOT_ENOUGH_REPLICAS
        pair.views[1].coordinator = COORDINATOR
        assert await pair.produce() == ErrorCode.NONE


async def test_markers_are_written_later_where_nobody_takes_them_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair_in(tmp_path, monkeypatch) as pair:
        await pair.init()
        assert await pair.add() == ErrorCode.NONE
        assert await pair.produce() == ErrorCode.NONE
        pair.views[0].is_cut = True
        # The decision is durable, so the producer is answered.
        assert await pair.end(is_commit=True) == ErrorCode.NONE
        assert (await pair.state(), await pair.visible()) == ("PrepareCommit", 0)
        standing = pair.brokers[0].topics.standings["days"]
        failed: list[frozenset[Any]] = []
        transaction = pair.brokers[0].transactions.get("x")
        assert transaction is not None
        standing.leader = -1
        markers = pair.brokers[0].transaction_markers
        identity = _identity(pair)
        markers.write(identity, transaction.unmarked, failed.append, is_commit=True, coordinator_epoch=0)
        assert failed == [frozenset({("t", 0)})]
        standing.leader, pair.views[0].is_cut = LEADER, False
        settled: list[frozenset[Any]] = []
        markers.write(identity, transaction.unmarked, settled.append, is_commit=True, coordinator_epoch=0)
        while not settled:
            await pair.visible()
        assert settled == [frozenset()]
        assert await pair.visible() == 2


async def test_a_coordinator_that_was_replaced_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with pair_in(tmp_path, monkeypatch) as pair:
        await pair.init()
        markers, told = pair.brokers[1].transaction_markers, list[HutongError | None]()
        pair.brokers[1].topics.standings["transactions"].leader_epoch = 5
        for partition in (("__consumer_offsets", 0), ("t", 0)):
            markers.write_one(_identity(pair), partition, told.append, is_commit=True, coordinator_epoch=5)
            while not told:
                await pair.visible()
            assert told.pop() is None
            markers.write_one(_identity(pair), partition, told.append, is_commit=True, coordinator_epoch=4)
            error: Any = told.pop()
            assert error.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def _identity(pair: Pair) -> ProducerIdentity:
    return ProducerIdentity(pair.producer_id, pair.epoch)
