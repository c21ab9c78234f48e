"""The paths of a Vert.x cluster in ZooKeeper, as vertx-zookeeper 4 and 5 have them.

    ROOT/cluster/nodes/NODE                   where the node listens, for as long as its session lives
    ROOT/__vertx.subs/ADDRESS/NODE-NUMBER     one consumer, for as long as its node's session lives

Strategy: the name of a registration says what its content says, so the names of an address's entries are read, and no
contents. Consumers for senders of their own node alone are never written.

Knows nothing of connections.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from hutong.cluster.coordinator.zookeeper.address import ZooKeeperAddress, parse_zookeeper_address
from hutong.foundation.errors import UsageError

ROOT: Final = "/io.vertx"
"""The default root of vertx-zookeeper."""
_EXAMPLE: Final = f"zk://zk1:2181,zk2:2181,zk3:2181{ROOT}"


def parse_bus_cluster(text: str) -> ZooKeeperAddress:
    """The ensemble and root of a cluster. Raises UsageError."""
    return parse_zookeeper_address(text, _EXAMPLE)


class VertxPaths:
    """The paths below `root`, which is an address's path or, where that has none, Vert.x's own."""

    def __init__(self, root: str) -> None:
        self.root = ROOT if root == "/" else root
        self.nodes = f"{self.root}/cluster/nodes"
        self.subscriptions = f"{self.root}/__vertx.subs"

    def node(self, node: str) -> str:
        return f"{self.nodes}/{node}"

    def address(self, address: str) -> str:
        return f"{self.subscriptions}/{address}"

    def registration(self, address: str, node: str, number: int) -> str:
        return f"{self.subscriptions}/{address}/{node}-{number}"

    def parents(self) -> list[str]:
        """The paths that a first node makes, outermost first."""
        parts = self.nodes.strip("/").split("/")
        return ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]


def counts_of(names: Iterable[str]) -> dict[str, int]:
    """The consumers of each node, by the names of an address's entries. Names of another form are passed over."""
    return dict(Counter([node for node, _ in _parsed(names)]))


def numbers_of(names: Iterable[str], node: str) -> set[int]:
    """The numbers of one node among the names of an address's entries."""
    return {number for other, number in _parsed(names) if other == node}


def _parsed(names: Iterable[str]) -> Iterator[tuple[str, int]]:
    for name in sorted(names):
        node, _, number = name.rpartition("-")  # a node id has dashes of its own
        # Java's long has no more digits; `int` would take quadratic time for a longer name.
        if node and number.isascii() and number.isdigit() and len(number) < 20:
            yield node, int(number)


def check_name(address: str) -> None:
    """Raise UsageError for an address that is no name of an entry in ZooKeeper."""
    # Vert.x writes an address with a slash as a path of several parts, and then misses its changes.
    if "/" in address or address in (".", "..", "zookeeper") or not address.isprintable():
        raise UsageError(
            f"{address!r} cannot be an address of a clustered bus: ZooKeeper keeps it as a name, which has no '/' and "
            "nothing that cannot be printed. Choose another one, or register with local_only=True."
        )
