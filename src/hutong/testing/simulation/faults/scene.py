"""The scene of an aimed fault: who leads a partition group, who follows, and what the leader knows of one of them.

Strategy: the group is that of topics with the usual retention, which the producers of these plans write to.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

from hutong.broker.topics.lifetimes import METADATA_GROUP
from hutong.replication.driver import GroupReplica
from hutong.testing.simulation.faults.faulty_cluster import FaultyCluster
from hutong.testing.simulation.nodes import SimNode
from hutong.testing.simulation.plan.faults import PlannedFault

GROUP: Final = "days"
WAIT_US_MAX: Final = 2_500_000
SOON_US_MAX: Final = 500_000  # for what is on its way already
BEHIND_US: Final = 700_000  # of a flush: longer than a member may be late


@dataclass(frozen=True, slots=True)
class Scene:
    """The leader of the group, another replica, and all of them."""

    cluster: FaultyCluster
    fault: PlannedFault
    random: Random
    leader: SimNode
    other: SimNode
    replicas: tuple[SimNode, ...]  # in the order of preference

    @property
    def third(self) -> SimNode | None:
        """The first replica besides these two: the one that leads next without them."""
        return next((each for each in self.replicas if each not in (self.leader, self.other)), None)

    @property
    def led(self) -> GroupReplica | None:
        """The leader's replica, None once it leads no more."""
        replica = self.leader.replicas.get(GROUP)
        return replica if replica is not None and replica.is_leading else None

    @property
    def is_member(self) -> bool:
        """True while the other node is in the set, as the leader knows it."""
        return self.other.number in self.members

    @property
    def members(self) -> frozenset[int]:
        """The set as the leader knows it; empty once it leads no more."""
        led = self.led
        return frozenset() if led is None or led.state is None else led.state.in_sync

    @property
    def is_joining(self) -> bool:
        return self.led is not None and self.other.number in self.led.joining

    @property
    def is_proposed(self) -> bool:
        return self.led is not None and self.other.number in self.led.proposed

    @property
    def is_decided(self) -> bool:
        """True if any node knows of the other one as a member."""
        states = [each.replicas[GROUP].state for each in self.cluster.nodes if GROUP in each.replicas]
        return any(state is not None and self.other.number in state.in_sync for state in states)

    def let_leave(self, then: Callable[[], None]) -> None:
        """Slow the other node's disk down until it has left the set."""
        self.other.flush_delay_us = BEHIND_US

        def has_left() -> None:
            self.other.flush_delay_us = 0
            then()

        self.wait_for(lambda: self.led is not None and not self.is_member, has_left)

    def lose_leader(self, within_us: int, *, is_alone: bool = False) -> None:
        """Kill the leader within that time, and, unless `is_alone`, all but the other one, which leads then."""
        killed = [self.leader] if is_alone else [each for each in self.replicas if each is not self.other]
        self.kill_within(within_us, killed)

    def kill_within(self, within_us: int, nodes: Iterable[SimNode]) -> None:
        killed = list(nodes)
        delay_us = self.random.randint(0, within_us)
        self.cluster.world.after(delay_us, lambda: self.cluster.kill(killed, self.fault.lasts_us))

    def wait_for(self, is_so: Callable[[], bool], then: Callable[[], None], wait_us: int = WAIT_US_MAX) -> None:
        self.cluster.wait_for(is_so, then, wait_us)


def find_scene(
    cluster: FaultyCluster,
    fault: PlannedFault,
    random: Random,
    *,
    wanted: SimNode | None = None,
    unwanted: SimNode | None = None,
) -> Scene | None:
    """The leader, and one of its followers: the wanted one if it follows. None while there is none."""
    leader = leader_of(cluster.nodes, GROUP)
    if leader is None:
        return None
    state = leader.replicas[GROUP].state
    assert state is not None
    by_number = {each.number: each for each in cluster.nodes}
    replicas = tuple(by_number[number] for number in state.replicas)
    followers = [each for each in replicas if each not in (leader, unwanted)]
    if not followers:
        return None
    # The first one is preferred as the next leader.
    other = wanted if wanted in followers else random.choice((followers[0], *followers))
    assert other is not None
    return Scene(cluster, fault, random, leader, other, replicas)


def controller_of(cluster: FaultyCluster) -> SimNode | None:
    return leader_of(cluster.nodes, METADATA_GROUP)


def is_whole(cluster: FaultyCluster) -> bool:
    """Return True while all nodes serve, and know that all replicas are in sync."""
    states = [each.state for node in cluster.nodes for each in node.replicas.values()]
    is_in_sync = all(state is not None and state.in_sync == {*state.replicas} for state in states)
    return is_in_sync and all(node.is_ready for node in cluster.nodes)


def leader_of(nodes: Iterable[SimNode], group: str) -> SimNode | None:
    """The first node that leads the group, as far as it knows."""
    return next((each for each in nodes if leads(each, group)), None)


def leads(node: SimNode, group: str) -> bool:
    replica = node.replicas.get(group)
    return replica is not None and replica.is_leading
