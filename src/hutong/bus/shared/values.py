"""The bytes of values in shared maps, as vertx-zookeeper's ZKMap writes them.

    u8 1, u16 n, class name, i32 n, bytes    a class that implements ClusterSerializable
    u8 0, a stream of Java's serialization   any other

Strategy: the streams of Java's own small classes always begin with the same bytes, so they are compared with those of a
table, and no stream is ever interpreted: interpreting one runs the code that it names. Another one stays as it is.
The table was made from what a real node has written.

Knows no ZooKeeper.
"""

import struct
from typing import Any, Final

from hutong.bus.envelope.codecs import SYSTEM_CODECS, SystemCodec
from hutong.bus.envelope.java_objects import ClusterSerializable, JavaSerialized
from hutong.foundation.errors import ProtocolError

_STREAM: Final = b"\x00\xac\xed\x00\x05"  # no ClusterSerializable; STREAM_MAGIC, version 5
_SIZE: Final = struct.Struct(">I")
_SHORT_SIZE: Final = struct.Struct(">H")
_TEXT: Final = b"t"  # TC_STRING, with a length of 16 bits
_LONG_TEXT: Final = b"|\x00\x00\x00\x00"  # TC_LONGSTRING, with one of 64 bits, of which 32 are enough here


def _named(name: str) -> bytes:
    return _SHORT_SIZE.pack(len(name)) + name.encode()


def _class(name: str, version: str, field: str = "", parent: bytes = b"p") -> bytes:
    """A class description (TC_CLASSDESC) with its serialVersionUID, and one field of a primitive type or none."""
    fields = b"\x00\x01" + field.encode() + _named("value") if field else b"\x00\x00"
    return b"r" + _named(name) + bytes.fromhex(version) + b"\x02" + fields + b"x" + parent


_NUMBER: Final = _class("java.lang.Number", "86ac951d0b94e08b")
_HEADS: Final[dict[str, bytes]] = {
    "int": b"s" + _class("java.lang.Integer", "12e2a0a4f7818738", "I", _NUMBER),
    "long": b"s" + _class("java.lang.Long", "3b8be490cc8f23df", "J", _NUMBER),
    "double": b"s" + _class("java.lang.Double", "80b3c24a296bfb04", "D", _NUMBER),
    "float": b"s" + _class("java.lang.Float", "daedc9a2db3cf0ec", "F", _NUMBER),
    "short": b"s" + _class("java.lang.Short", "684d37133460da52", "S", _NUMBER),
    "byte": b"s" + _class("java.lang.Byte", "9c4e6084ee50f51c", "B", _NUMBER),
    "boolean": b"s" + _class("java.lang.Boolean", "cd207280d59cfaee", "Z"),
    "char": b"s" + _class("java.lang.Character", "348b47d96b1a2678", "C"),
    "bytearray": b"u" + _class("[B", "acf317f8060854e0"),
}
"""Between the head of the stream and the value, by the codec that has the value's bytes on the bus."""
_CLASSES: Final = {
    "jsonobject": "io.vertx.core.json.JsonObject",
    "jsonarray": "io.vertx.core.json.JsonArray",
    "buffer": "io.vertx.core.buffer.impl.BufferImpl",
}
_CODECS_BY_CLASS: Final = {name: SYSTEM_CODECS[codec] for codec, name in _CLASSES.items()}
_CODECS_BY_TYPE: Final = {bool: "boolean", float: "double", bytes: "buffer", dict: "jsonobject", list: "jsonarray"}
VALUE_CODECS: Final = frozenset({*_HEADS, *_CLASSES, "string"})
"""The codecs that a map's values may have."""
_PAIR: Final = (
    b"sr" + _named("io.vertx.spi.cluster.zookeeper.impl.ZKSyncMap$KeyValue") + bytes.fromhex("5a9e1a0049694c7a")
    + b"\x02\x00\x02L" + _named("key") + b"t" + _named("Ljava/lang/Object;") + b"L" + _named("value")
    + b"q\x00\x7e\x00\x01xp"
)  # fmt: skip


def encode_value(value: Any, codec: str | None = None) -> bytes:
    """The bytes of a value: by the codec's name, or by the value's type. Raises TypeError, ValueError."""
    kind = type(value)
    if codec is None:
        if kind is ClusterSerializable:
            return _object_bytes(value.class_name, value.data)
        if kind is JavaSerialized:
            return b"\x00" + bytes(value.data)
        codec = _codec_of(value)  # raises for a type that no map can keep
    if codec == "string":
        return _STREAM + _text_bytes(value)
    by = SYSTEM_CODECS[codec]
    # Vert.x's own classes write their bytes as on the bus.
    if codec in _CLASSES:
        return _object_bytes(_CLASSES[codec], by.encode(value))
    # True is 0 in a message of the bus, and 1 in Java.
    data = bytes([by.check(value)]) if codec == "boolean" else by.encode(value)
    return _STREAM + _HEADS[codec] + data


