"""Faults aimed at one rule of in-sync sets each: sequences of events, each of which waits for the one before.

    lose_joined     a member falls behind, joins again over a slow link; in that moment all others are lost
    cut_joined      the controller joins again; while it decides so, it is cut off from the leader; then others are lost
    lose_disk       a follower loses its disk, comes back slowly; once it is a member again, the leader is lost
    late_proposal   a follower is proposed, loses its disk and comes back before the controller hears of the proposal
    deaf_leader     a leader hears no other node and not the coordinator; its clients reach it
    late_leader     a leader's words arrive late at the others; meanwhile another one is elected
    lone_controller the controller hears the coordinator, and no other node: soon others lead all that it has led

Strategy: the group is that of topics with the usual retention, which the producers of these plans write to. A disk is
lost only of a node that no other copy rests on: the in-sync sets of all groups are whole then, or it is no member.
A sequence whose next event does not come in time ends there.
"""

import errno
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from hutong.broker.topics.lifetimes import METADATA_GROUP
from hutong.cluster.coordinator.memory import MemoryEnsemble
from hutong.replication.driver import GroupReplica
from hutong.testing.simulation.network.network import SimNetwork
from hutong.testing.simulation.nodes import SimNode
from hutong.testing.simulation.plan.faults import PlannedFault
from hutong.testing.simulation.world import World

_GROUP: Final = "days"
_LOOK_US: Final = 200
_WAIT_US_MAX: Final = 2_500_000
_SOON_US_MAX: Final = 500_000  # for what is on its way already
_SESSION_US: Final = 1_000_000  # of these plans: then another one leads
_BEHIND_US: Final = 700_000  # of a flush: longer than a member may be late
_JOINING_US: Final = (0, 50_000, 100_000, 150_000)  # of a flush, of one that joins
_LATE_FACTORS: Final = (30, 100, 300)
_LATE_US_MAX: Final = 200_000  # of a message by the greatest of these
_LONE_US_MAX: Final = 7_000_000  # a link may be silent for three seconds; others lead two or three later
_NEAR_FACTORS: Final = (150, 250)  # about 100 ms late: less than what keeps a follower from joining
Begin = Callable[[PlannedFault, Random, SimNode], None]


@dataclass(frozen=True, slots=True)
class _Scene:
    """The leader of the group, another replica, and all of them."""

    fault: PlannedFault
    random: Random
    leader: SimNode
    other: SimNode
    replicas: tuple[SimNode, ...]  # in the order of preference

    @property
    def led(self) -> GroupReplica | None:
        """The leader's replica, None once it leads no more."""
        replica = self.leader.replicas.get(_GROUP)
        return replica if replica is not None and replica.is_leading else None

    @property
    def is_member(self) -> bool:
        """True while the other node is in the set, as the leader knows it."""
        led = self.led
        return led is not None and led.state is not None and self.other.number in led.state.in_sync

    @property
    def is_joining(self) -> bool:
        return self.led is not None and self.other.number in self.led.joining

    @property
    def is_proposed(self) -> bool:
        return self.led is not None and self.other.number in self.led.proposed


