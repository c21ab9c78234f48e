"""AddOffsetsToTxn (key 25), versions 0 to 4, flexible from 3.

Version 2 answers PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH (KIP-588), 4 knows TRANSACTION_ABORTABLE (KIP-890).
"""

from hutong.wire.kafka.schema import int16, int32, int64, message, string


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
