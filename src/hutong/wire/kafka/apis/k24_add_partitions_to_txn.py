"""AddPartitionsToTxn (key 24), versions 0 to 5, flexible from 3.

Version 2 answers PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH (KIP-588). Versions up to 3 are what clients send,
for one transaction; from 4 on brokers ask for many, and may ask only whether partitions are part of one (KIP-890).
Version 5 knows TRANSACTION_ABORTABLE.
"""

from hutong.wire.kafka.schema import INT32, array, boolean, int16, int32, int64, message, string, struct


@struct
class AddPartitionsToTxnTopic:
    name: str = string()
    partitions: list[int] = array(INT32)


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    verify_only: bool = boolean()
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic)


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    transactions: list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, "4+")
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "0-3")


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: int = int32()
    partition_error_code: int = int16()


@struct
class AddPartitionsToTxnTopicResult:
    name: str = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(AddPartitionsToTxnPartitionResult)


@struct
class AddPartitionsToTxnResult:
    transactional_id: str = string()
    topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult)


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16("4+")
    results_by_transaction: list[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "0-3")
