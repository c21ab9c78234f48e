"""Coordinators that come and go on a running node: what clients are answered, and that nothing is left behind."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support import every_api
from tests.support.every_api import codes_of
from tests.unit.broker.wire_node import WireClient, client_of, running_node

from hutong.broker.broker import Broker
from hutong.broker.dispatch.coordinated import COORDINATED
from hutong.broker.handling.cluster_view import AloneView
from hutong.broker.state.state_topic import StateTopic
from hutong.foundation.errors import StorageError
from hutong.foundation.waiting.pending import settle_future
from hutong.journal.log import PartitionLog
from hutong.server.broker import broker_verticle
from hutong.server.broker.group_coordinators import GroupLife
from hutong.server.broker.transaction_coordinators import TransactionLife, follow_coordinators
from hutong.server.configuration.settings import Address
from hutong.wire.kafka.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from hutong.wire.kafka.apis.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdRequest
from hutong.wire.kafka.error_codes import ErrorCode

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
LISTS: Final = {16, 66}


class SeveralView(AloneView):
    """A node of several, without the others."""

    is_alone = False


class Scene:
    """A node with its broker, its coordinators' lives, and a client."""

    def __init__(self, broker: Broker, groups: GroupLife, transactions: TransactionLife) -> None:
        self.broker, self.groups, self.transactions = broker, groups, transactions
        self.address: Address
        self.client: WireClient

    def log(self, name: str) -> PartitionLog:
        partition = self.broker.topics.partition(name, 0)
        assert partition is not None
        return partition.log

    async def load(self) -> None:
        await self.groups.load(self.log(OFFSETS))
        await self.transactions.load(self.log(TRANSACTIONS))

    def unload(self) -> None:
        self.transactions.unload()
        self.groups.unload()

    @property
    def serving(self) -> int:
        return int(self.broker.coordination.groups)

    async def commit(self, offset: int, group: str = "g") -> int:
        topics = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, offset)])]
        answer = await self.client.ask(OffsetCommitRequest(group, topics=topics), 7)
        code: int = answer.topics[0].partitions[0].error_code
        return code

    async def committed(self) -> tuple[int, int]:
        answer = await self.client.ask(OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0])]), 5)
        if answer.error_code:
            return answer.error_code, -1
        partition = answer.topics[0].partitions[0]
        return partition.error_code, partition.committed_offset

    async def produce_id(self) -> Any:
        return await self.client.ask(InitProducerIdRequest("x", 60_000), 4)


