"""What a stream plans as topics come, grow and go, asked of the reader as Spark asks it, without a session."""

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from bench.raw_client import create_topic
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from tests.support.confluent import producer
from tests.support.waiting import until

from hutong.foundation.errors import UsageError
from hutong.pipelines.errors import DataLost
from hutong.pipelines.source.options import source_options

if TYPE_CHECKING:
    from hutong.pipelines.source.readers import StreamReader

Fill = Callable[..., None]
Offsets = dict[str, dict[str, int]]
QUICK = {"fetchOffset.retryIntervalMs": "1"}
POLL_S = 0.05
_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error tells Spark's workers to hide tracebacks: not beyond the test."""
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    monkeypatch.setenv("PYSPARK_HUTONG_ERRORS", "quiet")


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def reader(bootstrap: str, topic: str) -> "Iterator[Callable[..., StreamReader]]":
    from hutong.pipelines.source.readers import StreamReader

    made: list[StreamReader] = []

    def make(**options: str) -> StreamReader:
        given = {"kafka.bootstrap.servers": bootstrap, "startingOffsets": "earliest"} | QUICK | options
        if not {"assign", "subscribePattern"} & given.keys():
            given.setdefault("subscribe", topic)
        made.append(StreamReader(source_options(given, streaming=True)))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def tasks(reader: "StreamReader", start: Offsets, end: Offsets) -> list[tuple[str, int, int]]:
    ranges: list[Any] = [task.value for task in reader.partitions(start, end)]
    return sorted((str(one.partition), one.first, one.end) for one in ranges)


def gone(admin: AdminClient, topic: str) -> None:
    admin.delete_topics([topic])[topic].result(30)
    wait(lambda: topic not in admin.list_topics(timeout=10).topics)


def wait(step: Callable[[], bool]) -> None:
    until(step, what="the broker to say so", between_s=POLL_S)


def test_limits_decide_how_far_a_batch_goes(reader: "Callable[..., StreamReader]", fill: Fill, topic: str) -> None:
    stream = reader(minOffsetsPerTrigger="10", maxOffsetsPerTrigger="12", maxTriggerDelay="1h")
    start = stream.initialOffset()
    limit = stream.getDefaultReadLimit()
    fill([b"v"] * 6)
    first = stream.latestOffset(start, limit)
    assert first == {topic: {"0": 2, "1": 2, "2": 2}}  # nothing came before it that it could wait since
    fill([b"v"] * 9)
    assert stream.latestOffset(first, limit) == first
    fill([b"v"] * 6)
    assert stream.latestOffset(first, limit) == {topic: {"0": 6, "1": 6, "2": 6}}
    stream.prepareForTriggerAvailableNow()  # no more will come: there is nothing to wait for
    assert stream.latestOffset({topic: {"0": 6, "1": 6, "2": 6}}, limit) == {topic: {"0": 7, "1": 7, "2": 7}}


def test_available_now_ends_where_the_topic_ended_at_the_start(
    reader: "Callable[..., StreamReader]", fill: Fill, topic: str
) -> None:
    stream = reader()
    fill([b"v"] * 3)
    stream.prepareForTriggerAvailableNow()
    fill([b"v"] * 3)
    target = {topic: {"0": 1, "1": 1, "2": 1}}
    assert stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit()) == target
    assert stream.latestOffset(target, stream.getDefaultReadLimit()) == target
    assert stream.reportLatestOffset() == {topic: {"0": 2, "1": 2, "2": 2}}


def test_partitions_that_come_later_are_read_from_their_beginning(
    reader: "Callable[..., StreamReader]", fill: Fill, topic: str, bootstrap: str, admin: AdminClient
) -> None:
    stream = reader(startingOffsets="latest")
    fill([b"v"] * 3)
    start = stream.initialOffset()
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(30)
    sender = producer(bootstrap)
    until(
        lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 4,
        what="the broker to say so",
        between_s=POLL_S,
    )
    sender.produce(topic, b"new", partition=3)
    assert sender.flush(30) == 0
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    assert end == {topic: {"0": 1, "1": 1, "2": 1, "3": 1}}
    assert tasks(stream, start, end) == [(f"{topic}-3", 0, 1)]


def test_a_pattern_finds_topics_that_come_later(
    reader: "Callable[..., StreamReader]", bootstrap: str, topic: str
) -> None:
    word = f"pattern-{next(_numbers)}"
    stream = reader(subscribePattern=f"{word}-.*")
    start = stream.initialOffset()
    assert start == {}
    create_topic(bootstrap, f"{word}-a", records=2)
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    assert tasks(stream, start, end) == [(f"{word}-a-0", 0, 2)]
    create_topic(bootstrap, f"{word}-b", records=1)
    later = stream.latestOffset(end, stream.getDefaultReadLimit())
    assert tasks(stream, end, later) == [(f"{word}-b-0", 0, 1)]


