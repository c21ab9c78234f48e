"""Faults aimed at what a former leader may still do, one rule each.

deaf_leader     a leader hears no other node and not the coordinator; its clients reach it
late_leader     a leader's words arrive late at the others; meanwhile another one is elected
lone_controller the controller hears the coordinator, and no other node: soon others lead all that it has led
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from hutong.broker.topics.lifetimes import METADATA_GROUP
from hutong.testing.simulation.faults.faulty_cluster import Begin, FaultyCluster, between
from hutong.testing.simulation.faults.scene import (
    GROUP,
    WAIT_US_MAX,
    Scene,
    controller_of,
    find_scene,
    is_whole,
    leader_of,
    leads,
)
from hutong.testing.simulation.nodes import SimNode
from hutong.testing.simulation.plan.faults import PlannedFault

_SESSION_US: Final = 1_000_000  # of these plans: then another one leads
_LATE_FACTORS: Final = (30, 100, 300)
_LATE_US_MAX: Final = 200_000  # of a message by the greatest of these
_LONE_US_MAX: Final = 7_000_000  # a link may be silent for three seconds; others lead two or three later


class LeaderScenes:
    """Of one simulation with several nodes."""

    def __init__(self, cluster: FaultyCluster) -> None:
        self._cluster = cluster
        self.begin: dict[str, Begin] = {
            "deaf_leader": self._deaf_leader,
            "late_leader": self._late_leader,
            "lone_controller": self._lone_controller,
        }

    def _deaf_leader(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        scene = find_scene(self._cluster, fault, random)
        if scene is None:
            return
        leader, is_heard = scene.leader, random.random() < 0.5
        others = self._cluster.others(leader)
        silent = [(leader, each) for each in others if not is_heard]
        self._cluster.cut([*((each, leader) for each in others), *silent], fault.lasts_us)
        self._cluster.silence(leader, fault.lasts_us)
        # Some clients look for the leader anew, and the others stay.
        self._cluster.after(
            _SESSION_US + random.randint(0, _SESSION_US // 2), lambda: self._cluster.reset_clients(random, leader)
        )

    def _late_leader(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        """The coordinator does not hear it either, so another one leads before this one knows; its links stay."""
        scene = find_scene(self._cluster, fault, random)
        if scene is not None:
            others = self._cluster.others(scene.leader)
            links = [(scene.leader, each) for each in others]
            self._cluster.slow_down(links, random.choice(_LATE_FACTORS), fault.lasts_us)
            self._cluster.silence(scene.leader, fault.lasts_us)
            if random.random() < 0.5:
                scene.wait_for(lambda: leader_of(others, GROUP) is not None, lambda: self._lose_next(scene, others))

    def _lose_next(self, scene: Scene, others: Sequence[SimNode]) -> None:
        """Kill the next leader, too, when late words of the former one may have arrived: a third one goes on."""

        def lose() -> None:
            leader = leader_of(others, GROUP)
            if leader is not None:
                self._cluster.kill([leader], scene.fault.lasts_us)

        self._cluster.world.after(scene.random.randint(0, _LATE_US_MAX), lose)

    def _lone_controller(self, fault: PlannedFault, _random: Random, _node: SimNode) -> None:
        # Two nodes have no majority without each other.
        if len(self._cluster.nodes) > 2:
            self._cluster.wait_for(lambda: is_whole(self._cluster), lambda: self._leave_alone(fault), WAIT_US_MAX)

    def _leave_alone(self, fault: PlannedFault) -> None:
        controller = controller_of(self._cluster)
        if controller is None:
            return
        others = self._cluster.others(controller)
        self._cluster.cut([*between(others, [controller]), *between([controller], others)], fault.lasts_us)

        def look() -> None:
            for group in (METADATA_GROUP, GROUP):
                if not any(leads(each, group) for each in others):
                    self._cluster.complain(
                        f"nobody leads {group} instead of the controller, which no other node reaches"
                    )

        self._cluster.after(_LONE_US_MAX, look)
