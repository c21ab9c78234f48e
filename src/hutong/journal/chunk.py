"""The chunk: what one turn of the writer took in, as it lies in the journal.

    40 bytes   magic, CRC-32C of the rest of the header, version, flags, entry count, total bytes, leader epoch,
               position, append wall time
    40 bytes   per entry: partition id, kind, base offset, offset count, start, bytes, batch count, max timestamp
    ...        each entry's RecordBatches v2 back to back, in entry order

Strategy: the header vouches for itself with a CRC and names its own position, so that a chunk found at a place where
it was not written is recognised (misdirected writes, blocks left over from another file). The payload is vouched for
by the CRC that every batch carries; what that CRC leaves out (base offset, length, leader epoch) follows from the
entry. An entry without bytes is a statement about its log: where it now starts, or that it is deleted.

Numbers are big-endian, as in the batches. Knows nothing of files.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, cast

from crc32c import crc32c

from hutong.foundation.errors import CorruptData
from hutong.wire.buffer import Buffer

MAGIC: Final = b"HtCk"
VERSION: Final = 1
FIXED: Final = struct.Struct(">4sIHHIIiQq")
ENTRY: Final = struct.Struct(">IIqIIIIq")
ENTRIES_MAX: Final = 65_536  # of one chunk: bounds what a damaged count can make a reader ask for
CHUNK_BYTES_MAX: Final = 2**31 - 1

BATCHES: Final = 0  # kinds of entry
START_MOVED: Final = 1  # the log now starts at the base offset
DELETED: Final = 2  # the log is gone

_CHECKED_FROM: Final = 8  # the CRC covers the header from here on
_FIXED_CHECKED: Final = struct.Struct(">HHIIiQq")
_KEY: Final = struct.Struct(">II")
_WORD: Final = struct.Struct(">I")
_COUNT_AT: Final = 12  # behind magic, CRC, version and flags


class Run(NamedTuple):
    """One partition's batches in one chunk, contiguous at `position` of the journal."""

    partition_id: int
    kind: int
    base_offset: int
    offset_count: int
    position: int
    bytes: int
    batch_count: int
    max_timestamp_ms: int

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.offset_count


class Chunk:
    """A parsed chunk header. The chunk covers journal positions from `position` to before `end`."""

    __slots__ = ("_entries", "append_time_ms", "end", "entry_count", "header_bytes", "leader_epoch", "position")

    def __init__(
        self, position: int, total_bytes: int, leader_epoch: int, append_time_ms: int, entry_count: int, entries: bytes
    ) -> None:
        self.position = position
        self.end = position + total_bytes
        self.header_bytes = FIXED.size + entry_count * ENTRY.size
        self.leader_epoch = leader_epoch
        self.append_time_ms = append_time_ms
        self.entry_count = entry_count
        self._entries = entries

    def runs(self) -> Iterator[Run]:
        payload = self.position + self.header_bytes
        for partition_id, kind, base, count, start, size, batches, timestamp in ENTRY.iter_unpack(self._entries):
            yield Run(partition_id, kind, base, count, payload + start, size, batches, timestamp)


def entry_count_at(buffer: Buffer, offset: int) -> int:
    """What the header at `offset` says, unchecked."""
    return cast(int, _WORD.unpack_from(buffer, offset + _COUNT_AT)[0])


def header_bytes_for(entry_count: int) -> int:
    return FIXED.size + entry_count * ENTRY.size


def encode_header(
    position: int, leader_epoch: int, append_time_ms: int, entries: list[bytes], payload_bytes: int
) -> bytes:
    """The header of a chunk whose packed `entries` describe `payload_bytes` bytes of batches."""
    count = len(entries)
    total_bytes = FIXED.size + count * ENTRY.size + payload_bytes
    fixed = _FIXED_CHECKED.pack(VERSION, 0, count, total_bytes, leader_epoch, position, append_time_ms)
    checked = fixed + b"".join(entries)
    return MAGIC + _WORD.pack(crc32c(checked)) + checked


