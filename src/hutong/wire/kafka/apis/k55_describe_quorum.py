"""DescribeQuorum (key 55), versions 0 to 2, flexible (KIP-595).

Version 1 adds when each replica was heard of (KIP-836), version 2 directory ids, listeners and error messages
(KIP-853).
"""

from hutong.wire.kafka.schema import array, int16, int32, int64, message, string, struct, uint16, uuid


@struct
class AskedPartition:
    partition_index: int = int32()


@struct
class AskedTopic:
    topic_name: str = string()
    partitions: list[AskedPartition] = array(AskedPartition)


@message(api_key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    topics: list[AskedTopic] = array(AskedTopic)


@struct
class ReplicaState:
    replica_id: int = int32()
    replica_directory_id: bytes = uuid("2+")
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64("1+", default=-1)
    last_caught_up_timestamp: int = int64("1+", default=-1)


@struct
class PartitionData:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+")
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[ReplicaState] = array(ReplicaState)
    observers: list[ReplicaState] = array(ReplicaState)


@struct
class TopicData:
    topic_name: str = string()
    partitions: list[PartitionData] = array(PartitionData)


@struct
class Listener:
    name: str = string("2+")
    host: str = string("2+")
    port: int = uint16("2+")


@struct
class Node:
    node_id: int = int32("2+")
    listeners: list[Listener] = array(Listener, "2+")


@message(api_key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+")
    topics: list[TopicData] = array(TopicData)
    nodes: list[Node] = array(Node, "2+")
