"""Records as the stored forms of messages, in one pass over the bytes of a batch.

The same bytes as `encode_message` makes of `message_of`'s messages, which a test compares. Nearly every record has
headers that are properties just as they are: they are joined, and one look at the whole finds the exceptions. These
take the long way, which knows what is left out.
"""

import struct
from typing import Final, NamedTuple

from hutong.broker.rocketmq.records.positions import physical_offset
from hutong.broker.rocketmq.records.translation import ORIGIN_HEADER, TOMBSTONE, message_of, plain_origin
from hutong.wire.kafka.batch.records import BatchHeader, read_bytes, read_record
from hutong.wire.kafka.varint import read_varlong
from hutong.wire.rocketmq.codes import KEYS
from hutong.wire.rocketmq.messages import (
    NAME_END,
    NO_HOST,
    PROPERTIES_BYTES_MAX,
    TOPIC_BYTES_MAX,
    VALUE_END,
    Host,
    encode_message,
    encode_stored,
)

_HOST: Final = struct.Struct(">4si")
HEADERS_MAX: Final = 64  # of a record that takes the short way
_NAME_END: Final = NAME_END.encode()
_VALUE_END: Final = VALUE_END.encode()
_ORIGIN: Final = ORIGIN_HEADER.encode()
_KEYS: Final = KEYS.encode()
_TOMBSTONE: Final = TOMBSTONE.encode()


class StoredForm(NamedTuple):
    """A message as consumers get it, and what a filter looks at."""

    offset: int
    stored: bytes
    properties: str


class QueueOfForms:
    """The facts that all messages of one queue share. `topic` is the name that RocketMQ's client gives it."""

    __slots__ = ("host", "host_bytes", "log_id", "physical_base", "queue_id", "topic", "topic_bytes")

    def __init__(self, topic: str, queue_id: int, log_id: int, host: Host) -> None:
        assert len(topic.encode()) <= TOPIC_BYTES_MAX, topic
        self.topic = topic
        self.topic_bytes = topic.encode()
        self.queue_id = queue_id
        self.log_id = log_id
        self.host = host
        # For the compiled pass.
        self.host_bytes = _HOST.pack(*host)
        self.physical_base = physical_offset(log_id, 0)


def short_form(data: bytes, begin: int, header: BatchHeader, queue: QueueOfForms) -> tuple[StoredForm | None, int]:
    """One message, and the end of its record; None where anything is out of the ordinary.

    Raises IndexError, struct.error and ProtocolError where it is no record.
    """
    length, position = read_varlong(data, begin)
    end = position + length
    timestamp_delta, position = read_varlong(data, position + 1)  # the byte of attributes is unused
    offset_delta, position = read_varlong(data, position)
    key, position = read_bytes(data, position)
    value, position = read_bytes(data, position)
    count, position = read_varlong(data, position)
    if not 0 <= count <= HEADERS_MAX:
        return None, end
    names, pieces, packed, position = _read_headers(data, position, count)
    if key and _KEYS not in names:
        pieces += (_KEYS, _NAME_END, key, _VALUE_END)
    if value is None and _TOMBSTONE not in names:
        pieces += (_TOMBSTONE, _NAME_END, b"true", _VALUE_END)
    stored_ms = header.max_timestamp_ms if header.is_log_append_time else header.base_timestamp_ms + timestamp_delta
    origin = (0, 0, stored_ms, NO_HOST, 0) if packed is None else plain_origin(packed)
    properties = b"".join(pieces)
    text = _checked(properties, len(pieces) // 4)
    # A forged record, a name that came twice or is empty, what another program calls `rocketmq`, what is no text.
    is_whole = position == end <= len(data)
    if not is_whole or len(names) + (packed is not None) != count or b"" in names or origin is None or text is None:
        return None, end
    offset = header.base_offset + offset_delta
    places = queue.queue_id, offset, physical_offset(queue.log_id, offset)
    stored = encode_stored(queue.topic_bytes, value or b"", properties, places, origin, stored_ms, queue.host)
    return StoredForm(offset, stored, text), end


def _read_headers(data: bytes, position: int, count: int) -> tuple[set[bytes], list[bytes], bytes | None, int]:
    """The names, the pieces of packed properties, the packed origin, and the position behind the headers."""
    names: set[bytes] = set()
    pieces: list[bytes] = []
    packed = None
    for _ in range(count):
        # Lengths of one byte are read here: calls for them would cost a message a fifth more.
        size = data[position]
        at = position + 1
        # Null, or over 63 bytes.
        if size & 0x81:
            name, at = read_bytes(data, position)
            name = name or b""
        else:
            name = data[at : at + (size >> 1)]
            at += size >> 1
        size = data[at]
        position = at + 1
        if size & 0x81:
            held, position = read_bytes(data, at)
        else:
            held = data[position : position + (size >> 1)]
            position += size >> 1
        if name == _ORIGIN:
            packed = held or b""
        else:
            names.add(name)
            pieces += (name, _NAME_END, held or b"", _VALUE_END)
    return names, pieces, packed, position


def _checked(properties: bytes, count: int) -> str | None:
    """The text of `count` packed properties; None for bytes that are no text, too long, or have a separator inside."""
    is_whole = properties.count(_NAME_END) == count == properties.count(_VALUE_END)
    if not is_whole or len(properties) > PROPERTIES_BYTES_MAX:
        return None
    try:
        return properties.decode()
    except UnicodeDecodeError:
        return None


def long_form(data: bytes, begin: int, header: BatchHeader, queue: QueueOfForms) -> tuple[StoredForm, int]:
    """One message of any kind by the decoder of records, and the end of its record.

    Raises IndexError, UnicodeDecodeError, struct.error and ProtocolError where it is no record.
    """
    record, end = read_record(data, begin, header)
    physical = physical_offset(queue.log_id, record.offset)
    message = message_of(record, queue.topic, queue.queue_id, physical, queue.host)
    return StoredForm(record.offset, encode_message(message), message.properties), end
