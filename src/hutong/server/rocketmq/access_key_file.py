"""The file of RocketMQ's access keys, read again when it has changed.

Nobody but its owner may read it, since it has secrets. A change that is wrong is logged, and what was there stays.
"""

import logging
import os
import stat
from pathlib import Path
from typing import Final

from hutong.broker.rocketmq.signatures import Signatures
from hutong.foundation.errors import ExitCode, UsageError
from hutong.security.access_keys import AccessKeysWrong, parse_access_keys

BYTES_MAX: Final = 32 << 20
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_log: Final = logging.getLogger("hutong.rocketmq")


class AccessKeyFile:
    """Made with its path, and read at once. Raises UsageError."""

    def __init__(self, path: Path) -> None:
        self.signatures = Signatures()
        self._path = path
        self._version = self._stat()
        self.signatures.secrets = self._read()

    def reload_if_changed(self) -> None:
        """Read the file again if it is another one."""
        try:
            version = self._stat()
            if version == self._version:
                return
            self._version = version
            self.signatures.secrets = self._read()
        except UsageError as error:
            _log.error("access keys stay as they were: %s", error)
        else:
            _log.info("loaded %d access keys anew.", len(self.signatures.secrets))

    def _stat(self) -> tuple[int, int, int]:
        try:
            found = self._path.stat()
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> dict[str, bytes]:
        try:
            # Of the file that is read: another one could be put in its place meanwhile.
            with self._path.open("rb") as file:
                found = file.read(BYTES_MAX + 1)
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & _OTHERS:
                raise self._unusable(f"others may read it (mode {mode:o}): chmod 600")
            if len(found) > BYTES_MAX:
                raise self._unusable(f"it has more than {BYTES_MAX} bytes")
            return parse_access_keys(found.decode())
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from None
        except UnicodeDecodeError:
            raise self._unusable("it is no UTF-8") from None
        except AccessKeysWrong as error:
            raise self._unusable(str(error)) from None

    def _unusable(self, why: str) -> UsageError:
        return UsageError(f"The access keys in {self._path} (rocketmq.access_keys): {why}", ExitCode.CONFIG)
