"""The folder that holds everything a node keeps: locked by one node at a time, marked with its format and cluster id.

Strategy: `flock` on the folder itself, which nobody can remove from under it, and on a file inside it, for versions
that know only that; the kernel gives both back however the process ends. A small JSON file with a check sum, written
once and atomically, that a later version can recognise. What is made here is the owner's alone; a folder that is there
already keeps the mode that somebody gave it.

Knows nothing of the contents of the folders below it.
"""

import base64
import contextlib
import errno
import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from hutong.foundation.errors import ExitCode, UsageError

with contextlib.suppress(ImportError):  # Windows has none
    import fcntl

FORMAT: Final = 2  # 2: chunks say how much before them was not flushed
_MARK: Final = "hutong.json"
_LOCK: Final = "hutong.lock"
_MARK_BYTES_MAX: Final = 4096
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


class DataFolder(Protocol):
    """A node's folder, which it alone uses until `close`."""

    @property
    def path(self) -> Path: ...

    @property
    def cluster_id(self) -> str: ...

    @property
    def was_new(self) -> bool:
        """True where no journal was ever in it when it was opened."""
        ...

    @property
    def origin(self) -> int:
        """A number of this disk: another one after the folder was lost. Below 2**31."""
        ...

    def join_cluster(self, cluster_id: str) -> None:
        """Belong to this cluster from now on. Raises UsageError where the folder has records of another one."""
        ...

    @property
    def last_used_ms(self) -> int:
        """The time of the last use that a node noted, or else the time at which the folder was made."""
        ...

    def note_use(self, now_ms: int) -> None:
        """Note a use at that time. If the disk refuses, a later start holds deletions back for longer."""
        ...

    def group_path(self, group: str) -> Path:
        """The folder of a partition group's journal."""
        ...

    def discard(self) -> None:
        """Remove it, if this object made it and nothing is in it. To be called before `close`."""
        ...

    def close(self) -> None:
        """Let another node use it."""
        ...


