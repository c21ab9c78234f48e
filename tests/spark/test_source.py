"""The batch source, against what another client sent."""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.confluent import producer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Read = Callable[..., "DataFrame"]
Fill = Callable[..., None]
START_MS = 1_700_000_000_000


def test_records_are_as_they_were_sent(bootstrap: str, topic: str, read: Read) -> None:
    sender = producer(bootstrap)
    sent: list[tuple[bytes | None, bytes | None, list[tuple[str, str | bytes | None]]]] = [
        (b"k", b"v", [("a", b"1"), ("a", None)]),
        (None, b"no key", []),
        (b"no value", None, []),
        (b"", b"", [("", b"")]),
    ]
    for number, (key, value, headers) in enumerate(sent):
        sender.produce(topic, value, key, partition=1, headers=headers, timestamp=START_MS + number)
    assert sender.flush(30) == 0
    rows = [row.asDict(recursive=True) for row in read(includeHeaders="true").orderBy("offset").collect()]
    assert rows == [
        {
            "key": None if key is None else bytearray(key),
            "value": None if value is None else bytearray(value),
            "topic": topic,
            "partition": 1,
            "offset": number,
            "timestamp": datetime.fromtimestamp((START_MS + number) / 1000, UTC).astimezone().replace(tzinfo=None),
            "timestampType": 0,
            "headers": [{"key": name, "value": _bytes(value)} for name, value in headers] or None,
        }
        for number, (key, value, headers) in enumerate(sent)
    ]


def _bytes(value: str | bytes | None) -> bytearray | None:
    return bytearray(value) if isinstance(value, bytes) else None


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_is_read(codec: str, fill: Fill, read: Read) -> None:
    values = [b"%06d" % number * 20 for number in range(3000)]
    fill(values, compression_type=codec)
    assert sorted(bytes(row.value) for row in read(columns="value").collect()) == values


def test_only_the_columns_asked_for_are_there(fill: Fill, read: Read) -> None:
    fill([b"a", b"b"], partition=0)
    assert [tuple(row) for row in read(columns="offset,partition").orderBy("offset").collect()] == [(0, 0), (1, 0)]
    assert read(columns="offset").count() == 2


def test_an_empty_topic_has_no_rows(read: Read) -> None:
    assert read().collect() == []
    assert read().columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def test_offsets_and_subscriptions_choose_what_is_read(topic: str, fill: Fill, read: Read) -> None:
    fill([b"%d" % number for number in range(30)])  # 10 in each partition

    def offsets(**options: str) -> dict[int, list[int]]:
        rows = sorted((row.partition, row.offset) for row in read(columns="partition,offset", **options).collect())
        grouped = itertools.groupby(rows, key=lambda row: row[0])
        return {partition: [row[1] for row in group] for partition, group in grouped}

    everything = {partition: list(range(10)) for partition in range(3)}
    assert offsets() == everything
    assert offsets(subscribePattern=topic[:-1] + ".") == everything
    assert offsets(assign=f'{{"{topic}": [2]}}') == {2: list(range(10))}
    starts, ends = f'{{"{topic}": {{"0": 3, "1": -2, "2": 10}}}}', f'{{"{topic}": {{"0": 5, "1": 1, "2": -1}}}}'
    assert offsets(startingOffsets=starts, endingOffsets=ends) == {0: [3, 4], 1: [0]}


def test_a_timestamp_chooses_the_start(bootstrap: str, topic: str, read: Read) -> None:
    sender = producer(bootstrap)
    for number in range(9):
        sender.produce(topic, b"v", partition=number % 3, timestamp=START_MS + 1000 * number)
    assert sender.flush(30) == 0
    rows = read(startingTimestamp=str(START_MS + 4500), columns="partition,offset").collect()
    assert sorted(map(tuple, rows)) == [(0, 2), (1, 2), (2, 1), (2, 2)]


def test_ranges_are_cut_into_more_tasks(fill: Fill, read: Read) -> None:
    fill([b"v"] * 90)
    frame = read(minPartitions="9")
    assert frame.rdd.getNumPartitions() == 9
    assert frame.count() == 90
    assert read(maxRecordsPerPartition="7").rdd.getNumPartitions() == 15


def test_small_fetches_give_the_same(fill: Fill, read: Read) -> None:
    values = [b"%05d" % number for number in range(5000)]
    fill(values, batch_num_messages=100)
    settings = {"kafka.max.partition.fetch.bytes": "3000"}
    assert sorted(bytes(row.value) for row in read(**settings).select("value").collect()) == values


def test_a_query_may_stop_in_the_middle(fill: Fill, read: Read) -> None:
    fill([b"v" * 1000] * 20_000)
    settings: dict[str, Any] = {"kafka.max.partition.fetch.bytes": "20000"}
    assert len(read(**settings).limit(3).collect()) == 3
    assert read(**settings).count() == 20_000


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "no-such-topic"}, "topic no-such-topic does not exist"),
        ({"startingOffsets": "latest"}, "startingOffsets cannot be latest in a batch query"),
        ({"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "100"}, "no broker answers at"),
        ({"columns": "length"}, "option columns names length"),
    ],
)
def test_what_is_amiss_is_told_in_one_sentence(read: Read, options: dict[str, str], sentence: str) -> None:
    from pyspark.errors import PySparkException

    from hutong.pipelines.engine.failures import translate

    with pytest.raises(PySparkException) as raised:
        read(**options).collect()
    assert str(translate(raised.value)).startswith(sentence)


def test_offsets_that_are_gone_fail_unless_told_otherwise(topic: str, fill: Fill, read: Read) -> None:
    from pyspark.errors import PySparkException

    from hutong.pipelines.engine.failures import translate

    fill([b"v"] * 30)
    beyond = {
        "startingOffsets": f'{{"{topic}": {{"0": 20, "1": 0, "2": 0}}}}',
        "endingOffsets": f'{{"{topic}": {{"0": 25, "1": 10, "2": 10}}}}',
    }
    with pytest.raises(PySparkException) as raised:
        read(**beyond).collect()
    assert "Some data may have been lost" in str(translate(raised.value))
    assert len(read(failOnDataLoss="false", **beyond).collect()) == 20
