"""Examinations of batches: which are done on the loop, how requests wait for a worker, and how clients take turns."""

import asyncio
import gc
import mmap
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from tests.support.lying_batches import batch, record
from tests.support.sessions import session_of
from tests.unit.broker.produce.test_fast_path import frame_of
from tests.unit.broker.wire_node import WireClient, batch_of, client_of, running_node

from hutong.broker.handling.session import ClientSession
from hutong.broker.produce.examinations import (
    PACKED_BYTES_MAX,
    WINDOW_SHARE_US,
    WINDOW_US,
    Examinations,
    Submitted,
    is_little,
)
from hutong.broker.produce.record_checks import BatchRules, CheckedBatch
from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import HutongError, LimitExceeded, OwnerGone, Refused
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import WaitTable
from hutong.reactor.connections.channel import HELD
from hutong.runtime.threads.offload import InlineOffload
from hutong.scheduler.driver import FairExecutor
from hutong.scheduler.machine import Scheduler
from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, TopicProduceData
from hutong.wire.kafka.apis.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from hutong.wire.kafka.batch import compression
from hutong.wire.kafka.batch.compression import Compression, compress
from hutong.wire.kafka.error_codes import ErrorCode

NOW_MS: Final = 1_700_000_000_000
MEBIBYTE: Final = 1024 * 1024
RULES: Final = BatchRules(MEBIBYTE, True, False, False, 0, NOW_MS)
GOOD: Final = batch(record(), 1, now_ms=NOW_MS)
LIE: Final = batch(b"\xff" * 50, 1, now_ms=NOW_MS)
BOMB: Final = batch(compress(Compression.GZIP, record(0, bytes(MEBIBYTE))), 1, now_ms=NOW_MS, compression=1)
SMALL: Final = batch(compress(Compression.GZIP, record()), 1, now_ms=NOW_MS, compression=1)
PLENTY: Final = batch(record(0, bytes(2 * PACKED_BYTES_MAX)), 1, now_ms=NOW_MS)


class SlowClock(ManualClock):
    """Each look at it takes so long."""

    def __init__(self) -> None:
        super().__init__()
        self.look_us = 0
        self._us = 0

    def monotonic_us(self) -> int:
        self._us += self.look_us
        return super().monotonic_us() + self._us


