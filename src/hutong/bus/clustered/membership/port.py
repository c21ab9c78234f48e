"""Membership: the nodes of a clustered bus, and the consumers that are registered at each address.

    tests, the simulator   `memory`
    ZooKeeper              `zookeeper`, in the layout of vertx-zookeeper 4 and 5
    the same               `vertx3`, in that of vertx-zookeeper 3; a node is known there by its place

Strategy: every node knows every registration, as in Vert.x, so a send asks nobody. All calls back come on the node's
loop, never within a call, and each gives the whole present state of what it is about; the same may come twice. While
the service is not reached the last state holds, and the node's own registrations are made up for afterwards.
"""

from collections.abc import Mapping
from typing import Final, Protocol, TypeAlias

from hutong.bus.shared.port import EntryStore
from hutong.wire.vertx.cluster_nodes import NodeInfo

NODES_MAX: Final = 1_000
ADDRESSES_MAX: Final = 1_000_000
REGISTRATIONS_PER_ADDRESS_MAX: Final = 100_000

Counts: TypeAlias = Mapping[str, int]
"""The consumers of one address, by node id."""


class MembershipListener(Protocol):
    """The receiver of news."""

    def nodes_changed(self, nodes: Mapping[str, NodeInfo]) -> None:
        """Note all nodes that are there and can be connected to, this one among them."""

    def registrations_changed(self, address: str, counts: Counts) -> None:
        """Note the consumers at the address; none is left where `counts` is empty."""

    def announced(self, number: int) -> None:
        """Note that this node's consumer with the number is registered: a node that asks the service finds it."""


class Membership(Protocol):
    """One node's place in the cluster."""

    @property
    def entries(self) -> EntryStore:
        """The entries that all nodes share, by the same session. From the end of `start` on."""
        ...

    async def start(self, node: str, info: NodeInfo, listener: MembershipListener) -> None:
        """Enter the node, and call `listener` from now on: before this returns, with all that there is.

        Raises UsageError where the service is not reached.
        """
        ...

    def check(self, address: str) -> None:
        """Raise UsageError for an address that cannot be announced. Any thread may call it."""

    def announce(self, address: str, number: int) -> None:
        """Register the consumer with this number, soon, and again after each loss of the session.

        The listener hears of it each time.
        """
        ...

    def withdraw(self, address: str, number: int) -> None:
        """Take a registration back, soon."""
        ...

    async def close(self) -> None:
        """Leave the cluster with all registrations. No call back comes after it."""
        ...
