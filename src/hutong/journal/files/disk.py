"""The disk port: all that the journal asks of a file system, and the real one.

Strategy: positional, blocking calls without hidden state, each either done whole or raising an error of the storage
family; who may block calls them. Errors keep the one distinction that matters: space, open files and memory can come
back (StorageShortage, of which DiskFull is one), a failed flush can not (FlushFailed: the kernel may have marked the
pages clean, Rebello et al., ATC '20), anything else is a StorageError. The tests' simulated disk
(`hutong.testing.disks.simulated`) keeps the same contract and the same test suite.

Knows nothing of journals. Linux is assumed where it is faster, not for correctness: macOS has other calls for some of
these, or none.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, Protocol

from hutong.foundation.errors import DiskFull, FlushFailed, StorageError, StorageShortage
from hutong.wire.buffer import Buffer

with contextlib.suppress(ImportError):  # Windows has none
    import fcntl

IOV_MAX: Final = 1024  # buffers in one pwritev, by POSIX and Linux
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
# Of the process, of the machine, of the kernel: all come back. An fsync that fails with one of them is FlushFailed.
_SHORTAGES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_FILE_MODE: Final = 0o600  # records and credentials are the node's alone
_DIRECTORY_MODE: Final = 0o700
# A link in the folder could let a repair, which root may carry out, write to a file elsewhere.
_OPEN_FLAGS: Final[int] = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)  # neither is Windows's
FILE_BYTES_MAX: Final = 1 << 30  # of an index or a checkpoint, which is read at once
_PROBE_BYTES: Final = 4096
_REMOVED: Final = " (deleted)"  # what Linux adds to the name of an open file that was removed; see proc_pid_fd(5)
_NOWAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)


class DiskFile(Protocol):
    """An open file. Positions count from its beginning."""

    def write(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write all buffers back to back from `position` on. Raises DiskFull, StorageError."""
        ...

    def read(self, count: int, position: int) -> Buffer:
        """Read up to `count` bytes; fewer only at the end of the file. Raises StorageError."""
        ...

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill the buffer; returns how many bytes came, fewer only at the end of the file. Raises StorageError."""
        ...

    def read_cached_into(self, buffer: memoryview, position: int) -> int:
        """As much of it as memory holds from `position` on, perhaps nothing: never waits for the device."""
        ...

    def flush(self) -> None:
        """Make what was written durable. Raises FlushFailed, after which nothing written before can be trusted.

        So does a file whose name was removed: what it holds will not be found again.
        """
        ...

    def preallocate(self, position: int, count: int) -> None:
        """Reserve space, which reads as zeros. Raises DiskFull, StorageError."""
        ...

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def close(self) -> None: ...


class Disk(Protocol):
    """A file system. Names become durable with `sync_directory`, contents with `DiskFile.flush`."""

    def open(self, path: Path) -> DiskFile:
        """Open an existing file to read and write. Raises StorageError."""
        ...

    def create(self, path: Path) -> DiskFile:
        """Make an empty file, in place of any other of that name. Raises DiskFull, StorageError."""
        ...

    def rename(self, source: Path, target: Path) -> None: ...

    def link(self, source: Path, target: Path) -> None:
        """Give a file another name, of which there is none yet: the two are one file. Raises StorageError."""
        ...

    def has_other_names(self, path: Path) -> bool:
        """True for a file with more names than this one."""
        ...

    def unlink(self, path: Path) -> None:
        """Remove a name; none of that name is fine."""
        ...

    def list(self, directory: Path) -> list[str]:
        """File names in order; an absent directory has none."""
        ...

    def make_directory(self, path: Path) -> None:
        """Make it durable with its parents; one that is there already is fine."""
        ...

    def sync_directory(self, path: Path) -> None: ...

    def free_bytes(self, path: Path) -> int: ...


def replace_file(disk: Disk, path: Path, content: Buffer) -> None:
    """Put `content` in the place of `path`; a crash leaves either the old or the new one. Raises StorageError."""
    temporary = path.with_name(path.name + ".tmp")
    with closing(disk.create(temporary)) as file:
        file.write([content], 0)
        file.flush()
    disk.rename(temporary, path)
    disk.sync_directory(path.parent)


def read_file(disk: Disk, path: Path) -> Buffer | None:
    """The whole content, or None if there is no such file. Raises StorageError.

    Of a file that is longer than any that is written (a hole in it may be) only its beginning comes, which no check sum
    takes for the whole.
    """
    # Opening to find out would also fail for other reasons, which must stay errors.
    if path.name not in disk.list(path.parent):
        return None
    with closing(disk.open(path)) as file:
        size = file.size()
        return file.read(size if size <= FILE_BYTES_MAX else _PROBE_BYTES, 0)


@contextmanager
def _translated(action: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise error_for(action, path, error) from error


def error_for(action: str, path: Path, error: OSError) -> StorageError:
    """Translate an error of the operating system: to a StorageShortage, or another StorageError."""
    reason = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
    sentence = f"cannot {action} {path}: {reason}"
    if error.errno in _NO_SPACE:
        return DiskFull(sentence)
    return StorageShortage(sentence) if error.errno in _SHORTAGES else StorageError(sentence)


class RealFile:
    """A file of the operating system."""

    __slots__ = ("_descriptor", "_link", "_path")

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._link = f"/proc/self/fd/{descriptor}"
        self._path = path

    @property
    def descriptor(self) -> int:
        return self._descriptor

    def write(self, buffers: Sequence[Buffer], position: int) -> None:
        with _translated("write", self._path):
            # POSIX takes no more buffers in one call; a flush of many small chunks may have more.
            for start in range(0, len(buffers), IOV_MAX):
                position = self._write_some(buffers[start : start + IOV_MAX], position)

    def _write_some(self, buffers: Sequence[Buffer], position: int) -> int:
        written = os.pwritev(self._descriptor, buffers, position)
        for buffer in buffers:
            if written >= len(buffer):
                written -= len(buffer)
            else:  # a short write: the rest of this buffer and all after it, one by one
                rest = memoryview(buffer)[written:]
                written = 0
                while rest:
                    count = os.pwrite(self._descriptor, rest, position + len(buffer) - len(rest))
                    rest = rest[count:]
            position += len(buffer)
        return position

    def read(self, count: int, position: int) -> Buffer:
        with _translated("read", self._path):
            content = os.pread(self._descriptor, count, position)
            # A read may be shorter than asked; only one without bytes is at the end of the file.
            while 0 < len(content) < count:
                more = os.pread(self._descriptor, count - len(content), position + len(content))
                if not more:
                    break
                content += more
            return content

    def read_into(self, buffer: memoryview, position: int) -> int:
        with _translated("read", self._path):
            got = os.preadv(self._descriptor, [buffer], position)
            while 0 < got < len(buffer):
                more = os.preadv(self._descriptor, [buffer[got:]], position + got)
                if not more:
                    break
                got += more
            return got

    def read_cached_into(self, buffer: memoryview, position: int) -> int:
        # Not Linux: nothing says which pages are in memory, so every read goes to a worker.
        if _NOWAIT is None:
            return 0
        try:
            # The kernel starts to read what it does not hold before it reports so: one page is requested first.
            got = os.preadv(self._descriptor, [buffer[:_PROBE_BYTES]], position, _NOWAIT)
            if got == _PROBE_BYTES < len(buffer):
                got += os.preadv(self._descriptor, [buffer[got:]], position + got, _NOWAIT)
            return got
        except OSError:  # EAGAIN where the device is needed, EOPNOTSUPP where the file system cannot tell
            return 0

    def flush(self) -> None:
        try:
            _flush(self._descriptor)
        except OSError as error:
            raise FlushFailed(f"cannot flush {self._path}: {error.strerror}") from error
        self._check_name()

    def flushed_by_kernel(self, error: int) -> None:
        """As `flush`, after a flush that the kernel was asked for in another way; `error` is its errno, or 0."""
        if error:
            raise FlushFailed(f"cannot flush {self._path}: {os.strerror(error)}")
        self._check_name()

    def _check_name(self) -> None:
        # A file that was removed from a running node would otherwise be missed only at the next start.
        if not self._has_name():
            raise FlushFailed(f"cannot flush {self._path}: it was removed while it was in use")

    def _has_name(self) -> bool:
        try:
            # Not fstat: since Linux 6.13 reading an inode's times makes the next write stamp them anew (multigrain
            # timestamps). On ext4 a write of 300 bytes with its flush took 90 us instead of 140 without it. This takes
            # 1 us, on the loop where the kernel flushes by io_uring.
            return not os.readlink(self._link).endswith(_REMOVED)
        except OSError:  # no /proc here
            return os.fstat(self._descriptor).st_nlink > 0

    def preallocate(self, position: int, count: int) -> None:
        with _translated("reserve space in", self._path):
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._descriptor, position, count)
            # macOS: the file only becomes as long, and a full disk is noticed by the write.
            elif os.fstat(self._descriptor).st_size < position + count:
                os.ftruncate(self._descriptor, position + count)

    def truncate(self, size: int) -> None:
        with _translated("truncate", self._path):
            os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        with _translated("examine", self._path):
            return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        os.close(self._descriptor)


def _flush(descriptor: int) -> None:
    """Make the contents of a file durable. macOS's fsync leaves them in the drive's cache: fsync(2) there."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    elif hasattr(fcntl, "F_FULLFSYNC"):
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def _file(descriptor: int, path: Path) -> RealFile:
    """Open a file without the kernel's read-ahead.

    The kernel does not know how much is wanted, and its reads make flushes wait (measured: p90 of a flush next to one
    reader 10 ms, without read-ahead 4 ms).
    """
    # A pipe or a device under this name would not keep what is written.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise StorageError(f"cannot use {path}: it is not a regular file")
    if hasattr(os, "posix_fadvise"):  # macOS has none
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    return RealFile(descriptor, path)


