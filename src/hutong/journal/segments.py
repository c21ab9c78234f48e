"""The segments of one journal: files that tile the position space, named by where they begin.

Strategy: the writer rolls by arithmetic alone; the file behind a new segment is made later, by whoever first writes to
it, on a worker. A file is reserved ahead of the writer in steps (a flush into reserved blocks is faster than one that
grows the file) and cut to its exact size once the segment is closed, so that only the newest file has a blank tail.

Knows nothing of chunks. `file` and `allocated_bytes` of a segment belong to the flush in flight; everything else to
the loop.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final

from hutong.foundation.errors import StorageError
from hutong.journal.disk import DiskFile
from hutong.journal.index import SegmentIndex
from hutong.journal.settings import JournalSettings

SEGMENT_SUFFIX: Final = ".journal"
INDEX_SUFFIX: Final = ".index"
PREPARED_NAME: Final = "next.prepared"
_DIGITS: Final = 20


def segment_name(base_position: int) -> str:
    return f"{base_position:0{_DIGITS}d}{SEGMENT_SUFFIX}"


def index_name(base_position: int) -> str:
    return f"{base_position:0{_DIGITS}d}{INDEX_SUFFIX}"


def base_position_of(name: str) -> int | None:
    """The base position in a segment's or an index's name, None for any other file."""
    stem, dot, suffix = name.rpartition(".")
    if dot + suffix not in (SEGMENT_SUFFIX, INDEX_SUFFIX) or len(stem) != _DIGITS or not stem.isdecimal():
        return None
    return int(stem)


class Segment:
    """One file of the journal, positions `base_position` to before `end_position` (None while it is written)."""

    __slots__ = ("allocated_bytes", "base_position", "end_position", "file", "index", "is_doomed", "path", "readers")

    def __init__(self, base_position: int, path: Path, end_position: int | None = None) -> None:
        self.base_position = base_position
        self.end_position = end_position
        self.path = path
        self.file: DiskFile | None = None
        self.allocated_bytes = 0
        self.index: SegmentIndex | None = None  # always there for the active one, loaded on demand for others
        self.readers = 0  # cold reads in flight; the file stays open for them even when the segment is deleted
        self.is_doomed = False

    @property
    def index_path(self) -> Path:
        return self.path.with_name(index_name(self.base_position))

    def close_file(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


class Segments:
    """All segments in order, the last one active (being written)."""

    def __init__(self, directory: Path, settings: JournalSettings) -> None:
        self.directory = directory
        self._settings = settings
        self.on_closed: Callable[[Segment], None] = lambda _segment: None
        self._segments: list[Segment] = []
        self._bases: list[int] = []
        self._loaded: OrderedDict[int, Segment] = OrderedDict()  # closed ones with an index in memory, by last use
        self._opened: OrderedDict[int, Segment] = OrderedDict()  # closed ones with an open file, by last use

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def active(self) -> Segment | None:
        return self._segments[-1] if self._segments else None

    @property
    def active_index(self) -> SegmentIndex:
        index = self._segments[-1].index
        assert index is not None, "the active segment always has its index in memory"
        return index

    @property
    def oldest(self) -> Segment | None:
        return self._segments[0] if self._segments else None

    def all(self) -> list[Segment]:
        return list(self._segments)

    def add(self, segment: Segment) -> None:
        """Take in a segment that begins where the newest one ends."""
        self._segments.append(segment)
        self._bases.append(segment.base_position)

    def roll(self, position: int) -> Segment:
        """Close the active segment at `position` and begin the next one there."""
        closed = self.active
        if closed is not None:
            closed.end_position = position
            self._remember(self._loaded, closed)
            self._remember(self._opened, closed)
            self.on_closed(closed)
        segment = Segment(position, self.directory / segment_name(position))
        segment.index = SegmentIndex(position, self._settings.index_interval_bytes, self._settings.index_distance_bytes)
        self.add(segment)
        return segment

    def at(self, position: int) -> Segment:
        """The segment that holds `position`. Raises StorageError if it was deleted."""
        number = bisect_right(self._bases, position) - 1
        if number < 0:
            raise StorageError(f"position {position} of {self.directory} was deleted")
        return self._segments[number]

    def between(self, start: int, end: int) -> list[Segment]:
        """The segments that hold the positions from `start` to before `end`."""
        first = bisect_right(self._bases, start) - 1
        return [segment for segment in self._segments[max(0, first) :] if segment.base_position < end]

    def drop_oldest(self) -> Segment:
        """Take out the oldest segment; its files are the caller's to remove once nobody reads it."""
        segment = self._segments.pop(0)
        del self._bases[0]
        self._loaded.pop(segment.base_position, None)
        self._opened.pop(segment.base_position, None)
        segment.is_doomed = True
        if not segment.readers:
            segment.close_file()
        return segment

    def begin_reading(self, segment: Segment) -> None:
        segment.readers += 1

    def end_reading(self, segment: Segment, file: DiskFile | None, index: SegmentIndex | None) -> None:
        """A cold read is over. `file` and `index` are what it opened or loaded, None where it needed not."""
        segment.readers -= 1
        if file is not None:
            if segment.file is None and not segment.is_doomed:
                segment.file = file
            else:
                file.close()
        if segment.is_doomed:
            if not segment.readers:
                segment.close_file()
        elif segment.end_position is not None:
            segment.index = segment.index or index
            self._keep_recent(segment)

    def close(self) -> None:
        for segment in self._segments:
            segment.close_file()

    def _keep_recent(self, segment: Segment) -> None:
        """Bound the files and indexes of closed segments that are held, least recently read first."""
        if segment.index is not None:
            self._remember(self._loaded, segment)
            while len(self._loaded) > self._settings.indexes_loaded_max:
                self._loaded.popitem(last=False)[1].index = None
        if segment.file is not None:
            self._remember(self._opened, segment)
        surplus = len(self._opened) - self._settings.segments_open_max
        for base in [base for base, opened in self._opened.items() if not opened.readers][: max(0, surplus)]:
            self._opened.pop(base).close_file()

    @staticmethod
    def _remember(used: "OrderedDict[int, Segment]", segment: Segment) -> None:
        used[segment.base_position] = segment
        used.move_to_end(segment.base_position)
