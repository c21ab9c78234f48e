"""A Produce of very many partitions: appended in parts that other connections have loop iterations between."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.sessions import session_of
from tests.unit.broker.wire_node import WireClient, batch_of, client_of, running_node

from hutong.broker.apis import BROKER_APIS
from hutong.broker.dispatch.long_requests import SLICE_US, FinishedRequest, LongRequest, LongRequests
from hutong.broker.dispatch.request_parts import elements_in, has_many, joined, parts_of
from hutong.broker.kafka import k00_produce
from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import OwnerGone, ProtocolError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Pending
from hutong.foundation.waiting.table import WaitTable
from hutong.reactor.connections.channel import HELD
from hutong.runtime.threads.offload import InlineOffload
from hutong.scheduler.driver import FairExecutor
from hutong.scheduler.machine import Scheduler
from hutong.wire.kafka.apis.k00_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

DIVISION = BROKER_APIS[k00_produce.API_KEY].division
assert DIVISION
PART = DIVISION.size
MANY = 2 * DIVISION.whole_max
VERSION = 9
BATCH = batch_of(b"v", timestamp_ms=time.time_ns() // 1_000_000)


def produce(topics: dict[str, int], acks: int = 1, records: bytes = BATCH) -> ProduceRequest:
    """The same batch for so many partitions of each topic."""
    data = [
        TopicProduceData(
            name, partition_data=[PartitionProduceData(index, memoryview(records)) for index in range(count)]
        )
        for name, count in topics.items()
    ]
    return ProduceRequest(None, acks, 30_000, data)


def answered(request: ProduceRequest) -> ProduceResponse:
    return ProduceResponse(
        [
            TopicProduceResponse(
                topic.name, topic.topic_id, [PartitionProduceResponse(each.index) for each in topic.partition_data]
            )
            for topic in request.topic_data
        ]
    )


class Scene:
    """Long requests on a loop that moves by hand; handling a part takes the time of a stretch."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.iterations: deque[Callable[[], None]] = deque()
        lot: WaitTable[Any] = WaitTable("long", TimerWheel(0), 100)
        executor = FairExecutor(Scheduler(), lot, self.clock, self.iterations.append)
        self.long_requests = LongRequests(executor, InlineOffload(), self.clock)
        self.session = session_of(release=self.release)
        self.released = 0
        self.handled: list[int] = []  # elements, by part
        self.is_held = False
        self.frame = b"a frame"

    def release(self) -> None:
        self.released += 1

    def handle(self, part: Any, _: Any) -> Any:
        if self.is_held:
            return HELD
        self.handled.append(elements_in(part))
        self.clock.advance(SLICE_US // 1000)
        return answered(part)

    def look(self, request: ProduceRequest, handle: Callable[[Any, Any], Any] | None = None) -> Any:
        context: Any = SimpleNamespace(session=self.session, api_version=VERSION)
        long = LongRequest(
            self.frame, request, 0, lambda: None, handle or self.handle, lambda _: [], lambda _: None, context
        )
        return self.long_requests.advance(long)


def test_each_loop_iteration_appends_one_part_when_that_takes_its_time() -> None:
    scene, request = Scene(), produce({"t": MANY})
    assert has_many(request)
    assert scene.look(request) is HELD
    while scene.iterations:
        before = sum(scene.handled)
        scene.iterations.popleft()()
        assert sum(scene.handled) - before <= PART + 1
    assert scene.released == 1
    done = scene.look(request)
    assert isinstance(done, FinishedRequest)
    found: list[ProduceResponse] = []
    done.answer.then(found.append)
    assert found == [answered(request)]
    assert not scene.long_requests.has(scene.session, scene.frame)


def test_a_part_that_is_held_is_tried_again_when_its_session_is_released() -> None:
    scene, request = Scene(), produce({"t": MANY})
    assert scene.look(request) is HELD
    for _ in range(3):
        scene.iterations.popleft()()
    scene.is_held = True
    while scene.iterations:
        scene.iterations.popleft()()
    appended = sum(scene.handled)
    assert 0 < appended < MANY
    assert not scene.released, "the handler releases the session, not the long request"
    scene.is_held = False
    assert scene.look(request) is HELD
    while scene.iterations:
        scene.iterations.popleft()()
    assert (scene.released, len(scene.handled)) == (1, MANY // PART), "no part is appended twice"


def test_parts_do_not_wait_for_each_others_acknowledgement() -> None:
    scene, request = Scene(), produce({"t": MANY})
    laters: list[tuple[Pending[ProduceResponse], ProduceResponse]] = []

    def handle(part: Any, _: Any) -> Pending[ProduceResponse]:
        laters.append((Pending(), answered(part)))
        return laters[-1][0]

    assert scene.look(request, handle) is HELD
    while scene.iterations:
        scene.iterations.popleft()()
    assert len(laters) == MANY // PART
    found: list[ProduceResponse] = []
    scene.look(request, handle).answer.then(found.append)
    for later, answer in reversed(laters):
        assert not found
        later.complete(answer)
    assert found == [answered(request)]


def test_stretches_end_with_their_time_and_tell_of_their_end_once() -> None:
    scene = Scene()
    done: list[int] = []
    ended: list[Any] = []

    def steps() -> Any:
        for number in range(5):
            done.append(number)
            scene.clock.advance(SLICE_US // 1000)
            yield

    scene.long_requests.in_stretches(scene.session, steps(), ended.append)
    for count in range(1, 6):
        scene.iterations.popleft()()
        assert len(done) == count
    assert not ended
    scene.iterations.popleft()()
    assert ended == [None]
    scene.long_requests.in_stretches(scene.session, steps(), ended.append)
    scene.iterations.popleft()()
    scene.long_requests.close(OwnerGone("the node is stopping"))
    assert isinstance(ended[1], OwnerGone)


@settings(deadline=None)
@given(st.lists(st.integers(0, 3 * PART), min_size=1, max_size=8))
def test_parts_of_a_produce_are_the_whole_and_so_are_their_answers(sizes: list[int]) -> None:
    request = produce({f"t{number}": size for number, size in enumerate(sizes)})
    parts = parts_of(request, VERSION)
    assert all(sum(len(topic.partition_data) for topic in part.topic_data) <= PART for part in parts)
    assert joined([answered(part) for part in parts]) == answered(request)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[WireClient]:
    async with running_node(tmp_path) as address, client_of(address) as connected:
        await connected.create("wide", MANY)
        await connected.create("slim", 2)
        yield connected


async def test_every_partition_answers_for_itself_and_nothing_overtakes(
    client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    appended_at_once: list[int] = []
    append_topic = k00_produce._Appender.append_topic

    def counted(appender: Any, data: TopicProduceData) -> Any:
        appended_at_once.append(len(data.partition_data))
        return append_topic(appender, data)

    monkeypatch.setattr(k00_produce._Appender, "append_topic", counted)
    client.send(produce({"slim": 2, "wide": MANY + 3, "none": 2}, acks=-1), VERSION)
    client.send(produce({"wide": 1}), VERSION)
    answer = await client.receive(0, VERSION)
    assert max(appended_at_once) <= PART
    assert [(topic.name, len(topic.partition_responses)) for topic in answer.responses] == [
        ("slim", 2),
        ("wide", MANY + 3),
        ("none", 2),
    ]
    codes = [one.error_code for topic in answer.responses for one in topic.partition_responses]
    assert codes == [0] * (2 + MANY) + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 5
    later = await client.receive(0, VERSION)
    assert later.responses[0].partition_responses[0].base_offset == 1


async def test_without_acknowledgement_nothing_is_answered_and_an_error_closes_the_connection(
    client: WireClient,
) -> None:
    client.send(produce({"wide": MANY}, acks=0), VERSION)
    assert (await client.fetch(0, "wide")).error_code == 0
    assert (await client.ask(produce({"wide": 1}), VERSION)).responses[0].partition_responses[0].base_offset == 1
    client.send(produce({"wide": MANY, "none": 1}, acks=0), VERSION)
    assert await asyncio.wait_for(client.is_closed(), 60)


async def test_a_batch_that_lies_is_refused_in_its_part(client: WireClient) -> None:
    answer = await client.ask(produce({"wide": MANY}, records=BATCH[:-1] + b"x"), VERSION)
    assert {one.error_code for one in answer.responses[0].partition_responses} == {ErrorCode.CORRUPT_MESSAGE}


def test_a_request_that_fails_as_a_whole_raises_when_it_is_given_again() -> None:
    scene, request = Scene(), produce({"t": MANY}, acks=0)

    def handle(*_: Any) -> Any:
        raise ProtocolError("produce with acks=0 failed")

    assert scene.look(request, handle) is HELD
    while scene.iterations:
        scene.iterations.popleft()()
    with pytest.raises(ProtocolError):
        scene.look(request, handle)
