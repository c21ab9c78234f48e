"""Frames that clients of the event-bus bridges send: one JSON object each, checked here once and for all.

Strategy: msgspec reads the envelope's known members and skips the rest. Then each member is checked by hand, so that
every fault has its own documented code. Later code needs no checks of types.

Nesting is bounded before anything walks the body, because later steps (copying, encoding) walk it by recursion. The
number of lists and objects is bounded too, because copying one costs the bus a microsecond. A frame with few brackets
has few of them, so only frames with many brackets are counted exactly.

Knows nothing of sockets, permissions or registrations.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from hutong.wire.buffer import Buffer
from hutong.wire.vertx.codes import Code, Dialect

DEPTH_MAX: Final = 64  # of lists and objects within each other, not counting the envelope
CONTAINERS_MAX: Final = 20_000  # lists and objects in one frame
HEADERS_MAX: Final = 100  # values, of all names together
HEADER_CHARACTERS_MAX: Final = 16 * 1024  # names and values together
EXPONENTS_MAX: Final = 256  # in a frame that msgspec decodes
TIMEOUT_MS_MAX: Final = 3_600_000  # bounds how long the bridge keeps a client's request
_INT32_MAX: Final = 2**31 - 1


class FrameKind(StrEnum):
    """Types of a client's frames."""

    SEND = "send"
    PUBLISH = "publish"
    REGISTER = "register"
    UNREGISTER = "unregister"
    PING = "ping"


class ClientFrame(msgspec.Struct, frozen=True, gc=False):
    """A client's frame after all checks. `address` is empty for a ping alone.

    `headers` are those of the message, in order; the headers `timeout`, `localOnly` and `codecName` became `timeout_ms`
    (1 to TIMEOUT_MS_MAX), `local_only` and `codec_name`. `failure` is (code, text) of a reply that fails.
    """

    kind: FrameKind
    address: str
    reply_address: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    body: Any = None
    failure: tuple[int, str] | None = None
    timeout_ms: int | None = None
    local_only: bool = False
    codec_name: str | None = None


class Malformed(msgspec.Struct, frozen=True):
    """A frame that is answered with `code`. The addresses are known where the frame got that far."""

    code: Code
    address: str = ""
    reply_address: str | None = None


class _Envelope(msgspec.Struct):
    type: Any = None
    address: Any = None
    replyAddress: Any = None
    headers: Any = None
    body: Any = None
    failureCode: Any = None
    message: Any = None


class _WrongHeaders(Exception):
    pass


_decode: Final = msgspec.json.Decoder(_Envelope).decode
_encode: Final = msgspec.json.Encoder().encode
_EXPONENT: Final = re.compile(rb"[eE][+-]?\d\d")
_EXPONENT_OF_TEXT: Final = re.compile(r"[eE][+-]?[0-9]{2}")
_KINDS: Final[Mapping[str, FrameKind]] = {kind.value: kind for kind in FrameKind}


def decode(data: Buffer | str, dialect: Dialect) -> ClientFrame | Malformed:
    """One frame of a client. Never raises for what a client can send."""
    try:
        # A frame of nothing but large exponents would hold the loop for seconds.
        raw = _decode_slowly(data) if _has_many_exponents(data) else _decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):  # UnicodeError is a ValueError
        return Malformed(Code.INVALID_JSON)
    if raw.type is None:
        return Malformed(Code.MISSING_TYPE)
    kind = _KINDS.get(raw.type) if isinstance(raw.type, str) else None
    if kind is None:
        # The two bridges of Vert.x have different codes for the same fault.
        return Malformed(Code.UNKNOWN_TYPE if dialect is Dialect.TCP else Code.INVALID_TYPE)
    # A ping needs no address, and its other members are ignored.
    if kind is FrameKind.PING:
        return _PING
    if _may_be_vast(data) and is_vast((raw.body, raw.headers)):
        return Malformed(Code.INVALID_JSON)
    return _checked(kind, raw)


_PING: Final = ClientFrame(FrameKind.PING, "")


def _has_many_exponents(data: Buffer | str) -> bool:
    """Return True if the frame may hold many numbers such as 1e300, each of which costs msgspec up to 17 us."""
    # A frame of fewer bytes cannot hold so many: nothing is searched.
    if len(data) <= EXPONENTS_MAX:
        return False
    found = _EXPONENT_OF_TEXT.findall(data) if isinstance(data, str) else _EXPONENT.findall(data)
    return len(found) > EXPONENTS_MAX


def _decode_slowly(data: Buffer | str) -> _Envelope:
    """Decode with Python's own decoder, whose worst case takes a hundredth of msgspec's time."""
    text = data if isinstance(data, str) else bytes(data).decode()
    found = json.loads(text, parse_constant=_not_json, parse_float=_finite)
    _encode(found)  # raises for a lone surrogate, which UTF-8 cannot express
    return msgspec.convert(found, _Envelope)


