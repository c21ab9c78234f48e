"""The encoder against the plain Python reader of the wire, and its choice of partitions against another client's."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python
from tests.unit.pipelines.unhurried import unhurried

from hutong.foundation.errors import UsageError
from hutong.pipelines.client.cluster import TopicPartition
from hutong.pipelines.client.identities import Producer
from hutong.pipelines.native import Bytes, bytes_of, compiled, pointer_to
from hutong.pipelines.sink.encode.encoder import Encoder, seal
from hutong.pipelines.sink.encode.partitioner import murmur2
from hutong.wire.kafka.batch.compression import Compression
from hutong.wire.kafka.batch.records import is_intact, iterate_records, parse_batch_header, validate_batch_set

HEADER_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
NOW_MS = 1_700_000_000_000
PRODUCER = Producer(producer_id=9, epoch=2)
payloads = st.none() | st.binary(max_size=100)
pairs = st.lists(st.builds(lambda key, value: {"key": key, "value": value}, st.text(max_size=9), payloads), max_size=3)
rows_of_all = st.lists(st.tuples(payloads, payloads, st.none() | pairs), max_size=60)


@compiled
def murmur2_of(data: Bytes) -> int:
    return murmur2(pointer_to(data), 0, data.shape[0])


murmur2_of(bytes_of(b""))  # compiles it


def table_of(rows: Sequence[tuple[Any, Any, Any]]) -> pa.RecordBatch:
    keys, values, headers = zip(*rows, strict=True) if rows else ((), (), ())
    arrays = [pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.array(headers, HEADER_TYPE)]
    return pa.RecordBatch.from_arrays(arrays, names=["key", "value", "headers"])


def encoder(codec: Compression = Compression.NONE, batch_bytes: int = 10**6, topic: str | None = "t") -> Encoder:
    return Encoder(topic, codec, batch_bytes, lambda _: 4, 0, lambda: NOW_MS)


def written(encoder: Encoder, table: pa.RecordBatch) -> dict[TopicPartition, list[tuple[Any, Any, Any]]]:
    found = defaultdict(list)
    for records in encoder.encode(table):
        batch = seal(records, PRODUCER, 5, NOW_MS)
        header = validate_batch_set(batch)
        assert is_intact(batch, header)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 5)
        for record in iterate_records(batch):
            assert record.timestamp_ms == NOW_MS
            headers = [{"key": key, "value": value} for key, value in record.headers]
            found[records.partition].append((record.key, record.value, headers))
    return found


@unhurried
@given(rows_of_all, st.sampled_from(list(Compression)), st.integers(50, 2000))
def test_every_row_is_written_once(rows: list[Any], codec: Compression, batch_bytes: int) -> None:
    found = written(encoder(codec, batch_bytes), table_of(rows))
    assert in_any_order(found) == sorted(repr((key, value, headers or [])) for key, value, headers in rows)


@unhurried
@given(rows_of_all)
def test_rows_of_one_partition_keep_their_order(rows: list[Any]) -> None:
    numbered = [(key, b"%d" % number, None) for number, (key, _, _) in enumerate(rows)]
    for part in written(encoder(batch_bytes=200), table_of(numbered)).values():
        numbers = [int(value) for _, value, _ in part]
        assert numbers == sorted(numbers)


@unhurried
@given(st.integers(0, 5), st.integers(0, 5), st.lists(st.tuples(payloads, payloads, pairs), min_size=5, max_size=30))
def test_slices_of_columns_are_written_as_such(start: int, stop: int, rows: list[Any]) -> None:
    table = table_of(rows).slice(start, max(len(rows) - start - stop, 0))
    assert in_any_order(written(encoder(), table)) == sorted(map(repr, rows[start : len(rows) - stop]))


def in_any_order(found: dict[TopicPartition, list[tuple[Any, Any, Any]]]) -> list[str]:
    return sorted(repr(row) for part in found.values() for row in part)


@unhurried
@given(st.binary(max_size=50))
def test_keys_hash_as_in_other_clients(key: bytes) -> None:
    assert murmur2_of(bytes_of(key)) == murmur2_of_kafka_python(key) & 0xFFFF_FFFF


def test_equal_keys_meet_and_rows_without_keys_stick_together() -> None:
    by_key = written(encoder(), table_of([(key, b"v", []) for key in (b"a", b"b", b"c", b"a", b"b")]))
    for key in (b"a", b"b", b"c"):
        index = (murmur2_of_kafka_python(key) & 0x7FFF_FFFF) % 4
        assert key in {row[0] for row in by_key[TopicPartition("t", index)]}
    sticking = encoder()
    table = table_of([(None, b"v", [])] * 3)
    assert [list(written(sticking, table)) for _ in range(5)] == [[TopicPartition("t", n % 4)] for n in range(1, 6)]


def test_batches_keep_to_their_size_unless_one_record_is_larger() -> None:
    table = table_of([(None, b"x" * size, []) for size in (100, 100, 100, 5000, 100)])
    sizes = [(records.record_count, len(records.content)) for records in encoder(batch_bytes=250).encode(table)]
    assert [count for count, _ in sizes] == [2, 1, 1, 1]
    assert all(size <= 61 + 250 for count, size in sizes if size < 5000)


def test_topic_and_partition_may_come_from_columns() -> None:
    table = pa.RecordBatch.from_arrays(
        [pa.array(["1", "2", "3", "4"]), pa.array(["a", "b", "a", "b"]), pa.array([3, None, 1, 0], pa.int32())],
        names=["value", "topic", "partition"],
    )
    found = written(encoder(topic=None), table)
    assert found[TopicPartition("a", 3)] == [(None, b"1", [])]
    assert found[TopicPartition("a", 1)] == [(None, b"3", [])]
    assert found[TopicPartition("b", 0)] == [(None, b"4", [])]
    assert sum(map(len, found.values())) == 4


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"value": pa.array([1])}, "column value is of type int64"),
        ({"key": pa.array([1])}, "column key is of type int64"),
        ({"headers": pa.array(["x"])}, "column headers is of type string"),
        ({"partition": pa.array([1])}, "column partition is of type int64"),
        ({"partition": pa.array([-1], pa.int32())}, "holds the number -1"),
        ({"partition": pa.array([4], pa.int32())}, "holds 4, but topic t has 4 partitions"),
        ({"headers": pa.array([[{"key": None, "value": b""}]], HEADER_TYPE)}, "holds a null key"),
    ],
)
def test_columns_that_do_not_fit_are_refused(column: dict[str, pa.Array], message: str) -> None:
    columns = {"value": pa.array(["v"])} | column
    table = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    with pytest.raises(UsageError, match=message):
        list(encoder().encode(table))


def test_a_row_without_topic_is_refused() -> None:
    table = pa.RecordBatch.from_arrays([pa.array(["v"]), pa.array([None], pa.string())], names=["value", "topic"])
    with pytest.raises(UsageError, match="column topic holds a null"):
        list(encoder(topic=None).encode(table))


def test_a_header_is_parsed_back() -> None:
    (records,) = encoder(Compression.ZSTD).encode(table_of([(b"k", b"v", [])]))
    header = parse_batch_header(seal(records, PRODUCER, 0, 1))
    assert (header.compression, header.record_count, header.last_offset_delta) == (Compression.ZSTD, 1, 0)


TIME_TYPE = pa.timestamp("us", tz="Europe/Berlin")
times_us = st.none() | st.integers(0, 2**53)


@unhurried
@given(st.lists(times_us, min_size=1, max_size=60), st.sampled_from(list(Compression)), st.integers(50, 500))
def test_rows_keep_their_times(times: list[int | None], codec: Compression, batch_bytes: int) -> None:
    values = [b"%d" % number for number in range(len(times))]
    table = pa.RecordBatch.from_arrays([pa.array(values), pa.array(times, TIME_TYPE)], names=["value", "timestamp"])
    found: dict[bytes | None, int] = {}
    for records in encoder(codec, batch_bytes).encode(table):
        batch = seal(records, PRODUCER, 5, 1)
        validate_batch_set(batch)
        got = {record.value: record.timestamp_ms for record in iterate_records(batch)}
        assert int.from_bytes(batch[35:43], "big", signed=True) == max(got.values())
        assert int.from_bytes(batch[27:35], "big", signed=True) == next(iter(got.values()))
        found |= got
    assert found == {
        value: NOW_MS if time_us is None else time_us // 1000 for value, time_us in zip(values, times, strict=True)
    }


def test_a_record_without_a_time_of_its_own_is_sent_as_it_was_read() -> None:
    table = pa.RecordBatch.from_arrays(
        [pa.array(["v"] * 2), pa.array([5_000, -1_000], TIME_TYPE)], names=["value", "timestamp"]
    )
    (records,) = encoder().encode(table)
    assert [record.timestamp_ms for record in iterate_records(seal(records, PRODUCER, 0, 1))] == [5, -1]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1]), r"column timestamp is of type int64: cast it to timestamp \(with time zone\), or drop it"),
        (pa.array([1], pa.timestamp("us")), r"column timestamp is of type timestamp\[us\]: cast it to timestamp"),
        (pa.array([-2_000, 0], TIME_TYPE), "holds a time 2 ms before 1970, where Kafka's times begin"),
    ],
)
def test_times_that_do_not_fit_are_refused(column: pa.Array, message: str) -> None:
    table = pa.RecordBatch.from_arrays([pa.array(["v"] * len(column)), column], names=["value", "timestamp"])
    with pytest.raises(UsageError, match=message):
        list(encoder().encode(table))
