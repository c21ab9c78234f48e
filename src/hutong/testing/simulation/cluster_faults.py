"""Faults of a cluster: of several nodes at once, of what is between them, and of the coordinator.

Strategy: as other faults, each begins at its time and is undone at its end. The ends of two faults of one link are not
told apart: the first one mends it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import permutations
from random import Random
from typing import Final

from hutong.cluster.coordinator.memory import MemoryEnsemble
from hutong.testing.simulation.network.network import SimNetwork
from hutong.testing.simulation.nodes import SimNode
from hutong.testing.simulation.plan.faults import PlannedFault
from hutong.testing.simulation.world import World

_SLOW_FACTOR_MAX: Final = 500
_CHANGE_US_MAX: Final = 1_000_000  # without a change of a set by then any leader will do
_LOOK_US: Final = 1_000
_KNOWING_US_MAX: Final = 100_000  # that a leader goes on without one of the others
_RESTART_US: Final = 10_000
_ELECTION_US: Final = 2_500_000  # longer than the shortest session
_Links = Iterable[tuple[str, str]]
Begin = Callable[[PlannedFault, Random, SimNode], None]


class ClusterFaults:
    """Of one simulation with several nodes."""

    def __init__(
        self,
        world: World,
        network: SimNetwork,
        nodes: Sequence[SimNode],
        ensemble: MemoryEnsemble,
        keep_up: Callable[[SimNode], None],
    ) -> None:
        """`keep_up` starts a node that is down."""
        self._world = world
        self._network = network
        self._nodes = nodes
        self._ensemble = ensemble
        self._keep_up = keep_up
        self._is_over = False
        self.begin: dict[str, Begin] = {
            "kill_several": self._crash,
            "power_several": self._crash,
            "stop_several": self._stop,
            "pause_several": self._pause,
            "isolate": self._isolate,
            "isolate_one_way": self._isolate_one_way,
            "split": self._split,
            "ring": self._ring,
            "slow_peers": self._slow_peers,
            "cut_coordinator": self._cut_coordinator,
            "coordinator_outage": self._coordinator_outage,
            "lost_session": self._lost_session,
            "lose_leader": self._lose_leader,
            "power_leader_last": self._power_leader_last,
        }

    def heal(self) -> None:
        """Undo everything, but start no node."""
        self._is_over = True
        self._mend(permutations([node.host.name for node in self._nodes], 2))
        self._ensemble.start()
        for node in self._nodes:
            self._ensemble.resume(node.number)
            if node.host.process is not None:
                node.host.process.resume()

    # -- several nodes

    def _victims(self, random: Random) -> list[SimNode]:
        """Two nodes at least, all of them often."""
        count = random.choice((2, len(self._nodes), random.randint(2, len(self._nodes))))
        return random.sample(list(self._nodes), count)

    def _crash(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        for each in self._victims(random):
            each.kill(with_power=fault.kind == "power_several")
            # One may come back long before the others.
            self._restart_after(fault.lasts_us * random.choice((1, 1, 4)), each)

    def _stop(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        for each in self._victims(random):
            if each.is_up:
                each.stop()
                self._restart_after(fault.lasts_us, each)

    def _pause(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        for each in self._victims(random):
            each.pause(fault.lasts_us)

    def _restart_after(self, delay_us: int, node: SimNode) -> None:
        self._world.after(delay_us, lambda: self._keep_up(node))

    # -- leaders

    def _lose_leader(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        """Cut the link of a leader with another node amid a change of its set, and crash it a little later.

        What it acknowledges in between must be known to everybody who may lead next: to those in the changed set, too.
        """
        self._await_change(fault, random, self._world.now_us + _CHANGE_US_MAX)

    def _await_change(self, fault: PlannedFault, random: Random, until_us: int) -> None:
        if self._is_over:
            return
        changing = [each for each in self._nodes if any(group.is_changing_set for group in each.replicas.values())]
        if not changing and self._world.now_us < until_us:
            self._world.after(_LOOK_US, lambda: self._await_change(fault, random, until_us))
            return
        leader = random.choice(changing or list(self._nodes))
        other = random.choice([each for each in self._nodes if each is not leader])
        self._cut(fault, [*_between([leader.host.name], [other.host.name]), (other.host.name, leader.host.name)])
        self._world.after(random.randint(0, _KNOWING_US_MAX), lambda: self._crash_one(fault, random, leader))

    def _crash_one(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        if not self._is_over:
            node.kill(with_power=random.random() < 0.5)
            self._restart_after(fault.lasts_us, node)

    def _power_leader_last(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        """Let all nodes lose their power, and one that leads come back when the others have elected one of them."""
        leading = [each for each in self._nodes if any(group.is_leading for group in each.replicas.values())]
        leader = random.choice(leading or [node])
        for each in self._nodes:
            each.kill(with_power=True)
            self._restart_after(_ELECTION_US if each is leader else _RESTART_US, each)

    # -- links between nodes

    def _isolate(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        """Cut a node off from all others; half of the time also from the coordinator."""
        others = [each.host.name for each in self._nodes if each is not node]
        self._cut(fault, [*_between([node.host.name], others), *_between(others, [node.host.name])])
        if random.random() < 0.5:
            self._cut_coordinator(fault, random, node)

    def _isolate_one_way(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        """Let a node hear nobody, or be heard by nobody."""
        others = [each.host.name for each in self._nodes if each is not node]
        sides = [[node.host.name], others]
        random.shuffle(sides)
        self._cut(fault, _between(*sides))

    def _split(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        """Part the nodes in two, neither of which hears the other."""
        names = [each.host.name for each in self._nodes]
        random.shuffle(names)
        at = random.randint(1, len(names) - 1)
        self._cut(fault, [*_between(names[:at], names[at:]), *_between(names[at:], names[:at])])

    def _ring(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        """Let each node reach its neighbours alone; three nodes are a line, as a ring of them has all links."""
        names = [each.host.name for each in self._nodes]
        random.shuffle(names)
        count = len(names)
        near = {frozenset((names[at - 1], names[at])) for at in range(1 if count == 3 else 0, count)}
        self._cut(fault, [pair for pair in permutations(names, 2) if frozenset(pair) not in near])

    def _slow_peers(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        """Slow down a node's links with some of the others."""
        others = [each.host.name for each in self._nodes if each is not node]
        slow = random.sample(others, random.randint(1, len(others)))
        factor = random.randint(2, _SLOW_FACTOR_MAX)
        links = [*_between([node.host.name], slow), *_between(slow, [node.host.name])]
        for source, target in links:
            self._network.slow_down(source, target, factor)
        self._world.after(fault.lasts_us, lambda: self._mend(links))

    def _cut(self, fault: PlannedFault, links: _Links) -> None:
        cut = list(links)
        for source, target in cut:
            self._network.cut(source, target)
        self._world.after(fault.lasts_us, lambda: self._mend(cut))

    def _mend(self, links: _Links) -> None:
        for source, target in links:
            self._network.mend(source, target)

    # -- the coordinator

    def _cut_coordinator(self, fault: PlannedFault, _random: Random, node: SimNode) -> None:
        self._ensemble.suspend(node.number)
        self._world.after(fault.lasts_us, lambda: self._ensemble.resume(node.number))

    def _coordinator_outage(self, fault: PlannedFault, _random: Random, _node: SimNode) -> None:
        self._ensemble.stop()
        self._world.after(fault.lasts_us, self._ensemble.start)

    def _lost_session(self, _fault: PlannedFault, _random: Random, node: SimNode) -> None:
        self._ensemble.expire(node.number)


def _between(sources: Iterable[str], targets: Sequence[str]) -> Iterator[tuple[str, str]]:
    for source in sources:
        for target in targets:
            yield source, target
