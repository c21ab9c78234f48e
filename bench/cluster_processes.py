"""Several nodes as one broker, each a process of its own, and the ZooKeeper by which they find each other.

Strategy: every node keeps its ports and its folder over restarts, so that clients and other nodes find it again. Nodes
that start side by side are waited for in threads, because a node is ready only once enough of them are there.

Knows nothing of clients.
"""

import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.processes import READY_DEADLINE_S, ReadyProcess
from bench.targets import free_port, hutong_command
from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper

HOST: Final = "127.0.0.1"
PATH: Final = "/hutong-test"


class ClusterProcess:
    """One node. `prefix` are words before its command, such as those that run it in a namespace."""

    def __init__(
        self, number: int, folder: Path, arguments: Sequence[str], host: str = HOST, prefix: Sequence[str] = ()
    ) -> None:
        self.number = number
        self.folder = folder
        self.address = f"{host}:{free_port()}"
        self.is_paused = False
        self.process: ReadyProcess | None = None
        own = ["--node-id", str(number), "--cluster-listen", f"{host}:{free_port()}"]
        self._command = [*prefix, *hutong_command(self.data, self.address), *own, *arguments]

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "node.log"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.is_running

    def start(self, deadline_s: float = READY_DEADLINE_S) -> None:
        """Start it (again), and return when it accepts clients. Raises DidNotStart."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.process = ReadyProcess(self._command, log_path=str(self.log)).start(deadline_s)

    def kill(self) -> None:
        """End it as SIGKILL does, paused or not."""
        if self.process is not None:
            self.process.kill()
        self.is_paused = False

    def stop(self) -> int:
        """End it as a service manager does; the exit status."""
        self.resume()
        return 0 if self.process is None else self.process.terminate()

    def pause(self) -> None:
        """Stop its process without ending it (SIGSTOP): nobody hears anything of it."""
        if self.process is not None and self.is_running:
            self.process.send_signal(signal.SIGSTOP)
            self.is_paused = True

    def resume(self) -> None:
        if self.process is not None and self.is_running and self.is_paused:
            self.process.send_signal(signal.SIGCONT)
        self.is_paused = False


class ClusterProcesses:
    """ZooKeeper and nodes 1 to `count`, all running while entered."""

    def __init__(
        self,
        folder: Path,
        count: int = 3,
        settings: Mapping[str, object] | None = None,
        *,
        zookeeper: DevelopmentZooKeeper | None = None,
    ) -> None:
        """`settings` go to every node. Raises UsageError where ZooKeeper or a Java is missing."""
        self.folder = folder
        self.zookeeper = zookeeper or DevelopmentZooKeeper(folder / "zookeeper", os.environ)
        self._arguments = ["--cluster", f"zk://{self.zookeeper.address}{PATH}"]
        for name, value in (settings or {}).items():
            self._arguments += ["--set", f"{name}={value}"]
        self.nodes = {number: self.make_node(number) for number in range(1, count + 1)}

    def make_node(self, number: int) -> ClusterProcess:
        """One more node, not started."""
        return ClusterProcess(number, self.folder / f"node-{number}", self._arguments)

    @property
    def arguments(self) -> Sequence[str]:
        """The arguments that all nodes get."""
        return self._arguments

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.nodes.values())

    def start(self, numbers: Iterable[int] | None = None) -> None:
        """Start these nodes, or all, side by side. Raises DidNotStart."""
        chosen = [self.nodes[number] for number in (self.nodes if numbers is None else numbers)]
        with ThreadPoolExecutor(len(chosen)) as pool:
            for started in [pool.submit(node.start) for node in chosen]:
                started.result()

    def kill(self, numbers: Iterable[int]) -> None:
        """End these nodes at the same moment, as a power failure does."""
        chosen = [self.nodes[number] for number in numbers]
        for node in chosen:
            if node.process is not None and node.is_running:
                node.process.send_signal(signal.SIGKILL)
        for node in chosen:
            node.kill()

    def stop(self) -> None:
        """Stop all nodes at the same time, as service managers do. Raises AssertionError where one fails to."""
        running = [node for node in self.nodes.values() if node.is_running]
        with ThreadPoolExecutor(max(1, len(running))) as pool:
            statuses = list(pool.map(ClusterProcess.stop, running))
        assert not any(statuses), f"exit statuses {statuses}"

    def __enter__(self) -> Self:
        try:
            self.zookeeper.start()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End everything that still runs, at once."""
        self.kill(self.nodes)
        self.zookeeper.stop()
