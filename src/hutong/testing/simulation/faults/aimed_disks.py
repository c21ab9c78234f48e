"""Faults that take the disk of a follower, aimed at one rule of in-sync sets each.

    lose_disk       a follower loses its disk, comes back slowly; once it is a member again, the leader is lost
    late_proposal   a follower is proposed, loses its disk and comes back before the controller hears of the proposal

Strategy: a disk is lost only of a node that no other copy rests on: the in-sync sets of all groups are whole then, or
it is no member.
"""

from random import Random
from typing import Final

from hutong.testing.simulation.faults.faulty_cluster import Begin, FaultyCluster
from hutong.testing.simulation.faults.scene import (
    BEHIND_US,
    SOON_US_MAX,
    Scene,
    controller_of,
    find_scene,
    is_whole,
)
from hutong.testing.simulation.nodes import SimNode
from hutong.testing.simulation.plan.faults import PlannedFault

_JOINING_US: Final = (0, 50_000, 100_000, 150_000)  # of a flush, of one that joins


class DiskScenes:
    """Of one simulation with several nodes."""

    def __init__(self, cluster: FaultyCluster) -> None:
        self._cluster = cluster
        self.begin: dict[str, Begin] = {"lose_disk": self._lose_disk, "late_proposal": self._late_proposal}

    def _lose_disk(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        scene = find_scene(self._cluster, fault, random)
        if scene is not None:
            scene.wait_for(lambda: is_whole(self._cluster), lambda: self._come_back_empty(scene))

    def _come_back_empty(self, scene: Scene) -> None:
        self._empty(scene, scene.random.choice((1_000, 20_000)))
        scene.other.flush_delay_us = scene.random.choice(_JOINING_US)

        def has_left() -> None:
            scene.wait_for(lambda: scene.is_member, lambda: scene.lose_leader(30_000))

        scene.wait_for(lambda: scene.led is not None and not scene.is_member, has_left)

    def _late_proposal(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        controller = controller_of(self._cluster)
        scene = find_scene(self._cluster, fault, random, unwanted=controller)
        # One that leads both has no way to itself.
        if scene is None or controller is None or controller is scene.leader:
            return
        way, members = [(scene.leader, controller)], self._cluster.ensemble

        def joins() -> None:
            # Before it is proposed: the proposal stays on its way until another life of the node is known.
            self._cluster.cut(way, fault.lasts_us)
            scene.wait_for(lambda: scene.is_proposed, proposed, SOON_US_MAX)

        def proposed() -> None:
            former = members.members.get(scene.other.number)
            self._empty(scene, 1_000)
            scene.other.flush_delay_us = BEHIND_US  # else it soon has everything, member or not
            scene.wait_for(lambda: members.members.get(scene.other.number) not in (None, former), known)

        def known() -> None:
            self._cluster.mend(way)
            # At once: the leader proposes it away again as soon as it hears of it.
            scene.wait_for(lambda: scene.is_decided, lambda: scene.lose_leader(0, is_alone=True))

        scene.let_leave(lambda: scene.wait_for(lambda: scene.is_joining, joins))

    def _empty(self, scene: Scene, back_us: int) -> None:
        self._cluster.world.note("fault", f"{scene.other.host.name} loses its disk")
        scene.other.lose_disk()
        self._cluster.restart_after(back_us, scene.other)
