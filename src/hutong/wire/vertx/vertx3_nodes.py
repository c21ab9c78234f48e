"""The registration of a node of Vert.x 3 at one address: an object of Java's serialization, without its general form.

    u8 0                      it does not write itself, as a ClusterSerializable would
    aced 0005                 STREAM_MAGIC, STREAM_VERSION
    s r ClusterNodeInfo ...   TC_OBJECT and TC_CLASSDESC with serialVersionUID 1 and two fields: nodeId, serverID
    t nodeId                  TC_STRING: u16 length, text
    s r ServerID ...          the same of its two fields: port, host
    i32 port
    t host

Strategy: between the values the bytes are always the same, so they are compared, and no stream is ever interpreted:
interpreting one runs the code that it names. The constants are what a real node of 3.9 writes. Texts are of printable
ASCII, as ids and hosts are; Java's modified UTF-8 is the same for it.

Knows nothing of ZooKeeper.
"""

import struct
from typing import Final

from msgspec import Struct

from hutong.foundation.errors import ProtocolError
from hutong.wire.vertx.cluster_nodes import NODE_ID_BYTES_MAX, PORT_MAX, NodeInfo
from hutong.wire.vertx.wire_versions import NODE_NAME_BYTES_MAX, place_name

_SHORT: Final = struct.Struct(">H")
_INT: Final = struct.Struct(">i")
_TEXT: Final = b"t"  # TC_STRING


def _named(name: str) -> bytes:
    return _SHORT.pack(len(name)) + name.encode()


def _class(name: str, version: str, *fields: bytes) -> bytes:
    """A new object and the description of its class, which has no parent."""
    flags = b"\x02"  # SC_SERIALIZABLE
    return b"sr" + _named(name) + bytes.fromhex(version) + flags + _SHORT.pack(len(fields)) + b"".join(fields) + b"xp"


_BEFORE_NODE: Final = b"\x00\xac\xed\x00\x05" + _class(
    "io.vertx.core.eventbus.impl.clustered.ClusterNodeInfo",
    "0000000000000001",
    b"L" + _named("nodeId") + _TEXT + _named("Ljava/lang/String;"),
    b"L" + _named("serverID") + _TEXT + _named("Lio/vertx/core/net/impl/ServerID;"),
)
_BEFORE_PORT: Final = _class(
    "io.vertx.core.net.impl.ServerID",
    "4e3903b8671c1186",
    b"I" + _named("port"),
    b"L" + _named("host") + b"q\x00\x7e\x00\x01",  # TC_REFERENCE to the type's name above
)


class PlaceRegistration(Struct, frozen=True, gc=False):
    """All consumers of one node at one address: which node, and where others connect to it."""

    node: str
    info: NodeInfo

    @property
    def name(self) -> str:
        """The name of its entry at the address."""
        return f"{self.node}:{place_name(self.info)}"


def encode_place(registration: PlaceRegistration) -> bytes:
    """Raises ValueError for an id or host that is not printable ASCII, or too long."""
    node = _text(registration.node, NODE_ID_BYTES_MAX)
    host = _text(registration.info.host, NODE_NAME_BYTES_MAX)
    return _BEFORE_NODE + node + _BEFORE_PORT + _INT.pack(registration.info.port) + host


def decode_place(data: bytes) -> PlaceRegistration:
    """Raises ProtocolError for every other object."""
    at = _behind(data, 0, _BEFORE_NODE)
    node, at = _text_at(data, at, NODE_ID_BYTES_MAX)
    at = _behind(data, at, _BEFORE_PORT)
    if len(data) - at < _INT.size:
        raise ProtocolError("a registration of Vert.x 3 ends before its port")
    (port,) = _INT.unpack_from(data, at)
    host, at = _text_at(data, at + _INT.size, NODE_NAME_BYTES_MAX)
    if not 0 < port <= PORT_MAX or at != len(data):
        raise ProtocolError(f"a registration of Vert.x 3 has port {port}, and {len(data) - at} bytes behind its host")
    return PlaceRegistration(node, NodeInfo(host, port))


def _behind(data: bytes, at: int, expected: bytes) -> int:
    if not data.startswith(expected, at):
        raise ProtocolError(f"no registration of Vert.x 3: at byte {at} it has {bytes(data[at : at + 16])!r}")
    return at + len(expected)


def _text(text: str, bytes_max: int) -> bytes:
    if not text.isascii() or not text.isprintable() or not 0 < len(text) <= bytes_max:
        raise ValueError(f"{text[:64]!r} cannot be an id or a host in a registration of Vert.x 3")
    return _TEXT + _named(text)


def _text_at(data: bytes, at: int, bytes_max: int) -> tuple[str, int]:
    begin = at + len(_TEXT) + _SHORT.size
    if not data.startswith(_TEXT, at) or begin > len(data):
        raise ProtocolError(f"a registration of Vert.x 3 has no text at byte {at}")
    (size,) = _SHORT.unpack_from(data, at + len(_TEXT))
    if not 0 < size <= min(bytes_max, len(data) - begin):
        raise ProtocolError(f"a text of {size} bytes with {len(data) - begin} left; {bytes_max} are allowed")
    content = data[begin : begin + size]
    text = content.decode("latin-1")
    if not text.isascii() or not text.isprintable():
        raise ProtocolError(f"a text in a registration of Vert.x 3 is not printable: {content[:64]!r}")
    return text, begin + size
