"""Giving another folder the journal of one that is not open: both go on from there, each by itself.

    before the checkpoint    one file with two names: nobody writes there any more
    behind it, and the end   a copy: a start writes there again, and another leader may cut it

Strategy: as files of another replica, all is put aside first and then installed at once (`install.py`), so a crash
leaves a folder without a journal or with the whole one. Copies are bounded by what a recovery scans, so a fork takes
the time of a start, however much the journal holds.

Blocks: for a worker.
"""

from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

from hutong.foundation.errors import CorruptData, StorageError
from hutong.journal.files.disk import Disk, read_file
from hutong.journal.files.segment import Segment, select_segments
from hutong.journal.format.clean_offsets import CLEAN_OFFSETS_NAME
from hutong.journal.recover.checkpoint import CHECKPOINT_NAME, parse_checkpoint
from hutong.journal.recover.recovery import INSTALL_NAME
from hutong.journal.replicate.install import INCOMING_SUFFIX, install_files, may_be_installed

_PIECE_BYTES: Final = 1 << 20


def has_journal(disk: Disk, directory: Path) -> bool:
    """True for a folder with a journal, or with one that a start will finish to install. Raises StorageError."""
    return any(name == INSTALL_NAME or may_be_installed(name) for name in disk.list(directory))


def fork_journal(disk: Disk, source: Path, target: Path) -> None:
    """Put the journal of `source` into `target`, too, unless there is one. Raises StorageError."""
    disk.make_directory(target)
    # A node that was killed after the fork is asked for it again.
    if has_journal(disk, target):
        return
    # A fork that a crash has stopped begins anew: the journal may have gone on.
    for name in disk.list(target):
        disk.unlink(target / name)
    sizes: dict[str, int] = {}
    for path, is_final in _files_of(disk, source):
        incoming = target / (path.name + INCOMING_SUFFIX)
        if not (is_final and _is_linked(disk, path, incoming)):
            _copy(disk, path, incoming)
        with closing(disk.open(path)) as file:
            sizes[path.name] = file.size()
    # Nothing was ever appended there: the fork begins as empty as that.
    if sizes:
        disk.sync_directory(target)
        install_files(disk, target, sizes)


def _files_of(disk: Disk, directory: Path) -> Iterator[tuple[Path, bool]]:
    """The files of a journal; True for those that are only read and removed."""
    names = set(disk.list(directory))
    content = read_file(disk, directory / CHECKPOINT_NAME)
    position = 0
    # A damaged one proves nothing: then all segments are copied.
    with suppress(CorruptData):
        position = 0 if content is None else parse_checkpoint(content).position
    segments = [Segment.named(directory, name) for name in select_segments(names)[0]]
    final = {segment.path for segment, following in pairwise(segments) if following.base_position <= position}
    for segment in segments:
        yield segment.path, segment.path in final
        # An index is replaced as a whole. Without it a start would read the segment.
        if segment.index_path.name in names:
            yield segment.index_path, True
    for name in (CHECKPOINT_NAME, CLEAN_OFFSETS_NAME):
        if name in names:
            yield directory / name, True


def _is_linked(disk: Disk, path: Path, other: Path) -> bool:
    """Give the file another name. False where the file system has no such thing."""
    try:
        disk.link(path, other)
    except StorageError:
        return False
    return True


def _copy(disk: Disk, path: Path, other: Path) -> None:
    with closing(disk.open(path)) as source, closing(disk.create(other)) as target:
        size = source.size()
        for position in range(0, size, _PIECE_BYTES):
            target.write([source.read(min(_PIECE_BYTES, size - position), position)], position)
        target.flush()
