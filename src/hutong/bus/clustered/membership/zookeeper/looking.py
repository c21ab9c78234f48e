"""A look at a cluster in ZooKeeper by somebody who is no node of it: nothing is written.

Knows nothing of how it is shown.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kazoo.exceptions import NoNodeError

from hutong.bus.clustered.membership.port import Counts
from hutong.bus.clustered.membership.zookeeper.layout import VertxPaths, counts_of
from hutong.bus.clustered.membership.zookeeper.session import READ_AT_ONCE_MAX
from hutong.cluster.coordinator.port import SessionState
from hutong.cluster.coordinator.zookeeper.address import ZooKeeperAddress
from hutong.cluster.coordinator.zookeeper.connection import ConnectionParts, ZooKeeperConnection
from hutong.cluster.coordinator.zookeeper.settings import ZooKeeperSettings
from hutong.foundation.clock import Clock
from hutong.foundation.errors import ExitCode, ProtocolError, UsageError
from hutong.wire.vertx.cluster_nodes import NodeInfo, decode_node


@dataclass(frozen=True, slots=True)
class ClusterContents:
    """The nodes by id, and the consumers of each address by node. Both may have changed while they were read."""

    nodes: dict[str, NodeInfo]
    registrations: dict[str, Counts]


class NoWorker:
    """Does nothing: a look ends with its connection, and nothing that happens to that is followed."""

    def submit(self, work: Callable[[], None]) -> None: ...

    def submit_later(self, delay_ms: int, work: Callable[[], None]) -> None: ...


class ClusterLook(ZooKeeperConnection):
    """One look. It blocks, and its connection is closed when `contents` returns."""

    def __init__(self, address: ZooKeeperAddress, settings: ZooKeeperSettings, clock: Clock) -> None:
        super().__init__(ConnectionParts(address, settings, clock, NoWorker()))
        self._paths = VertxPaths(address.path)
        self._found = ClusterContents({}, {})

    def contents(self) -> ClusterContents:
        """Raises UsageError where ZooKeeper is not reached, and where no cluster is at the path."""
        self._open(self._read)
        return self._found

    def _resume(self) -> None:
        """Do nothing: all has been read."""

    def _tell_state(self, state: SessionState) -> None:
        """Tell nobody."""

    def _read(self) -> None:
        client = self._client
        assert client is not None
        try:
            names = self._wait(client.get_children_async(self._paths.nodes))
        except NoNodeError:
            raise UsageError(
                f"No cluster of a bus is at {self._paths.root} in ZooKeeper at {self._address.hosts}; its path is "
                "behind the servers, as in zk://HOST:PORT/PATH.",
                ExitCode.NOINPUT,
            ) from None
        asked = [(name, client.get_async(self._paths.node(name))) for name in sorted(names)]
        for name, result in asked:
            try:
                self._found.nodes[name] = decode_node(self._wait(result)[0])
            # Gone in between, or about to say where it listens.
            except (NoNodeError, ProtocolError):
                continue
        self._read_registrations()
        self.end()

    def _read_registrations(self) -> None:
        client = self._client
        assert client is not None
        try:
            addresses = sorted(self._wait(client.get_children_async(self._paths.subscriptions)))
        except NoNodeError:  # nobody has registered anything
            return
        for begin in range(0, len(addresses), READ_AT_ONCE_MAX):
            part = addresses[begin : begin + READ_AT_ONCE_MAX]
            asked = [(address, client.get_children_async(self._paths.address(address))) for address in part]
            for address, result in asked:
                try:
                    counts = counts_of(self._wait(result))
                except NoNodeError:
                    continue
                # A container without children, which ZooKeeper removes by and by.
                if counts:
                    self._found.registrations[address] = counts
