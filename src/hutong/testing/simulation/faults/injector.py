"""Faults carried out: what each kind does to a node, a link, a disk or a clock, and how it is undone.

Strategy: a fault begins at its time and is undone at its end; a node that is down by then is started again. The healer
at the end of the faulty time undoes all that is left, so that the quiet time after it is quiet.
"""

import errno
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from hutong.cluster.coordinator.memory import MemoryEnsemble
from hutong.testing.simulation.faults.aimed_disks import DiskScenes
from hutong.testing.simulation.faults.aimed_leaders import LeaderScenes
from hutong.testing.simulation.faults.aimed_sets import SetScenes
from hutong.testing.simulation.faults.aimed_words import WordScenes
from hutong.testing.simulation.faults.cluster_faults import ClusterFaults
from hutong.testing.simulation.faults.faulty_cluster import FaultyCluster
from hutong.testing.simulation.network.network import SimNetwork
from hutong.testing.simulation.nodes import SimNode
from hutong.testing.simulation.plan.faults import PlannedFault
from hutong.testing.simulation.world import World

RESTART_US: Final = 1_000_000
"""After a start that was refused, and for a node whose disk has failed."""
LATE_US: Final = 20_000_000
"""For so long after all faults a node may still fail of them: the longest pause, then the slowest flush."""
_AIM_US: Final = 1_000_000  # for so long a crash waits for work of the disk
_SLOW_FACTOR_MAX: Final = 2_000
_HOUR_US: Final = 3_600_000_000


