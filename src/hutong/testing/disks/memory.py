"""A disk in memory for nodes that live as long as a test: the journal's disk port, from any number of threads.

Strategy: one lock for names and one for each file, held for the copying alone. What is written is as durable as the
process; reserved space costs nothing until it is written. No faults and no crashes: `FaultyDisk` and `MortalDisk` are
put around it; what power does to unflushed bytes is for `SimDisk`, which is for one thread and keeps them three times.

Knows nothing of journals. Paths are only names.
"""

import errno
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hutong.foundation.errors import FlushFailed
from hutong.journal.files.disk import DiskFile, error_for
from hutong.wire.buffer import Buffer

FREE_BYTES: Final = 2**40  # the answer to every question for free space


class _MemoryFile:
    """One file's bytes. `size` may be beyond the end of `content`: the gap reads as zeros."""

    __slots__ = ("content", "lock", "names", "size")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.content = bytearray()
        self.size = 0
        self.names = 0  # under which it can be found; counted under the disk's lock


class MemoryFile:
    """A handle; any number may be open on one file."""

    __slots__ = ("_node", "_path")

    def __init__(self, node: _MemoryFile, path: Path) -> None:
        self._node = node
        self._path = path

    def write(self, buffers: Sequence[Buffer], position: int) -> None:
        data = b"".join(buffers)
        node = self._node
        with node.lock:
            missing = position - len(node.content)
            if missing > 0:
                node.content.extend(bytes(missing))
            node.content[position : position + len(data)] = data
            node.size = max(node.size, position + len(data))

    def read(self, count: int, position: int) -> Buffer:
        node = self._node
        with node.lock:
            end = min(position + count, node.size)
            return bytes(node.content[position:end]).ljust(max(0, end - position), b"\0")

    def read_into(self, buffer: memoryview, position: int) -> int:
        content = self.read(len(buffer), position)
        buffer[: len(content)] = content
        return len(content)

    def read_cached_into(self, buffer: memoryview, position: int) -> int:
        return self.read_into(buffer, position)

    def flush(self) -> None:
        if not self._node.names:
            raise FlushFailed(f"cannot flush {self._path}: it was removed while it was in use")

    def preallocate(self, position: int, count: int) -> None:
        with self._node.lock:
            self._node.size = max(self._node.size, position + count)

    def truncate(self, size: int) -> None:
        with self._node.lock:
            del self._node.content[size:]
            self._node.size = size

    def size(self) -> int:
        return self._node.size

    def close(self) -> None:
        """Nothing is held."""


class MemoryDisk:
    """The file system: empty when it is made, gone with its last reference."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[Path, _MemoryFile] = {}
        self._directories: set[Path] = set()

    def open(self, path: Path) -> DiskFile:
        with self._lock:
            return MemoryFile(self._found(path, "open"), path)

    def create(self, path: Path) -> DiskFile:
        with self._lock:
            if path.parent not in self._directories:
                raise _absent("create", path)
            node = _MemoryFile()
            self._bind(path, node)
            return MemoryFile(node, path)

    def rename(self, source: Path, target: Path) -> None:
        with self._lock:
            node = self._found(source, "rename")
            if source != target:
                self._bind(target, node)
                self._unbind(source)

    def link(self, source: Path, target: Path) -> None:
        with self._lock:
            self._bind(target, self._found(source, "link"))

    def has_other_names(self, path: Path) -> bool:
        with self._lock:
            return self._found(path, "examine").names > 1

    def unlink(self, path: Path) -> None:
        with self._lock:
            self._unbind(path)

    def list(self, directory: Path) -> list[str]:
        with self._lock:
            return sorted(path.name for path in self._names if path.parent == directory)

    def make_directory(self, path: Path) -> None:
        with self._lock:
            self._directories.update((path, *path.parents))

    def sync_directory(self, path: Path) -> None:
        """Names are as durable as they get."""

    def free_bytes(self, path: Path) -> int:
        return FREE_BYTES

    def _found(self, path: Path, action: str) -> _MemoryFile:
        node = self._names.get(path)
        if node is None:
            raise _absent(action, path)
        return node

    def _bind(self, path: Path, node: _MemoryFile) -> None:
        self._unbind(path)
        self._names[path] = node
        node.names += 1

    def _unbind(self, path: Path) -> None:
        node = self._names.pop(path, None)
        if node is not None:
            node.names -= 1


def _absent(action: str, path: Path) -> Exception:
    return error_for(action, path, OSError(errno.ENOENT, os.strerror(errno.ENOENT)))
