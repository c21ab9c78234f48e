"""The chunk: the batches of one loop iteration, as the journal stores them.

    40 bytes   magic, CRC-32C of the rest of the header, version, entry count, unflushed bytes, total bytes, leader
               epoch, position, append wall time
    40 bytes   per entry: partition id, kind, base offset, offset count, start, bytes, batch count, max timestamp
    4 bytes    digest: CRC-32C of the CRC fields of all batches, in order (since version 3)
    ...        each entry's RecordBatches v2 back to back, in entry order

Strategy: a CRC protects the header, which also names its own position, so that a chunk found at a place where
it was not written is recognised (misdirected writes, blocks left over from another file). The payload is protected
by the CRC that every batch carries; what that CRC leaves out (base offset, length, leader epoch) follows from the
entry. An entry without bytes is a statement: about its log, where it now starts or that it is deleted, or about the
stream, that another leader epoch begins.

The digest ties the payload to its header. Files of segments are recycled, so a write that a crash has torn may leave a
new header in front of stale batches. Those are sound in themselves, and may have the very offsets that the entry names.
A digest of their CRCs shows that they are others, and costs no second pass over the payload.

A header also holds the number of bytes before it that were not flushed yet when it was made. So a chunk proves that
everything before those bytes was on disk. If a sound chunk proves that of a damaged place, the place has rotted. A torn
tail is different: behind it come at most bytes that were in flight with it (the crash-corruption disentanglement of
Alagappan et al., FAST '18). A repair turns the entry of a damaged run into one that names the loss.

Numbers are big-endian, as in the batches. Knows nothing of files.
"""

import struct
from collections.abc import Container, Iterable
from typing import Final, NamedTuple, cast

from hutong.foundation.checksum import crc32c
from hutong.foundation.errors import CorruptData
from hutong.wire.buffer import Buffer

MAGIC: Final = b"HtCk"
VERSION: Final = 3
_VERSION_WITHOUT_DIGEST: Final = 2
FIXED: Final = struct.Struct(">4sIHHIIiQq")
ENTRY: Final = struct.Struct(">IIqIIIIq")
ENTRIES_MAX: Final = 65_535  # of one chunk: bounds what a damaged count can make a reader ask for
CHUNK_BYTES_MAX: Final = 2**31 - 1

BATCHES: Final = 0  # kinds of entry
START_MOVED: Final = 1  # the log now starts at the base offset
DELETED: Final = 2  # the log is gone
LOST: Final = 3  # the run was damaged and given up; without offsets, nobody knows whose it was
EPOCH_BEGUN: Final = 4  # a leader epoch begins with this chunk; the partition id is the number of the node that leads

FLUSH_UNKNOWN: Final = 2**32 - 1  # in the place of unflushed bytes: not known

_CHECKED_FROM: Final = 8  # the CRC covers the header from here on
_FIXED_CHECKED: Final = struct.Struct(">HHIIiQq")
_KEY: Final = struct.Struct(">II")
_WORD: Final = struct.Struct(">I")
_COUNT: Final = struct.Struct(">H")
_COUNT_AT: Final = 10  # behind magic, CRC and version
_DIGEST_BYTES: Final = {_VERSION_WITHOUT_DIGEST: 0, VERSION: _WORD.size}  # of each version that is read


class LogRun(NamedTuple):
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

    __slots__ = (
        "_runs",
        "append_time_ms",
        "digest",
        "end",
        "entries",
        "entry_count",
        "header_bytes",
        "leader_epoch",
        "position",
        "unflushed_bytes",
    )

    def __init__(
        self,
        position: int,
        total_bytes: int,
        leader_epoch: int,
        append_time_ms: int,
        entry_count: int,
        entries: bytes,
        unflushed_bytes: int = FLUSH_UNKNOWN,
        digest: int | None = None,
    ) -> None:
        self.position = position
        self.end = position + total_bytes
        self.header_bytes = FIXED.size + len(entries) + (0 if digest is None else _WORD.size)
        self.leader_epoch = leader_epoch
        self.append_time_ms = append_time_ms
        self.entry_count = entry_count
        self.entries = entries  # packed
        self.unflushed_bytes = unflushed_bytes
        self.digest = digest  # None in a chunk of a version without one
        self._runs: list[LogRun] | None = None

    @property
    def flushed_position(self) -> int:
        """Everything before it was flushed when this chunk was made."""
        return 0 if self.unflushed_bytes == FLUSH_UNKNOWN else self.position - self.unflushed_bytes

    def runs(self) -> list[LogRun]:
        """The runs in order, made at the first call: a replica goes over them four times."""
        runs = self._runs
        if runs is None:
            payload = self.position + self.header_bytes
            runs = self._runs = [
                LogRun(partition_id, kind, base, count, payload + start, size, batches, timestamp)
                for partition_id, kind, base, count, start, size, batches, timestamp in ENTRY.iter_unpack(self.entries)
            ]
        return runs


