"""From an Arrow batch to sealed record batches: route the rows, encode each partition's, prepend the header.

Knows nothing of sockets. The CRC covers the identity and sequence of the producer: both are needed to seal a batch.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hutong.foundation.errors import UsageError
from hutong.pipelines.client.cluster import TopicPartition
from hutong.pipelines.client.identities import Producer
from hutong.pipelines.native import Int32s, Int64s
from hutong.pipelines.sink.encode.partitioner import assign_partitions
from hutong.pipelines.sink.encode.records import encode_records
from hutong.pipelines.sink.encode.rows import RecordRows, record_rows
from hutong.wire.kafka.batch.compression import Compression, compress
from hutong.wire.kafka.batch.records import HEADER_BYTES, TRANSACTIONAL, seal_batch


@dataclass(frozen=True, slots=True)
class EncodedRecords:
    """The records of one batch; the first `HEADER_BYTES` of `content` are left free."""

    partition: TopicPartition
    content: memoryview
    record_count: int
    compression: Compression
    times_ms: tuple[int, int] | None = None
    """The first record's time and the latest; None: all get the time at which the batch is sealed."""


class Encoder:
    """Encodes Arrow batches for one task. `partition_count` returns the number of partitions of a topic."""

    def __init__(
        self,
        topic: str | None,
        compression: Compression,
        batch_bytes: int,
        partition_count: Callable[[str], int],
        first_partition: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._topic = topic
        self._compression = compression
        self._batch_bytes = batch_bytes
        self._partition_count = partition_count
        self._sticky = first_partition
        self._now_ms = now_ms

    def encode(self, table: pa.RecordBatch) -> Iterator[EncodedRecords]:
        """Batches of at most `batch_bytes`, unless one record alone is larger. Raises UsageError for unfit rows."""
        columns = dict(zip(table.schema.names, table.columns, strict=True))
        rows = record_rows(columns, self._now_ms())
        self._sticky += 1
        routes = list(self._by_topic(columns, table.num_rows))
        # All topics are asked for first: the connection is busy once a batch has been sent.
        counts = {topic: self._partition_count(topic) for topic, _ in routes}
        for topic, chosen in routes:
            partitions = self._partitions(columns, rows, counts[topic])[chosen]
            # Such a partition has no leader, so the producer would retry until its time is up.
            if len(partitions) and partitions.max() >= counts[topic]:
                raise UsageError(
                    f"column partition holds {partitions.max()}, but topic {topic} has {counts[topic]} partitions"
                )
            order = np.argsort(partitions, kind="stable")
            edges = np.flatnonzero(np.diff(partitions[order])) + 1
            for run in np.split(order, edges):
                if len(run):
                    where = TopicPartition(topic, int(partitions[run[0]]))
                    yield from self._encode_run(where, rows, chosen[run])

    def _by_topic(self, columns: Mapping[str, pa.Array], row_count: int) -> Iterator[tuple[str, Int64s]]:
        """Each topic with the numbers of its rows. The option topic comes before the column."""
        if self._topic is not None:
            yield self._topic, np.arange(row_count)
            return
        encoded = pc.dictionary_encode(columns["topic"])
        # A null topic would be dropped from the dictionary, and its rows with it.
        if encoded.null_count:
            raise UsageError("column topic holds a null: every row needs a topic, unless the option topic is set")
        indices = encoded.indices.to_numpy()
        for number, topic in enumerate(encoded.dictionary.to_pylist()):
            yield topic, np.flatnonzero(indices == number)

    def _partitions(self, columns: Mapping[str, pa.Array], rows: RecordRows, count: int) -> Int32s:
        """The partition of every row, were it for a topic of `count` partitions."""
        partitions = _given_partitions(columns.get("partition"), len(rows.values.valid))
        assign_partitions(rows.keys, count, self._sticky % count, partitions)
        return partitions

    def _encode_run(self, where: TopicPartition, rows: RecordRows, chosen: Int64s) -> Iterator[EncodedRecords]:
        size = self._batch_bytes
        while len(chosen):
            target = np.empty(HEADER_BYTES + size, np.uint8)
            count, end, needed = encode_records(rows, chosen, target, HEADER_BYTES, len(target))
            if count:
                content = self._compressed(memoryview(target.data)[:end])
                yield EncodedRecords(where, content, count, self._compression, _times(rows, chosen[:count]))
            chosen = chosen[count:]
            size = max(self._batch_bytes, needed)

    def _compressed(self, plain: memoryview) -> memoryview:
        if self._compression is Compression.NONE:
            return plain
        return memoryview(bytearray(HEADER_BYTES) + compress(self._compression, bytes(plain[HEADER_BYTES:])))


def seal(
    records: EncodedRecords, producer: Producer, sequence: int, timestamp_ms: int, *, transactional: bool = False
) -> memoryview:
    """Fill in the header and return the batch as it is sent. Records without times get the time `timestamp_ms`."""
    first_ms, latest_ms = records.times_ms or (timestamp_ms, timestamp_ms)
    producer_id, producer_epoch = producer
    seal_batch(
        records.content,
        attributes=records.compression.value | (TRANSACTIONAL if transactional else 0),
        last_offset_delta=records.record_count - 1,
        base_timestamp_ms=first_ms,
        max_timestamp_ms=latest_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        record_count=records.record_count,
    )
    return records.content


def _times(rows: RecordRows, chosen: Int64s) -> tuple[int, int] | None:
    if not rows.times.present:
        return None
    times = rows.times.milliseconds[chosen]
    return int(times[0]), int(times.max())


def _given_partitions(column: pa.Array | None, row_count: int) -> Int32s:
    """The column `partition`, -1 where there is none."""
    if column is None:
        return np.full(row_count, -1, np.int32)
    if not pa.types.is_int32(column.type):
        raise UsageError(f"column partition is of type {column.type}: cast it to int")
    partitions: Int32s = column.fill_null(-1).to_numpy().copy()
    lowest = pc.min(column).as_py()
    if lowest is not None and lowest < 0:
        raise UsageError(f"column partition holds the number {lowest}: partitions count from 0")
    return partitions
