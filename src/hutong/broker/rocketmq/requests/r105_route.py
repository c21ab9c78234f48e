"""GET_ROUTEINFO_BY_TOPIC (105): the queues of a topic, and where they are. This node is its own name server.

Producers ask for the route of TBW102 where a topic is missing: a topic with the default number of queues, after whose
model a broker creates others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.rights.authorization import may
from hutong.broker.rocketmq.cluster.routes import route_of, route_to
from hutong.broker.rocketmq.records.names import log_name
from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.remoting.channels.answers import Answer
from hutong.security.acls import Operation, ResourceType
from hutong.wire.rocketmq.bodies import TopicRouteData, encode_body
from hutong.wire.rocketmq.codes import REPLY_TOPIC_END, ResponseCode
from hutong.wire.rocketmq.command import Command

if TYPE_CHECKING:
    from hutong.broker.rocketmq.context import RocketContext

MODEL_TOPIC: Final = "TBW102"
QUEUES_OF_MODEL: Final = 8  # `defaultTopicQueueNums` of RocketMQ's broker; clients take 4 of them by default
PERMISSION_INHERITED: Final = 1


def handle(context: RocketContext) -> Answer:
    asked = context.text("topic")
    broker = context.parts.broker
    # Where topics are not created there is no model: clients report that the topic has no route.
    if asked == MODEL_TOPIC and broker.settings.auto_create_topics:
        return _answer(route_of(context, QUEUES_OF_MODEL, PERMISSION_INHERITED))
    cluster_name = context.parts.identity.cluster_name
    # The first is created with the first reply, whose sender asks for the route first. By the other RocketMQ's proxy
    # finds the brokers of a cluster: each of RocketMQ's has a topic of that name.
    if asked in (cluster_name + REPLY_TOPIC_END, cluster_name):
        return _answer(route_of(context, 1))
    name = log_name(asked)
    topic = broker.topics.get(name)
    route = route_to(context, asked) if topic is None else None
    if route is not None:
        return _answer(route)
    is_shown = topic is not None and not topic.is_internal
    # A topic that the client may not see is not there for it.
    if topic is None or not is_shown or not may(context.kafka(), Operation.DESCRIBE, ResourceType.TOPIC, name):
        raise RocketRefused(
            ResponseCode.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {asked[:127]}"
        )
    return _answer(route_of(context, len(topic.partitions)))


def _answer(route: TopicRouteData) -> Command:
    return Command(ResponseCode.SUCCESS, body=encode_body(route))
