"""DescribeTopicPartitions (key 75), version 0, flexible from 0.

Metadata in pages: the cursor of an answer that was cut at the limit goes into the next request (KIP-966).
"""

from hutong.wire.kafka.schema import INT32, array, boolean, int16, int32, message, nested, string, struct, uuid, value


@struct
class TopicRequest:
    name: str = string()


@value
class Cursor:
    topic_name: str = string()
    partition_index: int = int32()


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    topics: list[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: Cursor | None = nested(Cursor, nullable="0+", default=None)


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1)
    replica_nodes: list[int] = array(INT32)
    isr_nodes: list[int] = array(INT32)
    eligible_leader_replicas: list[int] | None = array(INT32, nullable="0+", default=None)
    last_known_elr: list[int] | None = array(INT32, nullable="0+", default=None)
    offline_replicas: list[int] = array(INT32)


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: int = int16()
    name: str | None = string(nullable="0+")
    topic_id: bytes = uuid()
    is_internal: bool = boolean()
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(DescribeTopicPartitionsResponsePartition)
    topic_authorized_operations: int = int32(default=-(2**31))


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    throttle_time_ms: int = int32()
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: Cursor | None = nested(Cursor, nullable="0+", default=None)
