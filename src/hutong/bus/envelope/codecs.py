"""Codecs: how a body becomes bytes and a body again, and what a recipient in the same process gets.

Strategy: the system codecs are Vert.x's, by name and to the byte (big-endian; the body of a version 2 frame), so that a
clustered bus and bridges can carry what a local one does. A codec of one's own has a name, and may be the default for
one exact type.

Knows no bus and no frames.
"""

import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar, cast, runtime_checkable

from hutong.bus.envelope.bodies import IMMUTABLE, UnknownBody, copied
from hutong.bus.envelope.java_objects import ClusterSerializable, JavaSerialized
from hutong.bus.envelope.service_failure import ServiceFailure, ServiceFailureCodec
from hutong.bus.errors import FailureType, ReplyError
from hutong.foundation.errors import ProtocolError

S = TypeVar("S", contravariant=True)
R = TypeVar("R", covariant=True)
CODECS_MAX: Final = 1_000
"""Registered on one bus."""
_COUNT: Final = struct.Struct(">i")
_pack_count: Final = _COUNT.pack
_count_at: Final = _COUNT.unpack_from


@runtime_checkable
class MessageCodec(Protocol, Generic[S, R]):
    """A codec for `EventBus.register_codec`: sends an S, gives recipients an R; often the same type.

    `transform` is what a recipient in the same process gets: a copy, so that no side sees the other change it, or the
    value itself where it cannot change.
    """

    @property
    def name(self) -> str: ...

    def encode(self, body: S) -> bytes: ...

    def decode(self, data: bytes) -> R: ...

    def transform(self, body: S) -> R: ...


@dataclass(frozen=True, slots=True)
class SystemCodec:
    """One of Vert.x's own. `number` is its id on the wire. `check` returns the body, as it is sent.

    `encode` and `transform` raise TypeError or ValueError for another body, `decode` ProtocolError for broken bytes.
    """

    name: str
    number: int
    check: Callable[[Any], Any]
    to_bytes: Callable[[Any], bytes]
    from_bytes: Callable[[bytes], Any]

    def encode(self, body: Any) -> bytes:
        try:
            return self.to_bytes(self.check(body))
        except UnicodeEncodeError as error:  # a lone surrogate, which a str of Python may contain
            raise ValueError(f"a body for the codec {self.name!r} is not text that UTF-8 can say: {error}") from None

    def decode(self, data: bytes) -> Any:
        try:
            return self.from_bytes(data)
        # All that the readers below raise for broken bytes; RecursionError is JSON that is nested too deeply.
        except (ValueError, struct.error, IndexError, RecursionError) as error:
            raise ProtocolError(f"this is not what the codec {self.name!r} writes: {error}") from None

    def transform(self, body: Any) -> Any:
        value = self.check(body)
        return copied(value) if type(value) in (dict, list) else value


def _only(*kinds: type) -> Callable[[Any], Any]:
    def check(body: Any) -> Any:
        # The exact type: a subclass would arrive as another type than it was sent.
        if type(body) not in kinds:
            raise TypeError(f"a body of type {kinds[0].__name__} is wanted here, not {type(body).__name__}")
        return body

    return check


def _whole(bits: int) -> Callable[[Any], int]:
    def check(body: Any) -> int:
        if type(body) is not int:  # bool is a subclass of int, and has a codec of its own
            raise TypeError(f"a whole number is wanted here, not {type(body).__name__}")
        if not -(1 << bits - 1) <= body < 1 << bits - 1:
            raise ValueError(f"{body} does not fit into {bits} bits")
        return body

    return check


def _character(body: Any) -> str:
    # Java's char is one unit of UTF-16, so characters beyond U+FFFF, which take two, do not fit.
    if type(body) is not str or len(body) != 1 or ord(body) > 0xFFFF:
        raise TypeError("one character of UTF-16 is wanted here")
    return body


def _number(body: Any) -> float:
    if type(body) not in (float, int):
        raise TypeError(f"a number is wanted here, not {type(body).__name__}")
    return float(body)


def _single(body: Any) -> float:
    number = _number(body)
    # The bound is where rounding to 32 bits gives infinity; `struct.pack` would raise OverflowError there.
    if math.isfinite(number) and abs(number) > 3.4028235677973366e38:
        raise ValueError(f"{number} does not fit into a float of 32 bits")
    # Rounded here already, so that a local recipient gets what a remote one would.
    return cast("float", struct.unpack(">f", struct.pack(">f", number))[0])


