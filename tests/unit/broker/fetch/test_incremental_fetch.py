"""Turns of a session against Kafka's rule written plainly: look at all partitions each time, leave out what is known.

The topics and logs are fakes that only count; the look itself is the test's.
"""

import random
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.sessions import session_of

from hutong.broker.fetch import incremental_fetch
from hutong.broker.fetch.session_table import FetchSessions
from hutong.broker.handling.context import RequestContext
from hutong.wire.kafka.apis.k01_fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from hutong.wire.kafka.error_codes import ErrorCode

PARTITIONS = 3
TOPICS = ("a", "b")
Answer = tuple[str, int, int, int, int, int]  # topic, partition, error, high watermark, start, records
Key = tuple[str, int]


class FakeLog:
    def __init__(self) -> None:
        self.start_offset = self.high_watermark = 0
        self.watchers: dict[Callable[[], None], None] = {}

    def watch(self, callback: Callable[[], None]) -> None:
        self.watchers[callback] = None

    def unwatch(self, callback: Callable[[], None]) -> None:
        self.watchers.pop(callback, None)

    def grow(self, count: int) -> None:
        self.high_watermark += count
        self.tell()

    def trim(self, count: int) -> None:
        self.start_offset = min(self.start_offset + count, self.high_watermark)
        self.tell()

    def tell(self) -> None:
        for callback in list(self.watchers):
            callback()


class FakeTopics:
    """Topics by name, each with `PARTITIONS` logs."""

    def __init__(self) -> None:
        self.version = 0
        self.logs: dict[str, list[FakeLog]] = {}

    def make(self, name: str) -> None:
        self.logs[name] = [FakeLog() for _ in range(PARTITIONS)]
        self.version += 1

    def delete(self, name: str) -> None:
        for log in self.logs.pop(name, ()):
            log.tell()
        self.version += 1

    def get(self, name: str) -> Any:
        logs = self.logs.get(name)
        return (
            None
            if logs is None
            else SimpleNamespace(partition=lambda index: SimpleNamespace(log=logs[index], topic_name=name))
        )


class World:
    """A session's client and its node; `looked_at` counts the partitions that the node looked at."""

    def __init__(self) -> None:
        self.topics = FakeTopics()
        self.sessions = FetchSessions(4, random.Random(0).randbytes)
        clock = SimpleNamespace(monotonic_ms=lambda: 0)
        broker = SimpleNamespace(topics=self.topics, fetch_sessions=self.sessions, clock=clock)
        self.context = RequestContext(12, None, session_of(), cast(Any, broker))
        self.looked_at = 0
        self.session_id = self.epoch = 0

    def log(self, key: Key) -> FakeLog | None:
        logs = self.topics.logs.get(key[0])
        return logs[key[1]] if logs is not None else None

    def data(self, key: Key, offset: int, room: int) -> PartitionData:
        """The result of one partition's read, with room for so many records."""
        log = self.log(key)
        data = PartitionData(key[1])
        if log is None:
            data.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif not log.start_offset <= offset <= log.high_watermark:
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            data.high_watermark = data.last_stable_offset = log.high_watermark
            data.log_start_offset = log.start_offset
            data.records = [memoryview(b"r")] * max(0, min(log.high_watermark - offset, room))
        return data

    def look(self, topics: Iterable[FetchTopic], room: int) -> FetchResponse:
        response = FetchResponse()
        for topic in topics:
            found = []
            for asked in topic.partitions:
                self.looked_at += 1
                found.append(self.data((topic.topic, asked.partition), asked.fetch_offset, room))
                room -= len(found[-1].records or ())
            response.responses.append(FetchableTopicResponse(topic.topic, topic.topic_id, found))
        return response

    def ask(self, asked: dict[Key, int], forgotten: Iterable[Key] = (), room: int = 100) -> FetchResponse:
        request = FetchRequest(
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[
                FetchTopic(topic, partitions=[FetchPartition(partition=index, fetch_offset=offset)])
                for (topic, index), offset in asked.items()
            ],
            forgotten_topics_data=[ForgottenTopic(topic, partitions=[index]) for topic, index in forgotten],
        )
        turn = incremental_fetch.begin_session_fetch(request, self.context)
        if isinstance(turn, FetchResponse):
            return turn
        response = self.look(request.topics if turn is None else turn.topics(), room)
        if turn is not None:
            turn.take_pass(response)
            response = turn.finish(response)
        self.session_id = response.session_id
        self.epoch += 1
        self.sessions.check_invariants()
        return response


def told(response: FetchResponse) -> list[Answer]:
    return [
        (
            topic.topic,
            data.partition_index,
            data.error_code,
            data.high_watermark,
            data.log_start_offset,
            len(data.records or ()),
        )
        for topic in response.responses
        for data in topic.partitions
    ]


