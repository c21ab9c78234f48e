"""The layout of a call and its answer in a command frame: heads, bodies, and a bounded cache of heads.

A call is a command with code CALL; its ext fields are `s` (address), `a` (action), `t` (milliseconds the caller waits)
and the caller's headers, each name prefixed with `h.`; its body is a msgpack map of arguments. A success has code
SUCCESS, headers as ext fields and the result as msgpack. A failure has code FAILURE, the ext fields `c` (its code) and
`k` (whose it is), its message as the remark, and debug info, if there is any, as a msgpack map.

Strategy: the fields of one method called through one proxy never change, so the sender caches them encoded and the
receiver recognizes them by their bytes (`Heads`). Fields that change with every call (`PER_CALL`) are appended, and a
head with one is not cached. Fields keep their order and may repeat, as headers may.

Knows nothing of connections or services.
"""

import struct
from collections.abc import Iterable
from enum import StrEnum
from itertools import islice
from typing import Any, Final

import msgspec

from hutong.foundation.errors import ProtocolError
from hutong.rpc.errors import CODE_MAX, CODE_MIN, FAULT_CODE, Failure
from hutong.wire.buffer import Buffer
from hutong.wire.rocketmq.command import FRAME_BYTES_MAX

CALL: Final = 30_001
SUCCESS: Final = 0
FAILURE: Final = 30_002

BODY_BYTES_MAX: Final = FRAME_BYTES_MAX - 64 * 1024  # what is left in any case
HEAD_BYTES_MAX: Final = 16 * 1024  # of the ext fields of one call or answer
FIELDS_MAX: Final = 128
REMARK_BYTES_MAX: Final = 16 * 1024  # of a failure's message; what is longer is cut off
CODE_DIGITS_MAX: Final = 16
HEADS_MAX: Final = 4_096  # remembered at a time
REMEMBERED_BYTES_MAX: Final = 1_024  # a longer head is decoded each time
TIMEOUT_MS_MAX: Final = 24 * 3_600_000
PER_CALL: Final = frozenset({"h.request-id", "h.acked-below", "h.traceparent", "h.tracestate"})
"""Fields that differ from call to call."""
_HEADER: Final = "h."
_KEY: Final = struct.Struct(">h")
_VALUE: Final = struct.Struct(">i")

Pairs = tuple[tuple[str, str], ...]
encode: Final = msgspec.msgpack.Encoder().encode
_debug_info: Final = msgspec.msgpack.Decoder(dict[str, Any])


class CallHead(msgspec.Struct, frozen=True, gc=False):
    """The head of a call, without its arguments. `timeout_ms` is None if the caller sent none."""

    address: str
    action: str
    timeout_ms: int | None = None
    headers: Pairs = ()
    is_constant: bool = True  # True if other calls may have the same bytes


class FailureKind(StrEnum):
    """The side of a failure: the service's, or that of the node before any service was called."""

    SERVICE = "service"
    NO_SERVICE = "no-service"  # no service is bound at the address
    OVERLOADED = "overloaded"  # as many calls are under way as may be


