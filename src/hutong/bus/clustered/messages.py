"""Events and instructions of the machine of a clustered bus.

A *place* of an address says how many turns each node has in its round; this node's own consumers are not among them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from hutong.foundation.machine import Tick
from hutong.wire.vertx.cluster_nodes import NodeInfo

# Events.


@dataclass(frozen=True, slots=True)
class ClusterNodesChanged:
    """All nodes that there are now."""

    nodes: Mapping[str, NodeInfo]
    now_ms: int


@dataclass(frozen=True, slots=True)
class RegistrationsChanged:
    """All consumers of one address, as their number for each node."""

    address: str
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ReferenceReceived:
    """A reply of the node has the address of a service that it has registered for this one."""

    address: str
    node: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """Messages wait for a connection to the node."""

    node: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class Connected:
    """The connection to the node is open, and has to show whose it is."""

    node: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class ConnectFailed:
    """The attempt to connect has failed."""

    node: str
    reason: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class NodeConnectionLost:
    """An open connection has ended, and nobody here has closed it."""

    node: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class PongReceived:
    """The node has answered a ping on the open connection."""

    node: str
    now_ms: int


Event: TypeAlias = (
    ClusterNodesChanged
    | RegistrationsChanged
    | ReferenceReceived
    | Wanted
    | Connected
    | ConnectFailed
    | NodeConnectionLost
    | PongReceived
    | Tick
)

# Instructions.


@dataclass(frozen=True, slots=True)
class Connect:
    """Begin to connect to the node, and tell how it went."""

    node: str
    info: NodeInfo


@dataclass(frozen=True, slots=True)
class DisconnectNode:
    """Close the connection to the node, or give up the attempt. It is not told of."""

    node: str


@dataclass(frozen=True, slots=True)
class Release:
    """Send the messages that wait for the node, and later ones at once."""

    node: str


@dataclass(frozen=True, slots=True)
class Ping:
    """Send a ping."""

    node: str


@dataclass(frozen=True, slots=True)
class Fail:
    """Fail what waits for the node, and the requests that it has not answered."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class Forget:
    """Forget the node: nothing waits for it any more."""

    node: str


@dataclass(frozen=True, slots=True)
class PlaceRemote:
    """Make these nodes the receivers at the address, each with its number of turns in a round."""

    address: str
    turns: tuple[tuple[str, int], ...]


Instruction: TypeAlias = Connect | DisconnectNode | Release | Ping | Fail | Forget | PlaceRemote