class DataDir:
    """An open, locked data folder of this machine: see `DataFolder`."""

    def __init__(self, path: Path, random_bytes: Callable[[int], bytes]) -> None:
        """Create it where it is missing, lock it and read its mark. Raises UsageError."""
        # Without a lock two nodes could write the same journals.
        if "fcntl" not in globals():
            raise UsageError(
                "A node keeps its data on Linux or macOS: this system has no locks for its folder. The bus, services "
                "and all clients work without one.",
                ExitCode.UNAVAILABLE,
            )
        self.path = path
        self._locks: list[int] = []
        try:
            self._made = _make_folder(path)
            # Refuse a symbolic link: it could make a command of root create a file elsewhere.
            self._lock(os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _FILE_MODE))
            self._lock(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            self.was_new = not (path / "groups").is_dir()
            self._folder_id = ""  # as long as the folder lasts; at first it is the cluster's id
            self.cluster_id = self._read_mark() or self._write_mark(_new_cluster_id(random_bytes))
        except UsageError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise self._unusable(error) from None

    @property
    def last_used_ms(self) -> int:
        return os.fstat(self._locks[0]).st_mtime_ns // 1_000_000

    def note_use(self, now_ms: int) -> None:
        with contextlib.suppress(OSError):
            os.utime(self._locks[0], ns=(now_ms * 1_000_000, now_ms * 1_000_000))

    def group_path(self, group: str) -> Path:
        return self.path / "groups" / group

    @property
    def origin(self) -> int:
        return zlib.crc32(self._folder_id.encode()) >> 1

    def join_cluster(self, cluster_id: str) -> None:
        if cluster_id == self.cluster_id:
            return
        if not self.was_new:
            raise other_cluster(self.path, self.cluster_id, cluster_id)
        try:
            self.cluster_id = self._write_mark(cluster_id)
        except OSError as error:
            raise self._unusable(error) from None

    def discard(self) -> None:
        if self._made and self._locks:
            from hutong.server.broker.data.unused_folder import remove_unused  # late: after a failed start alone

            remove_unused(self.path, (_MARK, _LOCK), self._made)

    def close(self) -> None:
        while self._locks:
            os.close(self._locks.pop())

    def _lock(self, descriptor: int) -> None:
        self._locks.append(descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            # NFS locks only what is open for writing, which no folder is (flock(2)): there the file alone is locked.
            if error.errno == errno.EWOULDBLOCK or len(self._locks) == 1:
                raise UsageError(
                    f"The data folder {self.path} is in use by another node; stop it, or choose another with "
                    "--data-dir.",
                    ExitCode.TEMPFAIL,
                ) from None

    def _unusable(self, error: OSError) -> UsageError:
        return UsageError(
            f"Cannot use the data folder {self.path}: {error.strerror}; choose another with --data-dir.",
            ExitCode.CANTCREAT,
        )

    def _read_mark(self) -> str | None:
        mark = self.path / _MARK
        try:
            # A pipe in its place would be waited for.
            with open(os.open(mark, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                content = json.loads(file.read(_MARK_BYTES_MAX))
            if content["format"] != FORMAT and _is_sound(content):
                raise UsageError(
                    f"The data folder {self.path} has format {content['format']}, this version reads {FORMAT}; "
                    "use the version that wrote it.",
                    ExitCode.DATAERR,
                )
            cluster_id = str(content["cluster_id"])
            self._folder_id = str(content.get("folder_id", cluster_id))
            if not _is_sound(content):
                raise ValueError("the check sum does not match")
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise UsageError(
                f"{mark} is damaged; restore it, or choose another folder with --data-dir.", ExitCode.DATAERR
            ) from None
        if "crc32" not in content:  # of a version that had no check sum
            with contextlib.suppress(OSError):  # a full disk does not keep a node from starting
                self._write_mark(cluster_id)
        return cluster_id

    def _write_mark(self, cluster_id: str) -> str:
        self._folder_id = self._folder_id or cluster_id
        content: dict[str, Any] = {"format": FORMAT, "cluster_id": cluster_id}
        if self._folder_id != cluster_id:
            content["folder_id"] = self._folder_id
        content["crc32"] = _check_sum(content)
        temporary = self.path / f"{_MARK}.new"
        descriptor = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, _FILE_MODE
        )
        with open(descriptor, "w") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path / _MARK)
        _sync(self.path)
        return cluster_id


def other_cluster(path: Path, own_id: str, cluster_id: str) -> UsageError:
    """The error of a folder that belongs to another cluster."""
    return UsageError(
        f"The data folder {path} belongs to the cluster {own_id}, not to {cluster_id}; choose another with --data-dir, "
        "or name the right cluster with --cluster.",
        ExitCode.CONFIG,
    )


def _new_cluster_id(random_bytes: Callable[[int], bytes]) -> str:
    return base64.urlsafe_b64encode(random_bytes(16)).rstrip(b"=").decode()


def _check_sum(content: dict[str, Any]) -> int:
    return zlib.crc32(f"{content['format']} {content['cluster_id']}".encode())


def _is_sound(content: dict[str, Any]) -> bool:
    """By its check sum; what earlier versions wrote has none, and these two keys alone."""
    if "crc32" in content:
        return bool(content["crc32"] == _check_sum(content))
    return content.keys() == {"format", "cluster_id"}


def _make_folder(path: Path) -> list[Path]:
    """Make it durable with its parents, which have the mode that the process gives. The folders made, it first."""
    made: list[Path] = []
    if not path.is_dir():
        made = _make_parents(path.parent)
        path.mkdir(_FOLDER_MODE, exist_ok=True)
        made.insert(0, path)
    # Also of one that is there: the process that made it may have been killed before this. Where a parent cannot be
    # opened, it was not made by us.
    with contextlib.suppress(PermissionError):
        _sync(path.parent)
    return made


def _make_parents(path: Path) -> list[Path]:
    if path.is_dir():
        return []
    made = _make_parents(path.parent)
    path.mkdir(exist_ok=True)
    _sync(path.parent)
    return [path, *made]


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