class HeldOffload:
    """Work that is done when the test says so, in order."""

    def __init__(self) -> None:
        self.works: deque[Callable[[], None]] = deque()

    def submit(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        self.works.append(lambda: InlineOffload().submit(work, then))


class Scene:
    def __init__(self, waits_max: int = 100) -> None:
        self.clock = SlowClock()
        self.workers = HeldOffload()
        self.soon: deque[Callable[[], None]] = deque()
        self.released: list[int] = []
        table: WaitTable[Any] = WaitTable("examined", TimerWheel(0), waits_max)
        executor = FairExecutor(Scheduler(), table, self.clock, self.soon.append)
        self.examinations = Examinations(executor, self.workers, self.clock, 8 * MEBIBYTE)

    def session(self, number: int, address: str = "127.0.0.1") -> ClientSession:
        return session_of(number, address, lambda: self.released.append(number))

    def look(self, session: ClientSession, *batches: Submitted) -> Any:
        return self.examinations.examine(batches, session)

    def turns(self) -> None:
        """Let everything on the loop happen; what waits for workers goes on waiting."""
        while self.soon:
            self.soon.popleft()()

    def work(self, pieces: int = 1) -> None:
        for _ in range(pieces):
            self.turns()
            self.workers.works.popleft()()
        self.turns()


def of(data: bytes, rules: BatchRules | None = RULES) -> Submitted:
    return Submitted(memoryview(data), rules)


def again(submitted: Submitted) -> Submitted:
    """The same frame decoded once more: other views of the same memory."""
    assert submitted.records is not None
    return Submitted(submitted.records[:], submitted.rules)


def asked(*views: memoryview | None) -> list[TopicProduceData]:
    return [TopicProduceData("t", partition_data=[PartitionProduceData(0, view)]) for view in views]


def test_little_is_what_is_plain_and_small() -> None:
    view, packed, large = memoryview(GOOD), memoryview(SMALL), memoryview(bytes(4 * MEBIBYTE))
    assert is_little(asked(None, view, memoryview(b""), view))
    assert not is_little(asked(view, packed))
    assert not is_little(asked(large))
    assert not is_little(asked(*[large[: MEBIBYTE - 1]] * 2))


def test_what_unpacks_to_little_is_examined_at_once() -> None:
    scene, session = Scene(), Scene().session(1)
    checked, refused, nothing = scene.look(session, of(SMALL), of(LIE), of(SMALL, None))
    assert isinstance(checked, CheckedBatch)
    assert checked.header.record_count == 1
    assert isinstance(refused, Refused)
    assert refused.code == ErrorCode.INVALID_RECORD
    assert nothing is None
    assert not scene.workers.works


@pytest.mark.parametrize("first", [BOMB, PLENTY])
def test_what_is_more_is_held_examined_elsewhere_and_given_when_it_comes_again(first: bytes) -> None:
    scene = Scene()
    session, batches = scene.session(1), [of(first), of(GOOD), of(LIE), of(GOOD, None)]
    assert scene.look(session, *batches) is HELD
    scene.work()
    assert scene.released == [1]
    outcomes = scene.look(session, *map(again, batches))
    assert [type(outcome) for outcome in outcomes] == [CheckedBatch, CheckedBatch, Refused, type(None)]
    assert scene.look(session, *map(again, batches)) == outcomes, "held for another reason, it comes once more"
    scene.examinations.forget(session)
    assert scene.examinations.kept == 0
    assert scene.look(session, *map(again, batches)) is HELD


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


TOO_MUCH: Final = bytes(9 * MEBIBYTE)  # a scene unpacks 8 MiB
UNREADABLE: Final = b"\xff" * 2 * MEBIBYTE


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD, Compression.SNAPPY])
@pytest.mark.parametrize("data", [TOO_MUCH, UNREADABLE], ids=["too much", "unreadable"])
def test_what_was_unpacked_is_freed_with_the_refusal(
    codec: Compression, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five bombs of 32 MiB, one after another, held 168 MB until the collector ran."""
    maps: list[weakref.ref[mmap.mmap]] = []

    def map_memory(file: int, size: int) -> mmap.mmap:
        memory = mmap.mmap(file, size)
        maps.append(weakref.ref(memory))
        return memory

    monkeypatch.setattr(compression, "mmap", SimpleNamespace(mmap=map_memory))
    scene, session = Scene(), Scene().session(1)
    packed_batch = of(batch(compress(codec, data), 1, now_ms=NOW_MS, compression=codec))
    assert scene.look(session, packed_batch) is HELD
    scene.work()
    (outcome,) = scene.look(session, packed_batch)
    assert isinstance(outcome, Refused)
    assert maps
    assert [memory() for memory in maps] == [None] * len(maps)


class Frame(bytearray):
    """A request's memory, to which there are weak references."""


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("first", [SMALL, BOMB], ids=["on the loop", "on a worker"])
def test_a_refused_request_is_freed_once_it_is_forgotten(first: bytes) -> None:
    scene, session = Scene(), Scene().session(1)
    frame = Frame(LIE)
    memory = weakref.ref(frame)
    batches = [of(first), Submitted(memoryview(frame), RULES)]
    del frame
    if scene.look(session, *batches) is HELD:
        scene.work()
    assert isinstance(scene.look(session, *batches)[1], Refused)
    batches.clear()
    assert memory() is not None
    scene.examinations.forget(session)
    assert memory() is None


def test_the_outcomes_of_one_request_are_not_those_of_another() -> None:
    scene, session = Scene(), Scene().session(1)
    scene.look(session, of(BOMB))
    scene.work()
    assert scene.look(session, of(bytes(bytearray(BOMB)))) is HELD
    scene.work()
    assert scene.look(session, of(BOMB, None)) == [None], "its topic is gone"


def test_a_slice_ends_with_its_time_and_the_rest_has_another() -> None:
    scene = Scene()
    scene.clock.look_us = 3_000
    session = scene.session(1)
    assert scene.look(session, *[of(BOMB)] * 5) is HELD
    scene.work(2)
    assert not scene.released
    scene.work()
    assert scene.released == [1]
    assert len(scene.look(session, *[of(BOMB)] * 5)) == 5


def test_unpacking_on_the_loop_takes_a_share_of_its_time_and_no_more() -> None:
    scene = Scene()
    scene.clock.look_us = WINDOW_SHARE_US
    assert scene.look(scene.session(1), of(SMALL)) is not HELD
    assert scene.look(scene.session(2), of(SMALL)) is HELD
    scene.clock.advance(WINDOW_US // 1000)
    assert scene.look(scene.session(3), of(SMALL)) is not HELD


def test_a_client_with_many_connections_waits_for_himself() -> None:
    scene = Scene()
    for number in range(2, 42):
        assert scene.look(scene.session(number, "10.0.0.1"), of(BOMB)) is HELD
    assert scene.look(scene.session(50, "10.0.0.2"), of(BOMB)) is HELD
    scene.turns()
    scene.work(4)
    assert 50 in scene.released
    scene.work(37)
    assert len(scene.released) == 41


def test_a_connection_that_ends_leaves_nothing() -> None:
    scene = Scene()
    waiting, begun = scene.session(2), scene.session(2)
    scene.look(begun, of(BOMB))
    scene.look(waiting, of(BOMB))
    scene.turns()
    for session in (waiting, begun):
        session.owner.end()
    assert scene.examinations.kept == 0
    scene.work()
    assert not scene.released
    assert not scene.workers.works


def test_the_figures_count_batches_and_their_time_by_where_they_were_examined() -> None:
    scene = Scene()
    scene.clock.look_us = 10  # between two looks at the clock
    figures = scene.examinations
    scene.look(scene.session(1), of(SMALL), of(SMALL))
    assert (figures.on_loop_total, figures.loop_us, figures.on_worker_total, figures.waiting) == (2, 20, 0, 0)
    held, gone = scene.session(2), scene.session(3)
    scene.look(held, of(BOMB), of(GOOD, None), of(LIE))
    scene.look(gone, of(BOMB))
    assert figures.waiting == 2
    scene.clock.advance(7)
    gone.owner.end()
    assert (figures.waiting, figures.wait_us.count) == (1, 0), "a connection that ended has not waited to the end"
    scene.work()
    assert (figures.waiting, figures.wait_us.count) == (0, 1)
    assert figures.wait_us.sum >= 7_000
    assert (figures.on_worker_total, figures.worker_us) == (2, 30), "what is not examined does not count"
    assert (figures.on_loop_total, figures.refused_total) == (2, 0), "a bomb is only begun on the loop"


def test_where_there_is_no_room_the_batches_are_refused_and_clients_come_again() -> None:
    scene = Scene(waits_max=1)
    assert scene.look(scene.session(1), of(BOMB)) is HELD
    refused = scene.look(scene.session(2), of(BOMB), of(GOOD))
    assert [type(outcome) for outcome in refused] == [LimitExceeded] * 2
    assert scene.examinations.refused_total == 1


def test_the_end_of_the_node_ends_the_waits() -> None:
    scene = Scene()
    session = scene.session(1)
    scene.look(session, of(BOMB))
    scene.examinations.close(OwnerGone("the node is stopping"))
    assert scene.released == [1]
    (outcome,) = scene.look(session, of(BOMB))
    assert isinstance(outcome, HutongError)


def packed(sequence: int, value: bytes = bytes(PACKED_BYTES_MAX), **options: Any) -> bytes:
    """More than is unpacked on the loop, of an idempotent producer."""
    return batch_of(
        value * 8,
        timestamp_ms=time.time_ns() // 1_000_000,
        compression=Compression.GZIP,
        producer_id=7,
        producer_epoch=0,
        base_sequence=sequence,
        **options,
    )


async def test_requests_keep_their_order_and_all_are_answered(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client:
        await client.create("t")
        answers = await sent_together(client, [packed(0), packed(1, b"x"), packed(2), packed(3, b"y"), packed(4)])
        assert answers == [(ErrorCode.NONE, offset) for offset in range(5)]
        assert await sent_together(client, [packed(4), packed(9)]) == [
            (ErrorCode.NONE, 4),
            (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
        ]


async def test_a_topic_that_goes_while_its_batch_is_examined_is_unknown(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client, client_of(address) as other:
        await client.create("t")
        for _ in range(3):
            produced = asyncio.ensure_future(client.produce(packed(0)))
            deleted = await other.ask(DeleteTopicsRequest([DeleteTopicState("t")]), 6)
            assert deleted.responses[0].error_code == ErrorCode.NONE
            answer = await produced
            assert answer.error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            await other.create("t")


async def test_a_connection_that_ends_in_an_examination_is_no_matter(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client:
        await client.create("t")
        for _ in range(5):
            async with client_of(address) as leaving:
                send(leaving, packed(0))
        assert (await client.produce(packed(0))).error_code == ErrorCode.NONE


def send(client: WireClient, data: bytes) -> None:
    client.writer.write(frame_of(data))


async def sent_together(client: WireClient, batches: list[bytes]) -> list[tuple[int, int]]:
    for data in batches:
        send(client, data)
    answers = []
    for _ in batches:
        response = await client.receive(0, 9)
        result = response.responses[0].partition_responses[0]
        answers.append((result.error_code, result.base_offset))
    return answers
