"""QUERY_ASSIGNMENT (400) and SET_MESSAGE_REQUEST_MODE (401): queues that the node shares out, to pop or to pull.

A client that leaves the sharing out to the broker (`setClientRebalance(false)`) pops, here without being told by an
administrator. It pops all queues, and the topic of its retries has none for it: messages come again in their own queue.
In a cluster it pops at each node that leads some of them, by the name of the broker that writes there (`hutong-N`). The
group's coordinator answers.
A group that has offsets of pulls goes on with pulls, and broadcasting does. Then each member gets as many queues as
every other, in the order of their ids (`AllocateMessageQueueAveragely`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hutong.broker.rights.authorization import check
from hutong.broker.rocketmq.cluster.routes import leading_brokers
from hutong.broker.rocketmq.records.names import log_name
from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.broker.rocketmq.requests.admin.asking import settled
from hutong.broker.rocketmq.requests.pop.groups import coordinators_of, make_group, may_pop
from hutong.broker.rocketmq.requests.pop.r200050_pop import ALL_QUEUES
from hutong.foundation.waiting.pending import Pending
from hutong.security.acls import Operation, ResourceType
from hutong.wire.rocketmq.bodies import (
    BROADCASTING,
    POP_MODE,
    PULL_MODE,
    AssignmentRequest,
    AssignmentResponse,
    QueueAssignment,
    RequestModeRequest,
    RocketQueue,
    decode_body,
    encode_body,
)
from hutong.wire.rocketmq.codes import RETRY_PREFIX, ResponseCode
from hutong.wire.rocketmq.command import Command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hutong.broker.rocketmq.context import RocketContext
    from hutong.remoting.channels.answers import Answer, ReadyAnswer


def handle_query(context: RocketContext) -> Answer:
    asked = decode_body(AssignmentRequest, context.command.body)
    name = log_name(asked.topic)
    check(context.kafka(), Operation.READ, ResourceType.GROUP, asked.consumerGroup)
    check(context.kafka(), Operation.DESCRIBE, ResourceType.TOPIC, name)
    shard = coordinators_of(context, asked.consumerGroup)
    topic = context.parts.broker.topics.get(name)
    if topic is None or topic.is_internal:
        raise RocketRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{asked.topic[:127]}] not exist")
    pops = asked.messageModel != BROADCASTING and may_pop(shard, asked.consumerGroup)
    broker_name = context.parts.identity.broker_name
    if not pops:
        queue_ids = _share(context, asked, len(topic.partitions))
        queues = [RocketQueue(asked.topic, broker_name, queue_id) for queue_id in queue_ids]
    else:
        make_group(context, shard, asked.consumerGroup)
        brokers = [] if asked.topic.startswith(RETRY_PREFIX) else leading_brokers(context, topic)
        queues = [RocketQueue(asked.topic, name, ALL_QUEUES) for name in brokers]
    mode = POP_MODE if pops else PULL_MODE
    assignments = [QueueAssignment(queue, mode) for queue in queues]
    return Command(ResponseCode.SUCCESS, body=encode_body(AssignmentResponse(assignments)))


def handle_mode(context: RocketContext) -> Answer:
    asked = decode_body(RequestModeRequest, context.command.body)
    check(context.kafka(), Operation.ALTER_CONFIGS, ResourceType.GROUP, asked.consumerGroup)
    shard = coordinators_of(context, asked.consumerGroup)
    is_pop = may_pop(shard, asked.consumerGroup)
    # The kind of a group decides, and that is fixed by what it has done first.
    if (asked.mode == POP_MODE) is not is_pop:
        does = "pops" if is_pop else "pulls, since it has offsets of pulls"
        raise RocketRefused(ResponseCode.SYSTEM_ERROR, f"Group {asked.consumerGroup[:127]} {does}.")
    if not is_pop:
        return Command(ResponseCode.SUCCESS)
    make_group(context, shard, asked.consumerGroup)
    pending: Pending[ReadyAnswer] = Pending()
    shard.share_groups.keep(asked.consumerGroup, partial(settled, pending))
    return pending


def _share(context: RocketContext, asked: AssignmentRequest, queues: int) -> Sequence[int]:
    if asked.messageModel == BROADCASTING:
        return range(queues)
    group = context.parts.clients.group(asked.consumerGroup)
    members = sorted(group.members) if group is not None else []
    # Its heartbeat comes in a moment, and then it asks again.
    if asked.clientId not in members:
        return []
    index, (each, more) = members.index(asked.clientId), divmod(queues, len(members))
    begin = index * each + min(index, more)
    return range(begin, begin + each + (index < more))
