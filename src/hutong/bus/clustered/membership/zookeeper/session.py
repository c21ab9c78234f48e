"""The session of a clustered bus with ZooKeeper: its node and registrations, and those of all others.

Strategy: a connection that is kept up (`cluster/coordinator/zookeeper/connection.py`). One watch is on the list of
nodes, one on the list of addresses, one on each address. A watch that fires has its list read again, which sets it
anew; requests for many lists are sent at once. What this node has announced is kept here and compared with what is
there after each connection, so that a loss of the session loses no registration.

Knows nothing of connections between the nodes.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeAlias

from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.protocol.states import WatchedEvent

from hutong.bus.clustered.membership.port import ADDRESSES_MAX, NODES_MAX, MembershipListener
from hutong.bus.clustered.membership.zookeeper.containers import create_container_async
from hutong.bus.clustered.membership.zookeeper.layout import VertxPaths, counts_of, numbers_of
from hutong.cluster.coordinator.port import SessionState
from hutong.cluster.coordinator.zookeeper.client import ZooKeeperClient
from hutong.cluster.coordinator.zookeeper.connection import ConnectionParts, ZooKeeperConnection
from hutong.foundation.errors import ProtocolError
from hutong.wire.vertx.cluster_nodes import NodeInfo, RegistrationInfo, decode_node, encode_node, encode_registration

SETTLE_S: Final = 0.1
"""From the entry of a node to its first message: the time in which the caches of others follow."""
READ_AT_ONCE_MAX: Final = 1_000
"""Requests under way: each answer may hold a thousand names."""
_log = logging.getLogger("hutong.cluster")

Tell: TypeAlias = Callable[[Callable[[MembershipListener], None]], None]
TellSession: TypeAlias = Callable[[ZooKeeperClient, SessionState], None]


class VertxSession(ZooKeeperConnection):
    """Made anew for each start of a membership. That of a cluster of Vert.x 3 (`vertx3`) has another layout."""

    def __init__(self, parts: ConnectionParts, tell: Tell, tell_session: TellSession) -> None:
        """`tell` calls the listener on the loop.

        `tell_session` hears of each state of the session, for what else lives in it.
        """
        super().__init__(parts)
        self._tell = tell
        self._tell_session = tell_session
        self._paths = VertxPaths(parts.address.path)
        self._node = ""
        self._info: NodeInfo | None = None
        self._others_count = 0
        self._own: dict[str, set[int]] = {}  # numbers by address: what is to be there
        self._addresses: set[str] = set()  # those whose lists are watched
        self._present: set[str] = set()  # those that the listener knows to have consumers
        self._nodes_due = self._addresses_due = self._lists_due = False
        self._due: set[str] = set()  # addresses whose lists are to be read again

    # -- what the membership submits

    def open(self, node: str, info: NodeInfo) -> None:
        """Connect, enter the node and read everything. Raises UsageError."""
        self._node, self._info = node, info
        self._open(lambda: None)
        # Vert.x drops its answer to a node whose entry has not reached its cache (getNodeInfo), and nothing tells that.
        if self._others_count:
            self._ending.wait(SETTLE_S)

    def announce(self, address: str, number: int) -> None:
        self._own.setdefault(address, set()).add(number)
        if self._state is SessionState.CONNECTED:
            self._guarded(partial(self._write, address, number))

    def withdraw(self, address: str, number: int) -> None:
        # Kept here first: without a connection, the next reading finds that it is to go.
        numbers = self._own.get(address, set())
        numbers.discard(number)
        if not numbers:
            self._own.pop(address, None)
        if self._state is SessionState.CONNECTED:
            self._guarded(partial(self._delete, address, number))

    # -- kazoo's threads

    def _nodes_watched(self, event: WatchedEvent) -> None:
        # All watches fire together where a connection ends: one reading is enough.
        if not self._nodes_due:
            self._nodes_due = True
            self._submit(partial(self._guarded, self._read_nodes))

    def _addresses_watched(self, event: WatchedEvent) -> None:
        if not self._addresses_due:
            self._addresses_due = True
            self._submit(partial(self._guarded, self._read_addresses))

    def _address_watched(self, address: str, event: WatchedEvent) -> None:
        # Before the question, and emptied after the answer to it: so no address is left behind.
        self._due.add(address)
        # Those that change while the worker is busy are read together.
        if not self._lists_due:
            self._lists_due = True
            self._submit(partial(self._guarded, self._read_due))

    # -- the worker thread

    def _tell_state(self, state: SessionState) -> None:
        """Tell of the session. Of nodes and consumers the last known state holds until there is a newer one."""
        assert self._client is not None
        self._tell_session(self._client, state)

    def _resume(self) -> None:
        client = self._client
        assert client is not None
        self._make_parents()
        self._wait(client.sync_async(self._paths.root))
        self._enter()
        self._change(SessionState.CONNECTED)
        self._addresses.clear()
        # A reading that was due while nothing was connected has not been done.
        self._lists_due = False
        for address, numbers in list(self._own.items()):
            for number in sorted(numbers):
                self._write(address, number)
        self._read_nodes()
        self._read_addresses()

    def _make_parents(self) -> None:
        client = self._client
        assert client is not None
        for path in self._paths.parents():
            try:
                self._wait(client.create_async(path, b"", acl=client.own_acl))
            except NodeExistsError:
                continue  # the usual case
        self._make_parent(self._paths.subscriptions)

    def _make_parent(self, path: str) -> None:
        """Have a parent of registrations be there, which goes with the last of them."""
        client = self._client
        assert client is not None
        try:
            self._wait(create_container_async(client, path, client.own_acl))
        except NodeExistsError:
            return

    def _enter(self) -> None:
        """Have this session's entry of the node be there: first its id alone, which is what Vert.x's listeners read."""
        client, path = self._client, self._paths.node(self._node)
        assert client is not None
        while True:
            try:
                self._wait(client.create_async(path, self._node.encode(), acl=client.own_acl, ephemeral=True))
                break
            except NodeExistsError:
                pass
            try:
                status = self._wait(client.get_async(path))[1]
                if status.ephemeralOwner == client.session_id:
                    break
                # Of an earlier session of this process, which would take it along when it expires.
                self._wait(client.delete_async(path, status.version))
            except NoNodeError:
                continue  # it has expired in between
        self._describe()

    def _describe(self) -> None:
        """Write where this node listens."""
        client, info = self._client, self._info
        assert client is not None
        assert info is not None
        self._wait(client.set_async(self._paths.node(self._node), encode_node(info)))

    def _registration(self, address: str, number: int) -> tuple[str, bytes]:
        """The path and the content of a registration of this node."""
        content = encode_registration(RegistrationInfo(self._node, number))
        return self._paths.registration(address, self._node, number), content

    def _write(self, address: str, number: int) -> None:
        client = self._client
        assert client is not None
        path, content = self._registration(address, number)
        while True:
            try:
                self._wait(client.create_async(path, content, acl=client.own_acl, ephemeral=True))
                break
            # The container goes when its last child has gone, which may be in between.
            except NoNodeError:
                self._make_parent(self._paths.subscriptions)
                self._make_parent(self._paths.address(address))
            except NodeExistsError:
                try:
                    status = self._wait(client.get_async(path))[1]
                    if status.ephemeralOwner == client.session_id:
                        break
                    self._wait(client.delete_async(path, status.version))
                except NoNodeError:
                    continue
        self._tell(lambda listener: listener.announced(number))

    def _delete(self, address: str, number: int) -> None:
        client = self._client
        assert client is not None
        try:
            self._wait(client.delete_async(self._registration(address, number)[0]))
        except NoNodeError:
            return

    # -- reading

    def _read_nodes(self) -> None:
        self._nodes_due = False
        client = self._client
        assert client is not None
        names = self._wait(client.get_children_async(self._paths.nodes, watch=self._nodes_watched))
        if len(names) > NODES_MAX:
            _log.error("ZooKeeper has %d nodes at %s, and only %d are read.", len(names), self._address, NODES_MAX)
        asked = [
            (name, client.get_async(self._paths.node(name), watch=self._nodes_watched)) for name in names[:NODES_MAX]
        ]
        nodes: dict[str, NodeInfo] = {}
        for name, result in asked:
            try:
                nodes[name] = decode_node(self._wait(result)[0])
            # Gone in between, or entered a moment ago and with its id alone: a watch says so.
            except (NoNodeError, ProtocolError):
                continue
        self._others_count = len(nodes.keys() - {self._node})
        self._tell(lambda listener: listener.nodes_changed(nodes))
        # Somebody has removed it: the others would take this node for dead.
        if self._node not in names:
            self._submit(partial(self._guarded, self._resume))

    def _read_addresses(self) -> None:
        self._addresses_due = False
        client = self._client
        assert client is not None
        try:
            names = self._wait(client.get_children_async(self._paths.subscriptions, watch=self._addresses_watched))
        except NoNodeError:  # a container that has gone with its last child
            self._make_parent(self._paths.subscriptions)
            self._addresses_watched(WatchedEvent(None, None, None))
            return
        if len(names) > ADDRESSES_MAX:
            _log.error("ZooKeeper has %d addresses at %s; %d are read.", len(names), self._address, ADDRESSES_MAX)
        present = set(names[:ADDRESSES_MAX])
        for address in sorted(self._present - present):
            self._told(address, {})
        self._addresses &= present
        self._read_lists(sorted(present - self._addresses))

    def _read_due(self) -> None:
        self._lists_due = False
        due = set()
        while self._due:
            due.add(self._due.pop())
        self._read_lists(sorted(due))

    def _read_lists(self, addresses: list[str]) -> None:
        client = self._client
        assert client is not None
        for begin in range(0, len(addresses), READ_AT_ONCE_MAX):
            part = addresses[begin : begin + READ_AT_ONCE_MAX]
            asked = [
                (address, client.get_children_async(
                    self._paths.address(address), watch=partial(self._address_watched, address)
                ))
                for address in part
            ]  # fmt: skip
            self._take_lists(asked)

    def _take_lists(self, asked: Iterable[tuple[str, Any]]) -> None:
        for address, result in asked:
            try:
                names = self._wait(result)
            except NoNodeError:
                # Made again, it is in the list of addresses as a new one.
                self._addresses.discard(address)
                names = []
            else:
                self._addresses.add(address)
            self._told(address, self._counts(address, names))
            self._mend(address, names)

    def _counts(self, address: str, names: list[str]) -> dict[str, int]:
        """The consumers of each node, by the names of the address's entries."""
        return counts_of(names)

    def _mend(self, address: str, names: list[str]) -> None:
        """Take back what was withdrawn while the connection was down."""
        for number in sorted(numbers_of(names, self._node) - self._own.get(address, set())):
            self._delete(address, number)

    def _told(self, address: str, counts: dict[str, int]) -> None:
        if counts:
            self._present.add(address)
        else:
            self._present.discard(address)
        self._tell(lambda listener: listener.registrations_changed(address, counts))
