"""DescribeQuorum (key 55, versions 0-2): who keeps the metadata: this node alone (KIP-595, KIP-836, KIP-853).

The metadata that Kafka calls `__cluster_metadata` is the internal topic `__hutong_metadata` here, with
its offsets. The node's own listener is shown as that of its controller. The client needs DESCRIBE of the cluster.
"""

from typing import Final

from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import may_in_cluster, refusal
from hutong.broker.topics.catalogue import METADATA_TOPIC
from hutong.broker.topics.parts import TopicParts
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k55_describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 55
QUORUM_TOPIC: Final = "__cluster_metadata"
_EPOCH: Final = 1


def handle(request: DescribeQuorumRequest, context: RequestContext[TopicParts]) -> DescribeQuorumResponse:
    broker, is_found = context.broker, False
    if not may_in_cluster(context, Operation.DESCRIBE):
        denied = refusal(ResourceType.CLUSTER)
        return DescribeQuorumResponse(error_code=denied.code, error_message=denied.message)
    topics = []
    for asked in request.topics:
        partitions = []
        for partition in asked.partitions:
            is_quorum = (asked.topic_name, partition.partition_index) == (QUORUM_TOPIC, 0)
            is_found |= is_quorum
            partitions.append(_quorum(broker) if is_quorum else _unknown(partition.partition_index))
        topics.append(TopicData(asked.topic_name, partitions))
    return DescribeQuorumResponse(topics=topics, nodes=_nodes(context) if is_found else [])


def _quorum(broker: TopicParts) -> PartitionData:
    log = broker.topics.partition(METADATA_TOPIC, 0)
    end_offset = log.log.high_watermark if log is not None else 0
    now_ms = broker.clock.wall_ms()
    voter = ReplicaState(
        replica_id=broker.identity.node_id,
        log_end_offset=end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return PartitionData(
        partition_index=0,
        leader_id=broker.identity.node_id,
        leader_epoch=_EPOCH,
        high_watermark=end_offset,
        current_voters=[voter],
    )


def _unknown(index: int) -> PartitionData:
    return PartitionData(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No quorum keeps this partition.")


def _nodes(context: RequestContext[TopicParts]) -> list[Node]:
    listener = context.listener
    return [Node(context.broker.identity.node_id, [Listener("CONTROLLER", listener.host, listener.port)])]
