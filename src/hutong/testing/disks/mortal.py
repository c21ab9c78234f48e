"""A disk whose process can die: from that moment on no operation reaches it, and none fails.

Strategy: a node that is killed within a living process must leave its files exactly as they were, yet its threads and
sockets must be closed in order. So its disk dies first: what its orderly stop writes afterwards (the mark of a clean
close above all) goes nowhere. A call that a worker has started may still land, as a system call does.

Knows nothing of nodes. One is put around a disk for each life of a node; the disk inside outlives it.
"""

from collections.abc import Sequence
from pathlib import Path

from hutong.journal.files.disk import Disk, DiskFile
from hutong.wire.buffer import Buffer


class _MortalFile:
    """A file of the disk inside; one made after death has nothing inside."""

    __slots__ = ("_disk", "_inner")

    def __init__(self, disk: "MortalDisk", inner: DiskFile | None) -> None:
        self._disk = disk
        self._inner = inner

    def write(self, buffers: Sequence[Buffer], position: int) -> None:
        if self._inner is not None and self._disk.is_alive:
            self._inner.write(buffers, position)

    def read(self, count: int, position: int) -> Buffer:
        return b"" if self._inner is None else self._inner.read(count, position)

    def read_into(self, buffer: memoryview, position: int) -> int:
        return 0 if self._inner is None else self._inner.read_into(buffer, position)

    def read_cached_into(self, buffer: memoryview, position: int) -> int:
        return 0 if self._inner is None else self._inner.read_cached_into(buffer, position)

    def flush(self) -> None:
        if self._inner is not None and self._disk.is_alive:
            self._inner.flush()

    def preallocate(self, position: int, count: int) -> None:
        if self._inner is not None and self._disk.is_alive:
            self._inner.preallocate(position, count)

    def truncate(self, size: int) -> None:
        if self._inner is not None and self._disk.is_alive:
            self._inner.truncate(size)

    def size(self) -> int:
        return 0 if self._inner is None else self._inner.size()

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()


class MortalDisk:
    """A disk around another one, until `die`."""

    def __init__(self, inner: Disk) -> None:
        self.is_alive = True
        self._inner = inner

    def die(self) -> None:
        """Let nothing through any more but reads."""
        self.is_alive = False

    def open(self, path: Path) -> DiskFile:
        return _MortalFile(self, self._inner.open(path))

    def create(self, path: Path) -> DiskFile:
        return _MortalFile(self, self._inner.create(path) if self.is_alive else None)

    def rename(self, source: Path, target: Path) -> None:
        if self.is_alive:
            self._inner.rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        if self.is_alive:
            self._inner.link(source, target)

    def has_other_names(self, path: Path) -> bool:
        return self._inner.has_other_names(path)

    def unlink(self, path: Path) -> None:
        if self.is_alive:
            self._inner.unlink(path)

    def list(self, directory: Path) -> list[str]:
        return self._inner.list(directory)

    def make_directory(self, path: Path) -> None:
        if self.is_alive:
            self._inner.make_directory(path)

    def sync_directory(self, path: Path) -> None:
        if self.is_alive:
            self._inner.sync_directory(path)

    def free_bytes(self, path: Path) -> int:
        return self._inner.free_bytes(path)
