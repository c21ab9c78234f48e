"""The index of one segment: the places of each partition's batches.

Strategy: sparse. Runs of one partition that follow each other are merged into an *extent* until it holds enough data or
spans enough of the journal; inside an extent a reader walks the chunk headers from the first to the last. So memory is
bounded by the bytes indexed, for batches of any size. An index can always be rebuilt from its segment, hence a damaged
or missing file is never an error, only work.

    prefix   magic, version, CRC-32C of head and summary
    head     CRC-32C of the extents, base position, end position, partition count
    summary  per partition: id, extent count, first offset, end offset, bytes, max timestamp
    extents  per partition: base offsets, first chunk positions, last chunk positions, max timestamps (8 bytes each)

The summary can be read without the extents: that is what a start needs of a closed segment. Extents are little-endian
(they are loaded as arrays), everything else is big-endian.
"""

import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from hutong.foundation.checksum import crc32c
from hutong.foundation.errors import CorruptData
from hutong.wire.buffer import Buffer

MAGIC: Final = b"HtIx"
VERSION: Final = 1
_PREFIX: Final = struct.Struct(">4sII")
_HEAD: Final = struct.Struct(">IQQI")
HEADER_BYTES: Final = _PREFIX.size + _HEAD.size
SUMMARY: Final = struct.Struct(">IIqqqq")
EXTENT_BYTES: Final = 32
NO_TIMESTAMP: Final = -1


class Summary(NamedTuple):
    """The share of one partition in one segment."""

    partition_id: int
    extent_count: int
    first_offset: int
    end_offset: int
    bytes: int
    max_timestamp_ms: int


class Extent(NamedTuple):
    """Consecutive runs of one partition: from the chunk at `first_position` to the one at `last_position`."""

    base_offset: int
    first_position: int
    last_position: int
    max_timestamp_ms: int


class Extents:
    """One partition's extents in one segment, offsets and positions rising."""

    __slots__ = (
        "_distance_bytes",
        "_interval_bytes",
        "_open_bytes",
        "base_offsets",
        "bytes",
        "end_offset",
        "first_positions",
        "last_positions",
        "max_timestamps",
    )

    def __init__(self, interval_bytes: int, distance_bytes: int) -> None:
        self.base_offsets = array("q")
        self.first_positions = array("q")
        self.last_positions = array("q")
        self.max_timestamps = array("q")
        self.end_offset = 0
        self.bytes = 0
        self._interval_bytes = interval_bytes
        self._distance_bytes = distance_bytes
        self._open_bytes = sys.maxsize  # of the last extent; not known after a load, so the next run begins a new one

    def add(self, base_offset: int, end_offset: int, chunk_position: int, size: int, timestamp_ms: int) -> None:
        """Note a run of `size` bytes in the chunk at `chunk_position`."""
        self.end_offset = end_offset
        self.bytes += size
        open_bytes = self._open_bytes + size
        if open_bytes <= self._interval_bytes and chunk_position - self.first_positions[-1] <= self._distance_bytes:
            self._open_bytes = open_bytes
            self.last_positions[-1] = chunk_position
            if timestamp_ms > self.max_timestamps[-1]:
                self.max_timestamps[-1] = timestamp_ms
            return
        self._open_bytes = size
        self.base_offsets.append(base_offset)
        self.first_positions.append(chunk_position)
        self.last_positions.append(chunk_position)
        self.max_timestamps.append(timestamp_ms)

    def copy(self) -> "Extents":
        """The same extents, to be read only: it stays as it is when this one grows."""
        same = Extents(self._interval_bytes, self._distance_bytes)
        same.base_offsets = self.base_offsets[:]
        same.first_positions = self.first_positions[:]
        same.last_positions = self.last_positions[:]
        same.max_timestamps = self.max_timestamps[:]
        same.end_offset = self.end_offset
        same.bytes = self.bytes
        return same

    def __len__(self) -> int:
        return len(self.base_offsets)

    def __getitem__(self, number: int) -> Extent:
        return Extent(
            self.base_offsets[number],
            self.first_positions[number],
            self.last_positions[number],
            self.max_timestamps[number],
        )

    def between(self, first: int, end: int) -> list[Extent]:
        """The extents from number `first` to before `end`, those that there are."""
        return list(
            map(
                Extent,
                self.base_offsets[first:end],
                self.first_positions[first:end],
                self.last_positions[first:end],
                self.max_timestamps[first:end],
            )
        )

    @property
    def max_timestamp_ms(self) -> int:
        return max(self.max_timestamps, default=NO_TIMESTAMP)

    def number_for(self, offset: int) -> int:
        """The number of the extent that holds `offset`; the first one if the offset is before all."""
        return max(0, bisect_right(self.base_offsets, offset) - 1)

    def summary(self, partition_id: int) -> Summary:
        first_offset = self.base_offsets[0]
        return Summary(partition_id, len(self), first_offset, self.end_offset, self.bytes, self.max_timestamp_ms)


