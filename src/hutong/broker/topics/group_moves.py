"""Reassignments of partitions, as moves of whole partition groups (KIP-455).

Strategy: partitions of one group share a journal, so they have the same replicas. A request is carried out where it
names all partitions of a group with the same replicas, and where it asks for what is so already. Any other is refused
with the group's name. The controller is asked first which moves are under way.

Knows nothing of requests, nor of how a group moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hutong.cluster.controller.commands import CommandReply, ControllerCommand, MoveGroup, ShowStatus
from hutong.foundation.errors import HutongError, Refused
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.topics.partition import Partition
    from hutong.broker.topics.parts import TopicParts
    from hutong.foundation.waiting.pending import Continuation

Wishes = Mapping["Partition", "tuple[int, ...] | None"]
"""The replicas that each partition shall have, None to cancel the move of its group."""
Outcomes = dict["Partition", "HutongError | None"]


class GroupMove(NamedTuple):
    """A group on its way: it had the replicas `before`, and shall have `target`."""

    before: tuple[int, ...]
    target: tuple[int, ...]


def show_moves(broker: TopicParts, then: Continuation[dict[str, GroupMove]]) -> None:
    """`then` gets the moves that are under way, by the names of their groups."""

    def replied(outcome: CommandReply | HutongError) -> None:
        if isinstance(outcome, HutongError):
            then(outcome)
            return
        groups = () if outcome.status is None else outcome.status.groups
        then({each.name: GroupMove(each.before, each.target) for each in groups if each.target is not None})

    broker.cluster.command(ShowStatus(), replied)


def move_groups(wishes: Wishes, broker: TopicParts, then: Continuation[Outcomes]) -> None:
    """Begin or cancel the moves that the wishes amount to; `then` gets an outcome for each partition."""
    outcomes: Outcomes = {}

    def found(moves: dict[str, GroupMove] | HutongError) -> None:
        if isinstance(moves, HutongError):
            then(moves)
            return
        commands: list[tuple[list[Partition], ControllerCommand]] = []
        for group in sorted({partition.group for partition in wishes}):
            asked = {partition: wish for partition, wish in wishes.items() if partition.group == group}
            try:
                command = _command(group, asked, list(broker.topics.of_group(group)), moves.get(group))
            except Refused as refused:
                outcomes.update(dict.fromkeys(asked, refused))
                continue
            outcomes.update(dict.fromkeys(asked))
            if command is not None:
                commands.append((list(asked), command))
        _obey(commands)

    def _obey(commands: Sequence[tuple[list[Partition], ControllerCommand]]) -> None:
        if not commands:
            then(outcomes)
            return
        (partitions, command), *rest = commands

        def replied(outcome: CommandReply | HutongError) -> None:
            outcomes.update(dict.fromkeys(partitions, _error_of(outcome)))
            _obey(rest)

        broker.cluster.command(command, replied)

    show_moves(broker, found)


def _error_of(outcome: CommandReply | HutongError) -> HutongError | None:
    if isinstance(outcome, HutongError):
        return outcome
    return None if outcome.error == ErrorCode.NONE else Refused(ErrorCode(outcome.error), outcome.message)


def _command(
    group: str, asked: Wishes, members: Sequence[Partition], move: GroupMove | None
) -> ControllerCommand | None:
    """The command for one group, None where all is as it shall be. Raises Refused."""
    wanted = set(asked.values())
    if wanted == {None} and move is None:
        raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"The partition group {group} is not on its way.")
    if move is None and wanted == {members[0].standing.replicas}:
        return None
    if len(wanted) > 1 or set(members) != asked.keys():
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, _why_refused(group, members))
    (replicas,) = wanted
    count = len(members[0].standing.replicas if move is None else move.before)
    # The controller gives a group that has fewer another one.
    if replicas is not None and len(replicas) < count:
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The partition group {group} keeps its {count} replicas.")
    return MoveGroup(group, replicas or ())


def _why_refused(group: str, members: Iterable[Partition]) -> str:
    names = sorted({partition.topic_name for partition in members})
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return (
        f"It goes with its partition group {group}: name all partitions of that group, which are of {shown}, with the "
        f"same replicas in the same order, or use `hutong cluster move {group}`."
    )
