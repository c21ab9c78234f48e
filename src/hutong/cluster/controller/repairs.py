"""Repairs: what the controller changes by itself, so that groups have leaders and as many replicas as they shall have.

    found_missing     groups that have no state yet
    repair_sets       who is gone leaves the sets; another member leads
    leave_avoided     leaderships leave drained nodes, and those out of the controller's reach
    plan_drains       replicas of drained nodes shall move
    advance_moves     new replicas are added; when they are in sync, the old ones go
    fill_replicas     groups with too few replicas get another live node

Strategy: each is a function that looks at all groups and changes those that need it; run again, it changes nothing. So
the next controller goes on with what one has left unfinished.

Knows nothing of who asks, nor of time.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from msgspec import structs

from hutong.cluster.controller.decisions import ClusterDecisions
from hutong.cluster.controller.live_nodes import LiveNodes
from hutong.cluster.placement import Placement, PlacementNode
from hutong.cluster.records import KnownNode, PlannedMove
from hutong.cluster.set_rules import (
    candidates,
    elected,
    founded,
    is_led,
    needed_in_sync,
    with_replicas,
    without_nodes,
)
from hutong.replication.group_state import NO_LEADER, PartitionGroupState

MOVES_AT_ONCE_MAX: Final = 4  # groups that copy to new replicas at the same time


def usable_nodes(decisions: ClusterDecisions, live: LiveNodes) -> list[PlacementNode]:
    """The nodes that may get replicas."""
    drained = decisions.drained
    return [
        PlacementNode(node, each.rack, each.weight, takes_new=each.disk is None or not each.disk.is_short)
        for node, each in sorted(live.nodes.items())
        if node not in drained
    ]


def note_nodes(decisions: ClusterDecisions, live: LiveNodes) -> None:
    """Remember every node that was ever alive, until it is forgotten."""
    for node, each in sorted(live.nodes.items()):
        known = decisions.nodes.get(node)
        if known is None:
            decisions.put_node(node, KnownNode(each.rack, each.origin))
        elif known.rack != each.rack:
            decisions.put_node(node, structs.replace(known, rack=each.rack))


def found_missing(decisions: ClusterDecisions, names: Iterable[str], live: LiveNodes) -> None:
    missing = sorted(name for name in names if name not in decisions.groups)
    nodes = usable_nodes(decisions, live)
    if not missing or not nodes:
        return
    # A cluster without its groups serves nobody, so they are founded where there is little space, too.
    if not any(each.takes_new for each in nodes):
        nodes = [replace(each, takes_new=True) for each in nodes]
    placement, settings = decisions.placement(nodes), decisions.settings
    for name in missing:
        replicas = placement.place(name, settings.replicas)
        assert replicas is not None
        decisions.put_group(founded(name, replicas, live.nodes[replicas[0]].incarnation, settings.min_in_sync))


def repair_sets(decisions: ClusterDecisions, live: LiveNodes, restarted: Collection[int]) -> None:
    """Take out who is gone or has another life than before, and elect leaders in the place of others."""
    for state in decisions.states():
        repaired = _repaired(state, live.of(state.name), restarted, decisions.drained | live.unreached)
        if repaired is not state:
            decisions.put_group(repaired)


def _repaired(
    state: PartitionGroupState, lives: Mapping[int, int], restarted: Collection[int], avoided: Collection[int]
) -> PartitionGroupState:
    gone = {node for node in state.in_sync if node not in lives or node in restarted}
    # After a change of controllers nobody has seen that it went and came back.
    if state.leader != NO_LEADER and not is_led(state, lives):
        gone.add(state.leader)
    repaired = without_nodes(state, gone)
    if repaired.leader != NO_LEADER:
        return repaired
    # Who has begun a new life has lost what it held in memory alone, so others come first.
    order = candidates(repaired, lives, {*avoided, *restarted, state.leader})
    return elected(repaired, order[0], lives[order[0]], lives) if order else repaired


def leave_avoided(decisions: ClusterDecisions, live: LiveNodes) -> None:
    """Let others lead what is led by drained nodes, and by those that could never take a dead follower out of a set."""
    avoided = decisions.drained | live.unreached
    for state in decisions.states():
        if state.leader not in avoided:
            continue
        lives = live.of(state.name)
        order = [node for node in candidates(state, lives) if node in state.in_sync and node not in avoided]
        # One that cannot be reached cannot be asked to yield either.
        if order and (state.leader in live.unreached or decisions.handovers.may_leave(state)):
            decisions.put_group(elected(state, order[0], lives[order[0]], lives))


def plan_drains(decisions: ClusterDecisions, live: LiveNodes) -> None:
    """Plan moves away from drained nodes. A replica that has nowhere to go stays."""
    drained = decisions.drained
    leaving = [
        (state.name, node)
        for state in decisions.states()
        for node in state.replicas
        if node in drained and state.name not in decisions.moves
    ]
    if not leaving:
        return
    placement = decisions.placement(usable_nodes(decisions, live))
    for name, node in leaving:
        target = placement.replace(name, node)
        if target is not None:
            before = decisions.moves[name].before if name in decisions.moves else decisions.groups[name].replicas
            decisions.put_move(name, PlannedMove(target, before))


def advance_moves(decisions: ClusterDecisions, live: LiveNodes) -> None:
    copying: list[str] = []
    waiting: list[str] = []
    for name, move in sorted(decisions.moves.items()):
        state = decisions.groups.get(name)
        if state is None:
            decisions.put_move(name, None)
        elif _is_ready(decisions, state, move):
            _finish(decisions, state, move, live)
        # A new replica that is dead copies nothing, so the group holds no other one up.
        elif all(node in live.of(name) for node in move.target if node not in move.before):
            (copying if set(move.target) <= set(state.replicas) else waiting).append(name)
    for name in waiting[: max(0, MOVES_AT_ONCE_MAX - len(copying))]:
        state = decisions.groups[name]
        added = (node for node in decisions.moves[name].target if node not in state.replicas)
        replicas = (*state.replicas, *added)
        decisions.put_group(with_replicas(state, replicas, decisions.needed(name, replicas)))


def _is_ready(decisions: ClusterDecisions, state: PartitionGroupState, move: PlannedMove) -> bool:
    """Return True if the replicas that stay are enough: all that were added, and as many as must be."""
    added = set(move.target).difference(move.before)
    in_sync = state.in_sync.intersection(move.target)
    needed = needed_in_sync(len(move.target), decisions.settings.min_in_sync)
    # A group that could not commit before need not be able to afterwards.
    return added <= in_sync and len(in_sync) >= min(needed, len(state.in_sync))


def _finish(decisions: ClusterDecisions, state: PartitionGroupState, move: PlannedMove, live: LiveNodes) -> None:
    lives = live.of(state.name)
    if state.leader not in move.target:
        order = [node for node in move.target if node in state.in_sync and node in lives]
        # Without a live member it waits: taking the others out might lose what is committed.
        if not order or (is_led(state, lives) and not decisions.handovers.may_leave(state)):
            return
        state = elected(state, order[0], lives[order[0]], lives)
    decisions.put_move(state.name, None)
    if state.replicas != move.target:
        state = with_replicas(state, move.target, decisions.needed(state.name, move.target))
        decisions.put_group(state)


def fill_replicas(decisions: ClusterDecisions, live: LiveNodes) -> Collection[str]:
    """Add replicas where there are too few. Returns the groups that have new ones, whose leaders are dealt anew."""
    count = decisions.settings.replicas
    few = [
        state.name for state in decisions.states() if state.name not in decisions.moves and len(state.replicas) < count
    ]
    nodes = usable_nodes(decisions, live)
    if not few or not nodes:
        return ()
    placement = decisions.placement(nodes)
    before = dict(placement.groups)
    _fill(placement, few, count)
    # With less than a majority acknowledgements rest on too few disks, so for that little space is enough.
    placement = Placement(placement.groups, [replace(each, takes_new=True) for each in nodes])
    _fill(placement, few, needed_in_sync(count, decisions.settings.min_in_sync))
    filled = [name for name in few if placement.groups[name] != before[name]]
    placement.deal(filled)
    for name in filled:
        replicas = placement.groups[name]
        decisions.put_group(with_replicas(decisions.groups[name], replicas, decisions.needed(name, replicas)))
    return filled


def _fill(placement: Placement, names: Iterable[str], count: int) -> None:
    for name in names:
        while placement.fill(name, count) is not None:
            pass


def without_forgotten(move: PlannedMove, node: int) -> PlannedMove | None:
    """The move without a node that will never come back; None where nothing is left of it."""
    target = tuple(each for each in move.target if each != node)
    before = tuple(each for each in move.before if each != node)
    return structs.replace(move, target=target, before=before) if target and before else None
