"""One node of an embedded cluster: one life after the other, on the same ports and the same data.

Strategy: as an `EmbeddedNode`, with two more ways to the outside: its session with the coordinator in memory, and the
paths to its peers. A node that is killed loses both at once, and so do its clients. One that is cut off keeps its
clients alone, which is the case in which a leader must not believe that it is one.

All coroutines run on the cluster's loop. Knows nothing of tests.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from time import sleep
from typing import TYPE_CHECKING, Final

from hutong.cluster.coordinator.memory import MemoryEnsemble
from hutong.reactor.accept.reserved_port import ReservedPort
from hutong.server.broker.system_ports import SystemPorts
from hutong.testing.cluster.paths import SwitchedPaths
from hutong.testing.disks.faults import FaultPlan
from hutong.testing.disks.faulty import FaultyDisk
from hutong.testing.disks.memory import MemoryDisk
from hutong.testing.faults.network import NetworkFaults
from hutong.testing.faults.switches import FaultSwitches
from hutong.testing.node.life import Life
from hutong.testing.node.loop_thread import LoopThread
from hutong.testing.node.ports import HOST
from hutong.testing.node.settings import embedded_settings

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from hutong.cluster.coordinator.memory_node import MemoryCoordinator
    from hutong.foundation.clock import Clock
    from hutong.server.configuration.sections.cluster import NodeClusterSettings

COORDINATOR: Final = "memory://embedded"
"""The setting that makes a node one of a cluster. Its coordinator is given by constructor."""


@dataclass(frozen=True, slots=True)
class ClusterPlace:
    """The things that the nodes of a cluster share: loop, coordinator, settings, and a folder."""

    thread: LoopThread
    ensemble: MemoryEnsemble
    flags: Mapping[str, str]
    folder: Path


class ClusterMember:
    """A node of an `EmbeddedCluster`. `number` is its `node.id`; `faults` break it as those of an `EmbeddedNode`."""

    def __init__(self, number: int, others: Collection[int], place: ClusterPlace) -> None:
        self.number = number
        self.is_cut = False
        self._others = others
        self._place = place
        # A slow fault sleeps on the thread that uses the disk, which a slow disk would block as well.
        plan = FaultPlan(sleep=sleep)
        self._plan = plan
        self._disk = FaultyDisk(MemoryDisk(), plan)
        self._network = NetworkFaults(place.thread.loop)
        self.faults = FaultSwitches(lambda work: place.thread.call(lambda: work(self._network)), plan)
        # Kept from one life to the next: clients and peers come back to the same addresses.
        self._kafka_port = ReservedPort()
        self._peer_port = ReservedPort()
        self._paths = SwitchedPaths((), are_open=True)
        self._folder = place.folder / f"node-{number}"
        self._coordinator: MemoryCoordinator | None = None
        self._life: Life | None = None
        self._was_killed = False

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT` of this node; the same for all its lives."""
        return f"{HOST}:{self._kafka_port.number}"

    @property
    def rocketmq(self) -> str | None:
        """`HOST:PORT` for RocketMQ's clients, where the settings open it (`rocketmq.listen`); None while it is down."""
        return None if self._life is None else self._life.rocketmq

    @property
    def http(self) -> str | None:
        """`HOST:PORT` of records over HTTP, where the settings open it (`http.listen`); None while it is down."""
        return None if self._life is None else self._life.http

    @property
    def schema_registry_url(self) -> str | None:
        """`http://HOST:PORT` of the schema registry (`schema_registry.listen`); None while the node is down."""
        address = None if self._life is None else self._life.schema_registry
        return None if address is None else f"http://{address}"

    @property
    def is_running(self) -> bool:
        return self._life is not None

    @property
    def life(self) -> Life | None:
        return self._life

    async def begin(self) -> None:
        """Start unless it runs: return once it knows the cluster's metadata and accepts clients. Raises UsageError."""
        if self._life is not None:
            return
        if self._was_killed:
            # Its session would expire a little later: a test need not wait for that.
            self._place.ensemble.expire(self.number)
        self._was_killed = False
        # A cut is no property of a life: the next one is cut off as well.
        self._paths = SwitchedPaths(self._others, are_open=not self.is_cut)
        ports = SystemPorts(open_coordinator=self._open_coordinator, peer_paths=self._paths)
        flags = {
            **self._place.flags,
            "cluster.coordinator": COORDINATOR,
            "cluster.listen": f"{HOST}:{self._peer_port.number}",
            "node.id": str(self.number),
        }
        settings = embedded_settings(flags, self._kafka_port.number, self._folder)
        life = Life(settings, self._disk, self._network, ports=ports)
        await life.start()
        # Only now: helpers ask nodes that can answer.
        self._life = life

    async def end(self) -> None:
        """Stop if it runs: it leaves the cluster, and the others lead what it led."""
        # Before the wait: helpers turn to the others.
        life, self._life = self._life, None
        if life is not None:
            await life.stop()

    async def die(self) -> None:
        """Be killed if it runs."""
        life, self._life = self._life, None
        if life is None:
            return
        self._was_killed = True
        # Before anything is closed: an orderly farewell would hand over what it leads.
        self._paths.close()
        if self._coordinator is not None:
            self._coordinator.vanish()
        await life.kill()

    def cut(self) -> None:
        """On the loop: take away its peers and the coordinator, and leave it its clients."""
        self.is_cut = True
        self._paths.close()
        self._place.ensemble.suspend(self.number)

    def heal(self) -> None:
        """On the loop: undo `cut`."""
        self.is_cut = False
        self._paths.open()
        self._place.ensemble.resume(self.number)

    def lose_disk(self) -> None:
        """Forget all that this node has stored: its next life begins with an empty disk. It does not run."""
        if self.is_running:
            raise RuntimeError("a node that runs keeps its disk: kill it first")
        self._disk = FaultyDisk(MemoryDisk(), self._plan)
        rmtree(self._folder, ignore_errors=True)

    def put_away(self) -> None:
        """Give its ports back. It runs no more."""
        self._kafka_port.close()
        self._peer_port.close()

    def _open_coordinator(
        self, settings: "NodeClusterSettings", node: int, clock: "Clock", loop: "AbstractEventLoop"
    ) -> "MemoryCoordinator":
        self._coordinator = self._place.ensemble.connect(node, loop.call_soon)
        return self._coordinator
