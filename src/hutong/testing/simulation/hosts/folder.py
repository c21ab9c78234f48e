"""A node's folder in memory: its mark and the time of its last use survive crashes."""

import base64
from collections.abc import Callable
from pathlib import Path

from hutong.foundation.errors import ExitCode, UsageError
from hutong.server.broker.data.data_dir import other_cluster


class SimFolder:
    """The folder of one host. `open` it as a node does; `kill` frees it as the kernel frees locks."""

    def __init__(self, path: Path, now_ms: int) -> None:
        self.path = path
        self.cluster_id = ""
        self.origin = 0  # drawn with the first id
        self.last_used_ms = now_ms
        self.was_new = True
        self._has_groups = False
        self._is_open = False

    def open(self, path: Path, random_bytes: Callable[[int], bytes]) -> "SimFolder":
        """Raises UsageError while another process has it."""
        assert path == self.path
        if self._is_open:
            raise UsageError(f"The data folder {path} is in use by another node.", ExitCode.TEMPFAIL)
        self._is_open = True
        self.was_new = not self._has_groups
        if not self.cluster_id:
            self.origin = int.from_bytes(random_bytes(4), "big") >> 1
            self.cluster_id = base64.urlsafe_b64encode(random_bytes(16)).rstrip(b"=").decode()
        return self

    def join_cluster(self, cluster_id: str) -> None:
        if cluster_id != self.cluster_id and not self.was_new:
            raise other_cluster(self.path, self.cluster_id, cluster_id)
        self.cluster_id = cluster_id

    def note_use(self, now_ms: int) -> None:
        self.last_used_ms = now_ms

    def group_path(self, group: str) -> Path:
        self._has_groups = True
        return self.path / "groups" / group

    def discard(self) -> None:
        """A host keeps its folder."""

    def close(self) -> None:
        self._is_open = False
