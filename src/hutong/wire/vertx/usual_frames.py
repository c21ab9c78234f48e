"""Usual frames between nodes, many at a time: those without headers, whose codec has a number.

Strategy: nearly all frames are such, and both directions go through them in one step: by a compiled pass where the
installation could build it (`_usual_frames.c`), else by `python_take_frames` and `python_make_frame`, which are its
reference. A run of frames ends in front of one that is out of the ordinary, cut off or broken; `cluster_frames` reads
that one with care, and finds the right error. What cannot be a usual frame gives None, and `cluster_frames.encode` says
why.

A body whose codec implies its type comes as its value, every other as its bytes. The address of a request's reply comes
as the request's number. A sender is given as the field that names it in frames of its version (`wire_versions`).
"""

import struct
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from hutong.foundation.compiled import compiled_module
from hutong.wire.buffer import Buffer
from hutong.wire.vertx.cluster_frames import (
    ADDRESS_BYTES_MAX,
    FRAME_BYTES_MAX,
    LENGTH_BYTES,
    PING_CODEC,
)
from hutong.wire.vertx.wire_versions import SENDER_BYTES_MAX

CONTRACT: Final = 2
"""Number of the contract with the compiled pass. An older build on disk has another one, and is not used."""
COUNT_MAX: Final = 65_536
"""Of frames in one call."""
DIGITS_MAX: Final = 19
"""Of the number of a request."""
NO_NUMBER: Final = -1
"""In the place of a request's number: nobody awaits a reply."""

UsualFrame: TypeAlias = tuple[int, str | int, str | None, Any, bool]
"""Codec, address (of a reply the number of its request), reply address, body, and False for a publication."""
TakeFrames: TypeAlias = Callable[[Buffer, int, bytes, bytes, int, int], tuple[list[UsualFrame], int]]
MakeFrame: TypeAlias = Callable[[int, str, bytes, int, bytes, Any], bytes | None]

_NULL, _BOOLEAN, _INT, _LONG, _DOUBLE, _STRING, _BUFFER = 0, 3, 5, 6, 8, 9, 11
VALUE_CODECS: Final = frozenset({_NULL, _BOOLEAN, _INT, _DOUBLE, _STRING, _BUFFER})
"""The codecs whose bodies come as values."""
_NO_HEADERS: Final = 4
_int_at: Final = struct.Struct(">i").unpack_from
_pack_int: Final = struct.Struct(">i").pack
_HEAD: Final = struct.Struct(">BbBi")
_FRAME_HEAD: Final = struct.Struct(">iBbB")
_pack_double: Final = struct.Struct(">d").pack
_pack_long: Final = struct.Struct(">q").pack


class _Unusual(Exception):
    """A frame is for the careful decoder."""


def python_take_frames(
    data: Buffer, version: int, sender: bytes, prefix: bytes, count_max: int, frame_bytes_max: int
) -> tuple[list[UsualFrame], int]:
    """The usual frames of `sender` at the beginning of the data, `count_max` at most, and the bytes that they have.

    `prefix` begins the reply addresses of this node's own requests.
    """
    view, at = bytes(data), 0
    frames: list[UsualFrame] = []
    while len(frames) < min(count_max, COUNT_MAX) and len(view) - at >= LENGTH_BYTES:
        (size,) = _int_at(view, at)
        end = at + LENGTH_BYTES + size
        if not 0 < size <= frame_bytes_max or end > len(view):
            break
        try:
            frames.append(_frame(view[at + LENGTH_BYTES : end], version, sender, prefix))
        except (_Unusual, UnicodeDecodeError, struct.error):
            break
        at = end
    return frames, at


