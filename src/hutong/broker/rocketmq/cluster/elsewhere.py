"""Commands that another node must handle: the leader of their queue, or the coordinator of their group.

Strategy: a handler raises LedElsewhere before it has changed anything, and the whole command goes to that node. So any
node takes a client's commands, wherever the leader of the queue is. What was handed over once is not handed over again:
it is refused, and the first node looks for the leader anew for a while. That may be the node itself by then.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.handling.cluster_view import CoordinationKind
from hutong.broker.handling.own_session import own_session
from hutong.broker.rocketmq.refusals import answer_of
from hutong.broker.topics.group_standing import NO_LEADER
from hutong.broker.topics.led_topics import LedElsewhere
from hutong.foundation.errors import HutongError, NothingSent, ProtocolError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.remoting.channels.answers import Answer, ReadyAnswer, refusal
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.codes import ResponseCode
from hutong.wire.rocketmq.command import BINARY, Command, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.broker.handling.session import ClientSession
    from hutong.broker.rocketmq.context import RocketContext
    from hutong.broker.topics.partition import Partition
    from hutong.foundation.waiting.pending import Continuation

NOT_YET_MS_MAX: Final = 2_000  # until another node knows what this one does: clients give a send 3 s
_NOT_YET: Final = frozenset((ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SERVICE_NOT_AVAILABLE))
_SIZE_BYTES: Final = 4


class NotYetHandled(Refused):
    """An answer of another node that may be another one soon: it has yet to hear of a topic, or of a leader."""

    def __init__(self, answer: Command) -> None:
        super().__init__(ErrorCode.NOT_LEADER_OR_FOLLOWER, answer.remark or "")
        self.answer = answer


def check_led_here(context: RocketContext, partition: Partition) -> None:
    """Raise LedElsewhere where another node of the cluster leads the partition, Refused where the disk has failed."""
    standing = partition.standing
    if not context.parts.broker.cluster.is_alone and not standing.is_led_here:
        raise LedElsewhere(lambda: standing.leader)
    partition.check_served()


def check_coordinated_here(context: RocketContext, group: str) -> None:
    """Raise LedElsewhere where this node does not coordinate the group."""
    broker = context.parts.broker
    find = partial(broker.cluster.coordinator_of, CoordinationKind.GROUP, group)
    if find() != broker.identity.node_id:
        raise LedElsewhere(find)


def coordinator_of(context: RocketContext, group: str) -> int:
    """The node that coordinates a group. Raises Refused while there is none."""
    node = context.parts.broker.cluster.coordinator_of(CoordinationKind.GROUP, group)
    if node == NO_LEADER:
        raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"Nobody coordinates {group} at this moment.")
    return node


def handed_over(context: RocketContext, error: LedElsewhere) -> Answer:
    """The answer of the node that must handle the command."""
    pending: Pending[ReadyAnswer] = Pending()
    hand_over(context, error, pending.complete)
    return pending


def hand_over(context: RocketContext, error: LedElsewhere, then: Callable[[Command], None]) -> None:
    """Have another node handle the command; `then` gets its answer."""
    # The two nodes do not agree who leads: it would go round.
    if context.is_handed_over:
        then(answer_of(error))
        return
    _ask(context, error.find, context.command, context.session(), then)


def ask_coordinator(context: RocketContext, group: str, command: Command, then: Callable[[Command], None]) -> None:
    """Have the coordinator of a group, which may be this node, handle a command of this node itself."""
    find = partial(context.parts.broker.cluster.coordinator_of, CoordinationKind.GROUP, group)
    _ask(context, find, command, own_session(), then)


def _ask(
    context: RocketContext,
    find: Callable[[], int],
    command: Command,
    session: ClientSession,
    then: Callable[[Command], None],
) -> None:
    cluster = context.parts.broker.cluster
    frame = b"".join(encode(command, serialization=BINARY))[_SIZE_BYTES:]

    def attempt(answered: Continuation[Command]) -> None:
        node = find()
        # Nobody leads at this moment.
        if node == NO_LEADER:
            answered(NotYetHandled(answer_of(LedElsewhere(find))))
        else:
            cluster.hand_over(node, frame, session, partial(_decode_answer, answered))

    def ended(outcome: Command | HutongError) -> None:
        if isinstance(outcome, NotYetHandled):
            then(outcome.answer)
        else:
            then(answer_of(outcome) if isinstance(outcome, HutongError) else outcome)

    cluster.ask_again(attempt, lambda outcome: isinstance(outcome, NotYetHandled), NOT_YET_MS_MAX, ended)


def _decode_answer(then: Continuation[Command], outcome: bytes | HutongError) -> None:
    # The node has died a moment ago, and another one is to lead: nothing has been done yet.
    if isinstance(outcome, NothingSent):
        then(NotYetHandled(refusal(ResponseCode.SERVICE_NOT_AVAILABLE, str(outcome))))
        return
    if isinstance(outcome, HutongError):
        then(outcome)
        return
    try:
        answer = decode(outcome[_SIZE_BYTES:])
    # Another version of this program, maybe.
    except ProtocolError as broken:
        then(broken)
        return
    then(NotYetHandled(answer) if answer.code in _NOT_YET else answer)
