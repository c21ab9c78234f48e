"""PEEK_MESSAGE (200052): look at the messages that a group would pop next.

They stay for others, and it does not count as a delivery. A group that has never popped is not there, as with RocketMQ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.broker.rights.authorization import check
from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.broker.rocketmq.requests.pop.r200050_pop import PopRequest
from hutong.security.acls import Operation, ResourceType
from hutong.wire.rocketmq.codes import ResponseCode

if TYPE_CHECKING:
    from hutong.broker.rocketmq.context import RocketContext
    from hutong.remoting.channels.answers import Answer


def handle(context: RocketContext) -> Answer:
    peek = PopRequest(context, is_peek=True)
    kafka = context.kafka(peek.group)
    check(kafka, Operation.READ, ResourceType.GROUP, peek.group)
    check(kafka, Operation.READ, ResourceType.TOPIC, peek.name)
    if not context.parts.broker.share_groups.rules_of(peek.group).is_pop:
        raise RocketRefused(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{peek.group[:127]}] does not exist"
        )
    peek.begin(None)
    return peek.pending