class RealDisk:
    """The file system of this machine."""

    def open(self, path: Path) -> DiskFile:
        with _translated("open", path):
            return _file(os.open(path, os.O_RDWR | _OPEN_FLAGS), path)

    def create(self, path: Path) -> DiskFile:
        with _translated("create", path):
            return _file(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | _OPEN_FLAGS, _FILE_MODE), path)

    def rename(self, source: Path, target: Path) -> None:
        with _translated("rename", source):
            os.rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        with _translated("link", source):
            os.link(source, target, follow_symlinks=False)

    def has_other_names(self, path: Path) -> bool:
        with _translated("examine", path):
            return path.lstat().st_nlink > 1

    def unlink(self, path: Path) -> None:
        with _translated("remove", path):
            path.unlink(missing_ok=True)

    def list(self, directory: Path) -> list[str]:
        with _translated("list", directory):
            return sorted(os.listdir(directory)) if directory.is_dir() else []

    def make_directory(self, path: Path) -> None:
        if not path.is_dir():
            # Parents first, each synced in its own parent: a crash must not lose a directory with the journal in it.
            if not path.parent.is_dir():
                self.make_directory(path.parent)
            with _translated("create", path):
                path.mkdir(_DIRECTORY_MODE, exist_ok=True)
        # Also of one that is there: who made it may have been killed before this.
        self.sync_directory(path.parent)

    def sync_directory(self, path: Path) -> None:
        with _translated("open", path):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise FlushFailed(f"cannot flush {path}: {error.strerror}") from error
        finally:
            os.close(descriptor)

    def free_bytes(self, path: Path) -> int:
        with _translated("examine", path):
            status = os.statvfs(path)
            return status.f_bavail * status.f_frsize
