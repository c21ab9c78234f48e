"""ACK_MESSAGE (200051) and CHANGE_MESSAGE_INVISIBLETIME (200053): what became of a message that was popped.

An acknowledgement is answered when it is on disk. One that comes after the invisible time has ended, or after the node
has started anew, is refused with NO_MESSAGE: the message may be with somebody else. The other request sets how long the
message stays invisible from now on; 0 gives it back at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.broker.rights.authorization import check
from hutong.broker.rocketmq.records.names import log_name
from hutong.broker.rocketmq.refusals import RocketRefused, code_of
from hutong.broker.rocketmq.requests.pop.r200050_pop import INVISIBLE_MS_MAX
from hutong.broker.rocketmq.requests.pop.receipts import member_of, number_of
from hutong.foundation.waiting.pending import Pending
from hutong.groups.share.delivery.messages import Acknowledge, AcknowledgedBatch, Acknowledgement
from hutong.groups.share.records import PartitionKey
from hutong.remoting.channels.answers import refusal
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.codes import ResponseCode
from hutong.wire.rocketmq.command import Command

if TYPE_CHECKING:
    from typing import Final

    from hutong.broker.rocketmq.context import RocketContext
    from hutong.groups.share.delivery.messages import Settled
    from hutong.remoting.channels.answers import Answer, ReadyAnswer

_NOT_HELD: Final = (
    ErrorCode.INVALID_RECORD_STATE,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # nobody has popped there since the node has started
)


def handle_ack(context: RocketContext) -> Answer:
    return _settle(context, Acknowledgement.ACCEPT, None, {})


def handle_change(context: RocketContext) -> Answer:
    invisible_ms = min(max(0, context.integer("invisibleTime")), INVISIBLE_MS_MAX)
    fields = {
        "popTime": str(context.parts.broker.clock.wall_ms()),
        "invisibleTime": str(invisible_ms),
        "reviveQid": str(number_of(context.text("extraInfo"))),
    }
    kind = Acknowledgement.RENEW if invisible_ms else Acknowledgement.RELEASE
    return _settle(context, kind, invisible_ms, fields)


def _settle(context: RocketContext, kind: Acknowledgement, lock_ms: int | None, fields: dict[str, str]) -> Answer:
    key = key_of(context, context.text("consumerGroup"), context.text("topic"), context.integer("queueId"))
    offset, member_id = context.integer("offset"), member_of(number_of(context.text("extraInfo")))
    pending: Pending[ReadyAnswer] = Pending()

    def settled(outcome: Settled) -> None:
        if outcome.error is ErrorCode.NONE:
            pending.complete(Command(ResponseCode.SUCCESS, fields=fields))
        else:
            pending.complete(refusal(code_of_settled(outcome), outcome.message or outcome.error.name))

    if offset < 0:
        raise RocketRefused(ResponseCode.NO_MESSAGE, f"There is no offset {offset}.")
    batch = AcknowledgedBatch(offset, offset, [kind])
    broker = context.parts.broker
    event = Acknowledge(member_id, broker.clock.monotonic_ms(), [batch], lock_ms=lock_ms)
    broker.share_deliveries.acknowledge(key, event, settled)
    return pending


def key_of(context: RocketContext, group: str, topic_name: str, queue_id: int) -> PartitionKey:
    """The share partition of a group and a queue that this node leads. Raises RocketRefused, Refused, LedElsewhere."""
    name = log_name(topic_name)
    check(context.kafka(group), Operation.READ, ResourceType.GROUP, group)
    check(context.kafka(group), Operation.READ, ResourceType.TOPIC, name)
    partition = context.partition(name, queue_id)
    return PartitionKey(group, context.topic(name).topic_id, partition.index)


def code_of_settled(outcome: Settled) -> ResponseCode:
    """RocketMQ's code for an acknowledgement that failed."""
    return ResponseCode.NO_MESSAGE if outcome.error in _NOT_HELD else code_of(outcome.error)