class Model:
    """The same session, looked at in full."""

    def __init__(self) -> None:
        self.offsets: dict[Key, int] = {}
        self.known: dict[Key, tuple[int, int]] = {}

    def answer(self, world: World, asked: dict[Key, int], forgotten: Iterable[Key], room: int) -> list[Answer]:
        is_first = not self.offsets
        self.offsets |= asked
        for key in forgotten:
            self.offsets.pop(key, None)
            self.known.pop(key, None)
        answers = []
        for key, offset in list(self.offsets.items()):
            data = world.data(key, offset, room)
            room -= len(data.records or ())
            says = data.high_watermark, data.log_start_offset
            if not is_first and not data.records and not data.error_code and self.known.get(key) == says:
                continue
            answers.append((*key, data.error_code, *says, len(data.records or ())))
            self.known[key] = (-1, says[1]) if data.error_code else says
            if data.records and not is_first:
                del self.offsets[key]
                self.offsets[key] = offset
        return answers


keys = st.tuples(st.sampled_from(TOPICS), st.integers(0, PARTITIONS - 1))
changes = st.one_of(
    st.tuples(st.just("grow"), keys, st.integers(1, 3)),
    st.tuples(st.just("trim"), keys, st.integers(1, 2)),
    st.tuples(st.just("delete"), keys, st.just(0)),
    st.tuples(st.just("make"), keys, st.just(0)),
)
requests = st.tuples(
    st.lists(changes, max_size=4),
    st.dictionaries(keys, st.integers(0, 4), max_size=3),  # offsets relative to the start
    st.lists(keys, max_size=1),
    st.integers(0, 6),
)


@given(st.lists(requests, max_size=25))
@settings(max_examples=300, deadline=None)
def test_a_session_says_what_looking_at_all_would_say(script: list[Any]) -> None:
    world, model = World(), Model()
    for name in TOPICS:
        world.topics.make(name)
    for changes_before, asked, forgotten, room in [([], {("a", 0): 0, ("b", 1): 0}, [], 9), *script]:
        for kind, key, count in changes_before:
            log = world.log(key)
            if kind == "make":
                world.topics.delete(key[0])
                world.topics.make(key[0])
            elif kind == "delete":
                world.topics.delete(key[0])
            elif log is not None:
                (log.grow if kind == "grow" else log.trim)(count)
        expected = model.answer(world, asked, forgotten, room)
        response = world.ask(asked, forgotten, room)
        assert response.error_code == 0
        if not model.offsets:  # the session is gone with its last partition: it goes on without
            assert response.session_id == 0
            return
        assert told(response) == expected


def test_idle_partitions_are_looked_at_once() -> None:
    world = World()
    for name in TOPICS:
        world.topics.make(name)
    world.ask({(name, index): 0 for name in TOPICS for index in range(PARTITIONS)})
    assert world.looked_at == 6
    world.ask({})
    assert world.looked_at == 12
    for _ in range(10):
        assert told(world.ask({})) == []
    assert world.looked_at == 12
    log = world.log(("a", 2))
    assert log is not None
    log.grow(1)
    assert told(world.ask({})) == [("a", 2, 0, 1, 0, 1)]
    assert world.looked_at == 13


def test_a_dropped_session_leaves_no_watchers() -> None:
    world = World()
    world.topics.make("a")
    every = {("a", index): 0 for index in range(PARTITIONS)}
    world.ask(every)
    world.ask({})
    logs = [world.log(key) for key in every]
    assert [len(log.watchers) for log in logs if log] == [1, 1, 1]
    world.ask({}, forgotten=[("a", 0)])
    assert [len(log.watchers) for log in logs if log] == [0, 1, 1]
    world.sessions.close(world.session_id)
    assert [len(log.watchers) for log in logs if log] == [0, 0, 0]


def test_two_requests_of_one_session_at_a_time() -> None:
    """The later one wins; the earlier one, which waited, is told that its epoch is over."""
    world = World()
    world.topics.make("a")
    world.ask({("a", 0): 0})

    def begin(epoch: int) -> incremental_fetch.SessionFetch:
        turn = incremental_fetch.begin_session_fetch(
            FetchRequest(session_id=world.session_id, session_epoch=epoch), world.context
        )
        assert turn is not None
        assert not isinstance(turn, FetchResponse)
        return turn

    first, second = begin(1), begin(2)
    for turn in (first, second):
        turn.take_pass(world.look(turn.topics(), 9))
    refused = first.finish(FetchResponse())
    assert (refused.error_code, refused.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, world.session_id)
    assert second.finish(FetchResponse()).error_code == 0