def entry_count_at(buffer: Buffer, offset: int) -> int:
    """The entry count in the header at `offset`, unchecked."""
    return cast(int, _COUNT.unpack_from(buffer, offset + _COUNT_AT)[0])


def header_bytes_for(entry_count: int, version: int = VERSION) -> int:
    """The size of a header with that many entries. `version` is one that is read."""
    return FIXED.size + entry_count * ENTRY.size + _DIGEST_BYTES[version]


def digest_of(batch_crcs: Iterable[Buffer]) -> int:
    """The digest of batches with these CRC fields, four bytes each."""
    return crc32c(b"".join(batch_crcs))


def encode_header(
    position: int,
    leader_epoch: int,
    append_time_ms: int,
    entries: list[bytes],
    payload_bytes: int,
    unflushed_bytes: int = FLUSH_UNKNOWN,
    *,
    digest: int,
) -> bytes:
    """The header of a chunk whose packed `entries` describe `payload_bytes` bytes of batches.

    `unflushed_bytes` is how many before it are not flushed yet; what is written outside the stream says nothing.
    """
    count = len(entries)
    total_bytes = FIXED.size + count * ENTRY.size + _WORD.size + payload_bytes
    fixed = _FIXED_CHECKED.pack(VERSION, count, unflushed_bytes, total_bytes, leader_epoch, position, append_time_ms)
    checked = b"".join((fixed, *entries, _WORD.pack(digest)))
    return MAGIC + _WORD.pack(crc32c(checked)) + checked


def may_begin(buffer: Buffer, offset: int, position: int) -> bool:
    """False if the magic at `offset` begins no header that was written for `position`; unchecked otherwise."""
    if len(buffer) - offset < FIXED.size:
        return False
    own_position: int = FIXED.unpack_from(buffer, offset)[-2]
    return own_position == position


def header_bytes_at(buffer: Buffer, offset: int, position: int) -> int:
    """The size of the header at `offset`, 0 if nothing was ever written there.

    `buffer` holds at least `FIXED.size` bytes from `offset` on, which lie at `position` of the journal. Only what is
    needed to read on is checked here. Raises CorruptData.
    """
    magic, _, version, entry_count, _, total_bytes, _, _, _ = FIXED.unpack_from(buffer, offset)
    if magic != MAGIC:
        # Reserved blocks read as zeros: the stream has never come this far.
        if not any(buffer[offset : offset + FIXED.size]):
            return 0
        raise CorruptData(f"no chunk begins at position {position}")
    # Unchecked numbers must not make a reader ask for gigabytes; the CRC follows once the header is whole.
    if version in _DIGEST_BYTES and entry_count:
        header_bytes = header_bytes_for(entry_count, version)
        if header_bytes <= total_bytes <= CHUNK_BYTES_MAX:
            return header_bytes
    raise CorruptData(f"the chunk header at position {position} is damaged")


def chunk_bytes_at(buffer: Buffer, offset: int, position: int) -> int:
    """The size of the chunk whose header begins at `offset`, unchecked apart from what `header_bytes_at` checks."""
    if not header_bytes_at(buffer, offset, position):
        raise CorruptData(f"no chunk begins at position {position}")
    return cast(int, FIXED.unpack_from(buffer, offset)[5])


def parse_header(buffer: Buffer, offset: int, position: int) -> Chunk:
    """The chunk whose whole header is at `offset`. Raises CorruptData."""
    header_bytes = header_bytes_at(buffer, offset, position)
    if not header_bytes:
        raise CorruptData(f"no chunk begins at position {position}")
    header = bytes(buffer[offset : offset + header_bytes])
    _, crc, version, count, unflushed_bytes, total_bytes, leader_epoch, own_position, append_time_ms = (
        FIXED.unpack_from(header)
    )
    if len(header) < header_bytes or crc32c(memoryview(header)[_CHECKED_FROM:]) != crc:
        raise CorruptData(f"the chunk header at position {position} fails its check")
    if own_position != position:
        raise CorruptData(f"the chunk at position {position} was written for position {own_position}")
    entries_end = header_bytes - _DIGEST_BYTES[version]
    digest = None if entries_end == header_bytes else _WORD.unpack_from(header, entries_end)[0]
    entries = header[FIXED.size : entries_end]
    chunk = Chunk(position, total_bytes, leader_epoch, append_time_ms, count, entries, unflushed_bytes, digest)
    _check_layout(chunk)
    return chunk


