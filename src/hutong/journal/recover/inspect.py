"""The inspection of a journal that is not open: its files, every chunk with its batches, and all problems.

Strategy: the scan of recovery over all segments instead of the tail; indexes are rebuilt and compared. Damage does not
end an inspection: sound chunks behind it are found and shown too. Each damaged place is either the trace of a crash
(a start cuts it off by itself) or rot (a start refuses the journal, and a person must decide whether to give up that
place). For rot the offsets that a repair would cost are named. An inspection changes nothing;
`hutong.journal.recover.repair` applies its remedies.

Blocks; for command-line tools. The directory must not belong to a running node.
"""

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple

from hutong.foundation.errors import CorruptData, UnknownFormat
from hutong.journal.files.disk import Disk, read_file
from hutong.journal.files.recycled import RECYCLED_SUFFIX
from hutong.journal.files.segment import INDEX_SUFFIX, SEGMENT_SUFFIX, checked_size, select_segments
from hutong.journal.format import chunk
from hutong.journal.format.clean_offsets import CLEAN_OFFSETS_NAME, parse_clean_offsets
from hutong.journal.format.index import SegmentIndex, parse_index, parse_summary
from hutong.journal.read.rebuild import rebuild_index
from hutong.journal.read.walk import WINDOW_BYTES_MAX, SegmentWindow
from hutong.journal.recover.checkpoint import CHECKPOINT_NAME, Checkpoint, parse_checkpoint
from hutong.journal.recover.recovery import SET_ASIDE_SUFFIX
from hutong.journal.recover.resync import search_behind
from hutong.journal.recover.scan import ScannedChunk, damaged_runs, scan_chunks
from hutong.journal.settings import JournalSettings

_BRIDGE_BYTES_MIN: Final = chunk.header_bytes_for(1)


class Remedy(Enum):
    """The action of a repair."""

    RESTORE = "restore the file from a copy; it cannot be repaired"
    READ_PAST = "let consumers seek past it, or delete the records up to its end; a repair changes nothing here"
    CUT = "cut the journal there and set aside what lies behind; the next start would do the same"
    GIVE_UP = "set the damaged bytes aside and go on without them; all that lies behind is kept"
    REBUILD_INDEX = "rebuild the index from its segment"
    REMOVE_CHECKPOINT = "remove the checkpoint, so that the next start reads everything"


WITHOUT_REPAIR: Final = frozenset((Remedy.RESTORE, Remedy.READ_PAST))


