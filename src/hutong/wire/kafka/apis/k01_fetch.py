"""Fetch (key 1), versions 4 to 18, flexible from 12.

Version 5 adds the log start offset, 7 incremental sessions (KIP-227), 9 the leader epoch (KIP-320), 10 zstd (KIP-110),
11 the rack and the preferred replica (KIP-392). Version 12 finds divergence by epoch (KIP-595). Version 13 names topics
by id (KIP-516). Version 15 moves the replica id into a tagged field (KIP-903), 16 answers with the addresses of new
leaders (KIP-951), 17 adds the directory id (KIP-853), 18 the high watermark that a follower knows (KIP-1166).
"""

from collections.abc import Sequence

from hutong.wire.buffer import Buffer
from hutong.wire.kafka.apis.shared import LeaderIdAndEpoch, NodeEndpoint
from hutong.wire.kafka.schema import (
    INT32,
    array,
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
    value,
)


@value
class ReplicaState:
    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


@struct
class FetchPartition:
    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid("17+", tag=0)
    high_watermark: int = int64("18+", tag=1, default=2**63 - 1)


@struct
class FetchTopic:
    topic: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partitions: list[FetchPartition] = array(FetchPartition)


@struct
class ForgottenTopic:
    topic: str = string("7-12")
    topic_id: bytes = uuid("13+")
    partitions: list[int] = array(INT32)


@message(api_key=1, versions="4-18", flexible="12+")
class FetchRequest:
    cluster_id: str | None = string("12+", nullable="12+", tag=0, default=None)
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState = nested(ReplicaState, "15+", tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2**31 - 1)
    isolation_level: int = int8()  # 0: read uncommitted; 1: read committed
    session_id: int = int32("7+")  # 0: no session
    session_epoch: int = int32("7+", default=-1)  # -1: no session; 0: a new one
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+")


@value
class EpochEndOffset:
    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


@value
class SnapshotId:
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@struct
class AbortedTransaction:
    producer_id: int = int64()
    first_offset: int = int64()


@struct
class PartitionData:
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1)
    log_start_offset: int = int64("5+", default=-1)
    diverging_epoch: EpochEndOffset = nested(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId = nested(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(AbortedTransaction, nullable="0+")
    preferred_read_replica: int = int32("11+", default=-1)
    records: Sequence[Buffer] | Buffer | None = record_batches(nullable="0+")


@struct
class FetchableTopicResponse:
    topic: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partitions: list[PartitionData] = array(PartitionData)


@message(api_key=1, versions="4-18", flexible="12+")
class FetchResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16("7+")
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)
