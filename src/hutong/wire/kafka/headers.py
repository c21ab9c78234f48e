"""Request and response headers, and whole frames: size, header, body.

Request header: version 1 ends with the client id, version 2 (flexible APIs) adds tagged fields. The client id keeps its
16-bit length in both. Response header: version 0 is the correlation id, version 1 (flexible APIs) adds tagged fields,
except that ApiVersions always answers with version 0, since the client does not know yet what we speak (KIP-511).

Written by hand instead of generated from a table, because every request passes here.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.codec.codecs import Message, encode_request, response_encoder
from hutong.wire.kafka.registry import API_VERSIONS_KEY, APIS, UnknownApi
from hutong.wire.kafka.schema import message_info
from hutong.wire.kafka.varint import skip_tagged_fields

_REQUEST = struct.Struct(">hhih")
_SIZE_AND_CORRELATION = struct.Struct(">ii")
_new: Callable[[type], object] = object.__new__  # `__init__` would double the time of a header
_NEVER = 1 << 15  # above every 16-bit version

_flexible_from = {key: _NEVER if entry.flexible_from is None else entry.flexible_from for key, entry in APIS.items()}


@dataclass(slots=True)
class RequestHeader:
    """A request's API, version, correlation id and client id. The key is known; the version may be unsupported."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header and where the body begins in `frame` (a whole request without its size).

    Raises ProtocolError; UnknownApi for an unknown key, as the header's end depends on it. An unsupported version
    passes, because ApiVersions answers it (KIP-511); the codec of the body raises UnsupportedVersion.
    """
    try:
        api_key, api_version, correlation_id, length = _REQUEST.unpack_from(frame)
        position = 10
        if length >= 0:
            position += length
            client_id = str(frame[10:position], "utf-8")
        elif length == -1:
            client_id = None
        else:
            raise ProtocolError("request header: negative length of the client id")
        flexible_from = _flexible_from.get(api_key)
        if flexible_from is None:
            raise UnknownApi(api_key)
        if api_version >= flexible_from:
            tags = frame[position]
            position += 1
            if tags:
                position = skip_tagged_fields(frame, position, tags)
        if position > len(frame):
            raise ProtocolError("request header: lengths point past the end")
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ProtocolError(f"request header: {error}") from error
    header = cast(RequestHeader, _new(RequestHeader))
    header.api_key, header.api_version = api_key, api_version
    header.correlation_id, header.client_id = correlation_id, client_id
    return header, position


def encode_response_frame(api_key: int, api_version: int, correlation_id: int, message: Message) -> list[Buffer]:
    """Size, header and body, to be sent in order. An unknown ApiVersions version is answered in version 0."""
    out: list[Buffer] = []
    response_encoder(api_key, api_version)(message, out)
    if api_version >= _flexible_from[api_key] and api_key != API_VERSIONS_KEY:
        out[0] = b"".join((_SIZE_AND_CORRELATION.pack(sum(map(len, out)) + 5, correlation_id), b"\0", out[0]))
    else:
        out[0] = _SIZE_AND_CORRELATION.pack(sum(map(len, out)) + 4, correlation_id) + out[0]
    return out


def encode_request_frame(
    message: Message, api_version: int, correlation_id: int, client_id: str | None
) -> list[Buffer]:
    """Size, header and body of a request, to be sent in order."""
    api_key = message_info(type(message)).api_key
    name = b"" if client_id is None else client_id.encode()
    header = _REQUEST.pack(api_key, api_version, correlation_id, -1 if client_id is None else len(name)) + name
    if api_version >= _flexible_from[api_key]:
        header += b"\0"
    body = encode_request(message, api_version)
    size = len(header) + sum(map(len, body))
    return [size.to_bytes(4, "big") + header, *body]


def decode_response_header(frame: Buffer, api_key: int, api_version: int) -> tuple[int, int]:
    """Correlation id and where the body begins in `frame` (a whole response without its size). Raises ProtocolError."""
    try:
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        position = 4
        if api_version >= _flexible_from[api_key] and api_key != API_VERSIONS_KEY:
            position = skip_tagged_fields(frame, 5, frame[4])
        if position > len(frame):
            raise ProtocolError("response header: cut short")
    except IndexError as error:
        raise ProtocolError(f"response header: {error}") from error
    return correlation_id, position