@asynccontextmanager
async def scene_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    made: list[Scene] = []

    def capture(broker: Broker, groups: GroupLife, transactions: TransactionLife) -> None:
        broker.cluster = SeveralView(1)
        made.append(Scene(broker, groups, transactions))
        follow_coordinators(broker, groups, transactions)

    monkeypatch.setattr(broker_verticle, "follow_coordinators", capture)
    async with running_node(tmp_path) as address, client_of(address) as client:
        scene = made[0]
        scene.address, scene.client = address, client
        await client.create("t")
        yield scene


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
async def test_clients_wait_for_a_coordinator_that_is_to_be_here(
    code: ErrorCode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene_in(tmp_path, monkeypatch) as scene:
        scene.unload()
        coordination = scene.broker.coordination
        assert coordination.groups is coordination.transactions is ErrorCode.NOT_COORDINATOR
        coordination.groups = coordination.transactions = code
        for api_key in sorted(COORDINATED):
            for request, version in every_api.samples(api_key, {"t": bytes(16)}):
                if api_key == 22 and request.transactional_id is None:
                    continue
                codes = set(codes_of(await scene.client.ask(request, version)))
                # As in Kafka, a node without a coordinator lists nothing: the others' lists are complete.
                is_list = api_key in LISTS and code is ErrorCode.NOT_COORDINATOR
                expected = set() if is_list else {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
                assert codes - {0} == expected, f"API key {api_key} version {version}"


async def test_a_closed_coordinator_behind_a_handler_answers_that_it_is_not_available(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request may have passed the gate before its coordinator was closed."""
    looking = {9, 15, 16, 47, 65, 66, 69, 89}  # are answered within one call
    sharing = {76, 77, 90, 91, 92}  # share groups of a node alone have a log of their own, which is open
    async with scene_in(tmp_path, monkeypatch) as scene:
        scene.unload()
        scene.broker.coordination.groups = scene.broker.coordination.transactions = ErrorCode.NONE
        for api_key in sorted(COORDINATED):
            if api_key in looking | sharing:
                continue
            for request, version in every_api.samples(api_key, {"t": bytes(16)}):
                if api_key == 22 and request.transactional_id is None:
                    continue
                codes = set(codes_of(await scene.client.ask(request, version)))
                expected = {ErrorCode.COORDINATOR_NOT_AVAILABLE}
                # Its topic id is none, which comes first.
                assert codes - {0, ErrorCode.UNKNOWN_TOPIC_ID} <= expected, f"API key {api_key} version {version}"
                assert codes - {0}, f"API key {api_key} version {version}"


async def test_a_new_coordinator_has_what_the_old_one_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene_in(tmp_path, monkeypatch) as scene:
        assert await scene.commit(7) == ErrorCode.NONE
        first = await scene.produce_id()
        scene.unload()
        assert (await scene.committed())[0] == await scene.commit(8) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (await scene.produce_id()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await scene.load()
        assert await scene.committed() == (ErrorCode.NONE, 7)
        second = await scene.produce_id()
        assert (second.producer_id, second.producer_epoch) == (first.producer_id, first.producer_epoch + 1)


async def test_a_load_beside_other_work_ends_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene_in(tmp_path, monkeypatch) as scene:
        assert await scene.commit(7) == ErrorCode.NONE
        scene.unload()
        failures: list[str] = []
        scene.groups.load_soon(scene.log(OFFSETS), 3, lambda: failures.append(OFFSETS))
        scene.transactions.load_soon(scene.log(TRANSACTIONS), 3, lambda: failures.append(TRANSACTIONS))
        for _ in range(1_000):
            await asyncio.sleep(0)
            if not scene.serving and not scene.broker.coordination.transactions:
                break
        assert await scene.committed() == (ErrorCode.NONE, 7)
        assert failures == []


async def test_a_load_that_the_disk_fails_may_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene_in(tmp_path, monkeypatch) as scene:
        assert await scene.commit(7) == ErrorCode.NONE
        scene.unload()
        failed = asyncio.Event()
        with monkeypatch.context() as patch:
            patch.setattr(StateTopic, "replay", _fail_to_read)
            scene.groups.load_soon(scene.log(OFFSETS), 0, failed.set)
            await asyncio.wait_for(failed.wait(), 10)
        await scene.load()
        assert await scene.committed() == (ErrorCode.NONE, 7)


async def _fail_to_read(_state: StateTopic, _apply: object) -> None:
    raise StorageError("cannot read: Input/output error")


async def test_what_waits_at_an_old_coordinator_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene_in(tmp_path, monkeypatch) as scene:
        join = JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
        scene.client.send(join, 2)
        member_id = (await scene.client.receive(11, 2)).member_id
        async with client_of(scene.address) as other:
            other.send(join, 2)
            # Sent and not answered: the first member does not join again.
            assert (await scene.client.ask(HeartbeatRequest("g", 1, member_id), 1)).error_code in (0, 27)
            scene.unload()
            answer = await asyncio.wait_for(other.receive(11, 2), 10)
            assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_what_is_on_its_way_to_the_log_changes_nothing_in_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene_in(tmp_path, monkeypatch) as scene:
        assert await scene.commit(7) == ErrorCode.NONE
        old, told = scene.groups.parts, list[ErrorCode]()
        change = [(key, value) for key in old.offsets.table.keys_of_group("g") for value in [None]]
        old.classic.commit("g", change, told.append)
        scene.unload()
        assert told == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert scene.groups.parts.offsets.table.get("g", "t", 0) is None, "nothing is known here meanwhile"
        # It had reached the journal, so it is in the log, and the new coordinator replays that.
        flushed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        scene.log(OFFSETS).when_flushed(lambda error: settle_future(flushed, error))
        await flushed
        await scene.load()
        assert await scene.committed() == (ErrorCode.NONE, -1)


async def test_a_load_that_is_given_up_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene_in(tmp_path, monkeypatch) as scene:
        assert await scene.commit(7) == ErrorCode.NONE
        scene.unload()
        loop = asyncio.get_running_loop()
        loads = [loop.create_task(scene.groups.load(scene.log(OFFSETS))) for _ in range(3)]
        await asyncio.sleep(0)
        assert scene.serving == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        scene.groups.unload()
        await asyncio.gather(*loads)
        assert scene.serving == ErrorCode.NOT_COORDINATOR
        assert (await scene.committed())[0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_a_load_that_is_given_up_before_it_has_begun_serves_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene_in(tmp_path, monkeypatch) as scene:
        assert await scene.commit(7) == ErrorCode.NONE
        scene.unload()
        failures: list[str] = []
        scene.groups.load_soon(scene.log(OFFSETS), 1, lambda: failures.append(OFFSETS))
        assert scene.serving == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        scene.unload()
        for _ in range(100):
            await asyncio.sleep(0)
        assert scene.serving == ErrorCode.NOT_COORDINATOR
        assert failures == []


async def test_a_thousand_swaps_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene_in(tmp_path, monkeypatch) as scene:
        assert await scene.commit(7) == ErrorCode.NONE
        await scene.produce_id()
        before = held(scene)
        old: list[weakref.ref[Any]] = [
            weakref.ref(scene.groups.parts.classic),
            weakref.ref(scene.transactions.parts),
        ]
        for number in range(1_000):
            scene.unload()
            await scene.load()
            if number % 100 == 0:
                old += [weakref.ref(scene.groups.parts.consumer), weakref.ref(scene.transactions.parts)]
                assert await scene.committed() == (ErrorCode.NONE, 7)
                await scene.produce_id()
        after = held(scene)
        assert after[:-1] == before[:-1]
        # Timers of other rooms come and go while it runs, a few at a time: each swap that left one would add 1,000.
        assert abs(after[-1] - before[-1]) < 100
        scene.unload()
        gc.unfreeze()  # as the collector's sweep does
        gc.collect()
        assert [each() for each in old] == [None] * len(old)


def held(scene: Scene) -> list[int]:
    """Listeners of the node, and last its timers."""
    wheel = scene.groups._environment.wheel
    return [len(scene.broker.topics.on_change), len(scene.broker.group_configs.on_change), len(wheel)]
