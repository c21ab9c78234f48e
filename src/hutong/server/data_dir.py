"""The folder that holds everything a node keeps: locked by one node at a time, marked with its format and cluster id.

Strategy: `flock` on a file inside it, which the kernel gives back however the process ends; a small JSON file, written
once and atomically, that a later version can recognise.

Knows nothing of what the rooms keep in their own folders below it.
"""

import base64
import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from hutong.foundation.errors import UsageError

FORMAT: Final = 2  # 2: chunks say how much before them was not flushed
_EXIT_UNAVAILABLE: Final = 75  # sysexits EX_TEMPFAIL: the folder is in use, try again once the other node has stopped
_EXIT_CANNOT_CREATE: Final = 73
_EXIT_DATA: Final = 65
_MARK: Final = "hutong.json"
_LOCK: Final = "hutong.lock"
_MARK_BYTES_MAX: Final = 4096


class DataDir:
    """An open, locked data folder."""

    def __init__(self, path: Path, random_bytes: Callable[[int], bytes]) -> None:
        """Create it where it is missing, lock it and read its mark. Raises UsageError."""
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._unusable(error) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise UsageError(
                f"The data folder {path} is in use by another node; stop it, or choose another with --data-dir.",
                _EXIT_UNAVAILABLE,
            ) from None
        try:
            self.cluster_id = self._read_mark() or self._write_mark(random_bytes)
        except UsageError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise self._unusable(error) from None

    def group_path(self, group: str) -> Path:
        """Where a partition group's journal lives."""
        return self.path / "groups" / group

    def close(self) -> None:
        """Give the lock back."""
        os.close(self._lock)

    def _unusable(self, error: OSError) -> UsageError:
        return UsageError(
            f"Cannot use the data folder {self.path}: {error.strerror}; choose another with --data-dir.",
            _EXIT_CANNOT_CREATE,
        )

    def _read_mark(self) -> str | None:
        mark = self.path / _MARK
        try:
            with mark.open("rb") as file:
                content = json.loads(file.read(_MARK_BYTES_MAX))
            if content["format"] != FORMAT:
                raise UsageError(
                    f"The data folder {self.path} has format {content['format']}, this version reads {FORMAT}; "
                    "use the version that wrote it.",
                    _EXIT_DATA,
                )
            return str(content["cluster_id"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise UsageError(
                f"{mark} is damaged; restore it, or choose another folder with --data-dir.", _EXIT_DATA
            ) from None

    def _write_mark(self, random_bytes: Callable[[int], bytes]) -> str:
        cluster_id = base64.urlsafe_b64encode(random_bytes(16)).rstrip(b"=").decode()
        temporary = self.path / f"{_MARK}.new"
        with temporary.open("w") as file:
            json.dump({"format": FORMAT, "cluster_id": cluster_id}, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path / _MARK)
        return cluster_id
