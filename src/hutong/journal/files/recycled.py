"""Files of dead segments that wait for new ones, as PostgreSQL recycles its WAL.

Strategy: a write to blocks that were written before changes no metadata, so a flush takes about 0.6 of the time of one
into new blocks. Dead files are therefore renamed instead of removed, up to a bound, and a new segment overwrites one.

Its stale bytes are never taken for chunks of the new segment:

- Each chunk names its own position. Positions only rise, and a file is recycled only in the process that wrote or
  removed it, so every stale chunk names a position before the new segment.
- The header of a chunk has a digest of its batches, so a torn write in front of stale batches is noticed.
- Every flush ends with a blank header, so the end of the journal reads as that of a new file does.
- Every start removes the files that wait, and cuts the newest segment behind its last chunk.

All calls come on the loop.
"""

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hutong.journal.files.segment import Segment
from hutong.journal.format import chunk
from hutong.journal.settings import JournalSettings

RECYCLED_SUFFIX: Final = ".recycled.tmp"  # a start, also of an earlier version, removes every file that ends in ".tmp"


class RecycledFiles:
    """The files of one journal that may be overwritten. Figures: their number, and how many became segments."""

    def __init__(self, settings: JournalSettings) -> None:
        self.reused_total = 0
        self._files_max = settings.recycled_bytes_max // settings.segment_bytes
        self._paths: deque[Path] = deque()

    def __len__(self) -> int:
        return len(self._paths)

    @property
    def room(self) -> int:
        """The number of files that may still be added."""
        return max(0, self._files_max - len(self._paths))

    def add(self, paths: Sequence[Path]) -> Sequence[Path]:
        """Add files whose names are durable: a crash must not give them back the name of a segment.

        Returns those for which there is no room, to be removed.
        """
        room = self.room  # another removal may have taken it while this one was on its worker
        self._paths += paths[:room]
        return paths[room:]

    def take(self) -> Path | None:
        """Take out a file to overwrite, None if none waits. The newest first: its pages are likely still in memory."""
        return self._paths.pop() if self._paths else None

    def take_all(self) -> list[Path]:
        """Take out all files, to remove them."""
        paths, self._paths = list(self._paths), deque()
        return paths


def recycled_path(segment: Segment) -> Path:
    """The path of a dead segment's file while it waits. No two segments ever have one name."""
    return segment.path.with_name(segment.path.name + RECYCLED_SUFFIX)


def is_worth_recycling(segment: Segment, settings: JournalSettings) -> bool:
    """True unless the segment was closed early: most of the next one would go into new blocks anyway."""
    if segment.end_position is None:
        return False
    # A batch larger than a segment has one of its own, which would take more space than the bound allows.
    return settings.segment_bytes // 2 <= segment.end_position - segment.base_position <= settings.segment_bytes


def blank_bytes(end: int, stale_end: int, settings: JournalSettings) -> int:
    """The number of bytes to blank behind `end` in a file with stale bytes up to `stale_end`.

    A blank header ends the journal for a scan. The rest of its block is blank too: the kernel must read a block that is
    written in part, which takes longer than the flush gains.
    """
    blank_end = end + chunk.FIXED.size
    blank_end += -blank_end % settings.block_bytes
    return max(0, min(blank_end, stale_end) - end)
