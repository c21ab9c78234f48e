"""DescribeQuorum (key 55, versions 0-2): who keeps the metadata (KIP-595, KIP-836, KIP-853).

The metadata that Kafka calls `__cluster_metadata` is the internal topic `__hutong_metadata` here, with
its offsets. Those in sync have all that is committed, so they are shown at the high watermark; of others no offset is
known. The listener of the client's name is shown as that of the controllers. The client needs DESCRIBE of the cluster.
"""

from typing import Final

from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import may_in_cluster, refusal
from hutong.broker.topics.internal_topics import METADATA_TOPIC
from hutong.broker.topics.lifetimes import METADATA_GROUP
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
_EPOCH_ALONE: Final = 1
_UNKNOWN: Final = -1


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
    partition, standing = broker.topics.partition(METADATA_TOPIC, 0), broker.topics.standings[METADATA_GROUP]
    end_offset = partition.log.high_watermark if partition is not None else 0
    now_ms = broker.clock.wall_ms()
    voters = []
    for node in standing.replicas:
        is_in_sync = node in standing.in_sync
        seen_ms = now_ms if is_in_sync else _UNKNOWN
        voters.append(
            ReplicaState(
                replica_id=node,
                log_end_offset=end_offset if is_in_sync else _UNKNOWN,
                last_fetch_timestamp=seen_ms,
                last_caught_up_timestamp=seen_ms,
            )
        )
    return PartitionData(
        partition_index=0,
        leader_id=standing.leader,
        leader_epoch=_EPOCH_ALONE if broker.cluster.is_alone else standing.leader_epoch,
        high_watermark=end_offset,
        current_voters=voters,
    )


def _unknown(index: int) -> PartitionData:
    return PartitionData(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No quorum keeps this partition.")


def _nodes(context: RequestContext[TopicParts]) -> list[Node]:
    nodes = context.broker.cluster.nodes(context.listener)
    return [Node(node.node_id, [Listener("CONTROLLER", node.host, node.port)]) for node in nodes]
