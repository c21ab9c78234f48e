"""The commands of operators, as decisions of the controller, each with its reply.

Strategy: a command records an intent, and the repairs that follow every event carry it out step by step. So a command
that takes long survives the controller. A command that cannot be carried out changes nothing and says why.

Knows nothing of who asks, nor of time.
"""

from msgspec import structs

from hutong.cluster.controller.commands import (
    BalanceGroups,
    CommandReply,
    ControllerCommand,
    DrainNode,
    DropGroup,
    ElectPreferred,
    ElectUnclean,
    ForgetNode,
    GroupIsLean,
    HandOverLeaders,
    MoveGroup,
    ShowStatus,
    SplitGroup,
    UndrainNode,
)
from hutong.cluster.controller.decisions import ClusterDecisions
from hutong.cluster.controller.live_nodes import LiveNodes
from hutong.cluster.controller.preferred import preferred_leader, return_leadership
from hutong.cluster.controller.repairs import usable_nodes, without_forgotten
from hutong.cluster.controller.splitting import carry_out_split, retarget, without_splits_to
from hutong.cluster.controller.status import status_of
from hutong.cluster.placement import Replicas, balance_plan
from hutong.cluster.records import REPLICAS_MAX, PlannedMove
from hutong.cluster.set_rules import candidates, elected, elected_uncleanly, with_replicas
from hutong.wire.kafka.error_codes import ErrorCode

BALANCE_CHANGES_MAX = 100  # steps of one plan


def carry_out(decisions: ClusterDecisions, command: ControllerCommand, live: LiveNodes) -> CommandReply:
    match command:
        case MoveGroup():
            return _move(decisions, command, live)
        case SplitGroup() | GroupIsLean() | DropGroup():
            return carry_out_split(decisions, command, live)
        case DrainNode(node) | UndrainNode(node):
            return _drain(decisions, node, is_drained=isinstance(command, DrainNode))
        case BalanceGroups():
            return _balance(decisions, command, live)
        case ElectPreferred(groups):
            return _elect_preferred(decisions, groups, live)
        case ElectUnclean(group, node):
            return _elect_uncleanly(decisions, group, node, live)
        case ForgetNode(node):
            return _forget(decisions, node, live)
        case HandOverLeaders(node):
            return _hand_over(decisions, node, live)
        case ShowStatus():
            return CommandReply()


def with_progress(
    decisions: ClusterDecisions, command: ControllerCommand, reply: CommandReply, live: LiveNodes
) -> CommandReply:
    """The reply with the state that the command has led to, for commands that ask for it."""
    if reply.error or not isinstance(command, DrainNode | ShowStatus):
        return reply
    groups = reply.groups
    if isinstance(command, DrainNode):
        states = [state for state in decisions.states() if command.node in state.replicas]
        groups = {state.name: decisions.wanted_replicas(state.name) for state in states}
    return CommandReply(groups=groups, status=status_of(decisions, live))


def _refused(error: ErrorCode, message: str) -> CommandReply:
    return CommandReply(error, message)


def _no_group(group: str) -> CommandReply:
    return _refused(ErrorCode.RESOURCE_NOT_FOUND, f"There is no group {group!r}, or it is not the controller's.")


def _no_node(node: int) -> CommandReply:
    return _refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node {node} has ever been here.")


def _move(decisions: ClusterDecisions, command: MoveGroup, live: LiveNodes) -> CommandReply:
    group, replicas, rate = command.group, command.replicas, command.copied_bytes_per_second_max
    state, move = decisions.groups.get(group), decisions.moves.get(group)
    if group in decisions.targets:
        return retarget(decisions, group, replicas, live)
    if state is None:
        return _no_group(group)
    if not replicas:
        if move is None:
            return _refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"The group {group} is not on its way.")
        replicas = move.before
    elif not set(replicas) <= live.of(group).keys() | set(state.replicas):
        return _refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A new replica is on a node that is not alive.")
    if len(set(replicas)) != len(replicas) or len(replicas) > REPLICAS_MAX:
        return _refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The replicas must be distinct.")
    if rate < 0:
        return _refused(ErrorCode.INVALID_REQUEST, "A move copies at least 1 byte in a second.")
    decisions.put_move(group, PlannedMove(replicas, state.replicas if move is None else move.before, rate))
    return CommandReply(groups={group: replicas})


