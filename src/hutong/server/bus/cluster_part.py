"""The bus over many nodes as a part of a node: its place in the cluster, and the listener for the other nodes.

Strategy: deployed after the bus, so it leaves the cluster before the bus ends; nothing of it is imported by a node
alone.

Decides nothing: `bus/clustered` does.
"""

import socket
from collections.abc import Collection
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Final
from uuid import UUID

from hutong.foundation.errors import UsageError
from hutong.reactor.accept.exposure import check_exposure
from hutong.runtime.verticles import Verticle
from hutong.server.composition import ComposedNode, NodePart

if TYPE_CHECKING:
    from hutong.bus.bus import EventBus
    from hutong.bus.clustered.driver import ClusteredBus
    from hutong.bus.clustered.membership.port import Membership
    from hutong.bus.clustered.permissions import ClusterPermissions
    from hutong.bus.clustered.tls import ClusterTls
    from hutong.bus.shared.port import EntryStore
    from hutong.cluster.coordinator.zookeeper.settings import ZooKeeperSettings
    from hutong.foundation.clock import Clock
    from hutong.reactor.accept.acceptor import OpenSocket
    from hutong.server.configuration.sections.facts import Address
    from hutong.wire.vertx.wire_versions import WireVersion

LISTEN_DEFAULT: Final = "127.0.0.1:0"
WIRE_VERSION_DEFAULT: Final = 2
"""That of Vert.x 4 and 5; those of Vert.x 3 have 1."""
WIRE_VERSIONS: Final = (1, WIRE_VERSION_DEFAULT)
_EVERY_INTERFACE: Final = ("0.0.0.0", "::")
KIND: Final = "bus"
"""The name of its listener in `security.allow_plain`."""


class BusClusterVerticle(Verticle):
    """One node of a clustered bus. `reached_at` is where the others connect, once it has started.

    Its start raises UsageError for an address that cannot be used and where the membership is not reached.
    """

    reached_at: "Address"
    clustered: "ClusteredBus"

    def __init__(
        self,
        bus: "EventBus",
        membership: "Membership",
        address: "Address",
        node: str,
        clock: "Clock",
        open_socket: "OpenSocket",
        wire: "WireVersion",
        advertised: "Address | None" = None,
        tls: "ClusterTls | None" = None,
        permissions: "ClusterPermissions | None" = None,
    ) -> None:
        """`advertised` is where the others connect, where that is not the address that it listens at."""
        self._bus = bus
        self._membership = membership
        self._address = address
        self._advertised = advertised
        self._node = node
        self._clock = clock
        self._open_socket = open_socket
        self._wire = wire
        self._tls = tls
        self._permissions = permissions

    async def start(self) -> None:
        from hutong.bus.clustered.driver import ClusteredBus
        from hutong.bus.clustered.permissions import EVERYTHING, ClusterRights
        from hutong.bus.clustered.tls import ClusterCertificates
        from hutong.server.listeners.binding import bound
        from hutong.wire.vertx.cluster_nodes import NodeInfo

        self.clustered = ClusteredBus(
            self._bus,
            self.context,
            self._node,
            self._membership,
            clock=self._clock,
            wheel=self.context.home.wheel,
            open_socket=self._open_socket,
            certificates=None if self._tls is None else ClusterCertificates(self._tls, self._clock),
            rights=EVERYTHING if self._permissions is None else ClusterRights(self._permissions),
            wire=self._wire,
        )
        address = self._address
        try:
            binding = self.clustered.listen(address.host, address.port)
            listens_at = await bound(address, binding, "with cluster_listen")
            self.reached_at = self._advertised or listens_at
            await self.clustered.join(NodeInfo(self.reached_at.host, self.reached_at.port))
        # A verticle whose start failed is not stopped, and a thread of the membership would be left behind.
        except BaseException:
            await self.clustered.close()
            raise

    async def stop(self) -> None:
        await self.clustered.close()


class BusClusterPart(NodePart):
    """Joins the nodes of `cluster`, as in `zk://HOST:PORT`.

    Without `tls`, connections leave the machine only with `allow_plain`.
    """

    def __init__(
        self,
        cluster: str,
        listen: str,
        allow_plain: Collection[str] = (),
        random: Random | None = None,
        open_socket: "OpenSocket" = socket.socket,
        advertised: str | None = None,
        zookeeper: "ZooKeeperSettings | None" = None,
        tls: "ClusterTls | None" = None,
        permissions: "ClusterPermissions | None" = None,
        wire_version: int = WIRE_VERSION_DEFAULT,
    ) -> None:
        """`advertised` is HOST:PORT for the other nodes, where that is not what this one listens at.

        Raises UsageError for a `wire_version` that is not there.
        """
        if wire_version not in WIRE_VERSIONS:
            raise UsageError(
                f"cluster_wire_version is {wire_version!r}: set 2 for a cluster of Vert.x 4 or 5, 1 for Vert.x 3."
            )
        self.wire_version = wire_version
        self._zookeeper = zookeeper
        self._cluster = cluster
        self._listen = listen
        self._advertised = advertised
        self._allow_plain = allow_plain
        self._random = random or SystemRandom()
        self._open_socket = open_socket
        self._tls = tls
        self._permissions = permissions

    entries: "EntryStore"  # that all nodes share, once it is open

    async def open(self, node: ComposedNode) -> None:
        from hutong.bus.clustered.membership.zookeeper.layout import parse_bus_cluster
        from hutong.bus.clustered.membership.zookeeper.opening import make_zookeeper_membership
        from hutong.cluster.coordinator.zookeeper.settings import ZooKeeperSettings
        from hutong.wire.vertx.wire_versions import VERSION_1, VERSION_2

        address = _parsed(self._listen, "cluster_listen")
        advertised = None if self._advertised is None else _parsed(self._advertised, "cluster_advertised")
        place = f"the bus at {self._listen}"
        check_exposure(KIND, place, address.host, has_tls=self._tls is not None, allowed=self._allow_plain)
        _check_connectable(address, advertised)
        clock = node.runtime.clock
        settings = self._zookeeper or ZooKeeperSettings()
        wire = VERSION_1 if self.wire_version == VERSION_1.number else VERSION_2
        membership = make_zookeeper_membership(parse_bus_cluster(self._cluster), settings, clock, wire)
        # As Vert.x has them: nobody can guess one, and none comes twice.
        own = str(UUID(int=self._random.getrandbits(128), version=4))
        more = (self._open_socket, wire, advertised, self._tls, self._permissions)
        verticle = BusClusterVerticle(node.bus, membership, address, own, clock, *more)
        await node.deploy("bus cluster", verticle)
        self.entries = verticle.clustered.entries
        node.bus_nodes = verticle.clustered.figures
        node.addresses.cluster, node.addresses.cluster_node = verticle.reached_at, own


def _parsed(text: str, argument: str) -> "Address":
    from hutong.server.configuration.loader import parse_address

    try:
        return parse_address(text)
    except ValueError as error:
        raise UsageError(f"{argument} {error}.") from None


def _check_connectable(listen: "Address", advertised: "Address | None") -> None:
    """Raise UsageError where what the others get is an address of every interface, or has no port."""
    if advertised is not None:
        if advertised.host in _EVERY_INTERFACE or not advertised.port:
            raise UsageError(
                f"cluster_advertised is {advertised}, where other nodes cannot connect: name a host and a port."
            )
    elif listen.host in _EVERY_INTERFACE:
        raise UsageError(
            f"cluster_listen is {listen}, where other nodes cannot connect: name the address of this machine that "
            "they reach, here or as cluster_advertised."
        )