class FaultInjector:
    """Of one simulation. `begin` each fault at its time, then `heal` once."""

    def __init__(
        self,
        world: World,
        network: SimNetwork,
        nodes: list[SimNode],
        clients: list[str],
        ensemble: MemoryEnsemble | None = None,
        complain: Callable[[str], None] = lambda _sentence: None,
    ) -> None:
        """`clients` are the names of the clients' hosts; several nodes have the coordinator `ensemble`.

        `complain` takes the sentence of a promise that was broken while a fault lasts.
        """
        self._world = world
        self._network = network
        self._nodes = nodes
        self._clients = clients
        self._is_over = False
        self._begin: dict[str, Callable[[PlannedFault, Random, SimNode], None]] = {
            "kill": self._crash,
            "power": self._crash,
            "stop": self._stop,
            "pause": self._pause,
            "cut": self._cut,
            "cut_one_way": self._cut,
            "slow_link": self._slow_link,
            "reset": self._reset,
            "slow_flush": self._slow_flush,
            "failing_flush": self._failing_flush,
            "failing_write": self._failing_write,
            "failing_read": self._failing_read,
            "full_disk": self._full_disk,
            "cold_cache": self._cold_cache,
            "clock_jump": self._clock_jump,
        }
        self._cluster: FaultyCluster | None = None
        if ensemble is not None:
            self._cluster = FaultyCluster(world, network, nodes, ensemble, self._keep_up, complain)
            for kinds in (ClusterFaults, SetScenes, DiskScenes, LeaderScenes, WordScenes):
                self._begin |= kinds(self._cluster).begin

    def begin(self, fault: PlannedFault) -> None:
        # A plan that was made shorter may still have it: the quiet time is quiet.
        if self._is_over:
            return
        random = Random(fault.number)
        node = random.choice(self._nodes)
        self._world.note("fault", f"{fault.kind} at {node.host.name} for {fault.lasts_us / 1e6:.3f} s")
        self._begin[fault.kind](fault, random, node)
        self._after(fault, lambda: self._world.note("fault", f"{fault.kind} at {node.host.name} is over"))

    def heal(self) -> None:
        """Undo everything, and start every node that is down."""
        self._is_over = True
        self._world.note("fault", "all faults are over")
        if self._cluster is not None:
            self._cluster.heal()
        for node in self._nodes:
            node.disk.plan.heal()
            node.disk.failing_flushes = 0
            node.disk.capacity_bytes = None
            node.disk.is_cached = True
            node.flush_delay_us = 0
            # By an hour and more, batches of clients with the right time would be refused for good.
            node.host.wall_offset_us = 0
            for client in self._clients:
                self._mend(node.host.name, client)
            # Jobs that had begun take effect later: one of them may end a journal after the last fault is over.
            for after_us in range(0, LATE_US + 1, RESTART_US):
                self._world.after(after_us, partial(self._keep_up, node))

    # -- nodes

    def _crash(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        """Now, or amid one of the next jobs for its disk: by chance alone it would hardly ever meet a flush."""
        process = node.host.process

        def crash() -> None:
            if process is node.host.process and not self._is_over:
                node.kill(with_power=fault.kind == "power")
                self._world.after(fault.lasts_us, lambda: self._keep_up(node))

        # One that is down has somebody who starts it already.
        if process is None:
            return
        if random.random() < 0.3:
            crash()
            return
        process.meet_job(random.choice((0, 0, 1, 2)), crash)
        self._world.after(_AIM_US, crash)

    def _stop(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        if node.is_up:
            node.stop()
            self._world.after(fault.lasts_us, lambda: self._keep_up(node))

    def _keep_up(self, node: SimNode) -> None:
        """Start it if it is down, as a supervisor does, until it serves; one whose journal has failed, too."""
        # It serves reads for ever, but no supervisor would leave it at that.
        if node.has_failed_disk:
            node.kill()
        if not node.is_up:
            node.start()
        if not node.is_ready:
            self._world.after(RESTART_US, lambda: self._keep_up(node))

    def _pause(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        node.pause(fault.lasts_us)

    # -- links

    def _cut(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        pair = [node.host.name, random.choice(self._clients)]
        random.shuffle(pair)
        self._network.cut(*pair)
        if fault.kind == "cut":
            self._network.cut(*reversed(pair))
        self._world.after(fault.lasts_us, lambda: self._mend(*pair))

    def _slow_link(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        client, factor = random.choice(self._clients), random.randint(2, _SLOW_FACTOR_MAX)
        self._network.slow_down(node.host.name, client, factor)
        self._network.slow_down(client, node.host.name, factor)
        self._world.after(fault.lasts_us, lambda: self._mend(node.host.name, client))

    def _mend(self, one: str, other: str) -> None:
        self._network.mend(one, other)
        self._network.mend(other, one)

    def _reset(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        """Both ends of some connections get a reset, as from a firewall."""
        for end in [*self._network.connections]:
            if random.random() < 0.5 and not end.is_gone:
                # Each by itself: an end that has lost its connection sends the other nothing, not even a reset.
                for each in (end, end.peer):
                    each.lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    # -- disks

    def _slow_flush(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        node.flush_delay_us = random.choice((10_000, 200_000, 3_000_000))
        self._after(fault, lambda: setattr(node, "flush_delay_us", 0))

    def _failing_flush(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        node.disk.failing_flushes = 1
        # A journal whose flush failed takes no more records: its supervisor starts the node again.
        self._after(fault, lambda: self._keep_up(node))

    def _failing_write(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        """One write fails, after a part of it has reached the file."""
        node.disk.plan.add("write", errno.EIO, times=1, lands_bytes=random.choice((0, 1, 512, 5_000)))
        self._after(fault, lambda: self._keep_up(node))

    def _failing_read(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        """Some reads fail, among them those of a start: then its supervisor tries again."""
        node.disk.is_cached = False
        node.disk.plan.add("read", errno.EIO, after=random.randrange(5), times=random.choice((1, 3, 20)))
        self._after(fault, lambda: setattr(node.disk, "is_cached", True))

    def _full_disk(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        node.disk.capacity_bytes = node.disk.used_bytes + random.choice((0, 1_000, 100_000))
        self._after(fault, lambda: setattr(node.disk, "capacity_bytes", None))

    def _cold_cache(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        node.disk.is_cached = False
        self._after(fault, lambda: setattr(node.disk, "is_cached", True))

    # -- clocks

    def _clock_jump(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        node.host.wall_offset_us += random.choice((-1, 1)) * random.randrange(_HOUR_US)

    def _after(self, fault: PlannedFault, undo: Callable[[], None]) -> None:
        self._world.after(fault.lasts_us, lambda: None if self._is_over else undo())
