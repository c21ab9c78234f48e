"""Checks of a batch's content: unpacked within a bound, then walked once, as Kafka's LogValidator does.

Strategy: the walk is compiled where the installation could build it (`_record_walk.c`, about 10 ns a record), else
`record_walk` does the same in Python. A caller on a loop passes `LOOP_BYTES_MAX` and hands the batch to a worker with a
larger bound when LimitExceeded says that it is too large. The work is linear in the bound, for all bytes.

Knows nothing of topics, times of day, threads.
"""

import struct
from collections.abc import Callable
from types import ModuleType
from typing import Final

from hutong.foundation.checksum import crc32c
from hutong.foundation.compiled import compiled_module
from hutong.foundation.errors import LimitExceeded, ProtocolError
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.batch import record_walk
from hutong.wire.kafka.batch.compression import Compression, decompress
from hutong.wire.kafka.batch.record_walk import INT64_MAX, INT64_MIN, RecordContents
from hutong.wire.kafka.batch.records import (
    COMPRESSION_MASK,
    CRC_AT,
    CRC_START,
    HEADER_BYTES,
    MAX_TIMESTAMP_AT,
    BatchHeader,
)

_compiled = compiled_module("hutong.wire.kafka.batch._record_walk", record_walk.CONTRACT)
IS_COMPILED: Final = _compiled is not None
LOOP_BYTES_MAX: Final = 64 * 1024 if IS_COMPILED else 8 * 1024
"""Records of this size, packed and unpacked, may be examined on a loop: it takes 0.2 ms at most, or 4 ms in Python."""

_walk: ModuleType = _compiled or record_walk
examine_records: Callable[[Buffer, int, int, int, int, int], RecordContents] = _walk.examine_records
greatest_timestamp: Callable[[Buffer, int, int, int], int] = _walk.greatest_timestamp
first_from: Callable[[Buffer, int, int, int, int, int, int], tuple[int, int] | None] = _walk.first_from
greatest_in: Callable[[Buffer, int, int, int, int, int], tuple[int, int] | None] = _walk.greatest_in


def examine_batch(
    header: BatchHeader, batch: Buffer, bytes_max: int, earliest_ms: int = INT64_MIN, latest_ms: int = INT64_MAX
) -> RecordContents:
    """Check the records of `batch`, exactly one batch with this header.

    A record whose timestamp is outside `earliest_ms` to `latest_ms` is named as untimely. Raises ProtocolError for
    malformed content, LimitExceeded when the records take more than `bytes_max`, packed or unpacked, UsageError when
    the codec is not installed.
    """
    if len(batch) - HEADER_BYTES > bytes_max:
        raise LimitExceeded("RECORDS_BYTES_MAX", bytes_max)
    # Kafka's bounds are a time of day and 64 bits away from it, so their sum may not fit 64 bits.
    if earliest_ms < INT64_MIN:
        earliest_ms = INT64_MIN
    if latest_ms > INT64_MAX:
        latest_ms = INT64_MAX
    data, start = unpack_in_place(header, batch, bytes_max)
    return examine_records(data, start, header.record_count, header.base_timestamp_ms, earliest_ms, latest_ms)


def unpack_in_place(header: BatchHeader, batch: Buffer, bytes_max: int) -> tuple[Buffer, int]:
    """A buffer with the records of a batch, and their position in it: the batch itself where it is not compressed.

    Raises ProtocolError, LimitExceeded, UsageError as `decompress`.
    """
    compression = header.attributes & COMPRESSION_MASK
    if not compression:
        return batch, HEADER_BYTES
    if compression > Compression.ZSTD:
        raise ProtocolError(f"compression {compression} is not defined")
    return decompress(Compression(compression), memoryview(batch)[HEADER_BYTES:], bytes_max), 0


def with_max_timestamp(batch: Buffer, max_timestamp_ms: int) -> bytes:
    """A copy of the batch with this greatest timestamp in its header, as Kafka corrects a header that is wrong."""
    corrected = bytearray(batch)
    struct.pack_into(">q", corrected, MAX_TIMESTAMP_AT, max_timestamp_ms)
    struct.pack_into(">I", corrected, CRC_AT, crc32c(memoryview(corrected)[CRC_START:]))
    return bytes(corrected)
