"""A cluster as faults see it: its nodes, the links between them, the coordinator, and how each is broken and mended.

Strategy: what is broken for a time mends itself at its end. The ends of two faults of one link are not told apart: the
first one mends it. Once all faults are over nothing more is broken, and what waits to break something is dropped.
"""

import errno
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import permutations
from random import Random
from typing import Final, TypeAlias

from hutong.cluster.coordinator.memory import MemoryEnsemble
from hutong.testing.simulation.network.network import SimNetwork
from hutong.testing.simulation.nodes import SimNode
from hutong.testing.simulation.plan.faults import PlannedFault
from hutong.testing.simulation.world import World

LOOK_US: Final = 200
Begin = Callable[[PlannedFault, Random, SimNode], None]
Links: TypeAlias = Iterable[tuple[SimNode, SimNode]]
"""Pairs of the one that sends and the one that receives."""


class FaultyCluster:
    """The cluster of one simulation. `is_over` once it is healed."""

    def __init__(
        self,
        world: World,
        network: SimNetwork,
        nodes: Sequence[SimNode],
        ensemble: MemoryEnsemble,
        keep_up: Callable[[SimNode], None],
        complain: Callable[[str], None],
    ) -> None:
        """`keep_up` starts a node that is down; `complain` takes the sentence of a promise that was broken."""
        self.world = world
        self.network = network
        self.nodes = nodes
        self.ensemble = ensemble
        self.keep_up = keep_up
        self.complain = complain
        self.is_over = False

    def heal(self) -> None:
        """Undo everything, but start no node."""
        self.is_over = True
        self.mend(permutations(self.nodes, 2))
        self.ensemble.start()
        for node in self.nodes:
            self.ensemble.resume(node.number)
            if node.host.process is not None:
                node.host.process.resume()

    def others(self, node: SimNode) -> list[SimNode]:
        return [each for each in self.nodes if each is not node]

    def wait_for(self, is_so: Callable[[], bool], then: Callable[[], None], wait_us: int) -> None:
        """Call `then` as soon as it is so, unless that takes too long."""
        if self.is_over:
            return
        if is_so():
            then()
        elif wait_us > 0:
            self.world.after(LOOK_US, lambda: self.wait_for(is_so, then, wait_us - LOOK_US))

    def after(self, delay_us: int, then: Callable[[], None]) -> None:
        """Call it then, unless all faults are over by that time."""
        self.world.after(delay_us, lambda: None if self.is_over else then())

    # -- nodes

    def kill(self, nodes: Iterable[SimNode], lasts_us: int) -> None:
        if self.is_over:
            return
        for node in nodes:
            self.world.note("fault", f"{node.host.name} is killed")
            node.kill()
            self.restart_after(lasts_us, node)

    def restart_after(self, delay_us: int, node: SimNode) -> None:
        self.world.after(delay_us, partial(self.keep_up, node))

    # -- links

    def cut(self, links: Links, lasts_us: int) -> None:
        cut = list(links)
        for source, target in cut:
            self.network.cut(source.host.name, target.host.name)
        self.world.after(lasts_us, lambda: self.mend(cut))

    def slow_down(self, links: Links, factor: int, lasts_us: int) -> None:
        slow = list(links)
        for source, target in slow:
            self.network.slow_down(source.host.name, target.host.name, factor)
        self.world.after(lasts_us, lambda: self.mend(slow))

    def hold(self, links: Links, lasts_us: int) -> None:
        """Keep what is on its way there, until it is mended: nothing is lost, and it arrives at once then."""
        held = list(links)
        for source, target in held:
            self.network.hold(source.host.name, target.host.name)
        self.world.after(lasts_us, lambda: self.mend(held))

    def mend(self, links: Links) -> None:
        for source, target in links:
            self.network.mend(source.host.name, target.host.name)

    def reset_clients(self, random: Random, node: SimNode) -> None:
        """Reset half of the connections that others have made to the node: clients look for their leader anew."""
        for end in [*self.network.connections]:
            if end.peer.process is node.host.process and random.random() < 0.5 and not end.is_gone:
                for each in (end, end.peer):
                    each.lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    # -- the coordinator

    def silence(self, node: SimNode, lasts_us: int) -> None:
        """Let the coordinator hear nothing of the node: its session ends."""
        self.ensemble.suspend(node.number)
        self.world.after(lasts_us, lambda: self.ensemble.resume(node.number))


def between(sources: Iterable[SimNode], targets: Sequence[SimNode]) -> list[tuple[SimNode, SimNode]]:
    """All links from these to those."""
    return [(source, target) for source in sources for target in targets]
