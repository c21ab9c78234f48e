"""Reassignments of partitions, as moves of partition groups (KIP-455).

    all partitions of a group, with the same replicas    the group moves
    some of them                                         they get a group of their own, which moves
    what is so already                                   nothing

Strategy: partitions of one group share a journal, so they have the same replicas. Those that shall have the same ones
leave their group together. The controller is asked first what is under way.

Knows nothing of requests, nor of how a group moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from hutong.broker.topics.internal_topics import ONE_LEADER
from hutong.broker.topics.lifetimes import lifetime_of
from hutong.cluster.controller.commands import (
    CommandReply,
    ControllerCommand,
    ControllerStatus,
    MoveGroup,
    ShowStatus,
    SplitGroup,
    SplitProgress,
)
from hutong.foundation.errors import HutongError, Refused
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.topics.partition import Partition
    from hutong.broker.topics.parts import TopicParts
    from hutong.foundation.waiting.pending import Continuation

Wishes = Mapping["Partition", "tuple[int, ...] | None"]
"""The replicas that each partition shall have, None to cancel what is under way."""
Outcomes = dict["Partition", "HutongError | None"]
_Order = tuple[list["Partition"], ControllerCommand]
_NOTHING: Final = ControllerStatus((), ())


class GroupMove(NamedTuple):
    """A group on its way: it had the replicas `before`, and shall have `target`."""

    before: tuple[int, ...]
    target: tuple[int, ...]


class GroupMoves:
    """The moves under way: of groups, and of partitions that are about to leave their group."""

    def __init__(self, status: ControllerStatus) -> None:
        self.of_groups = {
            each.name: GroupMove(each.before, each.target) for each in status.groups if each.target is not None
        }
        self._leaving: dict[int, tuple[str, SplitProgress]] = {
            log_id: (name, split) for name, split in status.splits.items() for log_id in split.log_ids
        }

    def of(self, partition: Partition) -> GroupMove | None:
        """The replicas that a partition has and shall have, None where it stays."""
        leaving = self.leaving(partition)
        if leaving is None:
            return self.of_groups.get(partition.group)
        return GroupMove(partition.standing.replicas, leaving[1].target)

    def leaving(self, partition: Partition) -> tuple[str, SplitProgress] | None:
        """The group of its own that a partition has, or will have, before that moves on."""
        return None if partition.is_internal else self._leaving.get(partition.log.partition_id)


def show_moves(broker: TopicParts, then: Continuation[GroupMoves]) -> None:
    """`then` gets what is under way."""

    def replied(outcome: CommandReply | HutongError) -> None:
        then(outcome if isinstance(outcome, HutongError) else GroupMoves(outcome.status or _NOTHING))

    broker.cluster.command(ShowStatus(), replied)


def move_groups(wishes: Wishes, broker: TopicParts, then: Continuation[Outcomes]) -> None:
    """Begin or cancel the moves that the wishes amount to; `then` gets an outcome for each partition."""
    outcomes: Outcomes = {}

    def found(moves: GroupMoves | HutongError) -> None:
        if isinstance(moves, HutongError):
            then(moves)
            return
        orders: list[_Order] = []
        for asked, members in _together(wishes, broker, moves):
            try:
                orders += _orders(asked, members, moves)
            except Refused as refused:
                outcomes.update(dict.fromkeys(asked, refused))
            else:
                outcomes.update(dict.fromkeys(asked))
        _obey(orders)

    def _obey(orders: Sequence[_Order]) -> None:
        if not orders:
            then(outcomes)
            return
        (partitions, command), *rest = orders

        def replied(outcome: CommandReply | HutongError) -> None:
            outcomes.update(dict.fromkeys(partitions, _error_of(outcome)))
            _obey(rest)

        broker.cluster.command(command, replied)

    show_moves(broker, found)


def _error_of(outcome: CommandReply | HutongError) -> HutongError | None:
    if isinstance(outcome, HutongError):
        return outcome
    return None if outcome.error == ErrorCode.NONE else Refused(ErrorCode(outcome.error), outcome.message)


def _together(wishes: Wishes, broker: TopicParts, moves: GroupMoves) -> Iterable[tuple[Wishes, list[Partition]]]:
    """The wishes for partitions that are, or are about to be, in one group, each with all partitions of that."""
    for group in sorted({partition.group for partition in wishes}):
        by_next_group: dict[str, list[Partition]] = {}
        for partition in broker.topics.of_group(group):
            leaving = moves.leaving(partition)
            by_next_group.setdefault(group if leaving is None else leaving[0], []).append(partition)
        for members in by_next_group.values():
            asked = {partition: wishes[partition] for partition in members if partition in wishes}
            if asked:
                yield asked, members


def _orders(asked: Wishes, members: Sequence[Partition], moves: GroupMoves) -> list[_Order]:
    """The commands for the partitions of one group. Raises Refused."""
    (first, *_), wanted, leaving = members, set(asked.values()), moves.leaving(members[0])
    group, move = first.group if leaving is None else leaving[0], moves.of(first)
    if wanted == {None} and move is None:
        raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"The partition group {group} is not on its way.")
    if len(wanted) == 1 and len(asked) == len(members):
        (replicas,) = wanted
        if move is None and replicas == first.standing.replicas:
            return []
        # The controller gives a group that has fewer another one.
        count = len(first.standing.replicas if move is None else move.before)
        if replicas is not None and len(replicas) < count:
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The partition group {group} keeps its {count} replicas."
            )
        return [(list(asked), MoveGroup(group, replicas or ()))]
    if move is not None:
        raise Refused(ErrorCode.REASSIGNMENT_IN_PROGRESS, _why_refused(group, members))
    return list(_splits(asked, group, first.standing.replicas))


def _splits(asked: Wishes, group: str, now: tuple[int, ...]) -> Iterable[_Order]:
    """The commands that take partitions out of a group that is at rest: those with the same wish go together."""
    if any(partition.topic_name in ONE_LEADER for partition in asked):
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The node's own topics move with all of {group}.")
    for replicas in dict.fromkeys(asked.values()):
        partitions = [partition for partition, wish in asked.items() if wish == replicas]
        if replicas is None:
            raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"The partition group {group} is not on its way.")
        if replicas != now:
            log_ids = tuple(partition.log.partition_id for partition in partitions)
            yield partitions, SplitGroup(group, lifetime_of(group), log_ids, replicas)


def _why_refused(group: str, members: Iterable[Partition]) -> str:
    names = sorted({partition.topic_name for partition in members})
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return (
        f"The partition group {group} is on its way: wait, or name all of its partitions, which are of {shown}, with "
        f"the same replicas in the same order, or use `hutong cluster move {group}`."
    )
