"""The entries of a Vert.x cluster in its coordinator: where a node listens, and what is registered at it.

    NodeInfo            text host, i32 port, i32 length of metadata and JSON; the length is -1 without metadata
    RegistrationInfo    text node id, i64 number, u8 1 where it is for senders of the same node alone

    text = i32 length in bytes, UTF-8; every number is big-endian

Strategy: as in `cluster_frames`: lengths are checked first, and must fit exactly. Metadata is kept as bytes: nobody
here reads it.

Knows nothing of ZooKeeper.
"""

import struct
from typing import Final

from msgspec import Struct

from hutong.foundation.errors import ProtocolError

HOST_BYTES_MAX: Final = 1_024
NODE_ID_BYTES_MAX: Final = 256
METADATA_BYTES_MAX: Final = 64 * 1024
PORT_MAX: Final = 65_535

_INT: Final = struct.Struct(">i")
_NUMBER: Final = struct.Struct(">qB")


class NodeInfo(Struct, frozen=True, gc=False):
    """The place at which other nodes connect. `metadata` is a JSON object as bytes, None where the node has none."""

    host: str
    port: int
    metadata: bytes | None = None


class RegistrationInfo(Struct, frozen=True, gc=False):
    """One consumer. `number` is different for each of a node."""

    node: str
    number: int
    is_local_only: bool = False


def encode_node(info: NodeInfo) -> bytes:
    metadata = _INT.pack(-1) if info.metadata is None else _INT.pack(len(info.metadata)) + info.metadata
    return _text(info.host) + _INT.pack(info.port) + metadata


def decode_node(data: bytes) -> NodeInfo:
    """Raises ProtocolError, also for the bare node id that an entry has for a moment after it was made."""
    host, at = _text_at(data, 0, HOST_BYTES_MAX)
    port, at = _int_at(data, at)
    size, at = _int_at(data, at)
    if not 0 < port <= PORT_MAX or size < -1 or size > METADATA_BYTES_MAX or len(data) - at != max(size, 0):
        raise ProtocolError(f"no place of a node: port {port}, metadata of {size} bytes with {len(data) - at} left")
    return NodeInfo(host, port, None if size < 0 else data[at:])


def encode_registration(info: RegistrationInfo) -> bytes:
    return _text(info.node) + _NUMBER.pack(info.number, info.is_local_only)


def decode_registration(data: bytes) -> RegistrationInfo:
    """Raises ProtocolError."""
    node, at = _text_at(data, 0, NODE_ID_BYTES_MAX)
    if len(data) - at != _NUMBER.size:
        raise ProtocolError(f"no registration: {len(data) - at} bytes behind the node id")
    number, local_only = _NUMBER.unpack_from(data, at)
    return RegistrationInfo(node, number, local_only != 0)


def _text(text: str) -> bytes:
    data = text.encode()
    return _INT.pack(len(data)) + data


def _text_at(data: bytes, at: int, bytes_max: int) -> tuple[str, int]:
    size, at = _int_at(data, at)
    if not 0 <= size <= min(bytes_max, len(data) - at):
        raise ProtocolError(f"text of {size} bytes with {len(data) - at} left")
    try:
        return data[at : at + size].decode(), at + size
    except UnicodeDecodeError as error:
        raise ProtocolError(f"text that is not UTF-8: {error}") from None


def _int_at(data: bytes, at: int) -> tuple[int, int]:
    if len(data) - at < _INT.size:
        raise ProtocolError(f"{len(data)} bytes end too early")
    return _INT.unpack_from(data, at)[0], at + 4
