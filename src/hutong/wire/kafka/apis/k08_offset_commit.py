"""OffsetCommit (key 8), versions 2 to 10, flexible from 8.

Retention is chosen by the client up to version 4, by the broker from 5. Version 6 adds leader epochs (KIP-320), 7
static membership (KIP-345). From version 9 members of the new protocol may commit: the generation is then a member
epoch, STALE_MEMBER_EPOCH an answer (KIP-848), and GROUP_ID_NOT_FOUND one for both protocols. Version 10 names topics by
id.
"""

from hutong.wire.kafka.apis.shared import PartitionErrorCode
from hutong.wire.kafka.schema import array, int32, int64, message, string, struct, uuid


@struct
class OffsetCommitRequestPartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("6+", default=-1)
    committed_metadata: str | None = string(nullable="0+")


@struct
class OffsetCommitRequestTopic:
    name: str = string("0-9")
    topic_id: bytes = uuid("10+")
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@message(api_key=8, versions="2-10", flexible="8+")
class OffsetCommitRequest:
    group_id: str = string()
    generation_id_or_member_epoch: int = int32(default=-1)
    member_id: str = string()
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


@struct
class OffsetCommitResponseTopic:
    name: str = string("0-9")
    topic_id: bytes = uuid("10+")
    partitions: list[PartitionErrorCode] = array(PartitionErrorCode)


@message(api_key=8, versions="2-10", flexible="8+")
class OffsetCommitResponse:
    throttle_time_ms: int = int32("3+")
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
