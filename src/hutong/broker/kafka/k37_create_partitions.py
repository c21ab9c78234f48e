"""CreatePartitions (key 37, versions 0-3): let a topic grow (KIP-195). It never shrinks.

Assignments of the new partitions, one each, may name this node alone. What is named twice stays as it is.
The client needs ALTER of the topic.
"""

from __future__ import annotations

from collections import Counter

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import PendingInParts, put_error
from hutong.broker.quotas.meter import mutations_of
from hutong.broker.rights.authorization import may
from hutong.broker.topics.parts import TopicParts
from hutong.broker.topics.replicas import check_assignment
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from hutong.wire.kafka.error_codes import ErrorCode

STRICT_FROM_VERSION = 3  # KIP-599: what goes over the quota for changes of partitions is refused
API_KEY = 37


def handle(
    request: CreatePartitionsRequest, context: RequestContext[TopicParts]
) -> CreatePartitionsResponse | Pending[CreatePartitionsResponse]:
    pending = PendingInParts(CreatePartitionsResponse())

    def settle(result: CreatePartitionsTopicResult, outcome: HutongError | None) -> None:
        if outcome is not None:
            put_error(result, outcome)
        pending.settle_part()

    mutations = mutations_of(context, STRICT_FROM_VERSION)
    times = Counter(asked.name for asked in request.topics)
    for asked in {asked.name: asked for asked in request.topics}.values():
        result = CreatePartitionsTopicResult(asked.name)
        pending.response.results.append(result)
        pending.expect_part()
        try:
            if times[asked.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "A request names a topic once.")
            if not may(context, Operation.ALTER, ResourceType.TOPIC, asked.name):
                result.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                pending.settle_part()
                continue
            topic = context.broker.topics.get(asked.name)
            if topic is None or topic.is_internal:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This node hosts no such topic.")
            context.broker.topics.check_growth(topic, asked.count)
            _check(asked, len(topic.partitions), context)
            mutations.take(asked.count - len(topic.partitions))
            if request.validate_only:
                settle(result, None)
            else:
                context.broker.topics.add_partitions(
                    topic,
                    asked.count,
                    lambda outcome, result=result: settle(result, outcome),  # type: ignore[misc]
                )
        except Refused as refused:
            settle(result, refused)
    mutations.throttle(pending.response, context.session)
    return pending.answer()


def _check(asked: CreatePartitionsTopic, now: int, context: RequestContext[TopicParts]) -> None:
    """Check the assignments of new partitions, if there are any. Raises Refused."""
    if asked.assignments is None:
        return
    if len(asked.assignments) != asked.count - now:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{asked.count - now} new partitions need as many assignments."
        )
    for assignment in asked.assignments:
        check_assignment(assignment.broker_ids, context)