class AimedFaults:
    """Of one simulation with several nodes."""

    def __init__(
        self,
        world: World,
        network: SimNetwork,
        nodes: list[SimNode],
        ensemble: MemoryEnsemble,
        keep_up: Callable[[SimNode], None],
        complain: Callable[[str], None],
    ) -> None:
        """`keep_up` starts a node that is down; `complain` takes the sentence of a promise that was broken."""
        self._world = world
        self._network = network
        self._nodes = nodes
        self._ensemble = ensemble
        self._keep_up = keep_up
        self._complain = complain
        self._is_over = False
        self.begin: dict[str, Begin] = {
            "lose_joined": self._lose_joined,
            "cut_joined": self._cut_joined,
            "lose_disk": self._lose_disk,
            "late_proposal": self._late_proposal,
            "deaf_leader": self._deaf_leader,
            "late_leader": self._late_leader,
            "lone_controller": self._lone_controller,
        }

    def heal(self) -> None:
        """Go on with no sequence. What they have broken is of the kinds that others mend."""
        self._is_over = True

    # -- a member that joins again

    def _lose_joined(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        # Over the slow link the controller's decision would be late, too.
        scene = self._scene(fault, random)
        if scene is None or scene.leader is self._controller():
            return

        def has_left() -> None:
            # Near enough to join, and never up to date: what is on its way to it dies with the leader.
            self._slow_down(fault, scene.leader, [scene.other], random.choice(_NEAR_FACTORS))
            self._await(lambda: scene.is_member, lambda: self._lose_leader(scene, 1_000), _WAIT_US_MAX)

        self._let_leave(scene, has_left)

    def _cut_joined(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        controller = self._controller()
        scene = self._scene(fault, random, wanted=controller)
        # One that controls can decide about itself without the leader.
        if scene is None or scene.other is not controller:
            return

        def decides() -> bool:
            metadata = scene.other.replicas.get(METADATA_GROUP)
            is_storing = metadata is not None and metadata.journal.position > metadata.committed_position
            return is_storing and scene.is_proposed

        def is_deciding() -> None:
            self._cut(fault, [(scene.leader, scene.other), (scene.other, scene.leader)])
            self._await(lambda: self._is_decided(scene), lambda: self._lose_leader(scene, 150_000), _SOON_US_MAX)

        self._let_leave(scene, lambda: self._await(decides, is_deciding, _WAIT_US_MAX))

    def _let_leave(self, scene: _Scene, then: Callable[[], None]) -> None:
        """Slow a member's disk down until it has left the set."""
        scene.other.flush_delay_us = _BEHIND_US

        def has_left() -> None:
            scene.other.flush_delay_us = 0
            then()

        self._await(lambda: scene.led is not None and not scene.is_member, has_left, _WAIT_US_MAX)

    def _is_decided(self, scene: _Scene) -> bool:
        """Return True if any node knows of the other one as a member."""
        states = [each.replicas[_GROUP].state for each in self._nodes if _GROUP in each.replicas]
        return any(state is not None and scene.other.number in state.in_sync for state in states)

    def _lose_leader(self, scene: _Scene, within_us: int, *, is_alone: bool = False) -> None:
        """Kill the leader within that time, and, unless `is_alone`, all but the other one, which leads then."""
        killed = [scene.leader] if is_alone else [each for each in scene.replicas if each is not scene.other]
        self._world.after(scene.random.randint(0, within_us), lambda: self._kill(killed, scene.fault.lasts_us))

    def _kill(self, nodes: Iterable[SimNode], lasts_us: int) -> None:
        if self._is_over:
            return
        for node in nodes:
            self._world.note("fault", f"{node.host.name} is killed")
            node.kill()
            self._world.after(lasts_us, partial(self._keep_up, node))

    # -- a disk

    def _lose_disk(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        scene = self._scene(fault, random)
        if scene is not None:
            self._await(self._is_whole, lambda: self._come_back_empty(scene), _WAIT_US_MAX)

    def _is_whole(self) -> bool:
        """Return True while all nodes serve, and know that all replicas are in sync."""
        states = [each.state for node in self._nodes for each in node.replicas.values()]
        is_in_sync = all(state is not None and state.in_sync == {*state.replicas} for state in states)
        return is_in_sync and all(node.is_ready for node in self._nodes)

    def _come_back_empty(self, scene: _Scene) -> None:
        self._empty(scene, scene.random.choice((1_000, 20_000)))
        scene.other.flush_delay_us = scene.random.choice(_JOINING_US)

        def has_left() -> None:
            self._await(lambda: scene.is_member, lambda: self._lose_leader(scene, 30_000), _WAIT_US_MAX)

        self._await(lambda: scene.led is not None and not scene.is_member, has_left, _WAIT_US_MAX)

    def _late_proposal(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        controller = self._controller()
        scene = self._scene(fault, random, unwanted=controller)
        # One that leads both has no way to itself.
        if scene is None or controller is None or controller is scene.leader:
            return

        way = [(scene.leader, controller)]

        def joins() -> None:
            # Before it is proposed: the proposal stays on its way until another life of the node is known.
            self._cut(fault, way)
            self._await(lambda: scene.is_proposed, proposed, _SOON_US_MAX)

        def proposed() -> None:
            former = self._ensemble.members.get(scene.other.number)
            self._empty(scene, 1_000)
            scene.other.flush_delay_us = _BEHIND_US  # else it soon has everything, member or not
            self._await(
                lambda: self._ensemble.members.get(scene.other.number) not in (None, former), known, _WAIT_US_MAX
            )

        def known() -> None:
            self._mend(way)
            # At once: the leader proposes it away again as soon as it hears of it.
            self._await(
                lambda: self._is_decided(scene), lambda: self._lose_leader(scene, 0, is_alone=True), _WAIT_US_MAX
            )

        self._let_leave(scene, lambda: self._await(lambda: scene.is_joining, joins, _WAIT_US_MAX))

    def _empty(self, scene: _Scene, back_us: int) -> None:
        self._world.note("fault", f"{scene.other.host.name} loses its disk")
        scene.other.lose_disk()
        self._world.after(back_us, lambda: self._keep_up(scene.other))

    # -- a leader of the past

    def _deaf_leader(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        scene = self._scene(fault, random)
        if scene is None:
            return
        leader, is_heard = scene.leader, random.random() < 0.5
        others = [each for each in self._nodes if each is not leader]
        self._cut(fault, [*((each, leader) for each in others), *((leader, each) for each in others if not is_heard)])
        self._silence(fault, leader)
        self._world.after(_SESSION_US + random.randint(0, _SESSION_US // 2), lambda: self._reset(random, leader))

    def _reset(self, random: Random, node: SimNode) -> None:
        """Reset some connections with the node: these clients look for the leader anew, and the others stay."""
        for end in [*self._network.connections]:
            if end.peer.process is node.host.process and random.random() < 0.5 and not (self._is_over or end.is_gone):
                for each in (end, end.peer):
                    each.lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def _late_leader(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        """The coordinator does not hear it either, so another one leads before this one knows; its links stay."""
        scene = self._scene(fault, random)
        if scene is not None:
            others = [each for each in self._nodes if each is not scene.leader]
            self._slow_down(fault, scene.leader, others, random.choice(_LATE_FACTORS))
            self._silence(fault, scene.leader)
            if random.random() < 0.5:
                self._await(
                    lambda: self._next_leader(others) is not None, lambda: self._lose_next(scene, others), _WAIT_US_MAX
                )

    def _next_leader(self, others: Iterable[SimNode]) -> SimNode | None:
        return next((each for each in others if _leads(each, _GROUP)), None)

    def _lose_next(self, scene: _Scene, others: Sequence[SimNode]) -> None:
        """Kill the next leader, too, when late words of the former one may have arrived: a third one goes on."""

        def lose() -> None:
            leader = self._next_leader(others)
            if leader is not None:
                self._kill([leader], scene.fault.lasts_us)

        self._world.after(scene.random.randint(0, _LATE_US_MAX), lose)

    def _silence(self, fault: PlannedFault, node: SimNode) -> None:
        self._ensemble.suspend(node.number)
        self._world.after(fault.lasts_us, lambda: self._ensemble.resume(node.number))

    def _lone_controller(self, fault: PlannedFault, _random: Random, _node: SimNode) -> None:
        # Two nodes have no majority without each other.
        if len(self._nodes) > 2:
            self._await(self._is_whole, lambda: self._leave_alone(fault), _WAIT_US_MAX)

    def _leave_alone(self, fault: PlannedFault) -> None:
        controller = self._controller()
        if controller is None:
            return
        others = [each for each in self._nodes if each is not controller]
        self._cut(fault, [pair for each in others for pair in ((controller, each), (each, controller))])

        def look() -> None:
            for group in (METADATA_GROUP, _GROUP):
                if not (self._is_over or any(_leads(each, group) for each in others)):
                    self._complain(f"nobody leads {group} instead of the controller, which no other node reaches")

        self._world.after(_LONE_US_MAX, look)

    # -- inside

    def _controller(self) -> SimNode | None:
        return next((each for each in self._nodes if _leads(each, METADATA_GROUP)), None)

    def _scene(
        self, fault: PlannedFault, random: Random, *, wanted: SimNode | None = None, unwanted: SimNode | None = None
    ) -> _Scene | None:
        """The leader, and one of its followers: the wanted one if it follows. None while there is none."""
        leader = next((each for each in self._nodes if _leads(each, _GROUP)), None)
        if leader is None:
            return None
        state = leader.replicas[_GROUP].state
        assert state is not None
        by_number = {each.number: each for each in self._nodes}
        replicas = tuple(by_number[number] for number in state.replicas)
        followers = [each for each in replicas if each not in (leader, unwanted)]
        if not followers:
            return None
        # The first one is preferred as the next leader.
        other = wanted if wanted in followers else random.choice((followers[0], *followers))
        assert other is not None
        return _Scene(fault, random, leader, other, replicas)

    def _await(self, is_so: Callable[[], bool], then: Callable[[], None], wait_us: int) -> None:
        """Call `then` as soon as it is so, unless that takes too long."""
        if self._is_over:
            return
        if is_so():
            then()
        elif wait_us > 0:
            self._world.after(_LOOK_US, lambda: self._await(is_so, then, wait_us - _LOOK_US))

    def _cut(self, fault: PlannedFault, links: Iterable[tuple[SimNode, SimNode]]) -> None:
        cut = list(links)
        for source, target in cut:
            self._network.cut(source.host.name, target.host.name)
        self._world.after(fault.lasts_us, lambda: self._mend(cut))

    def _slow_down(self, fault: PlannedFault, node: SimNode, others: Iterable[SimNode], factor: int) -> None:
        """Let all that the node says to these others arrive late."""
        slow = [(node, each) for each in others]
        for source, target in slow:
            self._network.slow_down(source.host.name, target.host.name, factor)
        self._world.after(fault.lasts_us, lambda: self._mend(slow))

    def _mend(self, links: Iterable[tuple[SimNode, SimNode]]) -> None:
        for source, target in links:
            self._network.mend(source.host.name, target.host.name)


def _leads(node: SimNode, group: str) -> bool:
    replica = node.replicas.get(group)
    return replica is not None and replica.is_leading
