"""Looking into a journal that is not open: every chunk with its batches, and everything that is wrong.

Strategy: the same scan that recovery believes, over all segments instead of the tail, and the same indexes rebuilt and
compared. Looking changes nothing. Repairing does what recovery would do, but only when it is asked to and only what was
reported; bytes that are cut off are set aside in a file of their own.

Blocks; for command-line tools. The directory must not belong to a running node.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from pathlib import Path
from typing import Final

from hutong.foundation.errors import CorruptData
from hutong.journal.checkpoint import CHECKPOINT_NAME, parse_checkpoint
from hutong.journal.disk import Disk, DiskFile, read_file, replace_file
from hutong.journal.index import SegmentIndex, encode_index, parse_index
from hutong.journal.rebuild import rebuild_index
from hutong.journal.recovery import SET_ASIDE_SUFFIX
from hutong.journal.scan import ScannedChunk, scan_chunks
from hutong.journal.segments import INDEX_SUFFIX, select_segments
from hutong.journal.settings import JournalSettings
from hutong.journal.walk import WINDOW_BYTES_MAX, Window

COPY_BYTES: Final = 1024 * 1024


class Remedy(Enum):
    """What a repair would do."""

    RESTORE = "restore the file from a copy; it cannot be repaired"
    CUT = "cut the journal there and set aside what lies behind"
    REBUILD_INDEX = "rebuild the index from its segment"
    REMOVE_CHECKPOINT = "remove the checkpoint, so that the next start reads everything"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong: where (`position` in the journal, None for a file that has none), what, and the remedy."""

    path: Path
    position: int | None
    sentence: str
    remedy: Remedy

    def __str__(self) -> str:
        place = str(self.path) if self.position is None else f"{self.path} at position {self.position}"
        return f"{place}: {self.sentence}. Remedy: {self.remedy.value}."


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment as it lies on disk: its chunks go up to `end_position`, the next segment begins at `next_position`.

    Both are the same but for a cleaned segment, and the end of the file for the newest.
    """

    path: Path
    base_position: int
    end_position: int
    next_position: int
    file_bytes: int


class Inspector:
    """Reads one journal's directory."""

    def __init__(self, disk: Disk, directory: Path, settings: JournalSettings | None = None) -> None:
        self._disk = disk
        self._directory = directory
        self._settings = settings or JournalSettings()

    def segments(self) -> list[SegmentFile]:
        """Every segment in order. Raises StorageError."""
        names, _ = select_segments(self._disk.list(self._directory))
        found = []
        for name, following in zip_longest(names, names[1:]):
            path = self._directory / name.file_name
            file = self._disk.open(path)
            size = file.size()
            file.close()
            base = name.base_position
            next_base = name.range_end
            if next_base is None:
                next_base = base + size if following is None else following.base_position
            end = next_base if name.stored_bytes is None else base + name.stored_bytes
            found.append(SegmentFile(path, base, end, next_base, size))
        return found

    def chunks(self, segment: SegmentFile) -> Iterator[ScannedChunk]:
        """The sound chunks of a segment. Raises CorruptData at the first that is not, StorageError."""
        file = self._disk.open(segment.path)
        try:
            end = min(segment.end_position, segment.base_position + segment.file_bytes)
            window = Window(file, segment.base_position, end, WINDOW_BYTES_MAX, is_cached_only=False)
            yield from scan_chunks(window, segment.base_position, end)
        finally:
            file.close()

    def problems(self) -> list[Problem]:
        """Everything that is wrong, by position; nothing is wrong with an empty directory. Raises StorageError."""
        problems: list[Problem] = []
        segments = self.segments()
        end_position = segments[0].base_position if segments else 0
        for number, segment in enumerate(segments):
            end_position, problem = self._examine(segment, is_last=number + 1 == len(segments))
            if problem is not None:
                problems.append(problem)
            problems += self._examine_index(segment, end_position, is_last=number + 1 == len(segments))
            if number + 1 < len(segments) and segment.next_position != segments[number + 1].base_position:
                sentence = f"the next segment should begin at position {segment.next_position}: a file is missing"
                problems.append(Problem(segment.path, end_position, sentence, Remedy.RESTORE))
            if end_position == segment.end_position:
                end_position = segment.next_position
        return problems + self._examine_checkpoint(segments, end_position)

    def repair(self, problem: Problem) -> str:
        """Apply one problem's remedy; returns a sentence on what was done. Raises StorageError, CorruptData."""
        if problem.remedy is Remedy.REBUILD_INDEX:
            return self._rebuild_index(problem.path)
        if problem.remedy is Remedy.REMOVE_CHECKPOINT:
            self._disk.unlink(problem.path)
            self._disk.sync_directory(self._directory)
            return f"{problem.path} was removed."
        if problem.remedy is Remedy.CUT and problem.position is not None:
            return self._cut(problem.path, problem.position)
        raise CorruptData(f"{problem.path} cannot be repaired: restore it from a copy")

    def _examine(self, segment: SegmentFile, is_last: bool) -> tuple[int, Problem | None]:
        """Where the sound part of a segment ends, and what is wrong there."""
        position = segment.base_position
        try:
            for scanned in self.chunks(segment):
                position = scanned.header.end
        except CorruptData as error:
            return position, Problem(segment.path, position, str(error), Remedy.CUT)
        if is_last or position == segment.end_position:
            return position, None
        missing = segment.end_position - position
        sentence = f"the next segment begins {missing} bytes later: a file is missing, or this one was cut"
        return position, Problem(segment.path, position, sentence, Remedy.RESTORE)

    def _examine_index(self, segment: SegmentFile, end_position: int, is_last: bool) -> list[Problem]:
        path = segment.path.with_suffix(INDEX_SUFFIX)
        content = read_file(self._disk, path)
        if content is None:
            # The newest segment gets its index with the next checkpoint.
            return [] if is_last else [Problem(path, None, "the index is missing", Remedy.REBUILD_INDEX)]
        settings = self._settings
        try:
            covered, index = parse_index(content, settings.index_interval_bytes, settings.index_distance_bytes)
        except CorruptData as error:
            return [Problem(path, None, str(error), Remedy.REBUILD_INDEX)]
        if (
            index.base_position != segment.base_position
            or covered > end_position
            or (covered < end_position and not is_last)
        ):
            sentence = f"the index covers the journal up to position {covered}, its segment ends at {end_position}"
            return [Problem(path, None, sentence, Remedy.REBUILD_INDEX)]
        if not self._agrees(index, self._rebuilt(segment, covered)):
            return [Problem(path, None, "the index does not describe its segment", Remedy.REBUILD_INDEX)]
        return []

    def _rebuilt(self, segment: SegmentFile, end_position: int) -> SegmentIndex:
        file = self._disk.open(segment.path)
        try:
            return rebuild_index(file, segment.base_position, end_position, self._settings)
        finally:
            file.close()

    @staticmethod
    def _agrees(index: SegmentIndex, rebuilt: SegmentIndex) -> bool:
        """Whether two indexes say the same of every partition; where extents are cut may differ after a restart."""
        found, expected = (
            {entry.partition_id: entry._replace(extent_count=0) for entry in either.summaries()}
            for either in (index, rebuilt)
        )
        return found == expected

    def _examine_checkpoint(self, segments: list[SegmentFile], end_position: int) -> list[Problem]:
        path = self._directory / CHECKPOINT_NAME
        content = read_file(self._disk, path)
        if content is None:
            return []
        try:
            checkpoint = parse_checkpoint(content)
        except CorruptData as error:
            return [Problem(path, None, str(error), Remedy.REMOVE_CHECKPOINT)]
        if segments and not segments[0].base_position <= checkpoint.position <= end_position:
            sentence = f"it speaks of position {checkpoint.position}, the sound journal ends at {end_position}"
            return [Problem(path, None, sentence, Remedy.REMOVE_CHECKPOINT)]
        return []

    def _rebuild_index(self, path: Path) -> str:
        segment = next(segment for segment in self.segments() if segment.path.stem == path.stem)
        end_position, _ = self._examine(segment, is_last=True)
        replace_file(self._disk, path, encode_index(self._rebuilt(segment, end_position), end_position))
        return f"{path} was rebuilt up to position {end_position}."

    def _cut(self, path: Path, position: int) -> str:
        segments = self.segments()
        segment = next(segment for segment in segments if segment.path == path)
        file = self._disk.open(path)
        try:
            at = position - segment.base_position
            aside = path.with_name(f"{path.name}.{position}{SET_ASIDE_SUFFIX}")
            self._copy(file, at, segment.file_bytes, aside)
            file.truncate(at)
            file.flush()
        finally:
            file.close()
        behind = [later for later in segments if later.base_position > segment.base_position]
        for later in behind:
            self._disk.rename(later.path, later.path.with_name(later.path.name + SET_ASIDE_SUFFIX))
            self._disk.unlink(later.path.with_suffix(INDEX_SUFFIX))
        self._disk.sync_directory(self._directory)
        set_aside = segment.file_bytes - at + sum(later.file_bytes for later in behind)
        return (
            f"{path} was cut at position {position}; {set_aside} bytes behind it were set aside as *{SET_ASIDE_SUFFIX}."
        )

    def _copy(self, source: DiskFile, start: int, end: int, path: Path) -> None:
        target = self._disk.create(path)
        try:
            for at in range(start, end, COPY_BYTES):
                target.write([source.read(min(COPY_BYTES, end - at), at)], at - start)
            target.flush()
        finally:
            target.close()
