"""Scanning a segment with every check there is, for recovery and for `hutong doctor`.

Strategy: chunk by chunk. The header is checked by its own CRC and position, each batch by its CRC, and what that CRC
leaves out by its entry. The first place that fails ends the scan, because chunks are found only through
the ones before them; `resync` looks behind it. A chunk of another version ends it too, as an error of its own: it is
not damaged, and must not be touched.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from hutong.foundation.checksum import crc32c
from hutong.foundation.errors import CorruptData, UnknownFormat
from hutong.journal.format import chunk
from hutong.journal.read.walk import SegmentWindow
from hutong.wire.kafka.batch.control_records import Marker, parse_marker
from hutong.wire.kafka.batch.records import (
    CONTROL,
    CRC_START,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    BatchHeader,
    parse_batch_header,
)

# Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, (two timestamps), producer id.
_CHECKED = struct.Struct(">qiibIhi16xq")


class ScannedRun(NamedTuple):
    """A run, all of it sound, with the headers of its idempotent batches, and the markers among them by their offsets.

    Nobody learns anything from other batches (`learning`).
    """

    run: chunk.LogRun
    idempotent: list[BatchHeader]
    markers: dict[int, Marker]


class ScannedChunk(NamedTuple):
    header: chunk.Chunk
    runs: list[ScannedRun]


class ChunkWindow(Protocol):
    """Bytes by their positions: of a segment's file, or of a message from another replica."""

    def view(self, position: int, size: int) -> memoryview: ...

    def count_used(self, size: int) -> None: ...


def scan_chunks(window: ChunkWindow, position: int, end_position: int) -> Iterator[ScannedChunk]:
    """Sound chunks from `position` on, until the blank tail or `end_position`.

    Raises CorruptData, which names the position of the chunk that failed, where the sound part ends; UnknownFormat;
    StorageError.
    """
    while position < end_position:
        if end_position - position < chunk.FIXED.size:
            if any(window.view(position, end_position - position)):
                raise CorruptData(f"the chunk at position {position} is cut off")
            return
        try:
            header_bytes = chunk.header_bytes_at(window.view(position, chunk.FIXED.size), 0, position)
        except CorruptData:
            _check_version(window, position, end_position)
            raise
        if not header_bytes:
            return
        if position + header_bytes > end_position:
            raise CorruptData(f"the chunk at position {position} is cut off")
        header = chunk.parse_header(window.view(position, header_bytes), 0, position)
        if header.end > end_position:
            raise CorruptData(f"the chunk at position {position} is cut off")
        whole = window.view(position, header.end - position)
        window.count_used(len(whole))
        crcs: list[int] = []
        runs = [_scan_run(header, run, whole, crcs) for run in header.runs()]
        _check_digest(header, runs, crcs)
        yield ScannedChunk(header, runs)
        position = header.end


def _check_digest(header: chunk.Chunk, runs: list[ScannedRun], crcs: list[int]) -> None:
    """Raise CorruptData where sound batches are not those that were written with this header.

    A torn write into a recycled file can leave stale ones behind a new header (see `chunk`).
    """
    # The batches of a lost run are gone, so the digest of all of them cannot be made any more.
    if header.digest is None or any(scanned_run.run.kind == chunk.LOST for scanned_run in runs):
        return
    if chunk.digest_of([struct.pack(f">{len(crcs)}I", *crcs)]) != header.digest:
        raise CorruptData(f"the batches of the chunk at position {header.position} were not written with its header")


def damaged_runs(window: SegmentWindow, header: chunk.Chunk) -> list[int]:
    """The numbers of the damaged entries of a chunk with a sound header. Raises StorageError."""
    whole = window.view(header.position, header.end - header.position)
    damaged = []
    for number, run in enumerate(header.runs()):
        try:
            _scan_run(header, run, whole, [])
        except CorruptData:
            damaged.append(number)
    return damaged


def _check_version(window: ChunkWindow, position: int, end_position: int) -> None:
    count = chunk.entry_count_at(window.view(position, chunk.FIXED.size), 0)
    header = window.view(position, min(chunk.header_bytes_for(count), end_position - position))
    version = chunk.version_of(header, 0)
    if version is not None:
        raise UnknownFormat(
            f"the chunk at position {position} has format {version}, this version reads {chunk.VERSION}; use the "
            "version that wrote it"
        )


def _scan_run(header: chunk.Chunk, run: chunk.LogRun, whole: memoryview, crcs: list[int]) -> ScannedRun:
    """Check every batch of the run, and add their CRCs."""
    idempotent: list[BatchHeader] = []
    markers: dict[int, Marker] = {}
    if run.kind == chunk.LOST:
        return ScannedRun(run, idempotent, markers)
    at = run.position - header.position
    end = at + run.bytes
    where = f"partition {run.partition_id} in the chunk at position {header.position}"
    next_offset, count = run.base_offset, 0
    # Numbers rather than a header for each batch: followers scan all that they get, and so a small batch costs 1.0 us
    # instead of 1.9.
    while end - at >= HEADER_BYTES:
        base_offset, length, leader_epoch, magic, crc, attributes, last_delta, producer_id = _CHECKED.unpack_from(
            whole, at
        )
        stop = at + LENGTH_END + length
        if magic != MAGIC or stop < at + HEADER_BYTES:
            raise CorruptData(f"a batch of {where} is damaged: magic {magic}, {LENGTH_END + length} bytes")
        if stop > end:
            break
        if not _has_crc(whole[at + CRC_START : stop], crc):
            raise CorruptData(f"a batch of {where} fails its CRC")
        if base_offset < next_offset or leader_epoch != header.leader_epoch:
            raise CorruptData(f"a batch of {where} does not belong there")
        crcs.append(crc)
        count += 1
        if producer_id >= 0:
            idempotent.append(parse_batch_header(whole, at))
            marker = parse_marker(whole[at:stop]) if attributes & CONTROL else None
            if marker is not None:
                markers[base_offset] = marker
        next_offset = base_offset + last_delta + 1
        at = stop
    if at != end or count != run.batch_count or (count and next_offset > run.end_offset):
        raise CorruptData(f"the batches of {where} are not those its header names")
    return ScannedRun(run, idempotent, markers)


def _has_crc(checked: memoryview, crc: int) -> bool:
    return crc32c(checked) == crc
