"""Messages of RocketMQ as records of the log, and records as messages.

    body                          value; null where it is deleted by key: an empty body with the property TOMBSTONE
    first of KEYS                 key
    properties                    headers of the same names, in their order; KEYS only where it has several
    flag, born, host, times, ...  one header, `rocketmq`, packed
    time of storage               timestamp

A Kafka header that is no text, or has characters that separate properties, has no counterpart and is left out. So is
what no longer fits the 32 KiB of a message's properties.
"""

import struct
from typing import Final

from hutong.wire.kafka.batch.records import Record
from hutong.wire.rocketmq.codes import KEYS
from hutong.wire.rocketmq.messages import (
    NAME_END,
    PROPERTIES_BYTES_MAX,
    VALUE_END,
    Host,
    StoredMessage,
    decode_properties,
)

ORIGIN_HEADER: Final = "rocketmq"
TOMBSTONE: Final = "TOMBSTONE"
_ORIGIN: Final = struct.Struct(">Biiqii")  # version, flag, sysFlag, born, times consumed, port; the address follows
_TIMES_AT: Final = 17  # of the times consumed
_ORIGIN_VERSION: Final = 1
_COMMITTED_VERSION: Final = 2  # behind the address: the physical offset of the half message that was committed
_PREPARED_OFFSET: Final = struct.Struct(">q")
_ADDRESS_BYTES: Final = (4, 16)


def record_of(message: StoredMessage) -> Record:
    """The record of a message, without its offset. The body is not compressed."""
    properties = decode_properties(message.properties)
    keys = properties.get(KEYS, "")
    key = keys.split(" ", 1)[0]
    # A single key is the record's key alone; several are a header, too.
    if keys == key:
        properties.pop(KEYS, None)
    headers: list[tuple[str, bytes | None]] = [(name, value.encode()) for name, value in properties.items()]
    headers.append((ORIGIN_HEADER, origin_of(message)))
    return Record(0, message.stored_ms, key.encode() if key else None, bytes(message.body), headers)


def origin_of(message: StoredMessage) -> bytes:
    """The header `rocketmq` of a message: what no other part of a record has room for."""
    if not message.prepared_offset:
        return origin(message.flag, message.sys_flag, message.born_ms, message.reconsume_times, message.born_host)
    address, port = message.born_host
    begin = _COMMITTED_VERSION, message.flag, message.sys_flag, message.born_ms, message.reconsume_times
    return _ORIGIN.pack(*begin, port) + address + _PREPARED_OFFSET.pack(message.prepared_offset)


def origin(flag: int, sys_flag: int, born_ms: int, reconsume_times: int, born_host: Host) -> bytes:
    """The same of a message that no transaction has committed."""
    return _ORIGIN.pack(_ORIGIN_VERSION, flag, sys_flag, born_ms, reconsume_times, born_host.port) + born_host.address


def origin_end(born_host: Host) -> bytes:
    """The end of such a header, behind the time of birth: what all new messages of one connection share."""
    return origin(0, 0, 0, 0, born_host)[_TIMES_AT:]


def plain_origin(packed: bytes) -> tuple[int, int, int, tuple[bytes, int], int] | None:
    """The flag, sysFlag, time and host of birth and times consumed that `origin` has packed; None for anything else."""
    size = len(packed) - _ORIGIN.size
    if size not in _ADDRESS_BYTES or packed[0] != _ORIGIN_VERSION:
        return None
    _, flag, sys_flag, born_ms, reconsume_times, port = _ORIGIN.unpack_from(packed)
    return flag, sys_flag, born_ms, (packed[_ORIGIN.size :], port), reconsume_times


def message_of(record: Record, topic: str, queue_id: int, physical: int, store_host: Host) -> StoredMessage:
    """The message of a record, of any client."""
    message = StoredMessage(
        topic,
        queue_id,
        record.offset,
        physical,
        record.value or b"",
        born_ms=record.timestamp_ms,
        stored_ms=record.timestamp_ms,
        store_host=store_host,
    )
    texts: list[str] = []
    names: set[str] = set()
    room = PROPERTIES_BYTES_MAX
    for name, value in record.headers:
        # One that another program has written under this name is a property as any other.
        if name == ORIGIN_HEADER and value is not None and _put_origin(message, value):
            continue
        text = _property(name, value or b"")
        # Of a header that comes twice, RocketMQ's clients would see one: the first, as it is the one that fits.
        if text is None or name in names or len(text.encode()) > room:
            continue
        room -= len(text.encode())
        names.add(name)
        texts.append(text)
    for name, extra in ((KEYS, record.key), (TOMBSTONE, b"true" if record.value is None else None)):
        text = _property(name, extra) if extra and name not in names else None
        if text is not None and len(text.encode()) <= room:
            texts.append(text)
    message.properties = "".join(texts)
    return message


def _put_origin(message: StoredMessage, packed: bytes) -> bool:
    """Fill in what only RocketMQ's messages have. False where a Kafka client used the name for something else."""
    rest = packed[_ORIGIN.size :]
    if packed[:1] == bytes([_COMMITTED_VERSION]) and len(rest) > _PREPARED_OFFSET.size:
        rest, prepared = rest[: -_PREPARED_OFFSET.size], rest[-_PREPARED_OFFSET.size :]
    elif packed[:1] == bytes([_ORIGIN_VERSION]):
        prepared = bytes(_PREPARED_OFFSET.size)
    else:
        return False
    if len(rest) not in _ADDRESS_BYTES:
        return False
    (message.prepared_offset,) = _PREPARED_OFFSET.unpack(prepared)
    _, message.flag, message.sys_flag, message.born_ms, message.reconsume_times, port = _ORIGIN.unpack_from(packed)
    message.born_host = Host(rest, port)
    return True


def _property(name: str, value: bytes) -> str | None:
    """A property as packed text; None for what is no text or would break the packing."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    both = name + text
    if not name or NAME_END in both or VALUE_END in both:
        return None
    return f"{name}{NAME_END}{text}{VALUE_END}"
