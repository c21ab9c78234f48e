"""Records as the stored forms of messages, in one pass over the bytes of a batch.

The same bytes as `encode_message` makes of `message_of`'s messages, which a test compares. Nearly every record has
headers that are properties just as they are: they are joined, and one look at the whole finds the exceptions. These
take the long way, which knows what is left out.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from hutong.broker.rocketmq.records.positions import physical_offset
from hutong.broker.rocketmq.records.translation import ORIGIN_HEADER, TOMBSTONE, message_of, plain_origin
from hutong.foundation.errors import ProtocolError
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

    __slots__ = ("host", "log_id", "queue_id", "topic", "topic_bytes")

    def __init__(self, topic: str, queue_id: int, log_id: int, host: Host) -> None:
        assert len(topic.encode()) <= TOPIC_BYTES_MAX, topic
        self.topic = topic
        self.topic_bytes = topic.encode()
        self.queue_id = queue_id
        self.log_id = log_id
        self.host = host


def stored_forms(data: bytes, header: BatchHeader, queue: QueueOfForms) -> Iterator[StoredForm]:
    """The messages of a batch, whose records are unpacked. Raises ProtocolError."""
    position = 0
    try:
        for _ in range(header.record_count):
            form, end = _short_form(data, position, header, queue)
            if form is None:
                form, end = _long_form(data, position, header, queue)
            position = end
            yield form
    # The last one: a time or an offset for which a message has no room.
    except (IndexError, UnicodeDecodeError, struct.error) as error:
        raise ProtocolError(f"record: {error}") from error
    if position != len(data):
        raise ProtocolError("a record batch has bytes after its last record")


def _short_form(data: bytes, begin: int, header: BatchHeader, queue: QueueOfForms) -> tuple[StoredForm | None, int]:
    """One message, and the end of its record; None where anything is out of the ordinary."""
    length, position = read_varlong(data, begin)
    end = position + length
    timestamp_delta, position = read_varlong(data, position + 1)  # the byte of attributes is unused
    offset_delta, position = read_varlong(data, position)
    key, position = read_bytes(data, position)
    value, position = read_bytes(data, position)
    count, position = read_varlong(data, position)
    if not 0 <= count <= HEADERS_MAX:
        return None, end
    headers: dict[bytes | None, bytes] = {}
    for _ in range(count):
        name, position = read_bytes(data, position)
        held, position = read_bytes(data, position)
        headers[name] = held or b""
    stored_ms = header.max_timestamp_ms if header.is_log_append_time else header.base_timestamp_ms + timestamp_delta
    packed = headers.pop(_ORIGIN, None)
    origin = (0, 0, stored_ms, NO_HOST, 0) if packed is None else plain_origin(packed)
    properties = _joined(headers, key, value)
    # A name that came twice, one that is null, what another program calls `rocketmq`, a record that is forged.
    if position != end or len(headers) + (packed is not None) != count or origin is None or properties is None:
        return None, end
    try:
        text = properties.decode()
    except UnicodeDecodeError:
        return None, end
    offset = header.base_offset + offset_delta
    places = queue.queue_id, offset, physical_offset(queue.log_id, offset)
    stored = encode_stored(queue.topic_bytes, value or b"", properties, places, origin, stored_ms, queue.host)
    return StoredForm(offset, stored, text), end


def _joined(headers: dict[bytes | None, bytes], key: bytes | None, value: bytes | None) -> bytes | None:
    """Headers, key and tombstone as packed properties; None where one has no name, or has what separates them."""
    if None in headers or b"" in headers:
        return None
    pieces: list[bytes] = []
    for name, held in headers.items():
        pieces += (name, _NAME_END, held, _VALUE_END)  # type: ignore[arg-type]  # none is null
    count = len(headers)
    for name, extra in ((_KEYS, key), (_TOMBSTONE, b"true" if value is None else None)):
        if extra and name not in headers:
            pieces += (name, _NAME_END, extra, _VALUE_END)
            count += 1
    properties = b"".join(pieces)
    is_whole = properties.count(_NAME_END) == count == properties.count(_VALUE_END)
    return properties if is_whole and len(properties) <= PROPERTIES_BYTES_MAX else None


def _long_form(data: bytes, begin: int, header: BatchHeader, queue: QueueOfForms) -> tuple[StoredForm, int]:
    record, end = read_record(data, begin, header)
    physical = physical_offset(queue.log_id, record.offset)
    message = message_of(record, queue.topic, queue.queue_id, physical, queue.host)
    return StoredForm(record.offset, encode_message(message), message.properties), end
