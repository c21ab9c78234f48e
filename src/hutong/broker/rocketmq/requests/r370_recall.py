"""RECALL_MESSAGE (370): keep a delayed message from its topic.

The message need not be there, as in RocketMQ: a recall is stored, and the message is left out when it comes. One whose
time has passed is refused. So are handles of other brokers and other topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.broker.rights.authorization import check
from hutong.broker.rocketmq.cluster.elsewhere import hand_over
from hutong.broker.rocketmq.records.names import log_name
from hutong.broker.rocketmq.refusals import RocketRefused, answer_of
from hutong.broker.topics.led_topics import LedElsewhere
from hutong.foundation.errors import HutongError, ProtocolError
from hutong.foundation.waiting.pending import Pending
from hutong.remoting.channels.answers import Answer, ReadyAnswer, refusal
from hutong.security.acls import Operation, ResourceType
from hutong.wire.rocketmq.codes import ResponseCode
from hutong.wire.rocketmq.command import Command
from hutong.wire.rocketmq.recall_handles import RecallHandle, decode_handle

if TYPE_CHECKING:
    from hutong.broker.rocketmq.context import RocketContext


def handle(context: RocketContext) -> Answer:
    asked = context.text("topic")
    name = log_name(asked)
    check(context.kafka(), Operation.WRITE, ResourceType.TOPIC, name)
    topic = context.parts.broker.topics.get(name)
    if topic is None or topic.is_internal:
        raise RocketRefused(ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{asked}] not exist")
    found = _checked(context, asked)
    pending: Pending[ReadyAnswer] = Pending()

    def recalled(outcome: bool | HutongError) -> None:
        # Recalls are where the queues are.
        if isinstance(outcome, LedElsewhere):
            hand_over(context, outcome, pending.complete)
        elif isinstance(outcome, HutongError):
            pending.complete(answer_of(outcome))
        elif outcome:
            pending.complete(Command(ResponseCode.SUCCESS, fields={"msgId": found.message_id}))
        else:
            pending.complete(refusal(ResponseCode.ILLEGAL_OPERATION, "recall failed, timestamp invalid"))

    owner = context.channel.peer.owner
    context.parts.broker.delays().recall(name, found.message_id.encode(), found.due_ms, owner, recalled)
    return pending


def _checked(context: RocketContext, topic: str) -> RecallHandle:
    """The handle that the client gives. Raises RocketRefused."""
    parts = context.parts
    try:
        found = decode_handle(context.text("recallHandle"))
    except ProtocolError as error:
        raise RocketRefused(ResponseCode.ILLEGAL_OPERATION, str(error)) from None
    if found.topic != topic:
        raise RocketRefused(ResponseCode.ILLEGAL_OPERATION, "recall failed, topic not match")
    if found.broker != parts.identity.broker_name:
        raise RocketRefused(ResponseCode.ILLEGAL_OPERATION, "recall failed, it is a message of another broker")
    # No message waits so long; such a recall would be kept as long.
    if not 0 < found.due_ms - parts.broker.clock.wall_ms() <= parts.delay_max_ms:
        raise RocketRefused(ResponseCode.ILLEGAL_OPERATION, "recall failed, timestamp invalid")
    return found