class Lost(NamedTuple):
    """Offsets of one log that a repair would give up, at most."""

    partition_id: int
    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class JournalProblem:
    """A problem with its place (`position` in the journal, None for a file that has none) and its remedy.

    A repair gives up `position` to before `end_position`; in a chunk with a sound header only the batches of the
    entries numbered in `entries`.
    """

    path: Path
    position: int | None
    sentence: str
    remedy: Remedy
    end_position: int | None = None
    entries: tuple[int, ...] = ()
    lost: list[Lost] = field(default_factory=list)

    def __str__(self) -> str:
        place = str(self.path) if self.position is None else f"{self.path} at position {self.position}"
        return f"{place}: {self.sentence}. Remedy: {self.remedy.value}."


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment on disk: its chunks go up to `end_position`, the next segment begins at `next_position`.

    Both are the same, except for a cleaned segment; for the newest both are the end of the file.
    """

    path: Path
    base_position: int
    end_position: int
    next_position: int
    file_bytes: int


class FileRow(NamedTuple):
    """One file of a journal: its kind and a summary of its content."""

    name: str
    kind: str
    bytes: int
    content: str


class Inspector:
    """Reads one journal's directory."""

    def __init__(self, disk: Disk, directory: Path, settings: JournalSettings | None = None) -> None:
        self.disk = disk
        self.directory = directory
        self.settings = settings or JournalSettings()

    def files(self) -> list[FileRow]:
        """Every file, by name, without reading the segments. Raises StorageError."""
        segments = {segment.path.name: segment for segment in self.segments()}
        rows = []
        for name in self.disk.list(self.directory):
            with closing(self.disk.open(self.directory / name)) as file:
                rows.append(self._row(name, file.size(), segments.get(name)))
        return rows

    def segments(self) -> list[SegmentFile]:
        """Every segment in order. Raises StorageError."""
        # A start removes the segments that cleaning has replaced, so an inspection leaves them out.
        names, _ = select_segments(self.disk.list(self.directory))
        found = []
        for name, following in zip_longest(names, names[1:]):
            path = self.directory / name.file_name
            with closing(self.disk.open(path)) as file:
                # No writer makes a larger file; one with a hole of a terabyte would be read for hours.
                size = checked_size(path, file.size())
            base = name.base_position
            next_base = name.range_end
            if next_base is None:
                # An ordinary segment ends where the next begins; only a cleaned one states its end.
                next_base = base + size if following is None else following.base_position
            # A cleaned segment covers more positions than it stores bytes.
            end = next_base if name.stored_bytes is None else base + name.stored_bytes
            found.append(SegmentFile(path, base, end, next_base, size))
        return found

    def contents(self) -> Iterator[tuple[SegmentFile, ScannedChunk | JournalProblem]]:
        """Every sound chunk, and between them what is wrong. Raises StorageError."""
        segments = self.segments()
        checkpoint, _ = self.checkpoint()
        for number, segment in enumerate(segments):
            for part in self._parts(segment, segments[number + 1 :], checkpoint.position if checkpoint else 0):
                yield segment, part
                # Everything after an unflushed tear is dropped by a repair, so it is not examined.
                if isinstance(part, JournalProblem) and part.remedy is Remedy.CUT:
                    return

    def checkpoint(self) -> tuple[Checkpoint | None, str | None]:
        """The checkpoint, or what is wrong with it; neither where there is none. Raises StorageError."""
        content = read_file(self.disk, self.directory / CHECKPOINT_NAME)
        if content is None:
            return None, None
        try:
            return parse_checkpoint(content), None
        except CorruptData as error:
            return None, str(error)

    def problems(self) -> list[JournalProblem]:
        """Everything that is wrong, by position; nothing is wrong with an empty directory. Raises StorageError."""
        problems: list[JournalProblem] = []
        ledger = _Ledger()
        ends: dict[Path, int] = {}
        for segment, part in self.contents():
            if isinstance(part, JournalProblem):
                problems.append(part)
                ledger.add_damaged(part)
            else:
                ledger.add_sound(part)
            ends[segment.path] = _end_of(part, ends.get(segment.path, segment.base_position))
        checkpoint, damage = self.checkpoint()
        ledger.settle_ends(checkpoint)
        is_cut = any(problem.remedy is Remedy.CUT for problem in problems)
        damaged = {problem.path for problem in problems}
        segments = self.segments()
        end_position = 0
        for number, segment in enumerate(segments):
            is_last = number + 1 == len(segments)
            end_position = ends.get(segment.path, segment.base_position)
            # The index of a damaged segment is rebuilt by its repair.
            if segment.path not in damaged and not (is_cut and segment.path not in ends):
                problems += self._examine_index(segment, end_position, is_last)
            # Positions are continuous over all segments; a gap is a lost file, which no repair can replace.
            if not is_last and segment.next_position != segments[number + 1].base_position:
                sentence = f"the next segment should begin at position {segment.next_position}: a file is missing"
                problems.append(JournalProblem(segment.path, end_position, sentence, Remedy.RESTORE))
            # The journal continues behind a cleaned segment at the end of its range, not of its bytes.
            if is_last and end_position == segment.end_position:
                end_position = segment.next_position
        return problems + self._examine_checkpoint(checkpoint, damage, segments, end_position)

    def rebuilt(self, segment: SegmentFile, end_position: int) -> SegmentIndex:
        """The segment's index made anew. Raises CorruptData, StorageError."""
        with closing(self.disk.open(segment.path)) as file:
            return rebuild_index(file, segment.base_position, end_position, self.settings)

    def _row(self, name: str, size: int, segment: SegmentFile | None) -> FileRow:
        # Only segments with a place in the journal are in `segments`; replaced ones are named below.
        if segment is not None:
            kind = "segment" if segment.end_position == segment.next_position else "cleaned segment"
            return FileRow(name, kind, size, f"positions {segment.base_position} to {segment.next_position}")
        if name == CHECKPOINT_NAME:
            checkpoint, damage = self.checkpoint()
            if checkpoint is None:
                return FileRow(name, "checkpoint", size, f"damaged: {damage}")
            # A clean checkpoint was written by a stop: the next start scans nothing.
            clean = ", clean" if checkpoint.is_clean else ""
            return FileRow(name, "checkpoint", size, f"{len(checkpoint.logs)} logs at {checkpoint.position}{clean}")
        if name.endswith(INDEX_SUFFIX):
            try:
                end, summaries = parse_summary(read_file(self.disk, self.directory / name) or b"")
            except CorruptData as error:
                return FileRow(name, "index", size, f"damaged: {error}")
            return FileRow(name, "index", size, f"{len(summaries)} logs up to {end}")
        if name == CLEAN_OFFSETS_NAME:
            try:
                known = f"{len(parse_clean_offsets(read_file(self.disk, self.directory / name) or b''))} logs"
            except CorruptData as error:
                known = f"damaged: {error}; compacted logs will be cleaned from their start"
            return FileRow(name, "clean offsets", size, known)
        # A segment that is still here but not in `segments` was replaced by cleaning, and its removal has not come yet.
        kinds = (
            (SET_ASIDE_SUFFIX, "set aside"),
            (SEGMENT_SUFFIX, "replaced segment"),
            (RECYCLED_SUFFIX, "recycled, for a new segment"),
        )
        kind = next((kind for suffix, kind in kinds if name.endswith(suffix)), "left over")
        return FileRow(name, kind, size, "")

    def _parts(
        self, segment: SegmentFile, later: list[SegmentFile], flushed_position: int
    ) -> Iterator[ScannedChunk | JournalProblem]:
        """The sound chunks of one segment, and the problems between them. All before `flushed_position` was flushed."""
        with closing(self.disk.open(segment.path)) as file:
            file_end = min(segment.end_position, segment.base_position + segment.file_bytes)
            window = SegmentWindow(file, segment.base_position, file_end, WINDOW_BYTES_MAX, is_cached_only=False)
            # The newest segment has a blank tail: only the checkpoint says how far it must go.
            is_open = not later and segment.end_position == segment.next_position
            must_end = flushed_position if is_open else segment.end_position
            position: int | None = segment.base_position
            while position is not None:
                position = yield from self._stretch(segment, window, position, must_end, later, flushed_position)

    def _stretch(
        self,
        segment: SegmentFile,
        window: SegmentWindow,
        position: int,
        must_end: int,
        later: list[SegmentFile],
        flushed_position: int,
    ) -> "Generator[ScannedChunk | JournalProblem, None, int | None]":
        """Sound chunks and the damage that ends them; returns where to go on, None at the end."""
        sentence: str | None = None
        try:
            for scanned in scan_chunks(window, position, window.end_position):
                position = scanned.header.end
                yield scanned
        except CorruptData as error:
            sentence = str(error)
        # A newer version's format: not damage, and nothing a repair may touch.
        except UnknownFormat as error:
            yield JournalProblem(segment.path, position, str(error), Remedy.RESTORE)
            return None
        # A sound chunk behind the damage proves that the damage had been flushed: chunks are flushed in order.
        behind = search_behind(window, position, window.end_position, self._windows(later))
        if sentence is None:
            # The end of the segment, no damage.
            if behind.first is None and position >= must_end:
                return None
            sentence = "no chunk begins there, where one should; a file is missing, or this one was cut or blanked"
        # No proof that the place was ever flushed: a torn write, never acknowledged. The next start cuts it by itself.
        if behind.witness is None and flushed_position <= position:
            yield JournalProblem(segment.path, position, sentence, Remedy.CUT)
            return None
        # The place ends at the next sound chunk; without one, where the segment must reach.
        end = must_end if behind.first is None else behind.first.position
        if position < flushed_position < end:
            end = flushed_position  # a chunk begins there, and a start must find one
        problem = self._given_up(segment, window, position, sentence, end)
        yield problem
        # A place that cannot be repaired has no end, and the chain of chunks stops there.
        is_end = problem.end_position is None or problem.end_position >= window.end_position
        return None if is_end else problem.end_position

    def _given_up(
        self, segment: SegmentFile, window: SegmentWindow, position: int, sentence: str, end: int
    ) -> JournalProblem:
        """The least that must be given up at a damaged place that had been flushed."""
        try:
            header = window.chunk_at(position)
            # A chunk that is cut off has no bytes to examine, so it is given up whole.
            entries = tuple(damaged_runs(window, header)) if header.end <= window.end_position else ()
        except CorruptData:
            entries = ()
        # The header is intact, so only the runs whose CRC fails are given up, not the whole chunk.
        if entries:
            runs = list(header.runs())
            lost = [Lost(run.partition_id, run.base_offset, run.end_offset) for run in map(runs.__getitem__, entries)]
            return JournalProblem(segment.path, position, sentence, Remedy.GIVE_UP, header.end, entries, lost)
        # No room for the chunk header that marks a place as given up.
        if end - position < _BRIDGE_BYTES_MIN:
            return JournalProblem(segment.path, position, sentence, Remedy.RESTORE)
        return JournalProblem(segment.path, position, sentence, Remedy.GIVE_UP, end)

    def _windows(self, segments: list[SegmentFile]) -> Iterator[SegmentWindow]:
        for segment in segments:
            with closing(self.disk.open(segment.path)) as file:
                end = segment.base_position + segment.file_bytes
                yield SegmentWindow(file, segment.base_position, end, 0, is_cached_only=False)

    def _examine_index(self, segment: SegmentFile, end_position: int, is_last: bool) -> list[JournalProblem]:
        path = segment.path.with_suffix(INDEX_SUFFIX)
        content = read_file(self.disk, path)
        if content is None:
            # The newest segment gets its index with the next checkpoint.
            return [] if is_last else [JournalProblem(path, None, "the index is missing", Remedy.REBUILD_INDEX)]
        settings = self.settings
        try:
            covered, index = parse_index(content, settings.index_interval_bytes, settings.index_distance_bytes)
        except CorruptData as error:
            return [JournalProblem(path, None, str(error), Remedy.REBUILD_INDEX)]
        if (
            index.base_position != segment.base_position
            or covered > end_position
            or (covered < end_position and not is_last)
        ):
            # The newest segment may be longer than its index, which is written with each checkpoint.
            sentence = f"the index covers the journal up to position {covered}, its segment ends at {end_position}"
            return [JournalProblem(path, None, sentence, Remedy.REBUILD_INDEX)]
        try:
            # An index is derived data: comparing it with a new one finds every fault.
            is_right = self._agrees(index, self.rebuilt(segment, covered))
        except CorruptData:  # it ends in the middle of a chunk
            is_right = False
        if not is_right:
            return [JournalProblem(path, None, "the index does not describe its segment", Remedy.REBUILD_INDEX)]
        return []

    @staticmethod
    def _agrees(index: SegmentIndex, rebuilt: SegmentIndex) -> bool:
        """True if two indexes agree on every partition; the cuts between extents may differ after a restart."""
        found, expected = (
            {entry.partition_id: entry._replace(extent_count=0) for entry in either.summaries()}
            for either in (index, rebuilt)
        )
        return found == expected

    def _examine_checkpoint(
        self, checkpoint: Checkpoint | None, damage: str | None, segments: list[SegmentFile], end_position: int
    ) -> list[JournalProblem]:
        path = self.directory / CHECKPOINT_NAME
        if damage is not None:
            return [JournalProblem(path, None, damage, Remedy.REMOVE_CHECKPOINT)]
        # A journal that was closed before its first append has a checkpoint and no segment.
        if checkpoint is None or (not segments and not checkpoint.position):
            return []
        if not segments:
            sentence = f"everything up to position {checkpoint.position} had been flushed, and there is no segment"
            return [JournalProblem(path, None, sentence, Remedy.RESTORE)]
        # A checkpoint beyond the sound journal would start recovery in the middle of nowhere.
        if not segments[0].base_position <= checkpoint.position <= end_position:
            sentence = f"it speaks of position {checkpoint.position}, the sound journal ends at {end_position}"
            return [JournalProblem(path, None, sentence, Remedy.REMOVE_CHECKPOINT)]
        return []


