"""DescribeCluster (key 60, versions 0-2): the nodes and the controller (KIP-700).

From 1 the caller may ask for controllers instead of brokers (KIP-919); that is asked at the wrong address, as at any of
Kafka's brokers. Every client may see the nodes. Clients with DESCRIBE of the cluster see its operations, too.
"""

from typing import Final

from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import OPERATIONS_NOT_ASKED, cluster_operations
from hutong.broker.topics.parts import TopicParts
from hutong.wire.kafka.apis.k60_describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 60
_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(request: DescribeClusterRequest, context: RequestContext[TopicParts]) -> DescribeClusterResponse:
    cluster = context.broker.cluster
    if request.endpoint_type != _BROKERS:
        known = request.endpoint_type == _CONTROLLERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="This address serves brokers only.",
            cluster_authorized_operations=OPERATIONS_NOT_ASKED,
        )
    return DescribeClusterResponse(
        cluster_id=context.broker.identity.cluster_id,
        controller_id=cluster.controller_id,
        brokers=[
            DescribeClusterBroker(node.node_id, node.host, node.port, node.rack)
            for node in cluster.nodes(context.listener)
        ],
        cluster_authorized_operations=cluster_operations(
            context, is_asked=request.include_cluster_authorized_operations
        ),
    )
