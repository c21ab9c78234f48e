"""UPDATE_AND_CREATE_TOPIC (17), DELETE_TOPIC_IN_BROKER (215) and DELETE_TOPIC_IN_NAMESRV (216).

A topic has as many queues to read as to write, grows and never shrinks, and may be read and written. What asks for
something else is refused. The attribute `message.type` is a setting of the topic. Rights are those of Kafka's
CreateTopics, CreatePartitions, IncrementalAlterConfigs and DeleteTopics.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from hutong.broker.kafka import (
    k19_create_topics,
    k20_delete_topics,
    k37_create_partitions,
    k44_incremental_alter_configs,
)
from hutong.broker.rights.authorization import check
from hutong.broker.rocketmq.records.names import log_name
from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.broker.rocketmq.requests.admin.asking import answer_to, answered, check_controlled_here, followed
from hutong.broker.topics.topic_config import MESSAGE_TYPE
from hutong.remoting.channels.answers import Answer
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from hutong.wire.kafka.apis.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from hutong.wire.kafka.apis.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from hutong.wire.kafka.apis.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from hutong.wire.rocketmq.codes import PERMISSION_READ_WRITE, ResponseCode
from hutong.wire.rocketmq.command import Command

if TYPE_CHECKING:
    from hutong.broker.rocketmq.context import RocketContext

QUEUES_DEFAULT: Final = 8
_TYPE_ATTRIBUTE: Final = "message.type"  # only RocketMQ's proxies look at it
_ATTRIBUTE: Final = re.compile(r"\+([^=]+)=(.*)|-(.+)", re.DOTALL)  # what is set, what is removed
_CREATE_VERSION: Final = 7
_DELETE_VERSION: Final = 6
_GROW_VERSION: Final = 3
_ALTER_VERSION: Final = 1
_SET, _DELETE = 0, 1  # operations of KIP-339


def handle_put(context: RocketContext) -> Answer:
    check_controlled_here(context)
    name, queues, change = _log_name(context.text("topic")), _queues(context), _type_change(context)
    topic = context.parts.broker.topics.get(name)
    if topic is None:
        # With the node's replicas, and its defaults for all else.
        configs = [] if change is None or change.value is None else [CreatableTopicConfig(MESSAGE_TYPE, change.value)]
        creation = CreatableTopic(name, num_partitions=queues, replication_factor=-1, configs=configs)
        asked = CreateTopicsRequest(topics=[creation])
        created = k19_create_topics.handle(asked, context.kafka(api_version=_CREATE_VERSION))
        return answered(created, lambda response: answer_to(response.topics[0]))
    check(context.kafka(), Operation.ALTER, ResourceType.TOPIC, name)
    has = len(topic.partitions)
    if queues < has:
        raise RocketRefused(
            ResponseCode.INVALID_PARAMETER, f"{name} has {has} queues: a topic grows, and never shrinks."
        )
    # RocketMQ's tools set everything again to change one thing.
    if change is None or change.value == topic.overrides.get(MESSAGE_TYPE):
        return _grow(context, name, has, queues)
    altered = IncrementalAlterConfigsRequest([AlterConfigsResource(ResourceType.TOPIC, name, [change])])
    outcome = k44_incremental_alter_configs.handle(altered, context.kafka(api_version=_ALTER_VERSION))
    answer = answered(outcome, lambda response: answer_to(response.responses[0]))
    return followed(answer, lambda: _grow(context, name, has, queues))


def _grow(context: RocketContext, name: str, has: int, queues: int) -> Answer:
    if queues == has:
        return Command(ResponseCode.SUCCESS)
    growth = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name, count=queues, assignments=None)])
    grown = k37_create_partitions.handle(growth, context.kafka(api_version=_GROW_VERSION))
    return answered(grown, lambda response: answer_to(response.results[0]))


def handle_delete(context: RocketContext) -> Answer:
    check_controlled_here(context)
    name = _log_name(context.text("topic"))
    check(context.kafka(), Operation.DELETE, ResourceType.TOPIC, name)
    # As RocketMQ: what is not there is deleted.
    if context.parts.broker.topics.get(name) is None:
        return Command(ResponseCode.SUCCESS)
    asked = DeleteTopicsRequest(topics=[DeleteTopicState(name)])
    deleted = k20_delete_topics.handle(asked, context.kafka(api_version=_DELETE_VERSION))
    return answered(deleted, lambda response: answer_to(response.responses[0]))


def handle_forget(context: RocketContext) -> Answer:
    """Answer the second half of a deletion: this name server knows what the broker knows."""
    check(context.kafka(), Operation.DELETE, ResourceType.TOPIC, _log_name(context.text("topic")))
    return Command(ResponseCode.SUCCESS)


def _queues(context: RocketContext) -> int:
    """The number of queues that is asked for. Raises RocketRefused for what no topic here can be."""
    queues = context.integer("writeQueueNums", QUEUES_DEFAULT, bits=32)
    if context.integer("readQueueNums", queues, bits=32) != queues:
        raise _invalid("A topic here has as many queues to read as to write.")
    if queues <= 0:
        raise _invalid(f"A topic of {queues} queues.")
    if context.integer("perm", PERMISSION_READ_WRITE) != PERMISSION_READ_WRITE:
        raise _invalid("A topic here is readable and writable (perm 6); ACLs say who may do what.")
    if context.text("order", "false") == "true":
        raise _invalid("A topic here keeps no list of its queues: messages of each queue are in order anyway.")
    return queues


def _type_change(context: RocketContext) -> AlterableConfig | None:
    """The change of the setting, None where there is none. Raises RocketRefused for other attributes."""
    attributes = context.text("attributes", "")
    change = None
    for each in filter(None, attributes.split(",")):
        found = _ATTRIBUTE.fullmatch(each)
        if found is None or _TYPE_ATTRIBUTE not in (found[1], found[3]):
            raise _invalid(f"A topic here has no attributes but message.type: {attributes:.100}")
        change = AlterableConfig(MESSAGE_TYPE, _DELETE if found[3] else _SET, found[2])
    return change


def _log_name(topic: str) -> str:
    try:
        return log_name(topic)
    except RocketRefused as refused:
        raise _invalid(str(refused)) from None


def _invalid(text: str) -> RocketRefused:
    return RocketRefused(ResponseCode.INVALID_PARAMETER, text)
