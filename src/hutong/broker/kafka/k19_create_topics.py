"""CreateTopics (key 19, versions 2-7): create topics with their settings (KIP-4).

A partition count or replication factor of -1 takes the node's default (KIP-464). Manual assignments are accepted
where they name this node alone. Among several nodes they are refused, and a replication factor may be up to the number
of nodes, but the cluster decides. From 5 the answer carries the resulting settings (KIP-525), from 7 the topic's id. A
topic that is named twice in one request is refused. `validate_only` decides and changes nothing.

The client needs CREATE, of the cluster or the topic; without DESCRIBE_CONFIGS of the topic it does not see
the resulting settings.
"""

from __future__ import annotations

from collections import Counter

from hutong.broker.configs.node_configs import SOURCE_TOPIC
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.holders import holder_of
from hutong.broker.handling.responses import PendingInParts, put_error
from hutong.broker.quotas.meter import mutations_of
from hutong.broker.rights.authorization import may, may_in_cluster
from hutong.broker.topics.lifetimes import partition_group_for
from hutong.broker.topics.partition import Topic
from hutong.broker.topics.parts import TopicParts
from hutong.broker.topics.replicas import check_assignment, check_replication_factor
from hutong.broker.topics.topic_config import KEYS, effective
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

STRICT_FROM_VERSION = 6  # KIP-599: what goes over the quota for changes of partitions is refused
API_KEY = 19


def handle(
    request: CreateTopicsRequest, context: RequestContext[TopicParts]
) -> CreateTopicsResponse | Pending[CreateTopicsResponse]:
    broker, holder = context.broker, holder_of(context)
    pending = PendingInParts(CreateTopicsResponse())
    mutations = mutations_of(context, STRICT_FROM_VERSION)
    named = Counter(topic.name for topic in request.topics)
    may_create_all = may_in_cluster(context, Operation.CREATE, quietly=True)

    def settle(result: CreatableTopicResult, outcome: Topic | HutongError | None) -> None:
        _put_outcome(result, outcome)
        pending.settle_part()

    for asked in {topic.name: topic for topic in request.topics}.values():
        result = CreatableTopicResult(asked.name)
        pending.response.topics.append(result)
        pending.expect_part()
        try:
            if named[asked.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if not (may_create_all or may(context, Operation.CREATE, ResourceType.TOPIC, asked.name)):
                raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
            count = _partition_count(asked, context)
            overrides = {config.name: config.value for config in asked.configs}
            if None in overrides.values():
                raise Refused(ErrorCode.INVALID_CONFIG, "A setting of a new topic has a value.")
            # Before the quota: what is refused anyway must not use up the client's changes (KIP-599).
            checked = broker.topics.check_creation(asked.name, count, overrides, holder)
            mutations.take(count)
            if may(context, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, asked.name, quietly=True):
                _describe_result(result, count, checked, broker)
            else:
                result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                result.configs = []
            if request.validate_only:
                settle(result, None)
            else:
                broker.topics.create(
                    asked.name,
                    count,
                    overrides,
                    lambda outcome, result=result: settle(result, outcome),  # type: ignore[misc]
                    holder,
                )
        except Refused as refused:
            settle(result, refused)
    mutations.throttle(pending.response, context.session)
    return pending.answer()


def _partition_count(asked: CreatableTopic, context: RequestContext[TopicParts]) -> int:
    """The number of partitions asked for. Raises Refused with Kafka's codes."""
    if asked.assignments:
        # Assignments give both numbers, and two answers to one question might differ.
        if asked.num_partitions != -1 or asked.replication_factor != -1:
            raise Refused(ErrorCode.INVALID_REQUEST, "Assignments exclude a partition count and a replication factor.")
        if sorted(item.partition_index for item in asked.assignments) != list(range(len(asked.assignments))):
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Partitions are numbered from 0 without gaps.")
        for item in asked.assignments:
            check_assignment(item.broker_ids, context)
        return len(asked.assignments)
    check_replication_factor(asked.replication_factor, context)
    return context.broker.settings.default_partitions if asked.num_partitions == -1 else asked.num_partitions


def _describe_result(result: CreatableTopicResult, count: int, overrides: dict[str, str], broker: TopicParts) -> None:
    result.num_partitions = count
    group = partition_group_for(effective(overrides, broker.topics.defaults))
    result.replication_factor = len(broker.topics.standings[group].replicas)
    result.configs = []
    for name, key in KEYS.items():
        value, source = broker.admin.node_configs.layers(key)[0]
        if name in overrides:
            value, source = overrides[name], SOURCE_TOPIC
        result.configs.append(CreatableTopicConfigs(name=name, value=value, config_source=source))


def _put_outcome(result: CreatableTopicResult, outcome: Topic | HutongError | None) -> None:
    if isinstance(outcome, Topic):
        result.topic_id = outcome.topic_id
    elif outcome is not None:
        put_error(result, outcome)
        result.num_partitions = result.replication_factor = -1
        result.configs = []
