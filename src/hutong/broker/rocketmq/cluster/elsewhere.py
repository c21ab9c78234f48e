"""Commands that another node must handle: the leader of their queue, or the coordinator of their group.

Strategy: a handler raises LedElsewhere before it has changed anything, and the whole command goes to that node. So any
node takes a client's commands, wherever the leader of the queue is. What was handed over once is not handed over again;
the client hears SERVICE_NOT_AVAILABLE, and tries again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.handling.cluster_view import CoordinationKind
from hutong.broker.rocketmq.refusals import answer_of
from hutong.broker.topics.group_standing import NO_LEADER
from hutong.foundation.errors import HutongError, ProtocolError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.remoting.channels.answers import Answer, ReadyAnswer
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.command import BINARY, Command, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.broker.rocketmq.context import RocketContext
    from hutong.broker.topics.partition import Partition

_SIZE_BYTES: Final = 4


class LedElsewhere(Refused):
    """Raised for a command that `node` must handle."""

    def __init__(self, node: int) -> None:
        super().__init__(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"Node {node} leads it.")
        self.node = node


def check_led_here(context: RocketContext, partition: Partition) -> None:
    """Raise LedElsewhere where another node leads the partition, Refused where nobody does."""
    standing = partition.standing
    if not standing.is_led_here and standing.leader not in (NO_LEADER, context.parts.broker.identity.node_id):
        raise LedElsewhere(standing.leader)
    partition.check_served()


def check_coordinated_here(context: RocketContext, group: str) -> None:
    """Raise LedElsewhere where another node coordinates the group, Refused where nobody does."""
    node = coordinator_of(context, group)
    if node != context.parts.broker.identity.node_id:
        raise LedElsewhere(node)


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
    frame = b"".join(encode(context.command, serialization=BINARY))[_SIZE_BYTES:]

    def answered(outcome: bytes | HutongError) -> None:
        if isinstance(outcome, HutongError):
            then(answer_of(outcome))
            return
        try:
            then(decode(outcome[_SIZE_BYTES:]))
        # Another version of this program, maybe.
        except ProtocolError as broken:
            then(answer_of(broken))

    context.parts.broker.cluster.hand_over(error.node, frame, context.session(), answered)
