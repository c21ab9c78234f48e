"""The records of a batch as slices: their keys and whether they have values, without building anything from them.

Strategy: compaction looks at the key of each record and keeps most records as they are. The fields of a record are
relative to its batch's base offset and base timestamp, so one that stays where it was is copied byte for byte; only
when the base timestamp changes are the first fields of each written again.

A batch of which tombstones are kept carries the time from which on they may go: bit 6 of the attributes says that the
base timestamp is that time, the *delete horizon* (KIP-534). Timestamps stay right for readers that know nothing of it,
because each record's delta is taken from the new base.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from hutong.foundation.checksum import crc32c
from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.compression import Compression, compress, decompress
from hutong.wire.kafka.records import CRC_START, HEADER_BYTES, LENGTH_END, BatchHeader
from hutong.wire.kafka.varint import read_varlong, varlong

DELETE_HORIZON = 0x40

_HEADER = struct.Struct(">qiibIhiqqqhii")


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

    Raises ProtocolError where they are malformed. A forged delta would make a record stand for an offset of another
    batch, whose record of that key compaction would then remove.
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
    header: BatchHeader,
    records: bytes,
    count: int,
    *,
    attributes: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
) -> bytes:
    """A batch like that of `header`, at the same offsets and of the same producer, with these `count` records.

    Its offsets reach as far as before, whatever records are left (`last_offset_delta` stays), and so do its sequences.
    Raises UsageError when the codec is not installed.
    """
    packed = compress(Compression(header.compression), records) if count else b""
    batch = bytearray(HEADER_BYTES)
    _HEADER.pack_into(
        batch,
        0,
        header.base_offset,
        HEADER_BYTES - LENGTH_END + len(packed),
        header.leader_epoch,
        header.magic,
        0,
        attributes,
        header.last_offset_delta,
        base_timestamp_ms,
        max_timestamp_ms,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        count,
    )
    batch += packed
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[CRC_START:]))
    return bytes(batch)
