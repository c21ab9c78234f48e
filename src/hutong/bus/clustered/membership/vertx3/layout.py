"""The paths of a Vert.x cluster in ZooKeeper, as vertx-zookeeper 3 has them, and where its nodes say that they listen.

    ROOT/cluster/nodes/NODE                                  its id, for as long as its session lives
    ROOT/syncMap/__vertx.haInfo/NODE                         JSON; server_id is where it listens
    ROOT/asyncMultiMap/__vertx.subs/ADDRESS/NODE:HOST:PORT   it has consumers there, for as long as its session lives

Strategy: the entry in haInfo lasts, and counts with the node's own. A node of ours has its own group there: those of
Vert.x then leave its entry alone, and wait for it when they see a new node.

Knows nothing of connections.
"""

import json
from typing import Final

import msgspec

from hutong.bus.clustered.membership.zookeeper.layout import VertxPaths
from hutong.bus.shared.values import decode_pair, encode_pair
from hutong.foundation.errors import ProtocolError
from hutong.wire.vertx.cluster_nodes import PORT_MAX, NodeInfo
from hutong.wire.vertx.wire_versions import NODE_NAME_BYTES_MAX

GROUP: Final = "python"


class _ListeningPlace(msgspec.Struct):
    host: str
    port: int


class _NodeInformation(msgspec.Struct):
    group: str
    server_id: _ListeningPlace | None = None  # it is about to write it


_decode: Final = msgspec.json.Decoder(_NodeInformation).decode


class Vertx3Paths(VertxPaths):
    """The paths below `root`, as in VertxPaths."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.places = f"{self.root}/syncMap/__vertx.haInfo"
        self.subscriptions = f"{self.root}/asyncMultiMap/__vertx.subs"

    def place(self, node: str) -> str:
        return f"{self.places}/{node}"

    def parents(self) -> list[str]:
        below = ["cluster", "cluster/nodes", "syncMap", "syncMap/__vertx.haInfo", "asyncMultiMap"]
        root = self.root.strip("/").split("/")
        return [
            *("/" + "/".join(root[: count + 1]) for count in range(len(root))),
            *(f"{self.root}/{b}" for b in below),
        ]


def encode_info(node: str, info: NodeInfo) -> bytes:
    """The entry of a node of ours in haInfo."""
    content = {"verticles": [], "group": GROUP, "server_id": {"host": info.host, "port": info.port}}
    return encode_pair(node, json.dumps(content, separators=(",", ":")))


def decode_info(data: bytes) -> tuple[NodeInfo | None, bool]:
    """The place of a node, None where it has not said it yet; and True for a node of ours. Raises ProtocolError."""
    _, text = decode_pair(data)
    try:
        info = _decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
        raise ProtocolError(f"no information on a node of Vert.x 3: {error}") from None
    place = info.server_id
    if place is None:
        return None, info.group == GROUP
    if not 0 < len(place.host) <= NODE_NAME_BYTES_MAX or not 0 < place.port <= PORT_MAX:
        raise ProtocolError(f"no place of a node of Vert.x 3: port {place.port} of host {place.host[:64]!r}")
    return NodeInfo(place.host, place.port), info.group == GROUP
