"""Partitions that get a group of their own: operators' commands about that, and the repair that carries them out.

Strategy: a command records what is wanted. The leader of the source yields first, as before any other leader, so that
nothing which was taken is lost. Then one set of records has both groups, each in a new epoch: all of it is stored or
nothing. The new group begins with the replicas and the leader of its source. It moves on as any group does: at once
where no other node has to copy it, else when its leader says that it has nothing but its own logs.

Knows nothing of who asks, nor of time.
"""

from collections.abc import Collection
from dataclasses import replace

import msgspec

from hutong.cluster.controller.commands import CommandReply, DropGroup, GroupIsLean, SplitGroup
from hutong.cluster.controller.decisions import ClusterDecisions
from hutong.cluster.controller.live_nodes import LiveNodes
from hutong.cluster.placement import Replicas
from hutong.cluster.records import REPLICAS_MAX, PlannedMove, SplitTarget
from hutong.cluster.set_rules import elected, is_led
from hutong.cluster.splits import SPLIT_GROUPS_MAX, Split, places_of, split_name
from hutong.wire.kafka.error_codes import ErrorCode


def carry_out_split(
    decisions: ClusterDecisions, command: SplitGroup | GroupIsLean | DropGroup, live: LiveNodes
) -> CommandReply:
    if isinstance(command, SplitGroup):
        return _split_off(decisions, command, live)
    name, splits = command.group, decisions.splits
    if isinstance(command, GroupIsLean):
        if name in decisions.targets and splits[name].is_made:
            _move_on(decisions, name)
    # A replica that has not come to it yet makes its fork of the source.
    elif name in splits and all(each.source != name for each in splits.values()):
        decisions.drop_group(name)
    return CommandReply()


def _split_off(decisions: ClusterDecisions, command: SplitGroup, live: LiveNodes) -> CommandReply:
    """Plan a group for some logs of another one."""
    group, log_ids, replicas = command.group, command.log_ids, command.replicas
    state = decisions.groups.get(group)
    if state is None:
        return _refused(ErrorCode.RESOURCE_NOT_FOUND, f"There is no group {group!r}, or it is not the controller's.")
    if group in decisions.moves:
        message = f"The group {group} is on its way: wait for that, or cancel it."
        return _refused(ErrorCode.REASSIGNMENT_IN_PROGRESS, message)
    if (problem := _problem(replicas, live.of(group).keys() | set(state.replicas), len(state.replicas))) is not None:
        return _refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    if not log_ids or not _are_in(decisions, group, log_ids):
        return _refused(ErrorCode.REASSIGNMENT_IN_PROGRESS, f"They are not in {group}, or about to leave it.")
    if len(decisions.splits) >= SPLIT_GROUPS_MAX:
        message = f"{SPLIT_GROUPS_MAX} groups were split off already: move whole groups, or delete topics that moved."
        return _refused(ErrorCode.POLICY_VIOLATION, message)
    name = split_name(command.lifetime, decisions.take_split_number())
    decisions.put_split(name, Split(group, log_ids))
    decisions.put_target(name, SplitTarget(replicas))
    return CommandReply(groups={name: replicas})


def retarget(decisions: ClusterDecisions, name: str, replicas: Replicas, live: LiveNodes) -> CommandReply:
    """Give other replicas to a group that does not move yet; without any, it stays, or is not split off at all."""
    split = decisions.splits[name]
    if not replicas:
        _give_up(decisions, name)
        return CommandReply(groups={name: ()})
    problem = _problem(replicas, live.of(split.source).keys(), len(decisions.targets[name].replicas))
    if problem is not None:
        return _refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    decisions.put_target(name, SplitTarget(replicas))
    return CommandReply(groups={name: replicas})


def without_splits_to(decisions: ClusterDecisions, node: int) -> None:
    """Give up splits whose groups would go to a node that never comes back."""
    for name, target in list(decisions.targets.items()):
        if node in target.replicas:
            _give_up(decisions, name)


def _give_up(decisions: ClusterDecisions, name: str) -> None:
    if decisions.splits[name].is_made:
        decisions.put_target(name, None)
    else:
        decisions.drop_group(name)


def advance_splits(decisions: ClusterDecisions, live: LiveNodes) -> None:
    """Split groups whose leaders have yielded. One that moves, or has no leader, waits."""
    for name, split in sorted(decisions.splits.items()):
        if split.is_made or split.source in decisions.moves:
            continue
        state = decisions.groups.get(split.source)
        if state is None:
            decisions.drop_group(name)
        else:
            lives = live.of(split.source)
            if is_led(state, lives) and decisions.handovers.may_leave(state):
                _make(decisions, name, split, lives)


def _make(decisions: ClusterDecisions, name: str, split: Split, lives: Collection[int]) -> None:
    state = decisions.groups[split.source]
    led = elected(state, state.leader, state.leader_incarnation, lives)
    decisions.put_split(name, msgspec.structs.replace(split, epoch=state.epoch))
    decisions.put_group(replace(led, splits=state.splits + 1))
    decisions.put_group(replace(led, name=name, splits=0))
    if set(decisions.targets[name].replicas) <= set(state.replicas):
        _move_on(decisions, name)


def _move_on(decisions: ClusterDecisions, name: str) -> None:
    move, now = decisions.moves.get(name), decisions.groups[name].replicas
    decisions.put_move(name, PlannedMove(decisions.targets[name].replicas, now if move is None else move.before))
    decisions.put_target(name, None)


def _are_in(decisions: ClusterDecisions, group: str, log_ids: tuple[int, ...]) -> bool:
    """Return True for logs that are in the group, and that nobody wants elsewhere yet."""
    places = places_of(decisions.splits)
    # What is in no group that was split off is where it was created.
    is_first = group not in decisions.splits
    wanted = {log_id for split in decisions.splits.values() if not split.is_made for log_id in split.log_ids}
    return all(places.get(each, group if is_first else "") == group and each not in wanted for each in log_ids)


def _problem(replicas: Replicas, able: Collection[int], count: int) -> str | None:
    """Name the reason for which a group cannot have these replicas, None if it can."""
    if len(set(replicas)) != len(replicas) or not count <= len(replicas) <= REPLICAS_MAX:
        return f"The replicas must be distinct, and at least {count}."
    return None if set(replicas) <= set(able) else "A new replica is on a node that is not alive."


def _refused(error: ErrorCode, message: str) -> CommandReply:
    return CommandReply(error, message)
