"""Frames between the nodes of a Vert.x cluster, version 2 of the wire format (Vert.x 4.0 to 5.1): bytes to values.

    i32 length of all that follows, then
    u8  version             2
    i8  codec               -1: text follows, the name of a codec of the user's
    u8  kind                0 send, 1 publish
    text address
    text reply address      empty: nobody awaits a reply
    text sender             the node id; of a ping that of its receiver
    i32 length of headers   counts itself; 4 where there are none
    [i32 count, then text name and text value, count times]
    body                    as the codec has it, to the end of the frame

    text = i32 length in bytes, UTF-8; every number is big-endian

Strategy: each length is compared with what is left of the frame before anything is made of it, so a frame costs no more
memory than it has bytes. A body stays bytes: its codec may be a user's. ProtocolError is the only error of `decode`.

Nearly all frames have no headers and a codec with a number: those are read in a few steps, and where many come
together by `usual_frames`. Others, and damaged ones, are read again with care, which finds the right error.

Knows nothing of codecs but their numbers, and nothing of connections.
"""

import struct
from functools import lru_cache
from typing import Final

from msgspec import Struct

from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer

VERSION: Final = 2
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
NODE_ID_BYTES_MAX: Final = 256
CODEC_NAME_BYTES_MAX: Final = 1024
HEADERS_MAX: Final = 256
"""As many as a message of the bus may have (`bus/envelope/headers.py`)."""
HEADER_BYTES_MAX: Final = 256 * 1024

ADDRESSES_REMEMBERED: Final = 1_024
"""As bytes: a program sends to few addresses, and each many times."""
_NOT_REMEMBERED: Final = "__"
"""The beginning of the addresses of replies, ours and Vert.x's: each is used once."""

_INT: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">Bb")
_FRAME_HEAD: Final = struct.Struct(">iBb")
_UP_TO_ADDRESS: Final = struct.Struct(">BbBi")
_up_to_address_at: Final = _UP_TO_ADDRESS.unpack_from
_NO_HEADERS: Final = _INT.pack(4)
_NO_HEADERS_BYTES: Final = 4
_NO_TEXT: Final = _INT.pack(0)
_pack_int: Final = _INT.pack
_int_at: Final = _INT.unpack_from


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


def encode(frame: ClusterFrame) -> bytes:
    """The frame with its length before it. Raises ValueError for text that UTF-8 cannot express, or is too long."""
    name, reply_address = frame.codec_name, frame.reply_address
    parts = (
        b"" if name is None else _text(name, CODEC_NAME_BYTES_MAX, "the name of a codec"),
        b"\x00" if frame.is_send else b"\x01",
        _address_text(frame.address),
        _NO_TEXT if reply_address is None else _text(reply_address, ADDRESS_BYTES_MAX, "a reply address"),
        _sender_text(frame.sender),
        _headers_bytes(frame.headers) if frame.headers else _NO_HEADERS,
        frame.body,
    )
    rest = b"".join(parts)
    size = len(rest) + _HEAD.size
    # The receiver would close the connection, and lose the frames behind this one.
    if size > FRAME_BYTES_MAX:
        raise ValueError(f"a message of {size} bytes; {FRAME_BYTES_MAX} are allowed between nodes")
    return _FRAME_HEAD.pack(size, VERSION, frame.codec) + rest


def encode_ping(receiver: str) -> bytes:
    """The ping of an idle connection. Vert.x names the receiver where other frames have the sender."""
    return encode(ClusterFrame(PING_CODEC, PING_ADDRESS, receiver))


def decode(data: Buffer) -> ClusterFrame:
    """The frame behind its length. Raises ProtocolError."""
    # A large one is lent, and comes as a view.
    return (_decoded_at_once(data) if type(data) is bytes else None) or _decoded_carefully(data)


def _decoded_at_once(data: bytes) -> ClusterFrame | None:
    """The frame, if it is a usual one. A wrong length leads behind the end, or is seen at it."""
    try:
        version, codec, kind, address_size = _up_to_address_at(data)
        address_at = _UP_TO_ADDRESS.size
        reply_at = address_at + address_size
        (reply_size,) = _int_at(data, reply_at)
        sender_at = reply_at + LENGTH_BYTES + reply_size
        (sender_size,) = _int_at(data, sender_at)
        headers_at = sender_at + LENGTH_BYTES + sender_size
        (headers_size,) = _int_at(data, headers_at)
        address = data[address_at:reply_at].decode()
        reply_address = data[reply_at + LENGTH_BYTES : sender_at].decode() if reply_size else None
        sender = data[sender_at + LENGTH_BYTES : headers_at].decode()
    except (struct.error, UnicodeDecodeError):
        return None
    body_at = headers_at + LENGTH_BYTES
    is_usual = (
        version == VERSION
        and codec >= 0
        and 0 <= address_size <= ADDRESS_BYTES_MAX
        and 0 <= reply_size <= ADDRESS_BYTES_MAX
        and 0 <= sender_size <= NODE_ID_BYTES_MAX
        and headers_size == _NO_HEADERS_BYTES
        and body_at <= len(data)
    )
    if not is_usual:
        return None
    return ClusterFrame(codec, address, sender, data[body_at:], reply_address, (), kind == 0)


