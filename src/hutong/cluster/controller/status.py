"""The state of the cluster, as `hutong cluster status` shows it. Decides nothing."""

from hutong.cluster.controller.commands import ControllerStatus, GroupProgress, MemberStatus, SplitProgress
from hutong.cluster.controller.decisions import ClusterDecisions
from hutong.cluster.controller.live_nodes import LiveNodes
from hutong.cluster.records import PlannedMove
from hutong.replication.group_state import PartitionGroupState


def status_of(decisions: ClusterDecisions, live: LiveNodes) -> ControllerStatus:
    return ControllerStatus(
        tuple(_member(decisions, node, live) for node in sorted(decisions.nodes.keys() | live.nodes.keys())),
        tuple(_progress(decisions, state) for state in decisions.states()),
        {
            name: SplitProgress(decisions.splits[name].log_ids, target.replicas)
            for name, target in decisions.targets.items()
        },
    )


def _member(decisions: ClusterDecisions, node: int, live: LiveNodes) -> MemberStatus:
    states = [state for state in decisions.states() if node in state.replicas]
    known = decisions.nodes.get(node)
    return MemberStatus(
        node,
        node in live.nodes,
        known.rack if known is not None else live.nodes[node].rack,
        node in decisions.drained,
        led_groups=sum(state.leader == node for state in states),
        preferred_groups=sum(state.replicas[0] == node for state in states),
        replicas=len(states),
        replicas_behind=sum(node not in state.in_sync for state in states),
        replicas_failed=sum(node in live.nodes and node not in live.of(state.name) for state in states),
        moving_out=sum(node not in decisions.wanted_replicas(state.name) for state in states),
        disk=live.nodes[node].disk if node in live.nodes else None,
    )


def _progress(decisions: ClusterDecisions, state: PartitionGroupState) -> GroupProgress:
    move, awaited = decisions.moves.get(state.name), decisions.targets.get(state.name)
    # It is on its way for those who look on, also before the first byte is copied.
    if move is None and awaited is not None:
        move = PlannedMove(awaited.replicas, state.replicas)
    return GroupProgress(
        state.name,
        state.epoch,
        state.version,
        state.leader,
        state.replicas,
        tuple(sorted(state.in_sync)),
        tuple(sorted(state.eligible)),
        state.min_in_sync,
        None if move is None else move.target,
        () if move is None else move.before,
        copied_bytes_per_second_max=0 if move is None else move.copied_bytes_per_second_max,
    )
