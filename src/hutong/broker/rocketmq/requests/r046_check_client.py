"""CHECK_CLIENT_CONFIG (46): a Java client asks at its start whether the node understands its SQL92 expression."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.broker.rights.authorization import check
from hutong.broker.rocketmq.filters import TAG, filter_of
from hutong.security.acls import Operation, ResourceType
from hutong.wire.rocketmq.bodies import CheckClientRequest, decode_body
from hutong.wire.rocketmq.codes import ResponseCode
from hutong.wire.rocketmq.command import Command

if TYPE_CHECKING:
    from hutong.broker.rocketmq.context import RocketContext
    from hutong.remoting.channels.answers import Answer


def handle(context: RocketContext) -> Answer:
    asked = decode_body(CheckClientRequest, context.command.body)
    check(context.kafka(), Operation.READ, ResourceType.GROUP, asked.group)
    subscription = asked.subscriptionData
    if subscription is not None:
        # Refused with code 23 and the reason, which is what the application's `start` throws.
        filter_of(subscription.subString, subscription.expressionType or TAG)
    return Command(ResponseCode.SUCCESS)