class Heads:
    """Heads by their bytes, so that a peer that repeats itself is decoded once. When full, the older half goes."""

    __slots__ = ("_known", "_maximum")

    def __init__(self, maximum: int = HEADS_MAX) -> None:
        self._known: dict[bytes, CallHead] = {}
        self._maximum = maximum

    def __len__(self) -> int:
        return len(self._known)

    def read(self, block: bytes) -> CallHead:
        """The head whose bytes these are. Raises ProtocolError."""
        head = self._known.get(block)
        if head is None:
            head = decode_call(block)
            # Heads that differ with each call would push out those that repeat; long ones would cost too much memory.
            if head.is_constant and len(block) <= REMEMBERED_BYTES_MAX:
                if len(self._known) >= self._maximum:
                    for oldest in list(islice(self._known, (self._maximum + 1) // 2)):
                        del self._known[oldest]
                self._known[block] = head
        return head


def encode_call(address: str, action: str, timeout_ms: int | None, headers: Iterable[tuple[str, str]] = ()) -> bytes:
    """The ext fields of a call. Raises ValueError for more than may be sent."""
    pairs = [("s", address), ("a", action)]
    if timeout_ms is not None:
        pairs.append(("t", str(timeout_ms)))
    return checked(encode_pairs(pairs) + encode_headers(headers))


def encode_headers(headers: Iterable[tuple[str, str]]) -> bytes:
    """Headers as ext fields; they may be appended to other fields."""
    return encode_pairs((_HEADER + name, value) for name, value in headers)


def checked(block: bytes) -> bytes:
    """The block, if it may be sent. Raises ValueError."""
    if len(block) > HEAD_BYTES_MAX:
        raise ValueError(f"address, action and headers take {len(block)} bytes; {HEAD_BYTES_MAX} are allowed")
    return block


def decode_call(block: bytes) -> CallHead:
    """The head of a call. Raises ProtocolError."""
    pairs = decode_pairs(block)
    fields = dict(pairs)
    address, action, timeout = fields.get("s"), fields.get("a"), fields.get("t")
    if address is None or action is None:
        raise ProtocolError("a call without address or action")
    is_constant = PER_CALL.isdisjoint(fields)
    return CallHead(address, action, None if timeout is None else _timeout_ms(timeout), _headers(pairs), is_constant)


def encode_failure(failure: Failure, kind: FailureKind = FailureKind.SERVICE) -> tuple[bytes, bytes, bytes]:
    """The ext fields, remark and body of a failure. Debug info that cannot be encoded is left out."""
    fields = encode_pairs((("c", str(failure.code)), ("k", kind)))
    try:
        body = b"" if failure.debug_info is None else encode_body(failure.debug_info)
    except ValueError:
        body = b""
    # `ignore` drops the character that the cut has split.
    remark = failure.message.encode(errors="replace")[:REMARK_BYTES_MAX].decode(errors="ignore")
    return fields, remark.encode(), body


def decode_failure(block: bytes, remark: str | None, body: Buffer) -> tuple[FailureKind, Failure]:
    """A failure, and whose it is. Raises ProtocolError."""
    fields = dict(decode_pairs(block))
    try:
        # Cut before `int`, whose time grows with the square of the digits.
        code = int(fields.get("c", str(FAULT_CODE))[:CODE_DIGITS_MAX])
        if not CODE_MIN <= code <= CODE_MAX:
            raise ProtocolError(f"a failure code of more than 32 bits: {code}")
        debug_info = _debug_info.decode(body) if len(body) else None
        return FailureKind(fields.get("k", "")), Failure(code, remark or "", debug_info)
    except (ValueError, RecursionError) as error:  # msgspec's own errors are ValueErrors
        raise ProtocolError(f"a failure that cannot be read: {error}") from None


def encode_body(value: object) -> bytes:
    """Encode arguments or a result as msgpack. Raises ValueError with the reason."""
    try:
        body = encode(value)
    except (TypeError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise ValueError(str(error)) from None
    except Exception as error:  # a supervisor: attributes of other people's types, such as one not set
        raise ValueError(f"{type(error).__name__}: {error}") from error
    if len(body) > BODY_BYTES_MAX:
        raise ValueError(f"it takes {len(body)} bytes; {BODY_BYTES_MAX} are allowed")
    return body


def decode_headers(block: bytes) -> Pairs:
    """The headers of an answer. Raises ProtocolError."""
    return _headers(decode_pairs(block)) if block else ()


def encode_pairs(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Ext fields in their order. Raises ValueError for a name or value that is too long."""
    parts: list[bytes] = []
    for name, value in pairs:
        key, text = name.encode(), value.encode()
        if len(key) > HEAD_BYTES_MAX or len(text) > HEAD_BYTES_MAX:
            raise ValueError(f"the header {name[:64]!r} is longer than {HEAD_BYTES_MAX} bytes")
        parts += (_KEY.pack(len(key)), key, _VALUE.pack(len(text)), text)
    return b"".join(parts)


def decode_pairs(block: bytes) -> Pairs:
    """Ext fields in their order. Raises ProtocolError."""
    if len(block) > HEAD_BYTES_MAX:
        raise ProtocolError(f"{len(block)} bytes of ext fields; {HEAD_BYTES_MAX} are allowed")
    pairs: list[tuple[str, str]] = []
    at, end = 0, len(block)
    try:
        while at < end:
            name, at = _text(block, at, _KEY)
            value, at = _text(block, at, _VALUE)
            pairs.append((name, value))
            if len(pairs) > FIELDS_MAX:
                raise ProtocolError(f"more than {FIELDS_MAX} ext fields")
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"ext fields that cannot be read: {error}") from None
    return tuple(pairs)


def _text(block: bytes, at: int, length_as: struct.Struct) -> tuple[str, int]:
    (length,) = length_as.unpack_from(block, at)
    start = at + length_as.size
    # Lengths are signed and the peer's: a negative one would lead back, and the loop of `decode_pairs` would not end.
    if not 0 <= length <= len(block) - start:
        raise ProtocolError(f"an ext field of {length} bytes where {len(block) - start} are left")
    return block[start : start + length].decode(), start + length


def _headers(pairs: Pairs) -> Pairs:
    return tuple((name[len(_HEADER) :], value) for name, value in pairs if name.startswith(_HEADER))


def _timeout_ms(text: str) -> int:
    # `int` alone would accept signs, underscores and digits of other scripts.
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ProtocolError(f"a timeout of {text[:32]!r} ms")
    return min(int(text), TIMEOUT_MS_MAX)
