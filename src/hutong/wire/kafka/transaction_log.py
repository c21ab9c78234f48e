"""Keys and values of `__transaction_state`, in Kafka's own layout, so that tools that read that topic read ours.

Values of versions 0 and 1, the version as 16 bits in front; from 1 on newer fields are tagged (KIP-915). What newer
versions add is skipped.
"""

import struct
from typing import Final

from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.codecs import decoder, encoder
from hutong.wire.kafka.schema import INT32, array, int8, int16, int32, int64, message, string
from hutong.wire.kafka.schema import struct as table

VERSION: Final = struct.Struct(">h")
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


_encode_key = encoder(TransactionLogKey, KEY_VERSION)
_decode_key = decoder(TransactionLogKey, KEY_VERSION)
_encode_value = encoder(TransactionLogValue, VALUE_VERSION)
_value_decoders = {version: decoder(TransactionLogValue, version) for version in (0, 1)}


def encode_key(transactional_id: str) -> bytes:
    out: list[Buffer] = [VERSION.pack(KEY_VERSION)]
    _encode_key(TransactionLogKey(transactional_id), out)
    return b"".join(out)


def decode_key(data: Buffer) -> str:
    """Raises ProtocolError."""
    if _version(data) != KEY_VERSION:
        raise ProtocolError(f"a key of the transactions' topic has version {_version(data)}")
    key: TransactionLogKey = _decode_key(data, VERSION.size)
    return key.transactional_id


def encode_value(value: TransactionLogValue) -> bytes:
    out: list[Buffer] = [VERSION.pack(VALUE_VERSION)]
    _encode_value(value, out)
    return b"".join(out)


def decode_value(data: Buffer) -> TransactionLogValue:
    """Raises ProtocolError."""
    decode = _value_decoders.get(_version(data))
    if decode is None:
        raise ProtocolError(f"a value of the transactions' topic has version {_version(data)}")
    value: TransactionLogValue = decode(data, VERSION.size)
    return value


def _version(data: Buffer) -> int:
    if len(data) < VERSION.size:
        raise ProtocolError("a record of the transactions' topic has no version")
    version: int = VERSION.unpack_from(data)[0]
    return version