def _end_of(part: ScannedChunk | JournalProblem, position: int) -> int:
    """The position at which the journal continues behind a part of it."""
    if isinstance(part, ScannedChunk):
        return part.header.end
    return position if part.end_position is None else part.end_position


class _Ledger:
    """The next offsets of each log, to find out what a place without even its header may have held."""

    def __init__(self) -> None:
        self._ends: dict[int, int] = {}
        # Damaged places without a header, and the logs that were seen behind each.
        self._nameless: list[tuple[JournalProblem, set[int]]] = []

    def add_sound(self, scanned: ScannedChunk) -> None:
        for run, _, _ in scanned.runs:
            # The log was deleted; a later log may have its number and start at 0 again.
            if run.kind == chunk.DELETED:
                self._ends.pop(run.partition_id, None)
            # A statement about a start names no offsets that were there; one about lost batches does.
            elif run.kind == chunk.BATCHES or run.offset_count:
                self._seen(run.partition_id, run.base_offset)
                self._ends[run.partition_id] = run.end_offset

    def add_damaged(self, problem: JournalProblem) -> None:
        if problem.entries:
            # The header is intact, so the offsets of the lost runs are known.
            for lost in problem.lost:
                self._seen(lost.partition_id, lost.first_offset)
                self._ends[lost.partition_id] = lost.end_offset
        # Without a header the logs of the lost runs are unknown: later offsets of each log show its gap.
        elif problem.remedy is Remedy.GIVE_UP:
            self._nameless.append((problem, set()))

    def settle_ends(self, checkpoint: Checkpoint | None) -> None:
        """Settle the ends after the last chunk: the checkpoint decides the end of a log, and its start."""
        if checkpoint is None:
            return
        for partition_id, log in checkpoint.logs.items():
            # A log that ends in the damaged place has no later run; its checkpointed end shows the loss.
            self._seen(partition_id, log.end_offset)
        for problem, _ in self._nameless:
            logs = checkpoint.logs
            kept = [
                lost._replace(first_offset=max(lost.first_offset, logs[lost.partition_id].start_offset))
                for lost in problem.lost
                # Offsets below a log's start were deleted by retention, and are no loss.
                if lost.partition_id in logs
            ]
            problem.lost[:] = [lost for lost in kept if lost.first_offset < lost.end_offset]

    def _seen(self, partition_id: int, offset: int) -> None:
        """Note the log's next offset; damaged places since its last end may have held the offsets in between."""
        end = self._ends.get(partition_id, 0)
        for problem, seen in self._nameless:
            # Only the first run after the place shows its gap.
            if partition_id not in seen:
                seen.add(partition_id)
                # Without a gap the log lost nothing there.
                if offset > end:
                    problem.lost.append(Lost(partition_id, end, offset))
