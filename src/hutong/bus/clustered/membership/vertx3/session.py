"""The session of a clustered bus with ZooKeeper in a cluster of Vert.x 3.

Strategy: that of its parent, with what Vert.x 3 does in another way. A node has one entry at an address, whichever
number of consumers it has, and so one turn. Its content says whose it is and is read once for each name, which is the
same at all addresses. Nodes are known by the places where they listen, as frames name them: from haInfo, and from
their registrations, since a first node of Vert.x may clear haInfo behind another. Parents are plain entries, and a
node that removes the last child removes them, too: containers came with ZooKeeper 3.5.

Nodes of Vert.x remove registrations of nodes that they do not know yet, and so the own ones are written again.
"""

import logging
from functools import partial
from typing import Any, Final

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError

from hutong.bus.clustered.membership.port import NODES_MAX
from hutong.bus.clustered.membership.vertx3.layout import Vertx3Paths, decode_info, encode_info
from hutong.bus.clustered.membership.zookeeper.session import Tell, TellSession, VertxSession
from hutong.cluster.coordinator.zookeeper.client import FAILURES
from hutong.cluster.coordinator.zookeeper.connection import ConnectionParts
from hutong.foundation.errors import ProtocolError
from hutong.wire.vertx.cluster_nodes import NodeInfo
from hutong.wire.vertx.vertx3_nodes import PlaceRegistration, decode_place, encode_place
from hutong.wire.vertx.wire_versions import place_name

NAMES_MAX: Final = 10 * NODES_MAX
"""Names of entries whose contents are remembered."""
_log = logging.getLogger("hutong.cluster")


