"""CreatePartitions (key 37, versions 0-3): let a topic grow (KIP-195). It never shrinks."""

from __future__ import annotations

from hutong.broker.context import Later, RequestContext
from hutong.broker.gather import Gather, put_error
from hutong.foundation.errors import HutongError, Refused
from hutong.wire.kafka.apis.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 37


def handle(
    request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse | Later[CreatePartitionsResponse]:
    gather = Gather(CreatePartitionsResponse())

    def settle(result: CreatePartitionsTopicResult, outcome: HutongError | None) -> None:
        if outcome is not None:
            put_error(result, outcome)
        gather.settled()

    for asked in request.topics:
        result = CreatePartitionsTopicResult(asked.name)
        gather.response.results.append(result)
        gather.expect()
        try:
            _check(asked, context)
            topic = context.broker.topics.get(asked.name)
            if topic is None or topic.is_internal:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This node hosts no such topic.")
            if request.validate_only:
                context.broker.topics.check_growth(topic, asked.count)
                settle(result, None)
            else:
                context.broker.topics.add_partitions(
                    topic,
                    asked.count,
                    lambda outcome, result=result: settle(result, outcome),  # type: ignore[misc]
                )
        except Refused as refused:
            settle(result, refused)
    return gather.returned()


def _check(asked: CreatePartitionsTopic, context: RequestContext) -> None:
    node_id = context.broker.identity.node_id
    if asked.assignments and any(assignment.broker_ids != [node_id] for assignment in asked.assignments):
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Only this node can hold replicas.")
