"""Frames between the nodes of a Vert.x cluster: bytes to values.

    i32 length of all that follows, then
    u8  version             2 (Vert.x 4.0 to 5.1), or 1 (Vert.x 3)
    i8  codec               -1: text follows, the name of a codec of the user's
    u8  kind                0 send, 1 publish
    text address
    text reply address      empty: nobody awaits a reply
    sender                  as the version has it (`wire_versions`); of a ping it is the receiver
    i32 length of headers   counts itself; 4 where there are none
    [i32 count, then text name and text value, count times]
    body                    as the codec has it, to the end of the frame

    text = i32 length in bytes, UTF-8; every number is big-endian

Strategy: each length is compared with what is left of the frame before anything is made of it, so a frame costs no more
memory than it has bytes. A body stays bytes: its codec may be a user's. ProtocolError is the only error of `decode`.

Nearly all frames have no headers and a codec with a number: those are read in a few steps (of version 2), and where
many come together by `usual_frames`. Others, and damaged ones, are read again with care, which finds the right error.

Knows nothing of codecs but their numbers, and nothing of connections.
"""

import struct
from functools import lru_cache
from typing import Final

from msgspec import Struct

from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer
from hutong.wire.vertx.frame_parts import byte_at, int_at, pack_int, text_at, text_bytes, unpack_int_from
from hutong.wire.vertx.wire_versions import NODE_NAME_BYTES_MAX, VERSION_2, WireVersion

USER_CODEC: Final = -1
PING_CODEC: Final = 1
PING_ADDRESS: Final = "__vertx_ping"
PONG: Final = b"\x01"
"""The answer to a ping, on the connection that the ping came by. It has no frame around it."""

REFERENCE_HEADERS: Final = ("proxyaddr", "streamaddr")
"""Headers of a reply that name the address of a service made for who has asked: Vert.x's proxies, and our streams."""

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
LENGTH_BYTES: Final = 4
"""Of the length before each frame."""
ADDRESS_BYTES_MAX: Final = 4 * 1024
CODEC_NAME_BYTES_MAX: Final = 1024
HEADERS_MAX: Final = 256
"""As many as a message of the bus may have (`bus/envelope/headers.py`)."""
HEADER_BYTES_MAX: Final = 256 * 1024

ADDRESSES_REMEMBERED: Final = 1_024
"""As bytes: a program sends to few addresses, and each many times."""
_NOT_REMEMBERED: Final = "__"
"""The beginning of the addresses of replies, ours and Vert.x's: each is used once."""

_HEAD: Final = struct.Struct(">Bb")
_FRAME_HEAD: Final = struct.Struct(">iBb")
_UP_TO_ADDRESS: Final = struct.Struct(">BbBi")
_up_to_address_at: Final = _UP_TO_ADDRESS.unpack_from
_NO_HEADERS: Final = pack_int(4)
_NO_HEADERS_BYTES: Final = 4
_NO_TEXT: Final = pack_int(0)


class ClusterFrame(Struct, frozen=True, gc=False):
    """A message between two nodes. `codec_name` is that of a user's codec, whose `codec` is USER_CODEC."""

    codec: int
    address: str
    sender: str
    body: Buffer = b""
    reply_address: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    is_send: bool = True
    codec_name: str | None = None


def encode(frame: ClusterFrame, wire: WireVersion = VERSION_2) -> bytes:
    """The frame with its length before it. Raises ValueError for text that UTF-8 cannot express, or is too long."""
    name, reply_address = frame.codec_name, frame.reply_address
    parts = (
        b"" if name is None else text_bytes(name, CODEC_NAME_BYTES_MAX, "the name of a codec"),
        b"\x00" if frame.is_send else b"\x01",
        _address_text(frame.address),
        _NO_TEXT if reply_address is None else text_bytes(reply_address, ADDRESS_BYTES_MAX, "a reply address"),
        wire.sender_bytes(frame.sender),
        _headers_bytes(frame.headers) if frame.headers else _NO_HEADERS,
        frame.body,
    )
    rest = b"".join(parts)
    size = len(rest) + _HEAD.size
    # The receiver would close the connection, and lose the frames behind this one.
    if size > FRAME_BYTES_MAX:
        raise ValueError(f"a message of {size} bytes; {FRAME_BYTES_MAX} are allowed between nodes")
    return _FRAME_HEAD.pack(size, wire.number, frame.codec) + rest


def encode_ping(receiver: str, wire: WireVersion = VERSION_2) -> bytes:
    """The ping of an idle connection. Vert.x names the receiver where other frames have the sender."""
    return encode(ClusterFrame(PING_CODEC, PING_ADDRESS, receiver), wire)


def decode(data: Buffer, wire: WireVersion = VERSION_2) -> ClusterFrame:
    """The frame behind its length. Raises ProtocolError, also for a frame of another version."""
    # A large one is lent, and comes as a view.
    at_once = _decoded_at_once(data) if type(data) is bytes and wire is VERSION_2 else None
    return at_once or _decoded_carefully(data, wire)