class Vertx3Session(VertxSession):
    """Made anew for each start of a membership."""

    def __init__(self, parts: ConnectionParts, tell: Tell, tell_session: TellSession) -> None:
        super().__init__(parts, tell, tell_session)
        self._paths: Vertx3Paths = Vertx3Paths(parts.address.path)
        self._known: dict[str, PlaceRegistration | None] = {}  # by name of an entry; None for one that was refused
        self._listed: dict[str, NodeInfo] = {}  # where nodes listen, as haInfo has it, by id
        self._alive: set[str] = set()  # ids

    def end(self) -> None:
        client = self._client
        # Vert.x takes a node that leaves it behind for a dead one.
        if client is not None and client.connected:
            try:
                self._wait(client.delete_async(self._paths.place(self._node)))
            except FAILURES as error:
                _log.debug("The place of this node stays in ZooKeeper: %s", error)
        super().end()

    # -- writing

    def _make_parent(self, path: str) -> None:
        client = self._client
        assert client is not None
        try:
            self._wait(client.create_async(path, b"", acl=client.own_acl))
        except NodeExistsError:
            return

    def _describe(self) -> None:
        client, path = self._client, self._paths.place(self._node)
        assert client is not None
        content = encode_info(self._node, self._own_place.info)
        try:
            self._wait(client.create_async(path, content, acl=client.own_acl))
        except NodeExistsError:
            self._wait(client.set_async(path, content))

    @property
    def _own_place(self) -> PlaceRegistration:
        assert self._info is not None
        return PlaceRegistration(self._node, self._info)

    def _registration(self, address: str, number: int) -> tuple[str, bytes]:
        own = self._own_place
        return f"{self._paths.address(address)}/{own.name}", encode_place(own)

    def _delete(self, address: str, number: int) -> None:
        # It is that of other consumers as well.
        if address in self._own:
            return
        super()._delete(address, number)
        client = self._client
        assert client is not None
        try:
            self._wait(client.delete_async(self._paths.address(address)))
        except (NotEmptyError, NoNodeError):
            return

    def _mend(self, address: str, names: list[str]) -> None:
        is_there, numbers = self._own_place.name in names, self._own.get(address)
        if is_there and not numbers:
            self._delete(address, 0)
        elif numbers and not is_there:
            self._write(address, min(numbers))

    # -- reading

    def _counts(self, address: str, names: list[str]) -> dict[str, int]:
        found = names[:NODES_MAX]
        unknown = [name for name in found if name not in self._known]
        if unknown:
            self._learn(address, unknown)
        known = [self._known.get(name) for name in found]
        # A node that was killed and is back at the same place has two entries, and is one receiver.
        return dict.fromkeys([place_name(each.info) for each in known if each is not None], 1)

    def _learn(self, address: str, names: list[str]) -> None:
        client = self._client
        assert client is not None
        if len(self._known) + len(names) > NAMES_MAX:
            self._known.clear()
        asked = [(name, client.get_async(f"{self._paths.address(address)}/{name}")) for name in names]
        for name, result in asked:
            try:
                self._known[name] = _read_place(name, self._wait(result)[0])
            except NoNodeError:  # it has gone in between
                continue
            except ProtocolError as error:
                self._known[name] = None
                _log.warning("An entry in ZooKeeper at address %r is passed over: %s", address, error)
        self._tell_nodes()

    def _read_nodes(self) -> None:
        self._nodes_due = False
        client = self._client
        assert client is not None
        # In this order: a node enters before it says where it listens, so one that lives is in both.
        try:
            listed = self._wait(client.get_children_async(self._paths.places, watch=self._nodes_watched))
        except NoNodeError:  # the first node of Vert.x clears it
            self._make_parent(self._paths.places)
            self._submit(partial(self._guarded, self._read_nodes))
            return
        # Watched: Vert.x writes it in two steps.
        asked = [
            (node, client.get_async(self._paths.place(node), watch=self._nodes_watched)) for node in listed[:NODES_MAX]
        ]
        contents = [(node, self._content(result)) for node, result in asked]
        alive = set(self._wait(client.get_children_async(self._paths.nodes, watch=self._nodes_watched)))
        if len(alive) > NODES_MAX:
            _log.error("ZooKeeper has %d nodes at %s, and only %d are read.", len(alive), self._address, NODES_MAX)
        self._alive = alive
        self._known = {name: each for name, each in self._known.items() if each is None or each.node in alive}
        self._listed = {node: info for node, content in contents if (info := self._place(node, content)) is not None}
        self._tell_nodes()
        # Somebody has removed it: the others would take this node for dead.
        if self._node not in alive:
            self._submit(partial(self._guarded, self._resume))
        elif self._node not in listed:
            self._describe()

    def _content(self, result: Any) -> tuple[bytes, int] | None:
        """The content of an entry, and its version; None where it has gone in between."""
        try:
            content, status = self._wait(result)
        except NoNodeError:
            return None
        return content, status.version

    def _place(self, node: str, read: tuple[bytes, int] | None) -> NodeInfo | None:
        """The place of a node that lives. The entry of a dead one of ours is removed: nobody else would."""
        if read is None:
            return None
        content, version = read
        try:
            info, is_ours = decode_info(content)
        except ProtocolError as error:
            # Its registrations say it as well, and are what counts.
            _log.debug("Where node %.64s listens is not known: %s", node, error)
            return None
        if node in self._alive:
            return info
        client = self._client
        assert client is not None
        # This node lives: its entry among the living was removed behind it, and is written again.
        if is_ours and node != self._node:
            try:
                self._wait(client.delete_async(self._paths.place(node), version))
            except (NoNodeError, BadVersionError):  # it is back
                return None
        return None

    def _tell_nodes(self) -> None:
        places = [each.info for each in self._known.values() if each is not None and each.node in self._alive]
        nodes = {place_name(info): info for info in [*places, *self._listed.values()]}
        self._tell(lambda listener: listener.nodes_changed(nodes))


def _read_place(name: str, content: bytes) -> PlaceRegistration:
    """Raises ProtocolError, also where the name says something else than the content."""
    found = decode_place(content)
    # Vert.x removes it by its name.
    if found.name != name:
        raise ProtocolError(f"a registration of {found.name} has the name {name[:64]!r}")
    return found