def _packed(form: str) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    packing = struct.Struct(form)
    return packing.pack, lambda data: packing.unpack(data)[0]


def _counted(data: bytes) -> bytes:
    return _pack_count(len(data)) + data


def _counted_text(text: str) -> bytes:
    data = text.encode()
    return _pack_count(len(data)) + data


def _uncounted(data: bytes) -> bytes:
    # The count is part of the body in Vert.x's format, and must agree with the frame's own length.
    (size,) = _count_at(data)
    if size != len(data) - 4:
        raise ValueError(f"{len(data) - 4} bytes where {size} are announced")
    return data[4:]


def _json_bytes(body: Any) -> bytes:
    return _counted(_json_text(body).encode())


def _unsayable(value: Any) -> Any:
    if isinstance(value, bytes):  # as Vert.x has bytes in JSON
        import base64

        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
    raise TypeError(f"JSON has no {type(value).__name__}")


# Made once: `json.dumps` with arguments makes one for each body. No NaN: JSON has none, and Jackson, which Vert.x reads
# it with, refuses it.
_json_text: Final = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_unsayable
).encode


def _json_from(kind: type) -> Callable[[bytes], Any]:
    def decode(data: bytes) -> Any:
        value = json.loads(_uncounted(data).decode())
        # The codec's number promises an object or an array; recipients do not check again.
        if type(value) is not kind:
            raise ValueError(f"JSON for a {type(value).__name__} where one for a {kind.__name__} is announced")
        return value

    return decode


def _error_check(body: Any) -> ReplyError:
    if not isinstance(body, ReplyError):
        raise TypeError(f"a ReplyError is wanted here, not {type(body).__name__}")
    return body


def _error_bytes(error: ReplyError) -> bytes:
    # The text is optional on the wire: a flag, and the count only where the flag is set.
    head = struct.pack(">BiB", error.failure_type.value, error.failure_code, 1 if error.message else 0)
    return head + _counted(error.message.encode()) if error.message else head


def _error_from(data: bytes) -> ReplyError:
    kind, code, has_text = struct.unpack_from(">BiB", data)
    if not has_text and len(data) > 6:
        raise ValueError("bytes after the end")
    return ReplyError(FailureType(kind), code, _uncounted(data[6:]).decode() if has_text else "")


def _nothing(data: bytes) -> None:
    if data:
        raise ValueError("bytes where none belong")


def _flag(data: bytes) -> bool:
    return (True, False)[_packed(">B")[1](data)]  # 0 is true in Vert.x's BooleanMessageCodec


def _json(kind: type) -> tuple[Callable[[Any], Any], Callable[[Any], bytes], Callable[[bytes], Any]]:
    return _only(kind), _json_bytes, _json_from(kind)


def _object_bytes(body: ClusterSerializable) -> bytes:
    return _counted(body.class_name.encode()) + body.data


def _object_from(data: bytes) -> ClusterSerializable:
    (size,) = struct.unpack_from(">i", data)
    if not 0 <= size <= len(data) - 4:
        raise ValueError(f"a class name of {size} bytes in {len(data)}")
    return ClusterSerializable(data[4 : 4 + size].decode(), data[4 + size :])


_UTF16: Final = (lambda body: struct.pack(">H", ord(body)), lambda data: chr(_packed(">H")[1](data)))

SYSTEM_CODECS: Final[dict[str, SystemCodec]] = {
    codec.name: codec
    for codec in (
        SystemCodec("null", 0, _only(type(None)), lambda _: b"", _nothing),
        SystemCodec("ping", 1, _only(type(None)), lambda _: b"", _nothing),
        SystemCodec("byte", 2, _whole(8), *_packed(">b")),
        SystemCodec("boolean", 3, _only(bool), lambda body: b"\x00" if body else b"\x01", _flag),
        SystemCodec("short", 4, _whole(16), *_packed(">h")),
        SystemCodec("int", 5, _whole(32), *_packed(">i")),
        SystemCodec("long", 6, _whole(64), *_packed(">q")),
        SystemCodec("float", 7, _single, *_packed(">f")),
        SystemCodec("double", 8, _number, *_packed(">d")),
        SystemCodec("string", 9, _only(str), _counted_text, lambda data: _uncounted(data).decode()),
        SystemCodec("char", 10, _character, *_UTF16),
        SystemCodec("buffer", 11, _only(bytes), _counted, _uncounted),
        SystemCodec("bytearray", 12, _only(bytes), _counted, _uncounted),
        SystemCodec("jsonobject", 13, *_json(dict)),
        SystemCodec("jsonarray", 14, *_json(list)),
        SystemCodec("replyexception", 15, _error_check, _error_bytes, _error_from),
        SystemCodec("clusterserializable", 16, _only(ClusterSerializable), _object_bytes, _object_from),
        SystemCodec(
            "serializable",
            17,
            _only(JavaSerialized),
            lambda body: _counted(body.data),
            lambda data: JavaSerialized(_uncounted(data)),
        ),
    )
}
RESERVED_NAMES: Final = frozenset(SYSTEM_CODECS)
CODECS_BY_TYPE: Final = {
    kind: SYSTEM_CODECS[name]
    for kind, name in (
        (type(None), "null"), (bool, "boolean"), (float, "double"), (str, "string"), (bytes, "buffer"),
        (dict, "jsonobject"), (list, "jsonarray"),
    )
}  # fmt: skip
"""The codecs that a type alone implies. That of an int depends on its size."""
CODECS_BY_NUMBER: Final = {codec.number: codec for codec in SYSTEM_CODECS.values()}