def _not_json(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    # Python reads 1e999 as infinity, which JSON cannot express; msgspec refuses it as well.
    if math.isinf(value):
        raise ValueError(f"{text} is out of range")
    return value


def _checked(kind: FrameKind, raw: _Envelope) -> ClientFrame | Malformed:
    address, reply_address = raw.address, raw.replyAddress
    if not isinstance(address, str) or not address:
        return Malformed(Code.MISSING_ADDRESS)
    # An empty reply address would be one that nobody can answer.
    if reply_address is not None and (not isinstance(reply_address, str) or not reply_address):
        return Malformed(Code.INVALID_REPLY_ADDRESS, address)
    failure = None
    # Only a reply may carry one: it fails the request that it answers.
    if raw.failureCode is not None:
        failure = _failure(raw.failureCode, raw.message)
        if failure is None:
            return Malformed(Code.INVALID_FAILURE, address, reply_address)
    # Nearly all frames have none. An empty list or text is falsy as well, and wrong.
    if not raw.headers and raw.headers in (None, {}):
        return ClientFrame(kind, address, reply_address, (), raw.body, failure)
    try:
        headers, options = _headers(raw.headers)
        timeout_ms, local_only, codec_name = _timeout_ms(options), _local_only(options), _codec_name(options)
    except _WrongHeaders:
        return Malformed(Code.INVALID_HEADERS, address, reply_address)
    return ClientFrame(kind, address, reply_address, headers, raw.body, failure, timeout_ms, local_only, codec_name)


def _failure(code: object, text: object) -> tuple[int, str] | None:
    # JSON's true is an int to Python.
    if isinstance(code, bool) or not isinstance(code, int) or not -_INT32_MAX <= code <= _INT32_MAX:
        return None
    if text is not None and not isinstance(text, str):
        return None
    return code, text or ""


_OPTIONS: Final = frozenset(("timeout", "localOnly", "codecName"))


def _headers(raw: object) -> tuple[tuple[tuple[str, str], ...], Mapping[str, object]]:
    """The headers as pairs, lists as several of one name, and apart from them the delivery options."""
    if not isinstance(raw, dict):
        raise _WrongHeaders
    pairs: list[tuple[str, str]] = []
    options: dict[str, object] = {}
    characters = 0
    for name, value in raw.items():
        if name in _OPTIONS:
            options[name] = value
            continue
        # Vert.x headers are a multimap, which JSON expresses by lists.
        values = value if isinstance(value, list) else (value,)
        # Before the values are converted.
        if len(pairs) + len(values) > HEADERS_MAX:
            raise _WrongHeaders
        for one in values:
            text = _text(one)
            characters += len(name) + len(text)
            pairs.append((name, text))
    if characters > HEADER_CHARACTERS_MAX:
        raise _WrongHeaders
    return tuple(pairs), options


def _text(value: object) -> str:
    """A header's value: text as it is, numbers and truth values as JSON writes them."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | float):
        return json.dumps(value)
    # Writing a huge number as text takes quadratic time.
    if isinstance(value, int) and value.bit_length() <= 64:
        return str(value)
    raise _WrongHeaders


def _timeout_ms(options: Mapping[str, object]) -> int | None:
    value = options.get("timeout")
    if value is None:
        return None
    # Clients may send headers as text. isdigit alone accepts digits that int refuses, such as a superscript two.
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 9:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= TIMEOUT_MS_MAX:
        raise _WrongHeaders
    return value


def _local_only(options: Mapping[str, object]) -> bool:
    value = options.get("localOnly")
    # Text as well: clients send headers as text.
    if value in (None, False, "false"):
        return False
    if value in (True, "true"):
        return True
    raise _WrongHeaders


def _codec_name(options: Mapping[str, object]) -> str | None:
    value = options.get("codecName")
    if value is None or isinstance(value, str):
        return value
    raise _WrongHeaders


def _may_be_vast(data: Buffer | str) -> bool:
    if isinstance(data, str):
        return data.count("[") + data.count("{") > DEPTH_MAX
    # A memoryview has no `count`.
    plain = data if isinstance(data, bytes | bytearray) else bytes(data)
    return plain.count(b"[") + plain.count(b"{") > DEPTH_MAX


def is_vast(values: Iterable[object]) -> bool:
    """Return True for more than CONTAINERS_MAX lists and objects in `values`, or a nesting deeper than DEPTH_MAX.

    Walks level by level, without recursion; costs a step for each value.
    """
    # Exact types: JSON decoders make no subclasses, and `type() is` is the cheaper test.
    level: list[Any] = [value for value in values if type(value) is list or type(value) is dict]
    depth = count = 0
    while level:
        depth += 1
        count += len(level)
        if depth > DEPTH_MAX or count > CONTAINERS_MAX:
            return True
        inner: list[Any] = []
        for value in level:
            # Empty containers have nothing to walk, and an iterator for each would cost more than the test.
            if value:
                for one in value if type(value) is list else value.values():
                    if type(one) is list or type(one) is dict:
                        inner.append(one)  # noqa: PERF401  # a comprehension for each value takes ten times as long
        level = inner
    return False
