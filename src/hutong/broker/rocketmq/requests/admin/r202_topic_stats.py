"""GET_TOPIC_STATS_INFO (202): the offsets of each queue of a topic, and about the time of its last message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.broker.rights.authorization import check
from hutong.broker.rocketmq.records.names import log_name, rocketmq_name
from hutong.remoting.channels.answers import Answer
from hutong.security.acls import Operation, ResourceType
from hutong.wire.rocketmq.admin_bodies import TopicOffset
from hutong.wire.rocketmq.bodies import RocketQueue
from hutong.wire.rocketmq.codes import ResponseCode
from hutong.wire.rocketmq.command import Command
from hutong.wire.rocketmq.queue_tables import encode_queue_table

if TYPE_CHECKING:
    from hutong.broker.rocketmq.context import RocketContext
    from hutong.broker.topics.partition import Topic
    from hutong.journal.log import PartitionLog


def handle(context: RocketContext) -> Answer:
    name = log_name(context.text("topic"))
    check(context.kafka(), Operation.DESCRIBE, ResourceType.TOPIC, name)
    topic = context.topic(name)
    table: dict[RocketQueue, TopicOffset] = {}
    for queue, log in queues_of(context, topic):
        start, end = log.start_offset, log.last_stable_offset
        # From memory: to read a record of each queue would take as many turns at the disk.
        table[queue] = TopicOffset(start, end, time_before(log, end))
    return Command(ResponseCode.SUCCESS, body=encode_queue_table("offsetTable", table, topicPutTps=0.0))


def queues_of(context: RocketContext, topic: Topic) -> list[tuple[RocketQueue, PartitionLog]]:
    """The queues of a topic that this node leads, by RocketMQ's names, and their logs. Raises Refused.

    In a cluster tools ask each node, and put their answers together.
    """
    name, broker_name = rocketmq_name(topic.name), context.parts.identity.broker_name
    found: list[tuple[RocketQueue, PartitionLog]] = []
    for partition in topic.partitions:
        if not partition.standing.is_led_here and not context.parts.broker.cluster.is_alone:
            continue
        partition.check_served()
        found.append((RocketQueue(name, broker_name, partition.index), partition.log))
    return found


def time_before(log: PartitionLog, offset: int) -> int:
    """About the time of the last message before an offset; 0 if there is none, or no longer."""
    return max(0, log.timestamp_near(offset - 1)) if log.start_offset < offset <= log.last_stable_offset else 0
