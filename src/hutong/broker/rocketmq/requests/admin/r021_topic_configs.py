"""Topics, as RocketMQ describes them: GET_ALL_TOPIC_CONFIG (21), GET_TOPIC_CONFIG (351), and their names.

Names are asked of the name server: GET_ALL_TOPIC_LIST_FROM_NAMESERVER (206) and GET_TOPICS_BY_CLUSTER (224), which has
one cluster here. A client sees the topics that it may DESCRIBE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.rights.authorization import check, permitted
from hutong.broker.rocketmq.records.names import log_name, rocketmq_name
from hutong.broker.topics.topic_config import KEYS, MESSAGE_TYPE
from hutong.remoting.channels.answers import Answer
from hutong.security.acls import Operation, ResourceType
from hutong.wire.rocketmq.admin_bodies import DataVersion, TopicConfigs, TopicList, TopicQueues
from hutong.wire.rocketmq.bodies import encode_body
from hutong.wire.rocketmq.codes import PERMISSION_READ_WRITE, ResponseCode
from hutong.wire.rocketmq.command import Command

if TYPE_CHECKING:
    from hutong.broker.rocketmq.context import RocketContext
    from hutong.broker.topics.partition import Topic

_DEFAULT_TYPE: Final = KEYS[MESSAGE_TYPE].default


def handle_all(context: RocketContext) -> Answer:
    configs = {config.topicName: config for config in map(_config, visible_topics(context))}
    body = TopicConfigs(configs, DataVersion(context.parts.broker.topics.version))
    return Command(ResponseCode.SUCCESS, body=encode_body(body))


def handle_one(context: RocketContext) -> Answer:
    name = log_name(context.text("topic"))
    check(context.kafka(), Operation.DESCRIBE, ResourceType.TOPIC, name)
    return Command(ResponseCode.SUCCESS, body=encode_body(_config(context.topic(name))))


def handle_names(context: RocketContext) -> Answer:
    names = [rocketmq_name(topic.name) for topic in visible_topics(context)]
    return Command(ResponseCode.SUCCESS, body=encode_body(TopicList(names)))


def visible_topics(context: RocketContext) -> list[Topic]:
    """The topics that the client may see, by name."""
    topics = [topic for topic in context.parts.broker.topics.all() if not topic.is_internal]
    names = [topic.name for topic in topics]
    seen = permitted(context.kafka(), Operation.DESCRIBE, ResourceType.TOPIC, names, quietly=True)
    return [topic for topic in topics if topic.name in seen]


def _config(topic: Topic) -> TopicQueues:
    queues = len(topic.partitions)
    attributes = {"message.type": topic.overrides.get(MESSAGE_TYPE, _DEFAULT_TYPE)}
    return TopicQueues(rocketmq_name(topic.name), queues, queues, PERMISSION_READ_WRITE, attributes=attributes)