def _decoded_at_once(data: bytes) -> ClusterFrame | None:
    """The frame, if it is a usual one of version 2. A wrong length leads behind the end, or is seen at it."""
    try:
        version, codec, kind, address_size = _up_to_address_at(data)
        address_at = _UP_TO_ADDRESS.size
        reply_at = address_at + address_size
        (reply_size,) = unpack_int_from(data, reply_at)
        sender_at = reply_at + LENGTH_BYTES + reply_size
        (sender_size,) = unpack_int_from(data, sender_at)
        headers_at = sender_at + LENGTH_BYTES + sender_size
        (headers_size,) = unpack_int_from(data, headers_at)
        address = data[address_at:reply_at].decode()
        reply_address = data[reply_at + LENGTH_BYTES : sender_at].decode() if reply_size else None
        sender = data[sender_at + LENGTH_BYTES : headers_at].decode()
    except (struct.error, UnicodeDecodeError):
        return None
    body_at = headers_at + LENGTH_BYTES
    is_usual = (
        version == VERSION_2.number
        and codec >= 0
        and 0 <= address_size <= ADDRESS_BYTES_MAX
        and 0 <= reply_size <= ADDRESS_BYTES_MAX
        and 0 <= sender_size <= NODE_NAME_BYTES_MAX
        and headers_size == _NO_HEADERS_BYTES
        and body_at <= len(data)
    )
    if not is_usual:
        return None
    return ClusterFrame(codec, address, sender, data[body_at:], reply_address, (), kind == 0)


def _decoded_carefully(data: Buffer, wire: WireVersion) -> ClusterFrame:
    view = memoryview(data)
    if len(view) < _HEAD.size:
        raise ProtocolError(f"a frame of {len(view)} bytes has no version and codec")
    version, codec = _HEAD.unpack_from(view)
    # Vert.x itself has no clusters with both.
    if version != wire.number:
        raise ProtocolError(f"a frame of version {version}; {wire.spoken_by} send version {wire.number}")
    at = _HEAD.size
    codec_name = None
    if codec == USER_CODEC:
        codec_name, at = text_at(view, at, CODEC_NAME_BYTES_MAX, "name of a codec")
    kind, at = byte_at(view, at)
    address, at = text_at(view, at, ADDRESS_BYTES_MAX, "address")
    reply_address, at = text_at(view, at, ADDRESS_BYTES_MAX, "reply address")
    sender, at = wire.sender_at(view, at)
    headers, at = _headers_at(view, at)
    # Vert.x takes every other value than 0 for a publication.
    return ClusterFrame(codec, address, sender, view[at:], reply_address or None, headers, kind == 0, codec_name)


def _headers_bytes(headers: tuple[tuple[str, str], ...]) -> bytes:
    if len(headers) > HEADERS_MAX:
        raise ValueError(f"{len(headers)} headers; {HEADERS_MAX} are allowed between nodes")
    texts = b"".join([text_bytes(text, HEADER_BYTES_MAX, "a header") for pair in headers for text in pair])
    size = 8 + len(texts)
    if size > HEADER_BYTES_MAX:
        raise ValueError(f"headers of {size} bytes; {HEADER_BYTES_MAX} are allowed between nodes")
    return pack_int(size) + pack_int(len(headers)) + texts


def _headers_at(view: memoryview, at: int) -> tuple[tuple[tuple[str, str], ...], int]:
    size, begin = int_at(view, at, "length of headers")
    end = at + size
    if size < 4 or size > HEADER_BYTES_MAX or end > len(view):
        raise ProtocolError(f"headers of {size} bytes with {len(view) - at} left; {HEADER_BYTES_MAX} are allowed")
    if size == 4:
        return (), end
    within = view[:end]
    count, at = int_at(within, begin, "number of headers")
    if not 0 <= count <= HEADERS_MAX:
        raise ProtocolError(f"{count} headers; {HEADERS_MAX} are allowed")
    pairs: list[tuple[str, str]] = []
    for _ in range(count):
        name, at = text_at(within, at, HEADER_BYTES_MAX, "header")
        value, at = text_at(within, at, HEADER_BYTES_MAX, "header")
        pairs.append((name, value))
    if at != end:
        raise ProtocolError(f"{end - at} bytes behind the last header")
    return tuple(pairs), end


def _address_text(address: str) -> bytes:
    if address.startswith(_NOT_REMEMBERED):
        return text_bytes(address, ADDRESS_BYTES_MAX, "an address")
    return _remembered_address_text(address)


@lru_cache(ADDRESSES_REMEMBERED)
def _remembered_address_text(address: str) -> bytes:
    return text_bytes(address, ADDRESS_BYTES_MAX, "an address")
