"""Messages as the bytes of records, in one pass from the packed properties to the packed record.

The same bytes as `build_batch` makes of `record_of`'s records, which a test compares. There a message becomes a Record
with a list of headers, and each text is encoded by itself: 14 us of a message's 58. Here properties stay bytes: 4 us.
"""

from collections.abc import Sequence
from typing import Final

from hutong.broker.rocketmq.records.translation import ORIGIN_HEADER, origin_of
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.batch.records import build_packed_batch
from hutong.wire.kafka.varint import sized, varlong
from hutong.wire.rocketmq.codes import KEYS
from hutong.wire.rocketmq.messages import NAME_END, VALUE_END, StoredMessage

_NAME_END: Final = NAME_END.encode()
_VALUE_END: Final = VALUE_END.encode()
_KEYS: Final = KEYS.encode()
_BEGIN: Final = b"\0\0"  # no attributes, and the timestamp of the batch
_NULL: Final = b"\x01"  # in place of a length
_ORIGIN: Final = sized(ORIGIN_HEADER.encode()) + ORIGIN_HEADER.encode()


def record_tail(properties: bytes, body: Buffer, origin: bytes) -> bytes:
    """The record of one message behind its offset: its place in a batch is not known yet."""
    headers: dict[bytes, bytes] = {}
    for entry in properties.split(_VALUE_END):
        name, mark, value = entry.partition(_NAME_END)
        # As `decode_properties`: what has no name or no value is left out, and of a name twice the last counts.
        if mark and name:
            headers[name] = value
    keys = headers.get(_KEYS, b"")
    key = keys.partition(b" ")[0]
    # A single key is the record's key alone; several are a header, too.
    if keys == key:
        headers.pop(_KEYS, None)
    pieces: list[Buffer] = [sized(key), key] if key else [_NULL]
    pieces += (sized(body), body, varlong(len(headers) + 1))
    for name, value in headers.items():
        pieces += (sized(name), name, sized(value), value)
    pieces += (_ORIGIN, sized(origin), origin)
    return b"".join(pieces)


def joined_records(tails: Sequence[bytes]) -> bytes:
    """The records of a batch, by their tails: each with its size, and the offset of its place."""
    pieces: list[bytes] = []
    for place, tail in enumerate(tails):
        begin = _BEGIN + varlong(place)
        pieces += (varlong(len(begin) + len(tail)), begin, tail)
    return b"".join(pieces)


def packed_batch(messages: Sequence[StoredMessage]) -> bytes:
    """The batch of messages that are stored together. Their bodies are not compressed."""
    tails = [record_tail(message.properties.encode(), message.body, origin_of(message)) for message in messages]
    return build_packed_batch(joined_records(tails), len(tails), messages[0].stored_ms)
