"""ListOffsets (key 2), versions 1 to 11, flexible from 6.

Version 2 adds the isolation level, 4 leader epochs (KIP-320). Special timestamps: -1 latest, -2 earliest, from version
7 -3 greatest timestamp (KIP-734), from 8 -4 earliest local, from 9 -5 last tiered (KIP-1005), from 11 -6 earliest
pending upload (KIP-1023). Version 10 adds a timeout for answers that wait for remote storage (KIP-1075).
"""

from hutong.wire.kafka.schema import array, int8, int16, int32, int64, message, string, struct


@struct
class ListOffsetsPartition:
    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1)
    timestamp: int = int64()


@struct
class ListOffsetsTopic:
    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


@message(api_key=2, versions="1-11", flexible="6+")
class ListOffsetsRequest:
    replica_id: int = int32()
    isolation_level: int = int8("2+")  # 0: read uncommitted; 1: read committed
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32("10+")


@struct
class ListOffsetsPartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32("4+", default=-1)


@struct
class ListOffsetsTopicResponse:
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


@message(api_key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse:
    throttle_time_ms: int = int32("2+")
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
