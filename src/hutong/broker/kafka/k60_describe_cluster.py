"""DescribeCluster (key 60, versions 0-2): the nodes and the controller (KIP-700).

From 1 the caller may ask for controllers instead of brokers; there are none to connect to, which Kafka's brokers
answer with UNSUPPORTED_ENDPOINT_TYPE too.
"""

from typing import Final

from hutong.broker.broker import AUTHORIZED_OPERATIONS_NOT_ASKED
from hutong.broker.context import RequestContext
from hutong.wire.kafka.apis.k60_describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 60
_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    identity = context.broker.identity
    if request.endpoint_type != _BROKERS:
        known = request.endpoint_type == _CONTROLLERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="This address serves brokers only.",
            endpoint_type=_BROKERS,
        )
    return DescribeClusterResponse(
        endpoint_type=_BROKERS,
        cluster_id=identity.cluster_id,
        controller_id=identity.node_id,
        brokers=[DescribeClusterBroker(identity.node_id, identity.host, identity.port)],
        cluster_authorized_operations=AUTHORIZED_OPERATIONS_NOT_ASKED,
    )
