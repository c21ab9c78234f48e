"""DeleteTopics (key 20, versions 1-6): delete topics by name or, from 6, by id (KIP-516).

The answer leaves when the deletion is durable; the data is gone from then on. What is named twice is not deleted.
The client needs DELETE, of the cluster or the topic.
"""

from __future__ import annotations

from collections import Counter

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import PendingInParts, put_error
from hutong.broker.quotas.meter import mutations_of
from hutong.broker.rights.authorization import check, may, may_in_cluster, refusal
from hutong.broker.topics.partition import Topic
from hutong.broker.topics.parts import TopicParts
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k20_delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from hutong.wire.kafka.error_codes import ErrorCode

STRICT_FROM_VERSION = 5  # KIP-599: what goes over the quota for changes of partitions is refused
API_KEY = 20
ZERO_UUID = bytes(16)


def handle(
    request: DeleteTopicsRequest, context: RequestContext[TopicParts]
) -> DeleteTopicsResponse | Pending[DeleteTopicsResponse]:
    named = request.topics or [DeleteTopicState(name) for name in request.topic_names]
    times = Counter((item.name, item.topic_id) for item in named)
    asked = {(item.name, item.topic_id): item for item in named}.values()
    pending = PendingInParts(
        DeleteTopicsResponse(responses=[DeletableTopicResult(item.name, item.topic_id) for item in asked])
    )

    def settle(result: DeletableTopicResult, outcome: HutongError | None) -> None:
        if outcome is not None:
            put_error(result, outcome)
        pending.settle_part()

    mutations = mutations_of(context, STRICT_FROM_VERSION)
    may_delete_all = may_in_cluster(context, Operation.DELETE, quietly=True)
    for result in pending.response.responses:
        pending.expect_part()
        try:
            if times[result.name, result.topic_id] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "A request names a topic once.")
            topic = _find(result, context, may_delete_all)
            mutations.take(len(topic.partitions))
            context.broker.topics.delete(topic, lambda outcome, result=result: settle(result, outcome))  # type: ignore[misc]
        except Refused as refused:
            settle(result, refused)
    mutations.throttle(pending.response, context.session)
    return pending.answer()


def _find(result: DeletableTopicResult, context: RequestContext[TopicParts], may_delete_all: bool) -> Topic:
    """The topic that is meant, if the client may delete it. Raises Refused."""
    topics = context.broker.topics
    if result.topic_id != ZERO_UUID:
        if result.name is not None:
            raise Refused(ErrorCode.INVALID_REQUEST, "A topic is named by its name or by its id, not by both.")
        topic = topics.by_id(result.topic_id)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_ID, "This node hosts no topic with that id.")
        if not may_delete_all:
            _check(topic.name, result, context)
    elif result.name is None:
        raise Refused(ErrorCode.INVALID_REQUEST, "A topic is named by its name or by its id.")
    else:
        if not may_delete_all:
            check(context, Operation.DELETE, ResourceType.TOPIC, result.name)
        topic = topics.get(result.name)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This node hosts no such topic.")
    if topic.is_internal:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "Internal topics cannot be deleted.")
    result.name, result.topic_id = topic.name, topic.topic_id
    return topic


def _check(name: str, result: DeletableTopicResult, context: RequestContext[TopicParts]) -> None:
    """Find a topic by its id; only clients that may DESCRIBE it see its name. Raises Refused."""
    if may(context, Operation.DELETE, ResourceType.TOPIC, name):
        return
    if may(context, Operation.DESCRIBE, ResourceType.TOPIC, name, quietly=True):
        result.name = name
    raise refusal(ResourceType.TOPIC)
