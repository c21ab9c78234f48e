"""Messages of RocketMQ: as a broker stores and hands them out, as a batch packs them, and their properties.

    stored   i32 size, magic, i32 CRC of the body, queue, flag, i64 queue offset, physical offset, i32 sysFlag,
             i64 born, host, i64 stored, host, i32 times consumed, i64 offset of the prepared transaction,
             i32 length and body, i8 length and topic, i16 length and properties
    host     4 or 16 bytes of address, i32 port
    batched  i32 size, magic (0), CRC (0), flag, i32 length and body, i16 length and properties
    properties   name, 0x01, value, 0x02, and so on; Java 4.9 leaves out the last 0x02

Every length is checked before it is used. ProtocolError is the only error that leaves a decoder.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from zlib import crc32

from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer

MAGIC: Final = 0xDAA320A7 - (1 << 32)  # as Java writes it: a signed number
PROPERTIES_BYTES_MAX: Final = 32_767  # their length is 16 bits with a sign
TOPIC_BYTES_MAX: Final = 127
NAME_END: Final = "\x01"
VALUE_END: Final = "\x02"
_CRC_MASK: Final = 0x7FFFFFFF  # as `UtilAll.crc32`: the sign is cut off

_HEAD: Final = struct.Struct(">iiiiiqqiq")  # up to and with the time of birth
_HOST: Final = struct.Struct(">4siq")  # the host of birth, the time of storage
_HOST_V6: Final = struct.Struct(">16siq")
_MIDDLE: Final = struct.Struct(">4siiqi")  # the host of storage, times consumed, transaction offset, body length
_STORED: Final = struct.Struct(">iiiiiqqiq4siq4siiqi")  # all of them
_STORED_V6: Final = struct.Struct(">iiiiiqqiq16siq4siiqi")
_ADDRESS_BYTES: Final = 4
_TOPIC: Final = struct.Struct(">B")
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_BATCHED: Final = struct.Struct(">iiiii")
_FIXED_BYTES: Final = _HEAD.size + _HOST.size + _MIDDLE.size + _TOPIC.size + _SHORT.size
_BORN_HOST_V6: Final = 0x10
_STORE_HOST_V6: Final = 0x20


class Host(NamedTuple):
    """An address of 4 or 16 bytes, and a port."""

    address: bytes
    port: int


NO_HOST: Final = Host(bytes(4), 0)


@dataclass(slots=True)
class StoredMessage:
    """A message as consumers get it. `properties` is packed text, times are in milliseconds."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    body: Buffer
    properties: str = ""
    flag: int = 0
    sys_flag: int = 0
    born_ms: int = 0
    born_host: Host = NO_HOST
    stored_ms: int = 0
    store_host: Host = NO_HOST
    reconsume_times: int = 0
    prepared_offset: int = 0


class BatchedMessage(NamedTuple):
    """One message of a batch. `properties` is packed text."""

    flag: int
    body: Buffer
    properties: str


def encode_message(message: StoredMessage) -> bytes:
    """The stored form. Raises ValueError where topic or properties are too long for it."""
    topic, properties = message.topic.encode(), message.properties.encode()
    # Their lengths have 8 and 16 bits.
    if len(topic) > TOPIC_BYTES_MAX or len(properties) > PROPERTIES_BYTES_MAX:
        raise ValueError(f"a topic of {len(topic)} and properties of {len(properties)} bytes do not fit a message")
    places = message.queue_id, message.queue_offset, message.physical_offset
    origin = message.flag, message.sys_flag, message.born_ms, message.born_host, message.reconsume_times
    return encode_stored(
        topic,
        message.body,
        properties,
        places,
        origin,
        message.stored_ms,
        message.store_host,
        message.prepared_offset,
    )


def encode_stored(
    topic: bytes,
    body: Buffer,
    properties: bytes,
    places: tuple[int, int, int],
    origin: tuple[int, int, int, tuple[bytes, int], int],
    stored_ms: int,
    store_host: tuple[bytes, int],
    prepared_offset: int = 0,
) -> bytes:
    """The stored form of what is bytes already, and within the bounds of its lengths.

    `places` are the queue, the offset in it and the physical offset; `origin` is flag, sysFlag, time and host of birth,
    and how often it was consumed.
    """
    queue_id, queue_offset, physical_offset = places
    flag, sys_flag, born_ms, (address, port), reconsume_times = origin
    sys_flag &= ~(_BORN_HOST_V6 | _STORE_HOST_V6)
    layout = _STORED
    if len(address) != _ADDRESS_BYTES:
        layout, sys_flag = _STORED_V6, sys_flag | _BORN_HOST_V6
    head = layout.pack(
        layout.size + len(body) + _TOPIC.size + len(topic) + _SHORT.size + len(properties),
        MAGIC,
        crc32(body) & _CRC_MASK,
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        sys_flag,
        born_ms,
        address,
        port,
        stored_ms,
        *store_host,
        reconsume_times,
        prepared_offset,
        len(body),
    )
    return b"".join((head, body, _TOPIC.pack(len(topic)), topic, _SHORT.pack(len(properties)), properties))


