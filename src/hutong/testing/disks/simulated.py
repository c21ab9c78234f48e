"""A simulated disk: the journal's disk port in memory, with everything that disks do to data when power goes.

Strategy: each file keeps what a process sees and what the platter holds; the difference is a list of operations since
the last flush. A crash lets some of them through: sizes in order, as a journalling file system keeps them, sectors in
any selection, so that writes are lost, torn and reordered. Names follow the same rule per directory. Nothing happens by
chance: the random source is the caller's.

Faults to arm: a capacity, flipped bits, the power going in the middle of some work (after a number of changes each
further one raises, until `crash`), and by plan what `hutong.testing.disks.faults` can say: errors, half written data,
latency, on any call. A flush that fails loses the bytes, which count as clean afterwards, as in Linux.
`failing_flushes` is short for the plan that most tests want.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from hutong.foundation.errors import DiskFull, FlushFailed, StorageError
from hutong.journal.files.disk import DiskFile
from hutong.testing.disks.faults import DiskFault, FaultPlan, raised_by
from hutong.wire.buffer import Buffer

SECTOR_BYTES: Final = 512


@dataclass(slots=True)
class _SimulatedFile:
    """One file. `pending` leads from `durable` to `content`: (position, bytes) writes, (size, None) size changes."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def apply(self, position: int, data: bytes | None) -> None:
        self.pending.append((position, data))
        _apply(self.content, position, data)

    def settle(self) -> None:
        for position, data in self.pending:
            _apply(self.durable, position, data)
        self.pending.clear()


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    if data is None:
        if position < len(content):
            del content[position:]
        else:
            content.extend(bytes(position - len(content)))
        return
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


