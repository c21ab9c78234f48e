"""OffsetDelete (key 47), version 0, never flexible.

Forgets committed offsets of partitions that the group is not subscribed to (KIP-496).
"""

from hutong.wire.kafka.apis.shared import PartitionErrorCode
from hutong.wire.kafka.schema import array, int16, int32, message, string, struct


@struct
class OffsetDeleteRequestPartition:
    partition_index: int = int32()


@struct
class OffsetDeleteRequestTopic:
    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@message(api_key=47, versions="0")
class OffsetDeleteRequest:
    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


@struct
class OffsetDeleteResponseTopic:
    name: str = string()
    partitions: list[PartitionErrorCode] = array(PartitionErrorCode)


@message(api_key=47, versions="0")
class OffsetDeleteResponse:
    error_code: int = int16()
    throttle_time_ms: int = int32()
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
