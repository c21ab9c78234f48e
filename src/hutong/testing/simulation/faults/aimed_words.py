"""Faults aimed at words of a former leader that arrive when another one leads, one rule each.

    late_set   it proposes a member; before the controller hears of that, another one leads without that member
    late_cut   it tells a follower where to cut its stream; then another one leads, which has what would be cut

Strategy: a link holds the words as long as it takes. The controller is none of the group's replicas, so that all other
decisions come in time: it takes four nodes. A sequence whose next event does not come in time ends there.
"""

from random import Random
from typing import Final

from hutong.testing.simulation.faults.faulty_cluster import Begin, FaultyCluster
from hutong.testing.simulation.faults.scene import GROUP, SOON_US_MAX, controller_of, find_scene, leads
from hutong.testing.simulation.nodes import SimNode
from hutong.testing.simulation.plan.faults import PlannedFault

_HEARD_US: Final = 100_000  # what was held has arrived and has had its effects, or none
_ASKED_US: Final = 200_000  # a former leader has opened its journal again, and has asked the next one to join
_REPLICAS: Final = 3


class WordScenes:
    """Of one simulation with several nodes."""

    def __init__(self, cluster: FaultyCluster) -> None:
        self._cluster = cluster
        self.begin: dict[str, Begin] = {"late_set": self._late_set, "late_cut": self._late_cut}

    def _late_set(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        controller, scene = controller_of(self._cluster), find_scene(self._cluster, fault, random)
        if scene is None or scene.third is None or controller is None or controller in scene.replicas:
            return
        former, following = scene.leader, scene.third
        way = [(former, controller)]

        def joins() -> None:
            # Before it is proposed: the proposal stays on its way.
            self._cluster.hold(way, fault.lasts_us)
            scene.wait_for(lambda: scene.is_proposed, proposed, SOON_US_MAX)

        def proposed() -> None:
            # What comes after the former leader the one that is proposed does not get.
            self._cluster.cut([(following, scene.other)], fault.lasts_us)
            self._cluster.ensemble.expire(former.number)
            scene.wait_for(lambda: leads(following, GROUP), others_lead)

        def others_lead() -> None:
            self._cluster.after(_HEARD_US, heard)

        def heard() -> None:
            self._cluster.mend(way)
            # At once, if that has any effect: the next leader would soon mend it.
            scene.wait_for(lambda: scene.is_decided, lose, _HEARD_US)
            self._cluster.after(2 * _HEARD_US, lose)

        def lose() -> None:
            if leads(following, GROUP):
                self._cluster.kill([following], fault.lasts_us)

        scene.let_leave(lambda: scene.wait_for(lambda: scene.is_joining, joins))

    def _late_cut(self, fault: PlannedFault, random: Random, _node: SimNode) -> None:
        controller, scene = controller_of(self._cluster), find_scene(self._cluster, fault, random)
        if scene is None or len(scene.replicas) != _REPLICAS or controller in scene.replicas:
            return
        # The first of the others leads next, and lacks what the last one has.
        first = scene.leader
        following, last = (each for each in scene.replicas if each is not first)

        def has_less() -> bool:
            return _end_of(following) < min(_end_of(first), _end_of(last))

        def parted() -> None:
            self._cluster.hold([(following, first), (following, last)], fault.lasts_us)
            self._cluster.ensemble.expire(first.number)
            scene.wait_for(lambda: _is_chosen(following), asks)

        def asks() -> None:
            self._cluster.mend([(first, following)])
            self._cluster.after(_ASKED_US, answered)

        def answered() -> None:
            self._cluster.ensemble.expire(following.number)
            scene.wait_for(lambda: _is_chosen(last), joins)

        def joins() -> None:
            scene.wait_for(lambda: GROUP in last.replicas and first.number in last.replicas[GROUP].joining, joined)

        def joined() -> None:
            # What is committed now the first one is not told.
            self._cluster.hold([(last, first)], fault.lasts_us)
            scene.wait_for(lambda: leads(last, GROUP), last_leads)

        def last_leads() -> None:
            self._cluster.after(_HEARD_US, heard)

        def heard() -> None:
            self._cluster.mend([(following, first)])
            self._cluster.after(_HEARD_US, lambda: self._cluster.kill([last], fault.lasts_us))

        self._cluster.hold([(first, following)], fault.lasts_us)
        scene.wait_for(has_less, parted, SOON_US_MAX)


def _end_of(node: SimNode) -> int:
    return node.replicas[GROUP].journal.flushed_position if GROUP in node.replicas else 0


def _is_chosen(node: SimNode) -> bool:
    """Return True once it knows that it is to lead, whether it can or not."""
    state = node.replicas[GROUP].state if GROUP in node.replicas else None
    return state is not None and state.leader == node.number
