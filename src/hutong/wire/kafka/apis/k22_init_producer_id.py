"""InitProducerId (key 22), versions 0 to 5, flexible from 2.

Version 3 lets a producer bump its epoch (KIP-360), 4 answers PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH, 5
knows TRANSACTION_ABORTABLE (KIP-890). Version 6 (two-phase commit, KIP-939) is not stable: Kafka 4.3 has it in its
message definitions, but neither advertises it nor answers it, and so do we.
"""

from hutong.wire.kafka.schema import int16, int32, int64, message, string


@message(api_key=22, versions="0-5", flexible="2+")
class InitProducerIdRequest:
    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)


@message(api_key=22, versions="0-5", flexible="2+")
class InitProducerIdResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
