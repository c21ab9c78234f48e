"""AlterPartitionReassignments (key 45, versions 0-1): who holds a partition's replicas (KIP-455, KIP-860).

A partition goes with its partition group, which has other partitions too. So a reassignment to the replicas that it has
is done at once, any other is refused, and there is none to cancel.
The client needs ALTER of the cluster.
"""

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import put_error
from hutong.broker.rights.authorization import may_in_cluster, refusal
from hutong.broker.topics.parts import TopicParts
from hutong.broker.topics.replicas import check_replicas
from hutong.foundation.errors import Refused
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
) -> AlterPartitionReassignmentsResponse:
    if not may_in_cluster(context, Operation.ALTER):
        return _denied(request)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change or not request.topics,
        responses=[
            ReassignableTopicResponse(
                topic.name, [_reassign(topic.name, asked, context.broker) for asked in topic.partitions]
            )
            for topic in request.topics
        ],
    )


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
        if broker.cluster.is_alone:
            check_replicas(asked.replicas, broker.identity.node_id)
        elif set(asked.replicas) != set(partition.standing.replicas):
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The partition goes with its partition group {partition.group}, which the cluster places.",
            )
    except Refused as refused:
        put_error(result, refused)
    return result
