"""Faults aimed at one rule of changes of an in-sync set each: sequences of events that wait for the one before.

    lose_joined     a member falls behind, joins again over a slow link; in that moment all others are lost
    cut_joined      the controller joins again; while it decides so, it is cut off from the leader; then others are lost
    lose_alone      members are lost until the leader is alone; a little later it is lost, too, and another comes back

Strategy: a sequence whose next event does not come in time ends there.
"""

import errno
from random import Random
from typing import Final

from hutong.broker.topics.lifetimes import METADATA_GROUP
from hutong.testing.simulation.faults.faulty_cluster import Begin, FaultyCluster
from hutong.testing.simulation.faults.scene import GROUP, SOON_US_MAX, controller_of, find_scene
from hutong.testing.simulation.nodes import SimNode
from hutong.testing.simulation.plan.faults import PlannedFault

_NEAR_FACTORS: Final = (150, 250)  # about 100 ms late: less than what keeps a follower from joining
_JOINING_US: Final = 250_000  # for almost so long one that has failed counts as one that joins
_ALONE_US_MAX: Final = 150_000  # then the leader is lost: before a session is over, and the lost member comes back


class SetScenes:
    """Of one simulation with several nodes."""

    def __init__(self, cluster: FaultyCluster) -> None:
        self._cluster = cluster
        self.begin: dict[str, Begin] = {
            "lose_joined": self._lose_joined,
            "cut_joined": self._cut_joined,
            "lose_alone": self._lose_alone,
        }

    def _lose_joined(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        # Over the slow link the controller's decision would be late, too.
        scene = find_scene(self._cluster, fault, random)
        if scene is None or scene.leader is controller_of(self._cluster):
            return

        def has_left() -> None:
            # Near enough to join, and never up to date: what is on its way to it dies with the leader.
            self._cluster.slow_down([(scene.leader, scene.other)], random.choice(_NEAR_FACTORS), fault.lasts_us)
            scene.wait_for(lambda: scene.is_member, lambda: scene.lose_leader(1_000))

        scene.let_leave(has_left)

    def _cut_joined(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        controller = controller_of(self._cluster)
        scene = find_scene(self._cluster, fault, random, wanted=controller)
        # One that controls can decide about itself without the leader.
        if scene is None or scene.other is not controller:
            return

        def decides() -> bool:
            metadata = scene.other.replicas.get(METADATA_GROUP)
            is_storing = metadata is not None and metadata.journal.position > metadata.committed_position
            return is_storing and scene.is_proposed

        def is_deciding() -> None:
            self._cluster.cut([(scene.leader, scene.other), (scene.other, scene.leader)], fault.lasts_us)
            scene.wait_for(lambda: scene.is_decided, lambda: scene.lose_leader(150_000), SOON_US_MAX)

        scene.let_leave(lambda: scene.wait_for(decides, is_deciding))

    def _lose_alone(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        scene = find_scene(self._cluster, fault, random)
        if scene is None or scene.third is None:
            return
        third = scene.third

        def has_failed() -> None:
            self._cluster.kill([scene.other], fault.lasts_us // 4)
            scene.wait_for(lambda: scene.members == {scene.leader.number}, is_alone)

        def is_alone() -> None:
            self._cluster.after(_JOINING_US, lambda: scene.kill_within(_ALONE_US_MAX, [scene.leader]))

        # One copy fails by itself, so that its node still agrees with the leader's on who is in the set.
        third.disk.plan.add("flush", errno.EIO, pattern=f"*/{GROUP}/*", times=1)
        self._cluster.restart_after(fault.lasts_us, third)
        scene.wait_for(lambda: scene.members == {scene.leader.number, scene.other.number}, has_failed)
