"""Cutting the end of a journal that is not open: what another leader never had.

Strategy: whole segments first, newest first, then the end of the last one that stays. After a crash in between, the
journal ends somewhere behind the place, and is cut again. Nothing before the last checkpoint is ever cut, because that
speaks only of what is committed.

Blocks: for a worker.
"""

from contextlib import closing, suppress
from pathlib import Path

from hutong.foundation.errors import CorruptData
from hutong.journal.files.disk import Disk, read_file
from hutong.journal.files.segment import Segment, select_segments
from hutong.journal.recover.checkpoint import CHECKPOINT_NAME, parse_checkpoint


def truncate_journal(disk: Disk, directory: Path, position: int) -> None:
    """Remove everything from `position` on, where a chunk begins or the journal ends.

    Raises CorruptData where that would take what is committed, and other StorageErrors. Then nothing is changed, or the
    journal ends behind the place.
    """
    content = read_file(disk, directory / CHECKPOINT_NAME)
    committed_position = 0
    # A damaged one proves nothing: who leads has everything that is committed in any case.
    with suppress(CorruptData):
        committed_position = parse_checkpoint(content).position if content is not None else 0
    names, _ = select_segments(disk.list(directory))
    segments = [Segment.named(directory, name) for name in names]
    kept = [segment for segment in segments if segment.base_position < position]
    if position < committed_position or (kept and (kept[-1].range_end or 0) > position):
        raise CorruptData(f"{directory}: everything up to position {committed_position} is committed, not {position}")
    for segment in reversed(segments[len(kept) :]):
        disk.unlink(segment.path)
        disk.unlink(segment.index_path)
        # One after the other: a crash must not keep a later one and lose one before it.
        disk.sync_directory(directory)
    if kept and kept[-1].range_end is None:
        last = kept[-1]
        with closing(disk.open(last.path)) as file:
            # A file that is shorter has lost its end in a crash, and recovery cuts it where it is sound.
            if file.size() > position - last.base_position:
                file.truncate(position - last.base_position)
                file.flush()