def _decoded_carefully(data: Buffer) -> ClusterFrame:
    view = memoryview(data)
    if len(view) < _HEAD.size:
        raise ProtocolError(f"a frame of {len(view)} bytes has no version and codec")
    version, codec = _HEAD.unpack_from(view)
    # Version 1 is that of Vert.x 3, which names senders by host and port.
    if version != VERSION:
        raise ProtocolError(f"a frame of version {version}; nodes of Vert.x 4 and 5 send version {VERSION}")
    at = _HEAD.size
    codec_name = None
    if codec == USER_CODEC:
        codec_name, at = _text_at(view, at, CODEC_NAME_BYTES_MAX, "name of a codec")
    kind, at = _byte_at(view, at)
    address, at = _text_at(view, at, ADDRESS_BYTES_MAX, "address")
    reply_address, at = _text_at(view, at, ADDRESS_BYTES_MAX, "reply address")
    sender, at = _text_at(view, at, NODE_ID_BYTES_MAX, "sender")
    headers, at = _headers_at(view, at)
    # Vert.x takes every other value than 0 for a publication.
    return ClusterFrame(codec, address, sender, view[at:], reply_address or None, headers, kind == 0, codec_name)


def _headers_bytes(headers: tuple[tuple[str, str], ...]) -> bytes:
    if len(headers) > HEADERS_MAX:
        raise ValueError(f"{len(headers)} headers; {HEADERS_MAX} are allowed between nodes")
    texts = b"".join([_text(text, HEADER_BYTES_MAX, "a header") for pair in headers for text in pair])
    size = 8 + len(texts)
    if size > HEADER_BYTES_MAX:
        raise ValueError(f"headers of {size} bytes; {HEADER_BYTES_MAX} are allowed between nodes")
    return _pack_int(size) + _pack_int(len(headers)) + texts


def _headers_at(view: memoryview, at: int) -> tuple[tuple[tuple[str, str], ...], int]:
    size, begin = _int(view, at, "length of headers")
    end = at + size
    if size < 4 or size > HEADER_BYTES_MAX or end > len(view):
        raise ProtocolError(f"headers of {size} bytes with {len(view) - at} left; {HEADER_BYTES_MAX} are allowed")
    if size == 4:
        return (), end
    within = view[:end]
    count, at = _int(within, begin, "number of headers")
    if not 0 <= count <= HEADERS_MAX:
        raise ProtocolError(f"{count} headers; {HEADERS_MAX} are allowed")
    pairs: list[tuple[str, str]] = []
    for _ in range(count):
        name, at = _text_at(within, at, HEADER_BYTES_MAX, "header")
        value, at = _text_at(within, at, HEADER_BYTES_MAX, "header")
        pairs.append((name, value))
    if at != end:
        raise ProtocolError(f"{end - at} bytes behind the last header")
    return tuple(pairs), end


def _text(text: str, bytes_max: int, what: str) -> bytes:
    data = text.encode()
    if len(data) > bytes_max:
        raise ValueError(f"{what} of {len(data)} bytes; {bytes_max} are allowed between nodes")
    return _pack_int(len(data)) + data


def _address_text(address: str) -> bytes:
    if address.startswith(_NOT_REMEMBERED):
        return _text(address, ADDRESS_BYTES_MAX, "an address")
    return _remembered_address_text(address)


@lru_cache(ADDRESSES_REMEMBERED)
def _remembered_address_text(address: str) -> bytes:
    return _text(address, ADDRESS_BYTES_MAX, "an address")


@lru_cache(ADDRESSES_REMEMBERED)
def _sender_text(sender: str) -> bytes:
    return _text(sender, NODE_ID_BYTES_MAX, "a node id")


def _text_at(view: memoryview, at: int, bytes_max: int, what: str) -> tuple[str, int]:
    size, at = _int(view, at, what)
    if not 0 <= size <= min(bytes_max, len(view) - at):
        raise ProtocolError(f"a {what} of {size} bytes with {len(view) - at} left; {bytes_max} are allowed")
    try:
        return str(view[at : at + size], "utf-8"), at + size
    except UnicodeDecodeError as error:
        raise ProtocolError(f"a {what} that is not UTF-8: {error}") from None


def _int(view: memoryview, at: int, what: str) -> tuple[int, int]:
    if len(view) - at < 4:
        raise ProtocolError(f"the frame ends in the {what}")
    return _int_at(view, at)[0], at + 4


def _byte_at(view: memoryview, at: int) -> tuple[int, int]:
    if at >= len(view):
        raise ProtocolError("the frame ends before the kind of the message")
    return view[at], at + 1
