"""GET_CONSUME_STATS (208): the lag of a group, by queue; QUERY_TOPIC_CONSUME_BY_WHO (300): the groups of a topic.

A group is one that has committed an offset, whichever protocol its clients speak. What a client has fetched and not
committed is known to nobody here, so nothing is shown as in flight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.broker.rights.authorization import check, permitted
from hutong.broker.rocketmq.offsets import NONE_COMMITTED, CommittedOffsets, find_offsets
from hutong.broker.rocketmq.records.names import log_name
from hutong.broker.rocketmq.refusals import answer_of
from hutong.broker.rocketmq.requests.admin.r202_topic_stats import queues_of, time_before
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Pending
from hutong.remoting.channels.answers import Answer, ReadyAnswer
from hutong.security.acls import Operation, ResourceType
from hutong.wire.rocketmq.admin_bodies import ConsumeOffset, GroupList
from hutong.wire.rocketmq.bodies import RocketQueue, encode_body
from hutong.wire.rocketmq.codes import ResponseCode
from hutong.wire.rocketmq.command import Command
from hutong.wire.rocketmq.queue_tables import encode_queue_table

if TYPE_CHECKING:
    from hutong.broker.rocketmq.context import RocketContext


def handle_stats(context: RocketContext) -> Answer:
    group = context.text("consumerGroup")
    check(context.kafka(), Operation.DESCRIBE, ResourceType.GROUP, group)
    pending: Pending[ReadyAnswer] = Pending()

    def found(offsets: CommittedOffsets | HutongError) -> None:
        try:
            pending.complete(answer_of(offsets) if isinstance(offsets, HutongError) else _stats(context, offsets))
        # A queue whose disk has failed, for example.
        except HutongError as error:
            pending.complete(answer_of(error))

    find_offsets(context, group, found)
    return pending


def _stats(context: RocketContext, offsets: CommittedOffsets) -> Command:
    asked = context.text("topic", "")
    names = [log_name(asked)] if asked else sorted(offsets)
    seen = permitted(context.kafka(), Operation.DESCRIBE, ResourceType.TOPIC, names)
    table: dict[RocketQueue, ConsumeOffset] = {}
    for name in names:
        topic = context.parts.broker.topics.get(name)
        # It was deleted, or is one of the node's own.
        if topic is None or topic.is_internal or name not in seen:
            continue
        for queue, log in queues_of(context, topic):
            # As RocketMQ: a queue without an offset is shown as one that nobody has begun with.
            committed = max(0, offsets.get(name, {}).get(queue.queueId, NONE_COMMITTED))
            end = log.last_stable_offset
            table[queue] = ConsumeOffset(end, committed, committed, time_before(log, committed))
    return Command(ResponseCode.SUCCESS, body=encode_queue_table("offsetTable", table, consumeTps=0.0))


def handle_readers(context: RocketContext) -> Answer:
    asked = context.text("topic")
    name = log_name(asked)
    check(context.kafka(), Operation.DESCRIBE, ResourceType.TOPIC, name)
    offsets, clients = context.parts.broker.groups.offsets.table, context.parts.clients
    groups = {group for group in offsets.groups() if name in offsets.of_group(group)}
    # Members that have committed nothing yet.
    groups |= {group.name for group in clients.groups() if asked in group.subscriptions}
    seen = permitted(context.kafka(), Operation.DESCRIBE, ResourceType.GROUP, groups, quietly=True)
    return Command(ResponseCode.SUCCESS, body=encode_body(GroupList(sorted(seen))))