class SegmentIndex:
    """The extents of every partition in the segment that begins at `base_position`."""

    __slots__ = ("_distance_bytes", "_interval_bytes", "base_position", "extents")

    def __init__(self, base_position: int, interval_bytes: int, distance_bytes: int) -> None:
        self.base_position = base_position
        self.extents: dict[int, Extents] = {}
        self._interval_bytes = interval_bytes
        self._distance_bytes = distance_bytes

    def of(self, partition_id: int) -> Extents:
        """The partition's extents, empty ones to be filled if it is new here."""
        extents = self.extents.get(partition_id)
        if extents is None:
            extents = self.extents[partition_id] = Extents(self._interval_bytes, self._distance_bytes)
        return extents

    def copy(self) -> "SegmentIndex":
        """The index as it is now, to be encoded on another thread."""
        same = SegmentIndex(self.base_position, self._interval_bytes, self._distance_bytes)
        same.extents = {partition_id: extents.copy() for partition_id, extents in self.extents.items()}
        return same

    def summaries(self) -> list[Summary]:
        return [extents.summary(partition_id) for partition_id, extents in self.extents.items()]


def encode_index(index: SegmentIndex, end_position: int) -> bytes:
    """The file content of an index that covers its segment up to `end_position`."""
    summary = b"".join(SUMMARY.pack(*entry) for entry in index.summaries())
    columns = b"".join(_column(column) for extents in index.extents.values() for column in _columns(extents))
    head = _HEAD.pack(crc32c(columns), index.base_position, end_position, len(index.extents))
    return _PREFIX.pack(MAGIC, VERSION, crc32c(summary, crc32c(head))) + head + summary + columns


def parse_summary(content: Buffer) -> tuple[int, list[Summary]]:
    """The end position and the summaries of an index file, whose extents may be missing. Raises CorruptData."""
    _, _, end_position, summaries = _parse_summary(content)
    return end_position, summaries


def parse_index(content: Buffer, interval_bytes: int, distance_bytes: int) -> tuple[int, SegmentIndex]:
    """The end position and the index in a whole index file. Raises CorruptData."""
    extents_crc, base_position, end_position, summaries = _parse_summary(content)
    columns = memoryview(content)[HEADER_BYTES + len(summaries) * SUMMARY.size :]
    if len(columns) != EXTENT_BYTES * sum(entry.extent_count for entry in summaries):
        raise CorruptData("the index has not the size that its summary says")
    if crc32c(columns) != extents_crc:
        raise CorruptData("the extents of the index fail their check")
    index = SegmentIndex(base_position, interval_bytes, distance_bytes)
    at = 0
    for entry in summaries:
        extents = index.of(entry.partition_id)
        extents.end_offset, extents.bytes = entry.end_offset, entry.bytes
        width = entry.extent_count * 8
        for column in _columns(extents):
            column.frombytes(columns[at : at + width])
            if sys.byteorder == "big":
                column.byteswap()
            at += width
    return end_position, index


def _parse_summary(content: Buffer) -> tuple[int, int, int, list[Summary]]:
    """CRC of the extents, base position, end position and summaries."""
    if len(content) < HEADER_BYTES:
        raise CorruptData("the index is shorter than its header")
    magic, version, crc = _PREFIX.unpack_from(content)
    extents_crc, base_position, end_position, count = _HEAD.unpack_from(content, _PREFIX.size)
    summary_end = HEADER_BYTES + count * SUMMARY.size
    if magic != MAGIC or version != VERSION or len(content) < summary_end:
        raise CorruptData("the index is damaged or cut off")
    if crc32c(memoryview(content)[_PREFIX.size : summary_end]) != crc:
        raise CorruptData("the summary of the index fails its check")
    summary = memoryview(content)[HEADER_BYTES:summary_end]
    return extents_crc, base_position, end_position, [Summary(*entry) for entry in SUMMARY.iter_unpack(summary)]


def _columns(extents: Extents) -> Iterator["array[int]"]:
    yield extents.base_offsets
    yield extents.first_positions
    yield extents.last_positions
    yield extents.max_timestamps


def _column(values: "array[int]") -> bytes:
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    return values.tobytes()
