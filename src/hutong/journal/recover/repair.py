"""Repairing a journal that is not open, as far as an inspection has named the remedy.

Strategy: what is taken out of a file is copied to a file of its own first and that copy is flushed, so that nothing is
ever thrown away. A damaged place in the middle becomes a chunk that says so and holds no batches: where the header of
the damaged chunk is sound, only the damaged runs are given up and their offsets stay known; else one chunk bridges the
place. Positions do not move, so everything behind stays in place. Each repair can be done again from the start if
it was interrupted.

Blocks. Decides nothing: the caller names the remedy.
"""

from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from hutong.foundation.errors import CorruptData, StorageError
from hutong.journal.files.disk import Disk, DiskFile, replace_file
from hutong.journal.files.segment import INDEX_SUFFIX
from hutong.journal.format import chunk
from hutong.journal.format.index import encode_index
from hutong.journal.read.walk import WINDOW_BYTES_MIN, SegmentWindow
from hutong.journal.recover.inspect import Inspector, JournalProblem, Remedy, SegmentFile
from hutong.journal.recover.recovery import SET_ASIDE_SUFFIX

COPY_BYTES: Final = 1024 * 1024


def repair(inspector: Inspector, problem: JournalProblem) -> str:
    """Apply one problem's remedy; returns a sentence on what was done. Raises StorageError, CorruptData."""
    disk, directory = inspector.disk, inspector.directory
    if problem.remedy is Remedy.REBUILD_INDEX:
        return _rebuild_index(inspector, problem.path)
    if problem.remedy is Remedy.REMOVE_CHECKPOINT:
        disk.unlink(problem.path)
        disk.sync_directory(directory)
        return f"{problem.path} was removed."
    if problem.remedy is Remedy.READ_PAST:
        raise CorruptData(f"{problem.path} is intact: {problem.remedy.value}")
    if problem.position is None or problem.remedy is Remedy.RESTORE:
        raise CorruptData(f"{problem.path} cannot be repaired: restore it from a copy")
    segments = inspector.segments()
    segment = next(segment for segment in segments if segment.path == problem.path)
    if problem.remedy is Remedy.CUT:
        return _cut(disk, directory, segments, segment, problem.position)
    assert problem.end_position is not None, "what is given up has an end"
    return _give_up(disk, directory, segment, problem.position, problem.end_position, problem.entries)


def _rebuild_index(inspector: Inspector, path: Path) -> str:
    segment = next(segment for segment in inspector.segments() if segment.path.stem == path.stem)
    end_position = segment.base_position
    for of, part in inspector.contents():
        if of.path == segment.path and not isinstance(part, JournalProblem):
            end_position = part.header.end
    replace_file(inspector.disk, path, encode_index(inspector.rebuilt(segment, end_position), end_position))
    return f"{path} was rebuilt up to position {end_position}."


def _give_up(
    disk: Disk, directory: Path, segment: SegmentFile, position: int, end_position: int, entries: tuple[int, ...]
) -> str:
    with closing(disk.open(segment.path)) as file:
        at = position - segment.base_position
        size = file.size()
        aside = _free_path(disk, segment.path, position)
        _copy(disk, file, at, min(end_position - segment.base_position, size), aside)
        disk.sync_directory(directory)
        if entries:
            window = SegmentWindow(file, segment.base_position, end_position, WINDOW_BYTES_MIN, is_cached_only=False)
            damaged = window.chunk_at(position)
            header = chunk.with_lost(window.view(position, damaged.header_bytes), damaged, entries)
        else:
            header = chunk.encode_bridge(position, end_position)
            if end_position - segment.base_position > size:
                file.truncate(end_position - segment.base_position)
        file.write([header], at)
        file.flush()
    disk.unlink(segment.path.with_suffix(INDEX_SUFFIX))
    disk.sync_directory(directory)
    what = "damaged batches" if entries else f"the {end_position - position} bytes"
    return f"{segment.path}: {what} at position {position} were given up; what lay there was set aside as {aside.name}."


def _cut(disk: Disk, directory: Path, segments: list[SegmentFile], segment: SegmentFile, position: int) -> str:
    with closing(disk.open(segment.path)) as file:
        at = position - segment.base_position
        _copy(disk, file, at, segment.file_bytes, _free_path(disk, segment.path, position))
        disk.sync_directory(directory)
        file.truncate(at)
        file.flush()
    behind = [later for later in segments if later.base_position > segment.base_position]
    for later in behind:
        disk.rename(later.path, _free_path(disk, later.path, later.base_position))
        disk.unlink(later.path.with_suffix(INDEX_SUFFIX))
    disk.sync_directory(directory)
    set_aside = segment.file_bytes - at + sum(later.file_bytes for later in behind)
    return (
        f"{segment.path} was cut at position {position}; {set_aside} bytes behind it were set aside as "
        f"*{SET_ASIDE_SUFFIX}."
    )


def _free_path(disk: Disk, path: Path, position: int) -> Path:
    """A free path for a file that is set aside."""
    taken, number = set(disk.list(path.parent)), 0
    while True:
        again = f".{number}" if number else ""
        name = f"{path.name}.{position}{again}{SET_ASIDE_SUFFIX}"
        if name not in taken:
            return path.with_name(name)
        number += 1


def _copy(disk: Disk, source: DiskFile, start: int, end: int, path: Path) -> None:
    with closing(disk.create(path)) as target:
        try:
            for at in range(start, end, COPY_BYTES):
                target.write([source.read(min(COPY_BYTES, end - at), at)], at - start)
            target.flush()
        except StorageError:
            with suppress(StorageError):
                disk.unlink(path)  # half a copy helps nobody, and takes space where there is too little
            raise
