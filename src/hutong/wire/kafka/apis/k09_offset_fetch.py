"""OffsetFetch (key 9), versions 1 to 10, flexible from 6.

Version 2 adds the top-level error, and null for "all topics"; 5 adds leader epochs (KIP-320), 7 the choice to wait for
pending transactions (KIP-447). From version 8 many groups are asked for at once (KIP-709), the one-group fields are
gone. Version 9 adds the member and its epoch (KIP-848), 10 names topics by id. An offset of -1 means that nothing is
committed.
"""

from hutong.wire.kafka.schema import INT32, array, boolean, int16, int32, int64, message, string, struct, uuid


@struct
class OffsetFetchRequestTopic:
    name: str = string()
    partition_indexes: list[int] = array(INT32)


@struct
class OffsetFetchRequestTopics:
    name: str = string("8-9")
    topic_id: bytes = uuid("10+")
    partition_indexes: list[int] = array(INT32)


@struct
class OffsetFetchRequestGroup:
    group_id: str = string()
    member_id: str | None = string("9+", nullable="9+", default=None)
    member_epoch: int = int32("9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, nullable="0+")


@message(api_key=9, versions="1-10", flexible="6+")
class OffsetFetchRequest:
    group_id: str = string("0-7")
    topics: list[OffsetFetchRequestTopic] | None = array(OffsetFetchRequestTopic, "0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+")
    require_stable: bool = boolean("7+")


@struct
class OffsetFetchResponsePartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("5-7", default=-1)
    metadata: str | None = string(nullable="0+")
    error_code: int = int16()


@struct
class OffsetFetchResponseTopic:
    name: str = string()
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition)


@struct
class OffsetFetchResponsePartitions:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(default=-1)
    metadata: str | None = string(nullable="0+")
    error_code: int = int16()


@struct
class OffsetFetchResponseTopics:
    name: str = string("8-9")
    topic_id: bytes = uuid("10+")
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions)


@struct
class OffsetFetchResponseGroup:
    group_id: str = string()
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics)
    error_code: int = int16()


@message(api_key=9, versions="1-10", flexible="6+")
class OffsetFetchResponse:
    throttle_time_ms: int = int32("3+")
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "0-7")
    error_code: int = int16("2-7")
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+")
