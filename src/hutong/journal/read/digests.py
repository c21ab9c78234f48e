"""Digests of what a log holds on its disk, to compare replicas without sending their records.

Strategy: replicas have the same batches, byte for byte, until one of them is cleaned; then batches are written again
with fewer records. So a batch has a digest of all its bytes, or each of its records has one of what a reader sees.
Sound batches alone get here: damage has ended the read.

Runs on a worker; knows nothing of other replicas.
"""

import struct
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from hutong.foundation.errors import LimitExceeded, ProtocolError, UsageError
from hutong.journal.read.walk import Walk
from hutong.wire.kafka.batch.compression import DECOMPRESSED_BYTES_MAX
from hutong.wire.kafka.batch.record_slices import DELETE_HORIZON, iterate_slices, unpack_records
from hutong.wire.kafka.batch.records import COMPRESSION_MASK, BatchHeader, iterate_batches

DIGEST_BYTES: Final = 8
ENTRY: Final = struct.Struct(f">q{DIGEST_BYTES}s")
_SEEN: Final = struct.Struct(">qqhh")  # timestamp, producer id and epoch, attributes


class Digests(NamedTuple):
    """The entries of a read, each an offset and a digest. It goes on at `next_offset`."""

    next_offset: int
    read_bytes: int
    entries: bytes


def digest(walk: Walk, offset: int, limit: int, max_bytes: int, runs_max: int, *, by_record: bool) -> Digests:
    """Read from `offset` on up to `limit`, as far as one segment goes. Raises CorruptData where it begins damaged.

    `next_offset` is `offset` where the segment has nothing of it.
    """
    views = walk.read(offset, limit, max_bytes, True, runs_max)
    found = list(_records(views, offset, limit) if by_record else _batches(views))
    last = _last_batch(views)
    return Digests(
        last.last_offset + 1 if last is not None else offset,
        sum(map(len, views)),
        b"".join(ENTRY.pack(*entry) for entry in found),
    )


def _last_batch(views: Sequence[memoryview]) -> BatchHeader | None:
    headers = [header for header, _ in iterate_batches(views[-1])] if views else []
    return headers[-1] if headers else None


def _batches(views: Sequence[memoryview]) -> Iterator[tuple[int, bytes]]:
    for view in views:
        for header, batch in iterate_batches(view):
            yield header.base_offset, _hash(batch)


def _records(views: Sequence[memoryview], offset: int, limit: int) -> Iterator[tuple[int, bytes]]:
    for view in views:
        for header, batch in iterate_batches(view):
            for at, digest_there in _records_of(header, batch):
                # The first batch may begin before the start of the log.
                if offset <= at < limit:
                    yield at, digest_there


def _records_of(header: BatchHeader, batch: memoryview) -> list[tuple[int, bytes]]:
    try:
        data = unpack_records(header, batch, DECOMPRESSED_BYTES_MAX) if header.record_count else b""
        slices = list(iterate_slices(data, header.record_count, header.last_offset_delta))
    # Cleaning leaves what it cannot unpack as it is, so the batch is the same everywhere.
    except (ProtocolError, LimitExceeded, UsageError):
        return [(header.base_offset, _hash(batch))]
    # Cleaning marks a batch with tombstones by another base timestamp, and packs it anew (KIP-534).
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON)
    found = []
    for record in slices:
        delta_ms = record.timestamp_delta_ms
        at_ms = header.max_timestamp_ms if header.is_log_append_time else header.base_timestamp_ms + delta_ms
        seen = _SEEN.pack(at_ms, header.producer_id, header.producer_epoch, attributes)
        rest = data[record.after_timestamp : record.end]  # the offset's delta, key, value and headers
        found.append((header.base_offset + record.offset_delta, _hash(seen + rest)))
    return found


def _hash(content: bytes | memoryview) -> bytes:
    return blake2b(content, digest_size=DIGEST_BYTES).digest()