def decode_messages(data: Buffer) -> Iterator[StoredMessage]:
    """The stored messages in the body of a pull's answer. Raises ProtocolError."""
    at = 0
    while at < len(data):
        message, at = _decode_message(data, at)
        yield message


def _decode_message(data: Buffer, begin: int) -> tuple[StoredMessage, int]:
    try:
        size, magic, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_ms = _HEAD.unpack_from(
            data, begin
        )
        end = begin + size
        if magic != MAGIC or size < _FIXED_BYTES or end > len(data):
            raise ProtocolError(f"a message of {size} bytes with magic {magic & 0xFFFFFFFF:#x}")
        at = begin + _HEAD.size
        host = _HOST_V6 if sys_flag & _BORN_HOST_V6 else _HOST
        born_address, born_port, stored_ms = host.unpack_from(data, at)
        at += host.size
        # Nodes of ours have IPv4 addresses there, as the ids of messages do.
        if sys_flag & _STORE_HOST_V6:
            raise ProtocolError("a message that was stored at an IPv6 address")
        store_address, store_port, times, prepared_offset, body_size = _MIDDLE.unpack_from(data, at)
        body, at = _piece(data, at + _MIDDLE.size, body_size, end)
        if crc32(body) & _CRC_MASK != crc:
            raise ProtocolError("the body of a message fails its check")
        (topic_size,) = _TOPIC.unpack_from(data, at)
        topic, at = _piece(data, at + _TOPIC.size, topic_size, end)
        (properties_size,) = _SHORT.unpack_from(data, at)
        properties, at = _piece(data, at + _SHORT.size, properties_size, end)
    except struct.error:
        raise ProtocolError("a message ends in the middle") from None
    if at != end:
        raise ProtocolError("the lengths of a message do not fit its size")
    message = StoredMessage(
        _text(topic),
        queue_id,
        queue_offset,
        physical_offset,
        body,
        _text(properties),
        flag,
        sys_flag,
        born_ms,
        Host(born_address, born_port),
        stored_ms,
        Host(store_address, store_port),
        times,
        prepared_offset,
    )
    return message, end


def encode_batch(messages: Iterable[BatchedMessage]) -> bytes:
    """The body of a SEND_BATCH_MESSAGE."""
    parts: list[Buffer] = []
    for flag, body, text in messages:
        properties = text.encode()
        size = _BATCHED.size + len(body) + _SHORT.size + len(properties)
        parts += (_BATCHED.pack(size, 0, 0, flag, len(body)), body, _SHORT.pack(len(properties)), properties)
    return b"".join(parts)


def decode_batch(data: Buffer, messages_max: int) -> list[BatchedMessage]:
    """The messages in the body of a SEND_BATCH_MESSAGE. Raises ProtocolError, also for more than `messages_max`."""
    messages: list[BatchedMessage] = []
    at = 0
    try:
        while at < len(data):
            size, _magic, _crc, flag, body_size = _BATCHED.unpack_from(data, at)
            end = at + size
            body, at = _piece(data, at + _BATCHED.size, body_size, min(end, len(data)))
            (properties_size,) = _SHORT.unpack_from(data, at)
            properties, at = _piece(data, at + _SHORT.size, properties_size, len(data))
            if at != end:
                raise ProtocolError("the lengths of a batched message do not fit its size")
            # Counted here: the least message has 22 bytes, so a frame could hold 760,000.
            if len(messages) == messages_max:
                raise ProtocolError(f"a batch of more than {messages_max} messages")
            messages.append(BatchedMessage(flag, body, _text(properties)))
    except struct.error:
        raise ProtocolError("a batch ends in the middle of a message") from None
    return messages


def decode_properties(text: str) -> dict[str, str]:
    """Properties by name; what has no name or no value is left out, as in RocketMQ. Of a name twice, the last."""
    properties: dict[str, str] = {}
    for entry in text.split(VALUE_END):
        name, mark, value = entry.partition(NAME_END)
        if mark and name:
            properties[name] = value
    return properties


def encode_properties(properties: Mapping[str, str]) -> str:
    """The packed text; names and values must have neither 0x01 nor 0x02."""
    return "".join([f"{name}{NAME_END}{value}{VALUE_END}" for name, value in properties.items()])


def _piece(data: Buffer, begin: int, size: int, end_max: int) -> tuple[Buffer, int]:
    """A field of this size, and its end. Raises ProtocolError where it does not fit."""
    end = begin + size
    if size < 0 or end > end_max:
        raise ProtocolError(f"a field of {size} bytes where there are {end_max - begin}")
    return data[begin:end], end


def _text(data: Buffer) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise ProtocolError(f"text that is no UTF-8: {error.reason}") from None
