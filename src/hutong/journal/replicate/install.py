"""Putting a leader's files in the place of a journal that is not open.

    NAME.part       is being received
    NAME.incoming   was received whole, and is on disk
    install         names the files that are the journal from now on: a start goes on where a crash has stopped

Strategy: everything is received aside, while the old journal stays as it is. Then `install` is written, which decides;
what follows may be repeated. Old segments go, incoming files get their names, and `install` is removed when all of that
is on disk. Indexes are made again by the next start.

Blocks: for a worker.
"""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from hutong.foundation.checksum import crc32c
from hutong.foundation.errors import CorruptData
from hutong.journal.files.disk import Disk, read_file, replace_file
from hutong.journal.files.segment import SEGMENT_SUFFIX, parse_segment_name
from hutong.journal.format.clean_offsets import CLEAN_OFFSETS_NAME
from hutong.journal.recover.checkpoint import CHECKPOINT_NAME
from hutong.journal.recover.recovery import INSTALL_NAME
from hutong.wire.buffer import Buffer

PART_SUFFIX: Final = ".part"
INCOMING_SUFFIX: Final = ".incoming"
SOURCE_NAME: Final = "source" + INCOMING_SUFFIX
"""Names the life of a leader that the incoming files are of: another one has cleaned its segments otherwise."""


def may_be_installed(name: str) -> bool:
    """True for the names that files of a journal have: nothing else is taken from another node."""
    if name in (CHECKPOINT_NAME, CLEAN_OFFSETS_NAME):
        return True
    return name.endswith(SEGMENT_SUFFIX) and parse_segment_name(name) is not None


def prepare_files(disk: Disk, directory: Path, source: int) -> dict[str, int]:
    """Remove what is left of another source, and unfinished parts. Returns the sizes of the files that are complete."""
    path, line = directory / SOURCE_NAME, str(source).encode()
    known = read_file(disk, path)
    is_same = known is not None and bytes(known) == line
    sizes: dict[str, int] = {}
    for name in disk.list(directory):
        if name.endswith(PART_SUFFIX) or (name.endswith(INCOMING_SUFFIX) and not is_same):
            disk.unlink(directory / name)
        elif name.endswith(INCOMING_SUFFIX) and name != SOURCE_NAME:
            with closing(disk.open(directory / name)) as file:
                sizes[name.removesuffix(INCOMING_SUFFIX)] = file.size()
    if not is_same:
        replace_file(disk, path, line)
    # These two are other ones with each list, and small.
    return {name: size for name, size in sizes.items() if name.endswith(SEGMENT_SUFFIX)}


def write_part(disk: Disk, directory: Path, name: str, start: int, content: Buffer, size: int) -> None:
    """Write a part of an incoming file, which is complete at `size`. Raises StorageError."""
    path = directory / (name + PART_SUFFIX)
    with closing(disk.open(path) if start else disk.create(path)) as file:
        if len(content):
            file.write([content], start)
        if start + len(content) < size:
            return
        # Once for the whole file: an unfinished one is received from its beginning again after a crash.
        file.flush()
    disk.rename(path, directory / (name + INCOMING_SUFFIX))
    disk.sync_directory(directory)


def install_files(disk: Disk, directory: Path, sizes: Mapping[str, int]) -> None:
    """Make the incoming files of these names and sizes the journal. Raises StorageError.

    If one is not as it should be, nothing is changed, and it is removed: it will be copied again.
    """
    if not all(_is_complete(disk, directory / (name + INCOMING_SUFFIX), size) for name, size in sizes.items()):
        return
    names = "\n".join(sizes).encode()
    replace_file(disk, directory / INSTALL_NAME, crc32c(names).to_bytes(4, "big") + names)
    finish_install(disk, directory)


def _is_complete(disk: Disk, path: Path, size: int) -> bool:
    if path.name not in disk.list(path.parent):
        return False
    with closing(disk.open(path)) as file:
        is_complete = file.size() == size
    if not is_complete:
        disk.unlink(path)
    return is_complete


def finish_install(disk: Disk, directory: Path) -> None:
    """Do what `install` says, all of it or the rest. Raises StorageError."""
    content = bytes(read_file(disk, directory / INSTALL_NAME) or b"")
    if crc32c(content[4:]).to_bytes(4, "big") != content[:4]:
        raise CorruptData(f"{directory / INSTALL_NAME} fails its check")
    names = set(content[4:].decode().split("\n"))
    found = set(disk.list(directory))
    # Also the indexes of segments that get new content: a start would believe them.
    for name in sorted(found - names):
        if parse_segment_name(name) is not None or may_be_installed(name):
            disk.unlink(directory / name)
    for name in sorted(names):
        if name + INCOMING_SUFFIX in found:
            disk.rename(directory / (name + INCOMING_SUFFIX), directory / name)
    for name in sorted(found):
        if name.endswith(INCOMING_SUFFIX) and name.removesuffix(INCOMING_SUFFIX) not in names:
            disk.unlink(directory / name)
    # In this order: a crash must not keep the removal of the order, and lose what it says.
    disk.sync_directory(directory)
    disk.unlink(directory / INSTALL_NAME)
    disk.sync_directory(directory)
