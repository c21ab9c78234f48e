"""Three nodes and ZooKeeper, each in a network namespace of its own, each node with a small disk of its own.

Strategy: the disk is a tmpfs in memory, so it can be filled and emptied at once. Clients are where the test is.
Knows nothing of clients and of faults. Needs root; skips where that is missing.
"""

import subprocess
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest
from bench.cluster_processes import ClusterProcess
from tests.support.cluster import Cluster
from tests.support.namespaces import Namespaces
from tests.support.zookeeper import make_zookeeper

from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper

NODES: Final = 3
ZOOKEEPER: Final = "zk"
DISK_MIB: Final = 700
_BALLAST_BYTES: Final = 1 << 20


def node_name(number: int) -> str:
    """The namespace of a node."""
    return f"n{number}"


class NetworkCluster(Cluster):
    """`with NetworkCluster(folder) as cluster`; `network` cuts wires, `fill_disk` fills disks."""

    def __init__(self, folder: Path) -> None:
        names = (*map(node_name, range(1, NODES + 1)), ZOOKEEPER)
        self.network = Namespaces(names, str(folder / "wires.log"))
        self._entered = ExitStack()
        secret = folder / "secret"
        secret.write_text("not a secret: the network is this machine's own")
        secret.chmod(0o600)
        # Disks of this size are short of space to begin with, and would get no replicas.
        super().__init__(folder, NODES, {"cluster.secret_file": secret, "cluster.free_bytes_min": 0})

    def make_zookeeper(self, folder: Path) -> DevelopmentZooKeeper:
        return make_zookeeper(folder, self.network.address(ZOOKEEPER), self.network.prefix(ZOOKEEPER))

    def make_node(self, number: int) -> ClusterProcess:
        name = node_name(number)
        arguments: Sequence[str] = [*self.arguments, "--allow-plain", "kafka"]
        place, prefix = self.network.address(name), self.network.prefix(name)
        return ClusterProcess(number, self.folder / f"node-{number}", arguments, host=place, prefix=prefix)

    def fill_disk(self, number: int) -> None:
        """Write until nothing more goes there."""
        with suppress(OSError), self._ballast(number).open("wb", buffering=0) as ballast:
            while True:
                ballast.write(bytes(_BALLAST_BYTES))

    def empty_disk(self, number: int) -> None:
        self._ballast(number).unlink(missing_ok=True)

    def _ballast(self, number: int) -> Path:
        return self._disk(number) / "ballast"

    def _disk(self, number: int) -> Path:
        return self.nodes[number].folder / "disk"

    def __enter__(self) -> Self:
        self._entered.enter_context(self.network)
        for number, node in self.nodes.items():
            self._mount(self._disk(number))
            (self._disk(number) / "data").mkdir()
            node.data.symlink_to(self._disk(number) / "data")
        return super().__enter__()

    def _mount(self, disk: Path) -> None:
        disk.mkdir(parents=True)
        words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(disk)]
        mounted = subprocess.run(words, check=False, capture_output=True, text=True)
        if mounted.returncode:
            self.close()
            pytest.skip(f"no disks of their own here: {mounted.stderr.strip()}")
        self._entered.callback(subprocess.run, ["umount", "--lazy", str(disk)], check=False)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for node in self.nodes.values():
            node.resume()
        super().close()
        self._entered.close()