def _frame(frame: bytes, version: int, sender: bytes, prefix: bytes) -> UsualFrame:
    has_version, codec, kind, _ = _HEAD.unpack_from(frame)
    if has_version != version or codec < 0 or codec == PING_CODEC:
        raise _Unusual
    address, at = _text(frame, _HEAD.size - LENGTH_BYTES, ADDRESS_BYTES_MAX)
    reply, at = _text(frame, at, ADDRESS_BYTES_MAX)
    if not frame.startswith(sender, at):
        raise _Unusual
    at += len(sender)
    if _int_at(frame, at)[0] != _NO_HEADERS:
        raise _Unusual
    return codec, _address(address, prefix), reply.decode() or None, _body(codec, frame[at + LENGTH_BYTES :]), kind == 0


def _text(frame: bytes, at: int, size_max: int) -> tuple[bytes, int]:
    (size,) = _int_at(frame, at)
    end = at + LENGTH_BYTES + size
    if not 0 <= size <= size_max or end > len(frame):
        raise _Unusual
    return frame[at + LENGTH_BYTES : end], end


def _address(address: bytes, prefix: bytes) -> str | int:
    if not address.startswith(prefix):
        return address.decode()
    digits = address[len(prefix) :]
    if not digits.isdigit() or len(digits) > DIGITS_MAX:
        raise _Unusual
    return int(digits)


def _body(codec: int, body: bytes) -> Any:
    if codec in (_STRING, _BUFFER):
        if _int_at(body)[0] != len(body) - LENGTH_BYTES:
            raise _Unusual
        return body[LENGTH_BYTES:].decode() if codec == _STRING else body[LENGTH_BYTES:]
    if codec == _NULL and not body:
        return None
    if codec == _BOOLEAN and body in (b"\x00", b"\x01"):
        return body == b"\x00"  # as in Vert.x's BooleanMessageCodec
    if codec == _INT and len(body) == 4:
        return _int_at(body)[0]
    if codec == _DOUBLE and len(body) == 8:
        return struct.unpack(">d", body)[0]
    if codec in VALUE_CODECS:
        raise _Unusual
    return body


def python_make_frame(version: int, address: str, prefix: bytes, number: int, sender: bytes, body: Any) -> bytes | None:
    """The frame of a send with its length before it; None where it is no usual one.

    The reply address is `prefix` and the number of the request, or none with NO_NUMBER.
    """
    try:
        codec, data = _encoded(body)
        at = address.encode()
    except (_Unusual, UnicodeEncodeError):
        return None
    reply = b"" if number < 0 else prefix + b"%d" % number
    size = _HEAD.size + len(at) + LENGTH_BYTES + len(reply) + len(sender) + LENGTH_BYTES + len(data)
    if max(len(at), len(reply)) > ADDRESS_BYTES_MAX or len(sender) > SENDER_BYTES_MAX or size > FRAME_BYTES_MAX:
        return None
    return b"".join(
        (
            _FRAME_HEAD.pack(size, version, codec, 0), _pack_int(len(at)), at, _pack_int(len(reply)), reply,
            sender, _pack_int(_NO_HEADERS), data,
        )
    )  # fmt: skip


def _encoded(body: Any) -> tuple[int, bytes]:
    kind = type(body)
    if kind is str:
        data = body.encode()
        return _STRING, _pack_int(len(data)) + data
    if kind is bytes:
        # The count has 31 bits, and no frame is so large.
        if len(body) > FRAME_BYTES_MAX:
            raise _Unusual
        return _BUFFER, _pack_int(len(body)) + body
    if body is None:
        return _NULL, b""
    if kind is bool:
        return _BOOLEAN, b"\x00" if body else b"\x01"
    if kind is float:
        return _DOUBLE, _pack_double(body)
    if kind is int and -(1 << 31) <= body < 1 << 31:
        return _INT, _pack_int(body)
    if kind is int and -(1 << 63) <= body < 1 << 63:
        return _LONG, _pack_long(body)
    raise _Unusual


_compiled: Final[Any] = compiled_module("hutong.wire.vertx._usual_frames", CONTRACT)
take_frames: TakeFrames = python_take_frames if _compiled is None else _compiled.take_frames
make_frame: MakeFrame = python_make_frame if _compiled is None else _compiled.make_frame
