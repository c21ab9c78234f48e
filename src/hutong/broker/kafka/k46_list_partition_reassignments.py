"""ListPartitionReassignments (key 46, version 0): what is being moved (KIP-455).

On one node a reassignment is done at once, so none goes on. The client needs DESCRIBE of the cluster.
"""

from hutong.broker.authorization import check_cluster
from hutong.broker.context import RequestContext
from hutong.foundation.errors import Refused
from hutong.security.acls import Operation
from hutong.wire.kafka.apis.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

API_KEY = 46


def handle(request: ListPartitionReassignmentsRequest, context: RequestContext) -> ListPartitionReassignmentsResponse:
    try:
        check_cluster(context, Operation.DESCRIBE)
    except Refused as refused:
        return ListPartitionReassignmentsResponse(error_code=refused.code, error_message=refused.message)
    return ListPartitionReassignmentsResponse(error_message=None)
