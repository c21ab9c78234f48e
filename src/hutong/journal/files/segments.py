"""The segments of one journal in order, the newest one being written.

Strategy: the writer rolls by arithmetic alone; the file behind a new segment is made later, on a worker, by the first
flush into it. Files and indexes of closed segments are opened when read and kept within bounds, the least recently
read going first.

Knows nothing of chunks. All calls come on the loop.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from hutong.foundation.errors import StorageError
from hutong.journal.events import JournalEvents
from hutong.journal.files.disk import DiskFile
from hutong.journal.files.segment import Segment, segment_name
from hutong.journal.format.index import SegmentIndex
from hutong.journal.settings import JournalSettings


class Segments:
    """All segments in order, the last one active (being written)."""

    def __init__(self, directory: Path, settings: JournalSettings, events: JournalEvents) -> None:
        self.directory = directory
        self._settings = settings
        self._events = events
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
        """Take in a segment that begins where the newest one ends, the active one or one that recovery found."""
        segment.is_complete = segment.end_position is not None
        self._segments.append(segment)
        self._bases.append(segment.base_position)

    def roll(self, position: int) -> Segment:
        """Close the active segment at `position` and begin the next one there. An empty segment stays.

        Two segments cannot begin at one position: they would have one file name, and the first is removed.
        """
        closed = self.active
        if closed is not None and closed.base_position == position:
            return closed
        # A new journal has no segment before its first chunk.
        if closed is not None:
            closed.end_position = position
            self._remember(self._loaded, closed)
            self._events.segment_closed(closed)
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

    def successor(self, segment: Segment) -> Segment | None:
        """The segment to read instead of one that was replaced by cleaning; None if it was not.

        A cleaned segment without any data may be gone too: then it is the one that follows.
        """
        if not segment.is_replaced:
            return None
        return self._segments[max(0, bisect_right(self._bases, segment.base_position) - 1)]

    def between(self, start: int, end: int) -> list[Segment]:
        """The segments that hold the positions from `start` to before `end`."""
        first = bisect_right(self._bases, start) - 1
        return [segment for segment in self._segments[max(0, first) :] if segment.base_position < end]

    def drop_oldest(self) -> Segment:
        """Take out the oldest segment; `segment_unused` follows once nobody reads it."""
        segment = self._segments.pop(0)
        del self._bases[0]
        self._retire(segment)
        return segment

    def replace(self, replaced: Sequence[Segment], cleaned: Segment) -> None:
        """Replace adjacent segments by a cleaned one."""
        first = self._segments.index(replaced[0])
        last = first + len(replaced)
        assert self._segments[first:last] == list(replaced), "segments that do not follow one another"
        self._segments[first:last] = [cleaned]
        self._bases[first:last] = [cleaned.base_position]
        for segment in replaced:
            segment.is_replaced = True
            self._retire(segment)

    def begin_reading(self, segment: Segment) -> None:
        segment.readers += 1

    def end_reading(self, segment: Segment, file: DiskFile | None, index: SegmentIndex | None) -> None:
        """End a read from the disk. `file` and `index` are those that it opened or loaded, else None."""
        segment.readers -= 1
        if file is not None:
            # Two reads may have opened the file at once: the first one stays, the other is closed.
            if segment.file is None and not segment.is_doomed:
                segment.file = file
            else:
                file.close()
        if segment.is_doomed:
            if not segment.readers:
                segment.close_file()
                self._events.segment_unused(segment)
        elif segment.end_position is not None:
            segment.index = segment.index or index
            self._keep_recent(segment)

    def close(self) -> None:
        for segment in self._segments:
            segment.close_file()

    def _retire(self, segment: Segment) -> None:
        self._loaded.pop(segment.base_position, None)
        self._opened.pop(segment.base_position, None)
        segment.is_doomed = True  # its file is closed, and may be removed, after the last read in flight
        if not segment.readers:
            segment.close_file()
            self._events.segment_unused(segment)

    def _keep_recent(self, segment: Segment) -> None:
        """Bound the files and indexes of closed segments that are held, least recently read first."""
        if segment.index is not None:
            self._remember(self._loaded, segment)
            while len(self._loaded) > self._settings.indexes_loaded_max:
                self._loaded.popitem(last=False)[1].index = None
        if segment.file is not None and segment.is_complete:
            self._remember(self._opened, segment)
        surplus = len(self._opened) - self._settings.segments_open_max
        for base in [base for base, opened in self._opened.items() if not opened.readers][: max(0, surplus)]:
            self._opened.pop(base).close_file()

    @staticmethod
    def _remember(used: "OrderedDict[int, Segment]", segment: Segment) -> None:
        used[segment.base_position] = segment
        used.move_to_end(segment.base_position)