@pytest.mark.parametrize("how", ["subscribe", "subscribePattern"])
def test_a_deleted_topic_is_lost_data_unless_that_is_accepted(
    reader: "Callable[..., StreamReader]", bootstrap: str, topic: str, admin: AdminClient, how: str
) -> None:
    other = f"{topic}-other"
    create_topic(bootstrap, other, records=3)
    which = {how: f"{topic},{other}" if how == "subscribe" else f"{topic}.*"}
    strict, lenient = reader(**which), reader(failOnDataLoss="false", **which)
    start = strict.initialOffset()
    gone(admin, other)
    end = strict.latestOffset(start, strict.getDefaultReadLimit())
    with pytest.raises(DataLost, match=f"Some data may have been lost.*{other}-0 is gone"):
        strict.partitions(start, end)
    left = lenient.latestOffset(start, lenient.getDefaultReadLimit())
    assert left == {topic: {"0": 0, "1": 0, "2": 0}}
    assert tasks(lenient, start, left) == []
    assert lenient.reportLatestOffset() == left


def test_a_topic_that_was_made_again_is_lost_data_unless_that_is_accepted(
    reader: "Callable[..., StreamReader]", bootstrap: str, admin: AdminClient
) -> None:
    name = f"again-{next(_numbers)}"
    create_topic(bootstrap, name, records=3)
    strict, lenient = reader(subscribe=name), reader(subscribe=name, failOnDataLoss="false")
    gone(admin, name)
    create_topic(bootstrap, name, records=1)
    reached = {name: {"0": 3}}
    end = strict.latestOffset(reached, strict.getDefaultReadLimit())
    with pytest.raises(DataLost, match=f"the offset of {name}-0 was changed from 3 to 1"):
        strict.partitions(reached, end)
    lower = lenient.latestOffset(reached, lenient.getDefaultReadLimit())
    assert (lower, tasks(lenient, reached, lower)) == ({name: {"0": 1}}, [])
    create_topic(bootstrap, name, records=2)
    assert tasks(lenient, lower, lenient.latestOffset(lower, None)) == [(f"{name}-0", 1, 3)]


def test_records_that_aged_out_are_lost_data_unless_that_is_accepted(
    reader: "Callable[..., StreamReader]", fill: Fill, topic: str, admin: AdminClient
) -> None:
    fill([b"v"] * 15)
    admin.delete_records([TopicPartition(topic, 0, 4)])[TopicPartition(topic, 0)].result(30)
    starts = f'{{"{topic}": {{"0": 1, "1": 1, "2": 1}}}}'
    with pytest.raises(DataLost, match=f"startingOffsets asks for offset 1 of {topic}-0, which begins at 4"):
        reader(startingOffsets=starts).initialOffset()
    lenient = reader(startingOffsets=starts, failOnDataLoss="false").initialOffset()
    assert lenient == {topic: {"0": 4, "1": 1, "2": 1}}
    without_0: Offsets = {topic: {"1": 1, "2": 1}}
    everything: Offsets = {topic: {"0": 5, "1": 5, "2": 5}}
    with pytest.raises(DataLost, match=f"a partition was added and {topic}-0 starts from offset 4 instead of 0"):
        reader().partitions(without_0, everything)
    found = tasks(reader(failOnDataLoss="false"), without_0, everything)
    assert found == [(f"{topic}-0", 4, 5), (f"{topic}-1", 1, 5), (f"{topic}-2", 1, 5)]


def test_offsets_that_do_not_fit_are_told_before_anything_is_read(
    reader: "Callable[..., StreamReader]", fill: Fill, topic: str
) -> None:
    fill([b"v"] * 3)
    with pytest.raises(DataLost, match=r"asks for offset 9 of .*-2, which begins at 0 and ends at 1"):
        reader(startingOffsets=f'{{"{topic}": {{"0": 0, "1": 1, "2": 9}}}}').initialOffset()
    with pytest.raises(UsageError, match=f"{topic}-1, {topic}-2 is missing and {topic}-7 is not read by this query"):
        reader(startingOffsets=f'{{"{topic}": {{"0": 0, "7": 1}}}}').initialOffset()
    with pytest.raises(UsageError, match=r"no record of .* is as young as option startingTimestamp asks"):
        reader(startingTimestamp="32503680000000").initialOffset()
    with pytest.raises(UsageError, match="topic no-such-topic does not exist: check the name, or create it first"):
        reader(subscribe="no-such-topic").initialOffset()
