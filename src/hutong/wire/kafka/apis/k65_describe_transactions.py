"""DescribeTransactions (key 65), version 0, flexible: the state of transactional ids (KIP-664)."""

from hutong.wire.kafka.schema import INT32, STRING, array, int16, int32, int64, message, string, struct


@message(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest:
    transactional_ids: list[str] = array(STRING)


@struct
class TopicData:
    topic: str = string()
    partitions: list[int] = array(INT32)


@struct
class TransactionState:
    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[TopicData] = array(TopicData)


@message(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse:
    throttle_time_ms: int = int32()
    transaction_states: list[TransactionState] = array(TransactionState)