def find_run(buffer: Buffer, offset: int, position: int, partition_id: int) -> tuple[int, int, LogRun | None]:
    """Parse a header for a walk: the chunk's end, its leader epoch, and the batches it has of one partition.

    The whole header is at `offset`. The CRC guarantees that its entries fit together. Raises CorruptData.
    """
    magic, crc, version, count, _, total_bytes, leader_epoch, own_position, _ = FIXED.unpack_from(buffer, offset)
    entries = offset + FIXED.size
    entries_end = entries + count * ENTRY.size
    end = entries_end + _DIGEST_BYTES.get(version, 0)
    header = memoryview(buffer)[offset:end]
    if (
        magic != MAGIC
        or version not in _DIGEST_BYTES
        or len(header) < end - offset
        or crc32c(header[_CHECKED_FROM:]) != crc
        or not count
    ):
        raise CorruptData(f"the chunk header at position {position} fails its check")
    if own_position != position:
        raise CorruptData(f"the chunk at position {position} was written for position {own_position}")
    found = entries if count == 1 else entries + _entry_at(bytes(buffer[entries:entries_end]), partition_id)
    run = None
    if found >= entries:
        number, kind, base, offsets, start, size, batches, timestamp = ENTRY.unpack_from(buffer, found)
        # With a single entry nothing was searched, so it may be another partition's or a statement.
        if number == partition_id and kind == BATCHES:
            run = LogRun(number, kind, base, offsets, position + end - offset + start, size, batches, timestamp)
    return position + total_bytes, leader_epoch, run


def _entry_at(entries: bytes, partition_id: int) -> int:
    """The start of the entry with the partition's batches, -1 if there is none."""
    key = _KEY.pack(partition_id, BATCHES)
    at = entries.find(key)
    # The bytes of the key may occur inside other entries: only a match at the start of one counts.
    while at >= 0 and at % ENTRY.size:
        at = entries.find(key, at + 1)
    return at


def version_of(buffer: Buffer, offset: int) -> int | None:
    """The version in which the chunk at `offset` was written, where that is unknown; None where it only rotted.

    Magic, CRC and version stay where they are in every version. A header that fits its CRC once the version is put
    right was written in one that is known.
    """
    magic, crc, version, count, *_ = FIXED.unpack_from(buffer, offset)
    if magic != MAGIC or version == 0 or version in _DIGEST_BYTES:
        return None
    for known in _DIGEST_BYTES:
        header = bytearray(buffer[offset : offset + header_bytes_for(count, known)])
        _COUNT.pack_into(header, _CHECKED_FROM, known)
        if crc32c(header[_CHECKED_FROM:]) == crc:
            return None
    return cast(int, version)


def with_lost(whole: Buffer, header: Chunk, lost: Container[int]) -> bytes:
    """The header of the chunk that `whole` begins with, the entries of these numbers marked as lost.

    It keeps its version, and with that its size: the batches behind it stay in their places.
    """
    encoded = bytearray(whole[: header.header_bytes])
    for number, entry in enumerate(ENTRY.iter_unpack(header.entries)):
        if number in lost:
            ENTRY.pack_into(encoded, FIXED.size + number * ENTRY.size, entry[0], LOST, *entry[2:])
    _WORD.pack_into(encoded, len(MAGIC), crc32c(encoded[_CHECKED_FROM:]))
    return bytes(encoded)


def encode_bridge(position: int, end: int) -> bytes:
    """The header of a chunk without batches that replaces everything from `position` to before `end`."""
    payload_bytes = end - position - header_bytes_for(1)
    lost = ENTRY.pack(0, LOST, 0, 0, 0, payload_bytes, 0, -1)
    return encode_header(position, 0, 0, [lost], payload_bytes, digest=0)


def _check_layout(chunk: Chunk) -> None:
    """Entries must tile the payload. A header that passed its CRC breaks this only if a writer was wrong."""
    at = chunk.position + chunk.header_bytes
    for run in chunk.runs():
        if run.position != at:
            raise CorruptData(f"the entries of the chunk at position {chunk.position} do not fit together")
        at += run.bytes
    if at != chunk.end:
        raise CorruptData(f"the entries of the chunk at position {chunk.position} do not add up to its size")