class SimFile:
    """A handle. It belongs to one power-on: after a crash it raises, as a dead process's would."""

    def __init__(self, disk: "SimDisk", node: _SimulatedFile, path: Path) -> None:
        self._disk = disk
        self._node = node
        self._path = path
        self._power_on = disk.power_on

    def write(self, buffers: Sequence[Buffer], position: int) -> None:
        self._check()
        data = b"".join(buffers)
        try:
            self._disk._change()
        except StorageError:
            # The process ends in the middle of the first write that fails; after that nothing is written.
            if self._disk.changes_until_power_loss == 0:
                self._node.apply(position, data[: len(data) // 2])
                self._disk.changes_until_power_loss = -1
            raise
        fault = self._disk.plan.strike("write", self._path)
        if fault is not None:
            # A write that fails may have reached the disk in part.
            if fault.lands_bytes:
                self._node.apply(position, data[: fault.lands_bytes])
            raise raised_by(fault, "write", self._path)
        self._disk._claim(self._path, max(0, position + len(data) - len(self._node.content)))
        self._disk.writes_total += 1
        self._node.apply(position, data)

    def read(self, count: int, position: int) -> Buffer:
        self._check("read")
        self._disk.reads_total += 1
        return bytes(self._node.content[position : position + count])

    def read_into(self, buffer: memoryview, position: int) -> int:
        content = self.read(len(buffer), position)
        buffer[: len(content)] = content
        return len(content)

    def read_cached_into(self, buffer: memoryview, position: int) -> int:
        self._check()
        # As `preadv` with RWF_NOWAIT returns nothing where the page is not in memory.
        if not self._disk.is_cached or self._disk.plan.strike("read_cached", self._path) is not None:
            return 0
        content = self._node.content[position : position + len(buffer)]
        buffer[: len(content)] = content
        return len(content)

    def flush(self) -> None:
        self._check()
        self._disk._change()
        self._disk.flushes_total += 1
        fault = self._disk.plan.strike("flush", self._path)
        if fault is not None or self._disk.failing_flushes:
            self._disk.failing_flushes = max(0, self._disk.failing_flushes - 1)
            self._node.pending.clear()  # the kernel marks the pages clean: a second flush would succeed, and lie
            raise raised_by(fault or DiskFault("flush"), "flush", self._path)
        # As the real disk does: bytes of a file without a name are gone after a restart.
        if not self._disk._has_name(self._node):
            raise FlushFailed(f"cannot flush {self._path}: it was removed while it was in use")
        self._node.settle()

    def preallocate(self, position: int, count: int) -> None:
        self._check("preallocate")
        self._disk._change()
        grown = position + count - len(self._node.content)
        if grown > 0:
            self._disk._claim(self._path, grown)
            self._node.apply(position + count, None)

    def truncate(self, size: int) -> None:
        self._check("truncate")
        self._disk._change()
        self._node.apply(size, None)

    def size(self) -> int:
        self._check("size")
        return len(self._node.content)

    def close(self) -> None:
        pass

    def _check(self, operation: str | None = None) -> None:
        if self._power_on != self._disk.power_on:
            raise StorageError(f"{self._path} was opened before the crash")
        if operation is not None:
            self._disk._strike(operation, self._path)


class SimDisk:
    """The file system. Paths are only names; nothing touches the real one."""

    def __init__(self, capacity_bytes: int | None = None, plan: FaultPlan | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self.plan = plan or FaultPlan()
        self.failing_flushes = 0
        self.changes_until_power_loss: int | None = None
        self.is_cached = True
        self.power_on = 0
        self.writes_total = 0
        self.reads_total = 0
        self.flushes_total = 0
        self._names: dict[Path, _SimulatedFile] = {}
        self._durable_names: dict[Path, _SimulatedFile] = {}
        self._pending_names: list[tuple[Path, _SimulatedFile | None]] = []  # in order; None removes the name
        self._directories: set[Path] = set()

    # -- the port

    def open(self, path: Path) -> DiskFile:
        self._strike("open", path)
        if path not in self._names:
            raise StorageError(f"cannot open {path}: No such file or directory")
        return SimFile(self, self._names[path], path)

    def create(self, path: Path) -> DiskFile:
        self._strike("create", path)
        if path.parent not in self._directories:
            raise StorageError(f"cannot create {path}: No such file or directory")
        self._change()
        node = _SimulatedFile()
        self._bind(path, node)
        return SimFile(self, node, path)

    def rename(self, source: Path, target: Path) -> None:
        self._strike("rename", source)
        if source not in self._names:
            raise StorageError(f"cannot rename {source}: No such file or directory")
        self._change()
        self._bind(target, self._names[source])
        self._bind(source, None)

    def link(self, source: Path, target: Path) -> None:
        self._strike("link", source)
        if source not in self._names:
            raise StorageError(f"cannot link {source}: No such file or directory")
        self._change()
        self._bind(target, self._names[source])

    def has_other_names(self, path: Path) -> bool:
        return sum(node is self._names[path] for node in self._names.values()) > 1

    def unlink(self, path: Path) -> None:
        self._strike("unlink", path)
        if path in self._names:
            self._change()
            self._bind(path, None)

    def list(self, directory: Path) -> list[str]:
        self._strike("list", directory)
        return sorted(path.name for path in self._names if path.parent == directory)

    def make_directory(self, path: Path) -> None:
        self._strike("make_directory", path)
        self._directories.update((path, *path.parents))

    def sync_directory(self, path: Path) -> None:
        self._strike("sync_directory", path)
        self._change()
        self.flushes_total += 1
        for name, node in self._pending_names:
            if name.parent == path:
                _bind(self._durable_names, name, node)
        self._pending_names = [change for change in self._pending_names if change[0].parent != path]

    def free_bytes(self, path: Path) -> int:
        self._strike("free_bytes", path)
        return 2**40 if self.capacity_bytes is None else max(0, self.capacity_bytes - self.used_bytes)

    # -- faults

    def crash(self, random: Random) -> None:
        """Power goes and comes back: what was not flushed survives in part, chosen by `random`."""
        self.power_on += 1
        self.changes_until_power_loss = None
        kept = random.randint(0, len(self._pending_names))
        for name, node in self._pending_names[:kept]:
            _bind(self._durable_names, name, node)
        self._pending_names.clear()
        self._names = dict(self._durable_names)
        for node in self._names.values():
            _lose_unflushed(node, random)

    def flip_bit(self, path: Path, position: int, bit: int = 0) -> None:
        """Bit rot, on the platter and in memory."""
        node = self._names[path]
        node.content[position] ^= 1 << bit
        if position < len(node.durable):
            node.durable[position] ^= 1 << bit

    def _strike(self, operation: str, path: Path) -> None:
        fault = self.plan.strike(operation, path)
        if fault is not None:
            raise raised_by(fault, operation, path)

    def _has_name(self, node: _SimulatedFile) -> bool:
        return any(named is node for named in self._names.values())

    def _change(self) -> None:
        if self.changes_until_power_loss is not None:
            if self.changes_until_power_loss <= 0:
                raise StorageError("the power is gone")
            self.changes_until_power_loss -= 1

    @property
    def used_bytes(self) -> int:
        """The sizes of all files."""
        return sum(len(node.content) for node in self._names.values())

    def _claim(self, path: Path, count: int) -> None:
        if count and self.capacity_bytes is not None and self.used_bytes + count > self.capacity_bytes:
            raise DiskFull(f"cannot write {path}: No space left on device")

    def _bind(self, path: Path, node: _SimulatedFile | None) -> None:
        _bind(self._names, path, node)
        self._pending_names.append((path, node))


def _bind(names: dict[Path, _SimulatedFile], path: Path, node: _SimulatedFile | None) -> None:
    if node is None:
        names.pop(path, None)
    else:
        names[path] = node


def _lose_unflushed(node: _SimulatedFile, random: Random) -> None:
    survival = random.choice((0.0, 0.5, 0.9, 1.0))
    sizes_kept = True
    for position, data in node.pending:
        if data is None:
            # In order: once one change of the size is lost, later ones are lost with it.
            sizes_kept = sizes_kept and random.random() < survival
            if sizes_kept:
                _apply(node.durable, position, None)
            continue
        for start, piece in _sectors(position, data):
            if random.random() < survival:
                _apply(node.durable, start, piece)
    node.pending.clear()
    node.content = bytearray(node.durable)


def _sectors(position: int, data: bytes) -> list[tuple[int, bytes]]:
    """The write cut where sectors end: each piece lands whole or not at all."""
    pieces, start = [], 0
    while start < len(data):
        end = min(len(data), start + SECTOR_BYTES - (position + start) % SECTOR_BYTES)
        pieces.append((position + start, data[start:end]))
        start = end
    return pieces
