"""The records of a batch as slices: their keys and whether they have values, without building anything from them.

Strategy: compaction looks at the key of each record and keeps most records as they are. The fields of a record are
relative to its batch's base offset and base timestamp, so one that stays where it was is copied byte for byte; only
when the base timestamp changes are the first fields of each written again.

A batch that keeps tombstones carries the time from which on they may be removed, the *delete horizon*: bit 6 of the
attributes declares that the base timestamp is that time (KIP-534). Each record's delta is relative to the new base, so
timestamps stay right for readers that ignore the bit.
"""

from collections.abc import Iterator
from typing import NamedTuple

from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.batch.compression import Compression, compress, decompress
from hutong.wire.kafka.batch.records import HEADER_BYTES, BatchHeader, seal_batch
from hutong.wire.kafka.varint import read_varlong, varlong

DELETE_HORIZON = 0x40


class RecordSlice(NamedTuple):
    """One record: `data[start:end]` with its length field in front. `key` is None for a record without one."""

    start: int
    end: int
    timestamp_delta_ms: int
    after_timestamp: int  # position of what follows the timestamp delta
    offset_delta: int
    key: bytes | None
    is_tombstone: bool


def unpack_records(header: BatchHeader, batch: Buffer, bytes_max: int) -> bytes:
    """The records of a batch, decompressed. Raises ProtocolError, LimitExceeded, UsageError as `decompress`."""
    if header.compression > Compression.ZSTD:
        raise ProtocolError(f"record batch: compression {header.compression}")
    packed = memoryview(batch)[HEADER_BYTES : header.size]
    return bytes(decompress(Compression(header.compression), packed, bytes_max))


def iterate_slices(data: bytes, count: int, last_offset_delta: int) -> Iterator[RecordSlice]:
    """The `count` records of a batch, whose offset deltas grow up to `last_offset_delta` at most.

    Raises ProtocolError if they are malformed. A forged delta would give a record the offset of another batch, and
    compaction would then remove that batch's record with the same key.
    """
    position, size, previous = 0, len(data), -1
    try:
        for _ in range(count):
            start = position
            length, position = read_varlong(data, position)
            end = position + length
            if length < 0 or end > size:
                raise ProtocolError("a record points past the end of its batch")
            timestamp_delta_ms, after_timestamp = read_varlong(data, position + 1)
            offset_delta, position = read_varlong(data, after_timestamp)
            if not previous < offset_delta <= last_offset_delta:
                raise ProtocolError(f"a record has the offset delta {offset_delta} after {previous}")
            previous = offset_delta
            key_bytes, position = read_varlong(data, position)
            key = None
            if key_bytes >= 0:
                key = data[position : position + key_bytes]
                position += key_bytes
            value_bytes, position = read_varlong(data, position)
            if position + max(0, value_bytes) > end:
                raise ProtocolError("the fields of a record do not fit its length")
            yield RecordSlice(start, end, timestamp_delta_ms, after_timestamp, offset_delta, key, value_bytes < 0)
            position = end
    except IndexError as error:
        raise ProtocolError(f"record: {error}") from error
    if position != size:
        raise ProtocolError("a record batch has bytes after its last record")


def with_timestamp_delta(data: bytes, record: RecordSlice, timestamp_delta_ms: int) -> bytes:
    """The record again with another timestamp delta, its length field in front."""
    rest = data[record.after_timestamp : record.end]
    fields = b"\0" + varlong(timestamp_delta_ms)
    return varlong(len(fields) + len(rest)) + fields + rest


def rebuild_batch(
    header: BatchHeader, records: bytes, count: int, *, attributes: int, base_timestamp_ms: int, max_timestamp_ms: int
) -> bytes:
    """A batch like that of `header`, at the same offsets and of the same producer, with these `count` records.

    Its range of offsets stays (`last_offset_delta`), even if the last records are removed, and so do its sequences.
    Raises UsageError when the codec is not installed.
    """
    batch = bytearray(HEADER_BYTES)
    batch += compress(Compression(header.compression), records) if count else b""
    seal_batch(
        batch,
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        attributes=attributes,
        last_offset_delta=header.last_offset_delta,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max_timestamp_ms,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        record_count=count,
    )
    return bytes(batch)
