"""ListTransactions (key 66), versions 0 to 2, flexible from 0 (KIP-664).

Version 1 filters by how long a transaction has been running (KIP-994), 2 by a pattern of ids (KIP-1152).
"""

from hutong.wire.kafka.schema import INT64, STRING, array, int16, int32, int64, message, string, struct


@message(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest:
    state_filters: list[str] = array(STRING)
    producer_id_filters: list[int] = array(INT64)
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


@struct
class TransactionState:
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


@message(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(STRING)
    transaction_states: list[TransactionState] = array(TransactionState)