def _drain(decisions: ClusterDecisions, node: int, *, is_drained: bool) -> CommandReply:
    if is_drained and node not in decisions.nodes:
        return _no_node(node)
    if not is_drained and node not in decisions.drained:
        return _refused(ErrorCode.RESOURCE_NOT_FOUND, f"The node {node} is not drained.")
    if is_drained != (node in decisions.drained):
        decisions.put_drained(node, is_drained=is_drained)
    return CommandReply()


def _balance(decisions: ClusterDecisions, command: BalanceGroups, live: LiveNodes) -> CommandReply:
    existing = {name: decisions.wanted_replicas(name) for name in decisions.groups}
    plan = balance_plan(existing, usable_nodes(decisions, live), BALANCE_CHANGES_MAX, command.held_bytes)
    for name, replicas in plan.items():
        move = decisions.moves.get(name)
        if not command.is_dry_run:
            move = move or PlannedMove(replicas, decisions.groups[name].replicas)
            decisions.put_move(name, structs.replace(move, target=replicas))
    return CommandReply(groups=plan)


def _elect_preferred(decisions: ClusterDecisions, groups: tuple[str, ...], live: LiveNodes) -> CommandReply:
    changed: dict[str, Replicas] = {}
    for name in groups or sorted(decisions.groups):
        state = decisions.groups.get(name)
        if state is None:
            return _no_group(name)
        leader = return_leadership(decisions, state, live)
        if leader is not None:
            changed[name] = (leader,)
        elif groups and preferred_leader(decisions, state) != state.leader:
            # With names the caller wants to know which could not; without, all that can are enough.
            message = f"The preferred leader of {name} is not alive or not in sync."
            return CommandReply(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, message, changed)
    return CommandReply(groups=changed)


def _elect_uncleanly(decisions: ClusterDecisions, group: str, node: int, live: LiveNodes) -> CommandReply:
    state = decisions.groups.get(group)
    if state is None:
        return _no_group(group)
    if candidates(state, live.of(group)):
        return _refused(ErrorCode.ELECTION_NOT_NEEDED, f"A replica of {group} that has everything is alive.")
    # One that has lost the only copy can be filled anew, unlike one whose journal has failed.
    has_lost_it = node in live.nodes and group in decisions.nodes[node].lost
    if node not in state.replicas or not (node in live.of(group) or has_lost_it):
        return _refused(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"Node {node} is no live replica of {group}.")
    decisions.put_group(elected_uncleanly(state, node, live.nodes[node].incarnation))
    return CommandReply(groups={group: (node,)})


def _forget(decisions: ClusterDecisions, node: int, live: LiveNodes) -> CommandReply:
    if node in live.nodes:
        return _refused(ErrorCode.INVALID_REQUEST, f"The node {node} is alive: drain it, stop it, and then forget it.")
    if node not in decisions.nodes:
        return _no_node(node)
    for state in decisions.states():
        if state.in_sync == {node}:
            message = f"Only node {node} has all of {state.name}: elect another leader uncleanly first."
            return _refused(ErrorCode.INVALID_REQUEST, message)
    changed: dict[str, Replicas] = {}
    for name, move in list(decisions.moves.items()):
        if node in move.target or node in move.before:
            decisions.put_move(name, without_forgotten(move, node))
    without_splits_to(decisions, node)
    for state in decisions.states():
        if node in state.replicas:
            kept = tuple(each for each in state.replicas if each != node)
            decisions.put_group(with_replicas(state, kept, decisions.needed(state.name, kept)))
            changed[state.name] = kept
    decisions.put_node(node, None)
    if node in decisions.drained:
        decisions.put_drained(node, is_drained=False)
    return CommandReply(groups=changed)


def _hand_over(decisions: ClusterDecisions, node: int, live: LiveNodes) -> CommandReply:
    changed: dict[str, Replicas] = {}
    for state in decisions.states():
        if state.leader != node:
            continue
        lives = live.of(state.name)
        order = candidates(state, lives.keys() - {node}, decisions.drained)
        # An eligible node would begin a set of its own: it leads when this one is gone, if ever.
        if order and order[0] in state.in_sync:
            decisions.put_group(elected(state, order[0], lives[order[0]], lives))
            changed[state.name] = (order[0],)
    return CommandReply(groups=changed)
