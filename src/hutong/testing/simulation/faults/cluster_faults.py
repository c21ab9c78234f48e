"""Faults of a cluster: of several nodes at once, of what is between them, and of the coordinator.

Strategy: as other faults, each begins at its time and is undone at its end.
"""

from itertools import permutations
from random import Random
from typing import Final

from hutong.testing.simulation.faults.faulty_cluster import Begin, FaultyCluster, between
from hutong.testing.simulation.nodes import SimNode
from hutong.testing.simulation.plan.faults import PlannedFault

_SLOW_FACTOR_MAX: Final = 500
_CHANGE_US_MAX: Final = 1_000_000  # without a change of a set by then any leader will do
_LOOK_US: Final = 1_000
_KNOWING_US_MAX: Final = 100_000  # that a leader goes on without one of the others
_RESTART_US: Final = 10_000
_ELECTION_US: Final = 2_500_000  # longer than the shortest session


class ClusterFaults:
    """Of one simulation with several nodes."""

    def __init__(self, cluster: FaultyCluster) -> None:
        self._cluster = cluster
        self._nodes = cluster.nodes
        self._world = cluster.world
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

    # -- several nodes

    def _victims(self, random: Random) -> list[SimNode]:
        """Two nodes at least, all of them often."""
        count = random.choice((2, len(self._nodes), random.randint(2, len(self._nodes))))
        return random.sample(list(self._nodes), count)

    def _crash(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        for each in self._victims(random):
            each.kill(with_power=fault.kind == "power_several")
            # One may come back long before the others.
            self._cluster.restart_after(fault.lasts_us * random.choice((1, 1, 4)), each)

    def _stop(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        for each in self._victims(random):
            if each.is_up:
                each.stop()
                self._cluster.restart_after(fault.lasts_us, each)

    def _pause(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        for each in self._victims(random):
            each.pause(fault.lasts_us)

    # -- leaders

    def _lose_leader(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        """Cut the link of a leader with another node amid a change of its set, and crash it a little later.

        What it acknowledges in between must be known to everybody who may lead next: to those in the changed set, too.
        """
        self._await_change(fault, random, self._world.now_us + _CHANGE_US_MAX)

    def _await_change(self, fault: PlannedFault, random: Random, until_us: int) -> None:
        if self._cluster.is_over:
            return
        changing = [each for each in self._nodes if any(group.is_changing_set for group in each.replicas.values())]
        if not changing and self._world.now_us < until_us:
            self._world.after(_LOOK_US, lambda: self._await_change(fault, random, until_us))
            return
        leader = random.choice(changing or list(self._nodes))
        other = random.choice(self._cluster.others(leader))
        self._cluster.cut([(leader, other), (other, leader)], fault.lasts_us)
        self._world.after(random.randint(0, _KNOWING_US_MAX), lambda: self._crash_one(fault, random, leader))

    def _crash_one(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        if not self._cluster.is_over:
            node.kill(with_power=random.random() < 0.5)
            self._cluster.restart_after(fault.lasts_us, node)

    def _power_leader_last(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        """Let all nodes lose their power, and one that leads come back when the others have elected one of them."""
        leading = [each for each in self._nodes if any(group.is_leading for group in each.replicas.values())]
        leader = random.choice(leading or [node])
        for each in self._nodes:
            each.kill(with_power=True)
            self._cluster.restart_after(_ELECTION_US if each is leader else _RESTART_US, each)

    # -- links between nodes

    def _isolate(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        """Cut a node off from all others; half of the time also from the coordinator."""
        others = self._cluster.others(node)
        self._cluster.cut([*between([node], others), *between(others, [node])], fault.lasts_us)
        if random.random() < 0.5:
            self._cut_coordinator(fault, random, node)

    def _isolate_one_way(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        """Let a node hear nobody, or be heard by nobody."""
        sides = [[node], self._cluster.others(node)]
        random.shuffle(sides)
        self._cluster.cut(between(*sides), fault.lasts_us)

    def _split(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        """Part the nodes in two, neither of which hears the other."""
        nodes = [*self._nodes]
        random.shuffle(nodes)
        at = random.randint(1, len(nodes) - 1)
        self._cluster.cut([*between(nodes[:at], nodes[at:]), *between(nodes[at:], nodes[:at])], fault.lasts_us)

    def _ring(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        """Let each node reach its neighbours alone; three nodes are a line, as a ring of them has all links."""
        nodes = [*self._nodes]
        random.shuffle(nodes)
        count = len(nodes)
        near = {frozenset((nodes[at - 1], nodes[at])) for at in range(1 if count == 3 else 0, count)}
        self._cluster.cut([pair for pair in permutations(nodes, 2) if frozenset(pair) not in near], fault.lasts_us)

    def _slow_peers(self, fault: PlannedFault, random: Random, node: SimNode) -> None:
        """Slow down a node's links with some of the others."""
        others = self._cluster.others(node)
        slow = random.sample(others, random.randint(1, len(others)))
        factor = random.randint(2, _SLOW_FACTOR_MAX)
        self._cluster.slow_down([*between([node], slow), *between(slow, [node])], factor, fault.lasts_us)

    # -- the coordinator

    def _cut_coordinator(self, fault: PlannedFault, _random: Random, node: SimNode) -> None:
        self._cluster.silence(node, fault.lasts_us)

    def _coordinator_outage(self, fault: PlannedFault, _random: Random, _node: SimNode) -> None:
        self._cluster.ensemble.stop()
        self._world.after(fault.lasts_us, self._cluster.ensemble.start)

    def _lost_session(self, _fault: PlannedFault, _random: Random, node: SimNode) -> None:
        self._cluster.ensemble.expire(node.number)
