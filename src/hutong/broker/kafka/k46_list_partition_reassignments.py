"""ListPartitionReassignments (key 46, version 0): what is being moved (KIP-455).

On one node a reassignment is done at once, so none goes on.
"""

from hutong.broker.context import RequestContext
from hutong.wire.kafka.apis.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

API_KEY = 46


def handle(request: ListPartitionReassignmentsRequest, context: RequestContext) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_message=None)
