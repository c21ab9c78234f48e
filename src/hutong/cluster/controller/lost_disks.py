"""Nodes that came back with another disk: what the sets say of them is of the disk before.

    another disk, as it registers     it leaves all sets, also as one who might lead; it may join them anew
    it was the only member            the group waits: for another one that has everything, or for an operator

Strategy: a data folder has a number, which its node registers, and the metadata log has the last one of each node (as
directory ids, KIP-858). So it does not matter who has seen the node go. Where nobody else is in the set there is
nobody to go on, so the node stays in it; it counts as dead there, which the log notes with the node.

A version that does not say which disk it has is taken for the one with the known disk.
"""

from collections.abc import Mapping

from hutong.cluster.controller.decisions import ClusterDecisions
from hutong.cluster.controller.messages import LiveNode
from hutong.cluster.records import KnownNode
from hutong.cluster.set_rules import without_copy


def note_disks(decisions: ClusterDecisions, nodes: Mapping[int, LiveNode]) -> None:
    """Take disks that are not the known ones out of all sets, and remember them."""
    for number, each in sorted(nodes.items()):
        known = decisions.nodes.get(number)
        if known is None or each.origin in (None, known.origin):
            continue
        # Of a version that did not say which disk it had nothing can be said.
        lost = () if known.origin is None else _without_copies(decisions, number)
        decisions.put_node(number, KnownNode(known.rack, each.origin, lost))


def note_found(decisions: ClusterDecisions) -> bool:
    """Forget losses that are over: somebody else has the group, or an operator has given up what was lost.

    Returns True if there was any.
    """
    before = dict(decisions.nodes)
    for number, known in sorted(before.items()):
        left = tuple(name for name in known.lost if _is_lost(decisions, name, number))
        if left == known.lost:
            continue
        for name in set(known.lost) - set(left):
            _without_copy(decisions, name, number)
        decisions.put_node(number, KnownNode(known.rack, known.origin, left))
    return before != decisions.nodes


def lost_replicas(decisions: ClusterDecisions, nodes: Mapping[int, LiveNode]) -> dict[tuple[int, str], int]:
    """The lives of nodes that have lost the only copy of a group, by node and group."""
    return {
        (number, name): nodes[number].incarnation
        for number, known in decisions.nodes.items()
        if number in nodes
        for name in known.lost
    }


def _without_copies(decisions: ClusterDecisions, number: int) -> tuple[str, ...]:
    """Take a node out of all sets; returns the groups whose only member it is."""
    names = [state.name for state in decisions.states() if number in state.in_sync | state.eligible]
    for name in names:
        _without_copy(decisions, name, number)
    return tuple(name for name in names if decisions.groups[name].in_sync == {number})


def _without_copy(decisions: ClusterDecisions, name: str, number: int) -> None:
    state = decisions.groups[name]
    changed = without_copy(state, number)
    if changed is not state:
        decisions.put_group(changed)


def _is_lost(decisions: ClusterDecisions, name: str, number: int) -> bool:
    state = decisions.groups.get(name)
    # If it leads, an operator has elected it since: nobody else could.
    return state is not None and state.in_sync == {number} and state.leader != number
