"""Produce (key 0), versions 3 to 13, flexible from 9; offered to clients as 0 to 13 (KAFKA-18659).

Version 7 allows zstd (KIP-110). Version 8 answers with the records at fault and a message (KIP-467). Version 10 answers
NOT_LEADER_OR_FOLLOWER with the leader and its address (KIP-951). Version 11 knows TRANSACTION_ABORTABLE, from version
12 a transactional produce adds its partitions itself (KIP-890). Version 13 names topics by id (KIP-516).
"""

from hutong.wire.kafka.apis.shared import LeaderIdAndEpoch, NodeEndpoint
from hutong.wire.kafka.schema import array, int16, int32, int64, message, nested, record_batches, string, struct, uuid


@struct
class PartitionProduceData:
    index: int = int32()
    records: memoryview | None = record_batches(nullable="0+")


@struct
class TopicProduceData:
    name: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


@message(api_key=0, versions="3-13", flexible="9+")
class ProduceRequest:
    transactional_id: str | None = string(nullable="0+", default=None)
    acks: int = int16()  # 0: no response at all; 1: the leader; -1: all in sync
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


@struct
class BatchIndexAndErrorMessage:
    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable="0+", default=None)


@struct
class PartitionProduceResponse:
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1)  # -1 unless the topic stamps records itself
    log_start_offset: int = int64("5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+")
    error_message: str | None = string("8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, "10+", tag=0)


@struct
class TopicProduceResponse:
    name: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


@message(api_key=0, versions="3-13", flexible="9+")
class ProduceResponse:
    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32()
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)
