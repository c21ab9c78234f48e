"""One segment of a journal: a file that holds a range of positions, and the name that states the range.

    BASE.journal                        as the writer wrote it: positions from BASE to the next segment's
    BASE-END-BYTES-GENERATION.journal   cleaned: replaces everything from BASE to before END, in fewer bytes
    (the same).index                    the index of that segment

Strategy: a file is reserved ahead of the writer in steps (a flush into reserved blocks is faster than one that grows
the file) and cut to its exact size once the segment is closed, so that only the newest file has a blank tail.

A cleaned segment never takes the name of another. Until the segments that it replaces are removed, both are in the
folder; a start believes the higher generation, which was complete before it got its name.

Knows nothing of chunks. `file` and `allocated_bytes` of a segment belong to the flush in flight; everything else to the
loop.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from hutong.foundation.errors import CorruptData
from hutong.journal.files.disk import DiskFile
from hutong.journal.format.index import SegmentIndex

SEGMENT_SUFFIX: Final = ".journal"
INDEX_SUFFIX: Final = ".index"
PREPARED_NAME: Final = "next.prepared"
FILE_BYTES_MAX: Final = 4 << 30  # `log.segment_bytes` is below 2 GiB, and what is reserved ahead is part of it
_DIGITS: Final = 20
_FIELDS: Final = (1, 4)  # numbers in the name of a segment as written, and of a cleaned one


def checked_size(path: Path, size: int) -> int:
    """The size of a segment's file. Raises CorruptData for one that no writer makes, which would be read for hours."""
    if size > FILE_BYTES_MAX:
        raise CorruptData(f"{path} has {size} bytes, more than any segment: cut it to its size, or restore it")
    return size


class SegmentName(NamedTuple):
    """The parsed name of a segment. `range_end` and `stored_bytes` are None unless it was cleaned."""

    base_position: int
    range_end: int | None = None
    stored_bytes: int | None = None
    generation: int = 0

    @property
    def stem(self) -> str:
        if self.range_end is None:
            return f"{self.base_position:0{_DIGITS}d}"
        return f"{self.base_position:0{_DIGITS}d}-{self.range_end:0{_DIGITS}d}-{self.stored_bytes}-{self.generation}"

    @property
    def file_name(self) -> str:
        return self.stem + SEGMENT_SUFFIX


def segment_name(base_position: int) -> str:
    return SegmentName(base_position).file_name


def parse_segment_name(name: str) -> SegmentName | None:
    """Parse the name of a segment or of an index; None for any other file."""
    stem, dot, suffix = name.rpartition(".")
    fields = stem.split("-")
    if dot + suffix not in (SEGMENT_SUFFIX, INDEX_SUFFIX) or len(fields) not in _FIELDS:
        return None
    if len(fields[0]) != _DIGITS or not all(field.isascii() and field.isdecimal() for field in fields):
        return None
    parsed = SegmentName(*map(int, fields))
    return parsed if parsed.stem == stem else None


def select_segments(names: Iterable[str]) -> tuple[list[SegmentName], list[str]]:
    """The segments among the files of a directory, in order, and the names of those that were replaced.

    A crash before their removal leaves segments that a cleaned one has replaced, or the index of a segment that is
    gone.
    """
    kept: list[SegmentName] = []
    found = {name: parsed for name in names if (parsed := parse_segment_name(name)) is not None}
    segments = {parsed for name, parsed in found.items() if name.endswith(SEGMENT_SUFFIX)}
    for parsed in sorted(segments, key=lambda parsed: -parsed.generation):
        if not any(_replaces(other, parsed) for other in kept):
            kept.append(parsed)
    current = set(kept)
    return sorted(kept), [name for name, parsed in found.items() if parsed not in current]


def _replaces(cleaned: SegmentName, other: SegmentName) -> bool:
    return cleaned.range_end is not None and cleaned.base_position <= other.base_position < cleaned.range_end


class Segment:
    """One file of the journal, positions `base_position` to before `end_position` (None while it is written).

    A cleaned one represents the positions up to `range_end`, where the next one begins, independent of its own size.
    Most often a gap follows it; it may also be a little larger than its sources, for delete horizons need bytes.
    """

    __slots__ = (
        "allocated_bytes",
        "base_position",
        "begun_ms",
        "dead_bytes",
        "end_position",
        "file",
        "generation",
        "held_bytes",
        "index",
        "is_complete",
        "is_doomed",
        "is_replaced",
        "kept_bytes",
        "path",
        "range_end",
        "readers",
        "stale_bytes",
    )

    def __init__(self, base_position: int, path: Path) -> None:
        self.base_position = base_position
        self.end_position: int | None = None
        self.range_end: int | None = None
        self.generation = 0  # how often what is in it was cleaned
        self.held_bytes = 0  # of batches, once it is closed
        self.dead_bytes = 0  # of them, those of logs that were deleted
        self.kept_bytes = 0  # of deleted records that cleaning had to leave: a log ends there, or a producer may repeat
        self.begun_ms: int | None = None  # wall time of its first chunk, where it matters: of the active one
        self.path = path
        self.file: DiskFile | None = None
        self.allocated_bytes = 0
        self.stale_bytes = 0  # of a recycled file: up to here it may hold bytes of its former life
        self.index: SegmentIndex | None = None  # always there for the active one, loaded on demand for others
        self.readers = 0  # disk reads in flight; the file stays open for them even when the segment is deleted
        self.is_complete = False  # flushed, of its exact size and indexed: only readers still use its file
        self.is_doomed = False
        self.is_replaced = False  # doomed because a cleaned one has taken its place

    @classmethod
    def named(cls, directory: Path, name: SegmentName) -> "Segment":
        """The segment of a file's name; only the name of a cleaned one has its end."""
        segment = cls(name.base_position, directory / name.file_name)
        if name.stored_bytes is not None:
            segment.end_position = name.base_position + name.stored_bytes
        segment.range_end, segment.generation = name.range_end, name.generation
        return segment

    @property
    def next_position(self) -> int | None:
        """The base of the next segment, None while this one is written."""
        return self.end_position if self.range_end is None else self.range_end

    @property
    def index_path(self) -> Path:
        return self.path.with_suffix(INDEX_SUFFIX)

    def close_file(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None
