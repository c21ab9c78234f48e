"""Metrics of OpenTelemetry (OTLP) as clients push them: attributes are added to each resource, all else stays.

Strategy: only the outermost fields of MetricsData are walked (protobuf's wire format). A resource with the new
attributes is appended to each ResourceMetrics: a protobuf decoder merges a message field that comes twice, and joins
its lists. So nothing is decoded, and fields that are newer than this code pass. MetricsData has the same encoding as
the request of OTLP's export service.

Knows nothing of what is measured. Raises ProtocolError for bytes that are no such message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer

RESOURCES_MAX: Final = 1_000
_RESOURCE_METRICS: Final = 1  # of MetricsData
_RESOURCE: Final = 1  # of ResourceMetrics
_SCOPE_METRICS: Final = 2
_ATTRIBUTES: Final = 1  # of Resource
_KEY, _VALUE, _STRING_VALUE = 1, 2, 1
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES: Final = {_FIXED64: 8, _FIXED32: 4}
_VARINT_BYTES_MAX: Final = 10


def labelled(metrics: Buffer, attributes: Mapping[str, str]) -> bytes:
    """Add the attributes to each resource. Raises ProtocolError."""
    view = memoryview(metrics)
    added = _field(_RESOURCE, b"".join(_field(_ATTRIBUTES, _attribute(*item)) for item in attributes.items()))
    pieces: list[bytes] = []
    for number, kind, content in _fields(view):
        if number != _RESOURCE_METRICS or kind != _BYTES:
            raise ProtocolError("metrics with another field than their resources")
        # Each costs an object or two here, and the labels in what is sent.
        if len(pieces) >= RESOURCES_MAX:
            raise ProtocolError(f"metrics of more than {RESOURCES_MAX} resources")
        # Walked as well, so that a receiver gets no bytes that are not even protobuf.
        for inner, inner_kind, scope in _fields(content):
            is_message = inner in (_RESOURCE, _SCOPE_METRICS)
            if is_message and inner_kind != _BYTES:
                raise ProtocolError("a resource that is no message")
            if is_message:
                for _ in _fields(scope):
                    pass
        pieces.append(_field(_RESOURCE_METRICS, bytes(content) + added))
    return b"".join(pieces)


def _fields(view: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Number, wire type and content of each field."""
    at = 0
    while at < len(view):
        tag, at = _varint(view, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            start = at
            _, at = _varint(view, at)
        elif kind == _BYTES:
            size, start = _varint(view, at)
            at = start + size
        elif kind in _FIXED_BYTES:
            start = at
            at += _FIXED_BYTES[kind]
        # Groups, which OTLP has none of, and numbers that protobuf does not use.
        else:
            raise ProtocolError(f"a protobuf field of type {kind}")
        if number == 0 or at > len(view):
            raise ProtocolError("a protobuf field that is cut off")
        yield number, kind, view[start:at]


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for index in range(_VARINT_BYTES_MAX):
        if at + index >= len(view):
            raise ProtocolError("a protobuf number that is cut off")
        byte = view[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise ProtocolError("a protobuf number that is too long")


def _attribute(key: str, value: str) -> bytes:
    return _field(_KEY, key.encode()) + _field(_VALUE, _field(_STRING_VALUE, value.encode()))


def _field(number: int, content: bytes) -> bytes:
    return _number(number << 3 | _BYTES) + _number(len(content)) + content


def _number(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
