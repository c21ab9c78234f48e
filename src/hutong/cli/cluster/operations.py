"""Commands that take a while: they are given, and then watched until the controller has carried them out.

Strategy: the controller keeps what is wanted, so an interrupted command goes on without us. Progress is a sentence on
standard error whenever it changes.

Knows nothing of the command line.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from hutong.cli.cluster.asking import Operator
from hutong.cli.output import remark
from hutong.cluster.controller.commands import (
    BalanceGroups,
    ControllerStatus,
    DrainNode,
    ForgetNode,
    GroupProgress,
    MemberStatus,
    MoveGroup,
    ShowStatus,
    UndrainNode,
)
from hutong.foundation.errors import ExitCode, UsageError

LOOK_SECONDS: Final = 1.0

Replicas = tuple[int, ...]
Changed = dict[str, Replicas]


def status_of(bootstrap: str) -> ControllerStatus:
    """The nodes and groups as the controller sees them. Raises UsageError."""
    return _status(Operator(bootstrap))


def drained(bootstrap: str, node: int, *, wait: bool) -> Changed:
    """Drain a node; returns the groups that it has still, with the replicas they shall have."""
    operator, said = Operator(bootstrap), Said()
    while True:
        # Asked again, a drain tells how far it is.
        reply = operator.ask(DrainNode(node))
        assert reply.status is not None, "a drain tells its progress"
        member = next(each for each in reply.status.nodes if each.node == node)
        leaving = [name for name, replicas in reply.groups.items() if node not in replicas]
        # With too few other nodes its replicas stay: they would be lost to the count of copies.
        if not member.led_groups and not leaving:
            if reply.groups:
                remark(f"Node {node} leads nothing; it keeps replicas that no other node can take.")
            return reply.groups
        if not wait:
            return reply.groups
        said.say(f"Node {node}: leads {member.led_groups}, {len(leaving)} replicas are to leave.")
        time.sleep(LOOK_SECONDS)


def balanced(bootstrap: str, *, is_dry_run: bool, wait: bool) -> Changed:
    """Balance the cluster; returns the groups that move, with their new replicas."""
    operator = Operator(bootstrap)
    plan = operator.ask(BalanceGroups(is_dry_run)).groups
    if wait and not is_dry_run:
        _watch_moves(operator, plan)
    return plan


def added(bootstrap: str, node: int, *, wait: bool) -> Changed:
    """Give a node its share; returns the groups that move, with their new replicas."""
    operator = Operator(bootstrap)
    member = _member(operator, node)
    if not member.is_live:
        raise UsageError(f"Node {node} is not alive: start it first.", ExitCode.UNAVAILABLE)
    if member.is_drained:
        operator.ask(UndrainNode(node))
    return balanced(bootstrap, is_dry_run=False, wait=wait)


def removed(bootstrap: str, node: int) -> None:
    """Drain a node, wait until it is stopped, and forget it."""
    kept = drained(bootstrap, node, wait=True)
    if kept:
        names = ", ".join(sorted(kept))
        raise UsageError(
            f"No other node can take its replicas of {names}; `hutong cluster forget` gives them up.", ExitCode.TEMPFAIL
        )
    operator, said = Operator(bootstrap), Said()
    while _member(operator, node).is_live:
        said.say(f"Node {node} has nothing any more: stop it now.")
        time.sleep(LOOK_SECONDS)
    operator.ask(ForgetNode(node))


def moved(bootstrap: str, move: MoveGroup, *, wait: bool) -> Changed:
    """Move a group, or take back its move; returns the replicas that it shall have."""
    operator = Operator(bootstrap)
    plan = operator.ask(move).groups
    if wait:
        _watch_moves(operator, plan)
    return plan


def member_rows(status: ControllerStatus) -> list[dict[str, Any]]:
    return [
        {
            "node": each.node,
            "alive": each.is_live,
            "drained": each.is_drained,
            "rack": each.rack,
            "leads": each.led_groups,
            "replicas": each.replicas,
            "behind": each.replicas_behind,
            "failed": each.replicas_failed,
            "moving_out": each.moving_out,
            "free_bytes": each.disk.free_bytes if each.disk is not None else None,
            "disk_bytes": each.disk.total_bytes if each.disk is not None else None,
        }
        for each in status.nodes
    ]


def group_rows(status: ControllerStatus) -> list[dict[str, Any]]:
    return [
        {
            "group": each.name,
            "leader": each.leader,
            "epoch": each.epoch,
            "replicas": each.replicas,
            "in_sync": each.in_sync,
            "needed": each.min_in_sync,
            "moving_to": each.target,
            "held_bytes": each.held_bytes,
            "stream_bytes": each.stream_bytes,
            "lag_bytes": each.lags,
            "copied_bytes": each.copied_bytes,
            "throttle": each.copied_bytes_per_second_max or None,
        }
        for each in status.groups
    ]


class Said:
    """The last sentence of progress: the same one is not said twice."""

    def __init__(self, say: Callable[[str], None] = remark) -> None:
        self._say = say
        self._last = ""

    def say(self, sentence: str) -> None:
        if sentence != self._last:
            self._last = sentence
            self._say(sentence)


def _watch_moves(operator: Operator, plan: Mapping[str, Replicas]) -> None:
    said = Said()
    while True:
        moving = [each for each in _status(operator).groups if each.name in plan and each.target is not None]
        if not moving:
            return
        ways = ", ".join(map(_way, moving))
        said.say(f"{len(plan) - len(moving)} of {len(plan)} groups have moved; on their way: {ways}.")
        time.sleep(LOOK_SECONDS)


def _way(group: GroupProgress) -> str:
    copied = group.copied_bytes
    return group.name if copied is None else f"{group.name} ({copied:,} of {group.stream_bytes:,} bytes)"


def _member(operator: Operator, node: int) -> MemberStatus:
    member = next((each for each in _status(operator).nodes if each.node == node), None)
    if member is None:
        raise UsageError(f"No node {node} has ever been here.", ExitCode.NOINPUT)
    return member


def _status(operator: Operator) -> ControllerStatus:
    status = operator.ask(ShowStatus()).status
    if status is None:
        raise UsageError("The controller told no status; it is of another version.", ExitCode.PROTOCOL)
    return status
