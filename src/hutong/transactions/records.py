"""A transactional id's record as key and value of `__transaction_state`.

Pure. Bytes come from our own disk behind a checksum, so what cannot be decoded is CorruptData, never a peer's fault.
"""

from itertools import groupby
from operator import itemgetter

from hutong.foundation.errors import CorruptData, ProtocolError
from hutong.transactions.messages import TransactionRecord
from hutong.transactions.states import TransactionState
from hutong.wire.kafka.transaction_log import (
    KEY_VERSION,
    VALUE_VERSION,
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from hutong.wire.kafka.version_prefixed import decode, encode


def encode_key(transactional_id: str) -> bytes:
    return encode(TransactionLogKey(transactional_id), KEY_VERSION)


def decode_key(data: bytes) -> str:
    """Raises CorruptData."""
    try:
        return decode(TransactionLogKey, data).transactional_id
    except ProtocolError as error:
        raise CorruptData(str(error)) from error


def encode_record(record: TransactionRecord) -> bytes:
    is_empty = record.state is TransactionState.EMPTY
    return encode(
        TransactionLogValue(
            producer_id=record.producer_id,
            previous_producer_id=record.previous_producer_id,
            next_producer_id=record.next_producer_id,
            producer_epoch=record.producer_epoch,
            transaction_timeout_ms=record.timeout_ms,
            transaction_status=record.state,
            transaction_partitions=None if is_empty else _grouped(record),
            transaction_last_update_timestamp_ms=record.updated_at_ms,
            transaction_start_timestamp_ms=record.started_at_ms,
            client_transaction_version=record.client_version,
        ),
        VALUE_VERSION,
    )


def decode_record(data: bytes) -> TransactionRecord:
    """Raises CorruptData."""
    try:
        value = decode(TransactionLogValue, data)
        state = TransactionState(value.transaction_status)
    except (ProtocolError, ValueError) as error:
        raise CorruptData(str(error)) from error
    return TransactionRecord(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            (each.topic, index) for each in value.transaction_partitions or () for index in each.partition_ids
        ),
        started_at_ms=value.transaction_start_timestamp_ms,
        updated_at_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
    )


def _grouped(record: TransactionRecord) -> list[PartitionsSchema]:
    return [
        PartitionsSchema(topic, [index for _, index in indexes])
        for topic, indexes in groupby(sorted(record.partitions), key=itemgetter(0))
    ]
