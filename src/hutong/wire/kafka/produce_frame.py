"""The whole frame of the most frequent response: one partition of one topic, appended without an error.

Strategy: all topic names of one length share a layout, so such a frame is one precompiled struct. It takes a third of
the general encoder's time, on the path of every produce request (`bench/codecs.py`). Other responses go to the general
encoder.

Covers versions 9 and up, which current clients use. A test compares the bytes with those of the general encoder.
"""

import struct
from collections.abc import Callable
from typing import Final

from hutong.wire.buffer import Buffer
from hutong.wire.kafka.apis.k00_produce import ProduceResponse
from hutong.wire.kafka.headers import encode_response_frame

_API_KEY: Final = 0
_FLEXIBLE_FROM: Final = 9
_IDS_FROM: Final = 13
_NAME_BYTES_MAX: Final = 126  # a longer one has two bytes of length
_ONE: Final = 2  # an array of one, as a compact length
_NONE: Final = 1  # an empty array, as a compact length
_AFTER_CORRELATION: Final = 8
_NUMBERS: Final = 24  # bytes of base offset, append time and start offset
_FROM_BASE_OFFSET: Final = _NUMBERS + struct.calcsize(">bbbbib")  # to the end of the frame

Pack = Callable[..., bytes]


def _pattern(name_format: str) -> tuple[Pack, int]:
    """Return the packing function of a frame, and the frame's size field.

    The function takes size, correlation id, tags, topic count; the name; then the partition count and all after it.
    """
    pattern = struct.Struct(f">iibb{name_format}bihqqqbbbbib")
    return pattern.pack, pattern.size - 4


_by_name_bytes: Final = [_pattern(f"b{size}s") for size in range(_NAME_BYTES_MAX + 1)]
_by_id: Final = _pattern("16s")


def single_frame_encoder(
    api_version: int, name: str, topic_id: bytes, index: int
) -> Callable[[int, int, int, int], bytes] | None:
    """A function from (correlation id, base offset, append time in ms, start offset) to the frame of a success.

    None where there is no pattern for the version or the length of the name.
    """
    raw = name.encode()
    if api_version < _FLEXIBLE_FROM or len(raw) > _NAME_BYTES_MAX:
        return None
    pack_all, size = _by_id if api_version >= _IDS_FROM else _by_name_bytes[len(raw)]
    named = (topic_id,) if api_version >= _IDS_FROM else (len(raw) + 1, raw)
    frame = pack_all(size, 0, 0, _ONE, *named, _ONE, index, 0, 0, 0, 0, _NONE, 0, 0, 0, 0, 0)
    middle, end = frame[_AFTER_CORRELATION:-_FROM_BASE_OFFSET], frame[_NUMBERS - _FROM_BASE_OFFSET :]
    pack = struct.Struct(f">ii{len(middle)}sqqq{len(end)}s").pack

    def encode(correlation_id: int, base_offset: int, append_time_ms: int, start_offset: int) -> bytes:
        return pack(size, correlation_id, middle, base_offset, append_time_ms, start_offset, end)

    return encode


def encode_produce_response_frame(api_version: int, correlation_id: int, response: ProduceResponse) -> list[Buffer]:
    """Size, header and body of any Produce response, to be sent in order."""
    topics = response.responses
    if api_version < _FLEXIBLE_FROM or len(topics) != 1 or len(topics[0].partition_responses) != 1:
        return encode_response_frame(_API_KEY, api_version, correlation_id, response)
    topic = topics[0]
    partition = topic.partition_responses[0]
    name = topic.name.encode()
    if partition.error_code or len(name) > _NAME_BYTES_MAX:
        return encode_response_frame(_API_KEY, api_version, correlation_id, response)
    numbers = (
        _ONE,
        partition.index,
        0,
        partition.base_offset,
        partition.log_append_time_ms,
        partition.log_start_offset,
        _NONE,
        0,
        0,
        0,
        response.throttle_time_ms,
        0,
    )
    if api_version >= _IDS_FROM:
        pack, size = _by_id
        return [pack(size, correlation_id, 0, _ONE, topic.topic_id, *numbers)]
    pack, size = _by_name_bytes[len(name)]
    return [pack(size, correlation_id, 0, _ONE, len(name) + 1, name, *numbers)]