def decode_value(data: bytes) -> Any:
    """The value of these bytes: ClusterSerializable or JavaSerialized where Java alone can read it.

    Raises ProtocolError.
    """
    # Of a class that writes itself.
    if data[:1] == b"\x01":
        return _object_from(data)
    # Neither of the two forms: another program has written it.
    if not data.startswith(_STREAM):
        raise ProtocolError(f"no value of a shared map: {bytes(data[:16])!r}")
    at = len(_STREAM)
    if data[at : at + 1] in (_TEXT, _LONG_TEXT[:1]):
        text, end = _text_at(data, at)
        if end != len(data):
            raise ProtocolError(f"{len(data) - end} bytes behind a text in a shared map")
        return text
    for codec, head in _HEADS.items():
        if data.startswith(head, at):
            return _read(codec, data[at + len(head) :])
    # A class that is not in the table. It can be passed on, and be compared by its bytes.
    return JavaSerialized(data[1:])


def encode_pair(key: str, text: str) -> bytes:
    """The entry of a synchronous map, of which Vert.x has one: of its nodes with high availability."""
    return _STREAM + _PAIR + _text_bytes(key) + _text_bytes(text)


def decode_pair(data: bytes) -> tuple[str, str]:
    """The key and the text of such an entry. Raises ProtocolError."""
    if not data.startswith(_STREAM + _PAIR):
        raise ProtocolError(f"no entry of a synchronous map: {bytes(data[:16])!r}")
    key, at = _text_at(data, len(_STREAM + _PAIR))
    text, end = _text_at(data, at)
    if end != len(data):
        raise ProtocolError(f"{len(data) - end} bytes behind an entry of a synchronous map")
    return key, text


def _codec_of(value: Any) -> str:
    kind = type(value)
    if kind is str:
        return "string"
    # As on the bus: Java reads an Integer or a Long.
    if kind is int:
        return "int" if -(1 << 31) <= value < 1 << 31 else "long"
    if kind not in _CODECS_BY_TYPE:
        raise TypeError(f"a shared map cannot keep a value of type {kind.__name__}")
    return _CODECS_BY_TYPE[kind]


def _read(codec: str, data: bytes) -> Any:
    # 0 is true on the bus, so its codec cannot read this one.
    if codec != "boolean":
        return SYSTEM_CODECS[codec].decode(data)
    if data not in (b"\x00", b"\x01"):
        raise ProtocolError(f"no boolean: {bytes(data[:16])!r}")
    return data == b"\x01"


def _object_bytes(name: str, data: bytes) -> bytes:
    encoded = _modified(name)
    # Java's writeUTF counts it in 16 bits.
    if len(encoded) > 0xFFFF:
        raise ValueError(f"a class name has {len(encoded)} bytes")
    return b"\x01" + _SHORT_SIZE.pack(len(encoded)) + encoded + _SIZE.pack(len(data)) + data


def _object_from(data: bytes) -> Any:
    try:
        (size,) = _SHORT_SIZE.unpack_from(data, 1)
        name = _unmodified(data[3 : 3 + size])
        (length,) = _SIZE.unpack_from(data, 3 + size)
    except struct.error:
        raise ProtocolError(f"an object in a shared map ends after {len(data)} bytes") from None
    content = data[7 + size :]
    # It must fit exactly: Java would read less, and Python more.
    if len(content) != length:
        raise ProtocolError(f"an object of {length} bytes in a shared map has {len(content)}")
    codec: SystemCodec | None = _CODECS_BY_CLASS.get(name)
    # What a class of others writes means nothing here.
    return ClusterSerializable(name, content) if codec is None else codec.decode(content)


def _text_bytes(text: Any) -> bytes:
    if type(text) is not str:
        raise TypeError(f"a str is wanted here, not {type(text).__name__}")
    data = _modified(text)
    return (_TEXT + _SHORT_SIZE.pack(len(data)) if len(data) <= 0xFFFF else _LONG_TEXT + _SIZE.pack(len(data))) + data


def _text_at(data: bytes, at: int) -> tuple[str, int]:
    """A text of a stream, and the position behind it."""
    try:
        if data.startswith(_TEXT, at):
            (size,), begin = _SHORT_SIZE.unpack_from(data, at + 1), at + 3
        elif data.startswith(_LONG_TEXT, at):
            (size,), begin = _SIZE.unpack_from(data, at + len(_LONG_TEXT)), at + len(_LONG_TEXT) + 4
        else:
            raise ProtocolError(f"no text where one is due: {bytes(data[at : at + 16])!r}")
    except struct.error:
        raise ProtocolError("the length of a text is cut") from None
    if size > len(data) - begin:
        raise ProtocolError(f"a text of {size} bytes with {len(data) - begin} left")
    return _unmodified(data[begin : begin + size]), begin + size


def _modified(text: str) -> bytes:
    """Java's modified UTF-8: zero has two bytes, and a character above U+FFFF is two surrogates of three bytes.

    Raises ValueError for a lone surrogate.
    """
    data = text.encode()
    # For all other text the two are the same, apart from zero.
    if not text.isascii() and max(text) > "\uffff":
        units = struct.unpack(f">{len(text.encode('utf-16-be')) // 2}H", text.encode("utf-16-be"))
        data = "".join(map(chr, units)).encode("utf-8", "surrogatepass")
    return data.replace(b"\x00", b"\xc0\x80")


def _unmodified(data: bytes) -> str:
    try:
        text = bytes(data).replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
        # Pairs of surrogates become the characters that they stand for, and a lone one is an error.
        return text if text.isascii() else text.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
    except UnicodeDecodeError as error:
        raise ProtocolError(f"a text in a shared map is not Java's modified UTF-8: {error}") from None
