"""LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42): queues that one client consumes in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.broker.rights.authorization import check
from hutong.broker.rocketmq.cluster.elsewhere import check_coordinated_here
from hutong.remoting.channels.answers import Answer
from hutong.security.acls import Operation, ResourceType
from hutong.wire.rocketmq.bodies import LockBatchRequest, LockBatchResponse, decode_body, encode_body
from hutong.wire.rocketmq.codes import ResponseCode
from hutong.wire.rocketmq.command import Command

if TYPE_CHECKING:
    from hutong.broker.rocketmq.context import RocketContext


def handle_lock(context: RocketContext) -> Answer:
    asked, parts = decode_body(LockBatchRequest, context.command.body), context.parts
    check(context.kafka(), Operation.READ, ResourceType.GROUP, asked.consumerGroup)
    # One node has the locks of a group, whichever its members ask.
    check_coordinated_here(context, asked.consumerGroup)
    queues = {(queue.topic, queue.queueId): queue for queue in asked.mqSet}
    now_ms = parts.broker.clock.monotonic_ms()
    taken = parts.locks.lock(asked.consumerGroup, asked.clientId, queues, now_ms)
    body = encode_body(LockBatchResponse([queues[queue] for queue in taken]))
    return Command(ResponseCode.SUCCESS, body=body)


def handle_unlock(context: RocketContext) -> Answer:
    asked = decode_body(LockBatchRequest, context.command.body)
    check(context.kafka(), Operation.READ, ResourceType.GROUP, asked.consumerGroup)
    check_coordinated_here(context, asked.consumerGroup)
    queues = [(queue.topic, queue.queueId) for queue in asked.mqSet]
    context.parts.locks.unlock(asked.consumerGroup, asked.clientId, queues)
    return Command(ResponseCode.SUCCESS)
