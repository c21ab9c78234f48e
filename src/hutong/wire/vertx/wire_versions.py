"""The versions of the wire format between nodes. They differ in how a frame names its sender, and in nothing else.

    version 1, Vert.x 3          i32 port, text host
    version 2, Vert.x 4 and 5    text node id

Strategy: here a node's name is one text in both: HOST:PORT or its id. So nothing but this knows the difference.

Knows nothing of the rest of a frame.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from msgspec import Struct

from hutong.foundation.errors import ProtocolError
from hutong.wire.vertx.cluster_nodes import PORT_MAX, NodeInfo
from hutong.wire.vertx.frame_parts import INT_BYTES, int_at, pack_int, text_at, text_bytes

NODE_NAME_BYTES_MAX: Final = 256
NAMES_REMEMBERED: Final = 1_024
"""As bytes: a node sends under one name."""
_PORT_DIGITS_MAX: Final = 5


class WireVersion(Struct, frozen=True, gc=False):
    """One version. `sender_bytes(name)` raises ValueError, `sender_at(view, position)` ProtocolError."""

    number: int
    spoken_by: str
    sender_bytes: Callable[[str], bytes]
    sender_at: Callable[[memoryview, int], tuple[str, int]]
    names_places: bool  # a node's name is that of the place where others connect, and not its id


def place_name(info: NodeInfo) -> str:
    """HOST:PORT, the name of a node of Vert.x 3 in frames."""
    return f"{info.host}:{info.port}"


@lru_cache(NAMES_REMEMBERED)
def _place_bytes(name: str) -> bytes:
    host, _, port = name.rpartition(":")
    # A name of this process, or one that `_place_at` has read: others are a fault of the caller.
    if not host or not port.isascii() or not port.isdigit() or len(port) > _PORT_DIGITS_MAX:
        raise ValueError(f"{name!r} is not HOST:PORT, the name of a node in version 1")
    return pack_int(int(port)) + text_bytes(host, NODE_NAME_BYTES_MAX - _PORT_DIGITS_MAX - 1, "a host")


def _place_at(view: memoryview, at: int) -> tuple[str, int]:
    port, at = int_at(view, at, "port of the sender")
    host, at = text_at(view, at, NODE_NAME_BYTES_MAX - _PORT_DIGITS_MAX - 1, "host of the sender")
    if not 0 < port <= PORT_MAX or not host:
        raise ProtocolError(f"a sender at port {port} of host {host!r}")
    return f"{host}:{port}", at


@lru_cache(NAMES_REMEMBERED)
def _id_bytes(name: str) -> bytes:
    return text_bytes(name, NODE_NAME_BYTES_MAX, "a node id")


def _id_at(view: memoryview, at: int) -> tuple[str, int]:
    return text_at(view, at, NODE_NAME_BYTES_MAX, "sender")


VERSION_1: Final = WireVersion(1, "nodes of Vert.x 3", _place_bytes, _place_at, names_places=True)
VERSION_2: Final = WireVersion(2, "nodes of Vert.x 4 and 5", _id_bytes, _id_at, names_places=False)
SENDER_BYTES_MAX: Final = NODE_NAME_BYTES_MAX + INT_BYTES
"""Of the field that names the sender: of version 2 it is longer."""
