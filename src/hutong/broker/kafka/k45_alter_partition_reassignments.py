"""AlterPartitionReassignments (key 45, versions 0-1): who holds a partition's replicas (KIP-455, KIP-860).

On a node alone a reassignment to that node is done at once, any other is refused, and there is none to cancel. In a
cluster a partition moves with its partition group, or gets a group of its own first (`topics.group_moves`). The client
needs ALTER of the cluster.
"""

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import put_error
from hutong.broker.rights.authorization import may_in_cluster, refusal
from hutong.broker.topics.partition import Partition
from hutong.broker.topics.parts import TopicParts
from hutong.broker.topics.replicas import check_replicas
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 45


def handle(
    request: AlterPartitionReassignmentsRequest, context: RequestContext[TopicParts]
) -> AlterPartitionReassignmentsResponse | Pending[AlterPartitionReassignmentsResponse]:
    if not may_in_cluster(context, Operation.ALTER):
        return _denied(request)
    if not context.broker.cluster.is_alone:
        return _reassign_groups(request, context.broker)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change or not request.topics,
        responses=[
            ReassignableTopicResponse(
                topic.name, [_reassign(topic.name, asked, context.broker) for asked in topic.partitions]
            )
            for topic in request.topics
        ],
    )


def _reassign_groups(
    request: AlterPartitionReassignmentsRequest, broker: TopicParts
) -> Pending[AlterPartitionReassignmentsResponse]:
    from hutong.broker.topics.group_moves import Outcomes, move_groups  # late: a node alone moves nothing

    pending: Pending[AlterPartitionReassignmentsResponse] = Pending()
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change or not request.topics
    )
    results: list[tuple[Partition, ReassignablePartitionResponse]] = []
    wishes: dict[Partition, tuple[int, ...] | None] = {}
    for topic in request.topics:
        answer = ReassignableTopicResponse(topic.name)
        response.responses.append(answer)
        for asked in topic.partitions:
            result = ReassignablePartitionResponse(asked.partition_index, error_message=None)
            answer.partitions.append(result)
            partition = broker.topics.partition(topic.name, asked.partition_index)
            if partition is None:
                put_error(result, Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such partition."))
            else:
                wishes[partition] = None if asked.replicas is None else tuple(asked.replicas)
                results.append((partition, result))

    def moved(outcomes: Outcomes | HutongError) -> None:
        for partition, result in results:
            error = outcomes if isinstance(outcomes, HutongError) else outcomes[partition]
            if error is not None:
                put_error(result, error)
        pending.complete(response)

    move_groups(wishes, broker, moved)
    return pending


def _denied(request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
    denied = refusal(ResourceType.CLUSTER)
    return AlterPartitionReassignmentsResponse(
        error_code=denied.code,
        error_message=denied.message,
        responses=[
            ReassignableTopicResponse(
                topic.name,
                [
                    ReassignablePartitionResponse(asked.partition_index, denied.code, denied.message)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _reassign(topic: str, asked: ReassignablePartition, broker: TopicParts) -> ReassignablePartitionResponse:
    result = ReassignablePartitionResponse(asked.partition_index, error_message=None)
    try:
        partition = broker.topics.partition(topic, asked.partition_index)
        if partition is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This node hosts no such partition.")
        if asked.replicas is None:
            raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "There is no reassignment to cancel.")
        check_replicas(asked.replicas, broker.identity.node_id)
    except Refused as refused:
        put_error(result, refused)
    return result
