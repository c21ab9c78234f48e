"""ShareFetch (key 78), versions 1 and 2, flexible from 0 (KIP-932).

Version 2 adds the acquire mode (KIP-1206) and the renewal of locks (KIP-1222).
"""

from collections.abc import Sequence

from hutong.wire.buffer import Buffer
from hutong.wire.kafka.apis.shared import AcknowledgeTopic, NodeEndpoint, ShareLeader, TopicIdPartitions
from hutong.wire.kafka.schema import (
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    message,
    nested,
    record_batches,
    string,
    struct,
    uuid,
)


@message(api_key=78, versions="1-2", flexible="0+")
class ShareFetchRequest:
    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2**31 - 1)
    max_records: int = int32()
    batch_size: int = int32()
    share_acquire_mode: int = int8("2+")
    is_renew_ack: bool = boolean("2+")
    topics: list[AcknowledgeTopic] = array(AcknowledgeTopic)
    forgotten_topics_data: list[TopicIdPartitions] = array(TopicIdPartitions)


@struct
class AcquiredRecords:
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_count: int = int16()


@struct
class PartitionData:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acknowledge_error_code: int = int16()
    acknowledge_error_message: str | None = string(nullable="0+", default=None)
    current_leader: ShareLeader = nested(ShareLeader)
    records: Sequence[Buffer] | Buffer = record_batches()
    acquired_records: list[AcquiredRecords] = array(AcquiredRecords)


@struct
class ShareFetchableTopicResponse:
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@message(api_key=78, versions="1-2", flexible="0+")
class ShareFetchResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32()
    responses: list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)
