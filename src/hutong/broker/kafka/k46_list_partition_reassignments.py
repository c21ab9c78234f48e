"""ListPartitionReassignments (key 46, version 0): what is being moved (KIP-455).

Partitions go with their partition groups, so none is ever moved alone. The client needs DESCRIBE of the cluster.
"""

from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import may_in_cluster, refusal
from hutong.broker.topics.parts import TopicParts
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

API_KEY = 46


def handle(
    request: ListPartitionReassignmentsRequest, context: RequestContext[TopicParts]
) -> ListPartitionReassignmentsResponse:
    if not may_in_cluster(context, Operation.DESCRIBE):
        denied = refusal(ResourceType.CLUSTER)
        return ListPartitionReassignmentsResponse(
            error_code=denied.code,
            error_message=denied.message,
            topics=[
                OngoingTopicReassignment(
                    asked.name, [OngoingPartitionReassignment(index) for index in asked.partition_indexes]
                )
                for asked in request.topics or ()
            ],
        )
    return ListPartitionReassignmentsResponse(error_message=None)
