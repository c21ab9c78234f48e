"""Keys and values of `__transaction_state`, in Kafka's own layout, so that tools that read that topic read ours.

Values of versions 0 and 1; from 1 on newer fields are tagged (KIP-915). What newer versions add is skipped.
`version_prefixed` encodes and decodes them.
"""

from typing import Final

from hutong.wire.kafka.schema import INT32, array, int8, int16, int32, int64, message, string
from hutong.wire.kafka.schema import struct as table

VALUE_VERSION: Final = 1
KEY_VERSION: Final = 0


@message(versions="0")
class TransactionLogKey:
    transactional_id: str = string()


@table
class PartitionsSchema:
    topic: str = string()
    partition_ids: list[int] = array(INT32)


@message(versions="0-1", flexible="1+")
class TransactionLogValue:
    producer_id: int = int64()
    previous_producer_id: int = int64("1+", tag=0, default=-1)
    next_producer_id: int = int64("1+", tag=1, default=-1)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16("1+", tag=3, default=-1)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16("1+", tag=2)
