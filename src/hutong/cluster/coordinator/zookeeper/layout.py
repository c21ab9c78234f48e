"""The cluster's data in ZooKeeper: the paths and what is in them, as JSON that people can read.

    PATH/hutong     {"format": 1, "cluster_id": ...}: the marker, that this is ours
    PATH/nodes/N    {"incarnation": ..., "description": {...}}: a node, for as long as its session lives
    PATH/register   the register's value

Strategy: the register's version is ZooKeeper's own plus one, so that 0 is left for a register that does not exist.

Knows nothing of connections.
"""

from typing import Final

import msgspec

from hutong.cluster.coordinator.port import NodeRegistration
from hutong.cluster.nodes import DESCRIPTION_BYTES_MAX
from hutong.foundation.errors import ProtocolError

FORMAT: Final = 1
OWN_NAMES: Final = frozenset({"hutong", "nodes", "register"})


class ClusterMarker(msgspec.Struct, frozen=True):
    """The content of `PATH/hutong`."""

    format: int
    cluster_id: str


class _NodeData(msgspec.Struct, frozen=True):
    incarnation: int
    description: msgspec.Raw


class ClusterPaths:
    """The paths of a cluster below `path`."""

    def __init__(self, path: str) -> None:
        self.root = path
        prefix = "" if path == "/" else path
        self.marker = f"{prefix}/hutong"
        self.nodes = f"{prefix}/nodes"
        self.register = f"{prefix}/register"

    def node(self, node: int) -> str:
        return f"{self.nodes}/{node}"

    def parents(self) -> list[str]:
        """All paths above the root and the root itself, outermost first; none for `/`, which is always there."""
        parts = self.root.strip("/").split("/") if self.root != "/" else []
        return ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]


def encode_marker(cluster_id: str) -> bytes:
    return msgspec.json.encode(ClusterMarker(FORMAT, cluster_id))


def decode_marker(content: bytes) -> ClusterMarker:
    """Raises ProtocolError for what this project has not written."""
    try:
        return msgspec.json.decode(content, type=ClusterMarker)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"no marker of a cluster: {error}") from None


def encode_registration(registration: NodeRegistration) -> bytes:
    return msgspec.json.encode(_NodeData(registration.incarnation, msgspec.Raw(registration.description)))


def decode_registration(name: str, content: bytes) -> NodeRegistration:
    """Raises ProtocolError for what no node has written."""
    # The bound leaves room for the incarnation next to the description.
    if not (name.isascii() and name.isdigit()) or len(content) > 2 * DESCRIPTION_BYTES_MAX:
        raise ProtocolError(f"no registration of a node: {name!r} with {len(content)} bytes")
    try:
        data = msgspec.json.decode(content, type=_NodeData)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"no registration of a node: {error}") from None
    return NodeRegistration(int(name), data.incarnation, bytes(data.description))