class Codecs:
    """The codecs of one bus: the system's and those registered. Tables are replaced, so any thread may read them."""

    def __init__(self) -> None:
        # Failures of services travel to and from other nodes also where a program has no services of its own.
        services = ServiceFailureCodec()
        self._by_name: dict[str, MessageCodec[Any, Any]] = {services.name: services}
        self._by_type: dict[type, MessageCodec[Any, Any]] = {ServiceFailure: services, **_OF_JAVA}

    def register(self, codec: MessageCodec[Any, Any], default_for: type | None) -> None:
        """Raises ValueError where the name or the type is taken, TypeError for what is no codec."""
        if not isinstance(codec, MessageCodec) or not isinstance(codec.name, str) or not codec.name:
            raise TypeError(
                f"a codec has a name, encode, decode and transform; {type(codec).__name__} has not all of them"
            )
        if codec.name in RESERVED_NAMES:
            raise ValueError(f"{codec.name!r} is a system codec: choose another name")
        if codec.name in self._by_name:
            raise ValueError(f"a codec named {codec.name!r} is registered already: unregister it first")
        if len(self._by_name) >= CODECS_MAX:
            raise ValueError(f"there are {CODECS_MAX} codecs already, which is codecs_max")
        # Replacing a default would change what a running sender's messages mean, so it must be unregistered first.
        if default_for is not None and (default_for in self._by_type or default_for in _BUILT_IN):
            raise ValueError(f"{default_for.__qualname__} has a default codec already")
        self._by_name = {**self._by_name, codec.name: codec}
        if default_for is not None:
            self._by_type = {**self._by_type, default_for: codec}

    def unregister(self, name: str) -> None:
        """Forget a codec, also as a default; no harm if there is none. Raises ValueError for a system codec."""
        if name in RESERVED_NAMES:
            raise ValueError(f"{name!r} is a system codec: it stays")
        self._by_name = {present: codec for present, codec in self._by_name.items() if present != name}
        self._by_type = {kind: codec for kind, codec in self._by_type.items() if codec.name != name}

    def named(self, name: str) -> MessageCodec[Any, Any]:
        """Raises ValueError if there is none."""
        codec = SYSTEM_CODECS.get(name) or self._by_name.get(name)
        if codec is None:
            raise ValueError(f"no codec is named {name!r}: bus.register_codec(codec) comes first")
        return codec

    def prepare(self, body: Any, codec_name: str | None) -> tuple[Any, MessageCodec[Any, Any] | None]:
        """The recipient's body, and its codec unless the type implies it."""
        if codec_name is not None:
            codec = self.named(codec_name)
            return codec.transform(body), codec
        kind = type(body)
        if kind in IMMUTABLE:
            return body, None
        if kind is dict or kind is list:
            return copied(body), None
        # A reply that is an error fails the request (see `deliver_reply`); nobody changes it, so it is not copied.
        if kind is ReplyError:
            return body, SYSTEM_CODECS["replyexception"]
        default = self._by_type.get(kind)
        if default is None:
            raise UnknownBody(kind)
        return default.transform(body), default


_OF_JAVA: Final[dict[type, MessageCodec[Any, Any]]] = {
    ClusterSerializable: SYSTEM_CODECS["clusterserializable"],
    JavaSerialized: SYSTEM_CODECS["serializable"],
}
_BUILT_IN: Final = frozenset({type(None), bool, int, float, str, bytes, dict, list, ReplyError, *_OF_JAVA})
