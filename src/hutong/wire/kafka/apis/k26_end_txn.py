"""EndTxn (key 26), versions 0 to 5, flexible from 3.

Version 2 answers PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH (KIP-588), 4 knows TRANSACTION_ABORTABLE. With
version 5 every end raises the epoch, which the response carries (KIP-890).
"""

from hutong.wire.kafka.schema import boolean, int16, int32, int64, message, string


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnRequest:
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1)
    producer_epoch: int = int16("5+", default=-1)