def header_bytes_at(buffer: Buffer, offset: int, position: int) -> int:
    """How many bytes the header at `offset` has, 0 where nothing was ever written.

    `buffer` holds at least `FIXED.size` bytes from `offset` on, which lie at `position` of the journal. Only what is
    needed to read on is checked here. Raises CorruptData.
    """
    magic, _, version, _, entry_count, total_bytes, _, _, _ = FIXED.unpack_from(buffer, offset)
    if magic != MAGIC:
        if not any(buffer[offset : offset + FIXED.size]):
            return 0
        raise CorruptData(f"no chunk begins at position {position}")
    header_bytes: int = FIXED.size + entry_count * ENTRY.size
    if version != VERSION or not 0 < entry_count <= ENTRIES_MAX or not header_bytes <= total_bytes <= CHUNK_BYTES_MAX:
        raise CorruptData(f"the chunk header at position {position} is damaged")
    return header_bytes


def parse_header(buffer: Buffer, offset: int, position: int) -> Chunk:
    """The chunk whose whole header lies at `offset`. Raises CorruptData."""
    header_bytes = header_bytes_at(buffer, offset, position)
    if not header_bytes:
        raise CorruptData(f"no chunk begins at position {position}")
    header = bytes(buffer[offset : offset + header_bytes])
    _, crc, _, flags, count, total_bytes, leader_epoch, own_position, append_time_ms = FIXED.unpack_from(header)
    if len(header) < header_bytes or crc32c(memoryview(header)[_CHECKED_FROM:]) != crc or flags:
        raise CorruptData(f"the chunk header at position {position} fails its check")
    if own_position != position:
        raise CorruptData(f"the chunk at position {position} was written for position {own_position}")
    chunk = Chunk(position, total_bytes, leader_epoch, append_time_ms, count, header[FIXED.size :])
    _check_layout(chunk)
    return chunk


def find_run(buffer: Buffer, offset: int, position: int, partition_id: int) -> tuple[int, int, Run | None]:
    """As `parse_header`, for a walk: the chunk's end, its leader epoch, and the batches it has of one partition.

    The whole header lies at `offset`. That its entries fit together is what the CRC vouches for. Raises CorruptData.
    """
    magic, crc, _, flags, count, total_bytes, leader_epoch, own_position, _ = FIXED.unpack_from(buffer, offset)
    entries = offset + FIXED.size
    end = entries + count * ENTRY.size
    header = memoryview(buffer)[offset:end]
    if magic != MAGIC or len(header) < end - offset or crc32c(header[_CHECKED_FROM:]) != crc or flags:
        raise CorruptData(f"the chunk header at position {position} fails its check")
    if own_position != position:
        raise CorruptData(f"the chunk at position {position} was written for position {own_position}")
    found = entries if count == 1 else entries + _entry_at(bytes(header[FIXED.size :]), partition_id)
    run = None
    if found >= entries:
        number, kind, base, offsets, start, size, batches, timestamp = ENTRY.unpack_from(buffer, found)
        if number == partition_id and kind == BATCHES:
            run = Run(number, kind, base, offsets, position + end - offset + start, size, batches, timestamp)
    return position + total_bytes, leader_epoch, run


def _entry_at(entries: bytes, partition_id: int) -> int:
    """Where the entry with the partition's batches begins, -1 if there is none."""
    key = _KEY.pack(partition_id, BATCHES)
    at = entries.find(key)
    while at >= 0 and at % ENTRY.size:
        at = entries.find(key, at + 1)
    return at


def _check_layout(chunk: Chunk) -> None:
    """Entries must tile the payload. A header that passed its CRC breaks this only if a writer was wrong."""
    at = chunk.position + chunk.header_bytes
    for run in chunk.runs():
        if run.position != at:
            raise CorruptData(f"the entries of the chunk at position {chunk.position} do not fit together")
        at += run.bytes
    if at != chunk.end:
        raise CorruptData(f"the entries of the chunk at position {chunk.position} do not add up to its size")
