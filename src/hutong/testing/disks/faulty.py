"""Any disk, with faults by plan: what a journal or a running node is driven with to see it meet them.

Strategy: every call asks the plan first, then goes to the disk inside. A write that fails may land in part, as one does
that runs out of space half way. A flush that fails leaves the bytes where the disk inside has them, neither lost nor
safe, and the next one succeeds and proves nothing: so does Linux (Rebello et al., ATC '20); the simulated disk, which
loses them, has the same plan built in.

For tests. Knows nothing of journals.
"""

from collections.abc import Sequence
from pathlib import Path

from hutong.journal.files.disk import Disk, DiskFile
from hutong.testing.disks.faults import FaultPlan, raised_by
from hutong.wire.buffer import Buffer


class FaultyFile:
    """A file of the disk inside."""

    def __init__(self, inner: DiskFile, path: Path, plan: FaultPlan) -> None:
        self._inner = inner
        self._path = path
        self._plan = plan

    def write(self, buffers: Sequence[Buffer], position: int) -> None:
        fault = self._plan.strike("write", self._path)
        if fault is None:
            self._inner.write(buffers, position)
            return
        if fault.lands_bytes:
            self._inner.write([b"".join(buffers)[: fault.lands_bytes]], position)
        raise raised_by(fault, "write", self._path)

    def read(self, count: int, position: int) -> Buffer:
        self._check("read")
        return self._inner.read(count, position)

    def read_into(self, buffer: memoryview, position: int) -> int:
        self._check("read")
        return self._inner.read_into(buffer, position)

    def read_cached_into(self, buffer: memoryview, position: int) -> int:
        if self._plan.strike("read_cached", self._path) is not None:
            return 0  # a worker is to see what is wrong
        return self._inner.read_cached_into(buffer, position)

    def flush(self) -> None:
        self._check("flush")
        self._inner.flush()

    def preallocate(self, position: int, count: int) -> None:
        self._check("preallocate")
        self._inner.preallocate(position, count)

    def truncate(self, size: int) -> None:
        self._check("truncate")
        self._inner.truncate(size)

    def size(self) -> int:
        self._check("size")
        return self._inner.size()

    def close(self) -> None:
        self._inner.close()

    def _check(self, operation: str) -> None:
        fault = self._plan.strike(operation, self._path)
        if fault is not None:
            raise raised_by(fault, operation, self._path)


class FaultyDisk:
    """A disk around another one."""

    def __init__(self, inner: Disk, plan: FaultPlan) -> None:
        self.plan = plan
        self._inner = inner

    def open(self, path: Path) -> DiskFile:
        self._check("open", path)
        return FaultyFile(self._inner.open(path), path, self.plan)

    def create(self, path: Path) -> DiskFile:
        self._check("create", path)
        return FaultyFile(self._inner.create(path), path, self.plan)

    def rename(self, source: Path, target: Path) -> None:
        self._check("rename", source)
        self._inner.rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        self._check("link", source)
        self._inner.link(source, target)

    def has_other_names(self, path: Path) -> bool:
        return self._inner.has_other_names(path)

    def unlink(self, path: Path) -> None:
        self._check("unlink", path)
        self._inner.unlink(path)

    def list(self, directory: Path) -> list[str]:
        self._check("list", directory)
        return self._inner.list(directory)

    def make_directory(self, path: Path) -> None:
        self._check("make_directory", path)
        self._inner.make_directory(path)

    def sync_directory(self, path: Path) -> None:
        self._check("sync_directory", path)
        self._inner.sync_directory(path)

    def free_bytes(self, path: Path) -> int:
        self._check("free_bytes", path)
        return self._inner.free_bytes(path)

    def _check(self, operation: str, path: Path) -> None:
        fault = self.plan.strike(operation, path)
        if fault is not None:
            raise raised_by(fault, operation, path)
