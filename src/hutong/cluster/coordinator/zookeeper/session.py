"""The session of a node with ZooKeeper: its registration, the register, and the news of both.

Strategy: a connection that is kept up (`connection.py`). Each reading sets its watch anew, and after each connection
everything is read again. Where the node's registration is missing, for any reason, the node registers anew.
"""

import contextlib
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError
from kazoo.security import OPEN_ACL_UNSAFE

from hutong.cluster.coordinator.port import (
    CoordinatorListener,
    CoordinatorRegister,
    NodeRegistration,
    SessionState,
    other_cluster,
)
from hutong.cluster.coordinator.zookeeper.client import FAILURES
from hutong.cluster.coordinator.zookeeper.connection import SLICE_S, ConnectionParts, ZooKeeperConnection
from hutong.cluster.coordinator.zookeeper.layout import (
    FORMAT,
    OWN_NAMES,
    ClusterPaths,
    decode_marker,
    decode_registration,
    encode_marker,
    encode_registration,
)
from hutong.foundation.errors import (
    CoordinatorUnavailable,
    ExitCode,
    ProtocolError,
    Refused,
    UsageError,
)
from hutong.wire.kafka.error_codes import ErrorCode

NODES_MAX: Final = 1_000
_CONNECTED: Final = SessionState.CONNECTED
_log = logging.getLogger("hutong.cluster")

Tell = Callable[[Callable[[CoordinatorListener], None]], None]


class ZooKeeperSession(ZooKeeperConnection):
    """Made anew for each start of a coordinator. `interrupt` may be called on any thread."""

    def __init__(self, parts: ConnectionParts, tell: Tell) -> None:
        """`tell` calls the listener on the loop. Raises UsageError for TLS files that cannot be used."""
        super().__init__(parts)
        self._tell = tell
        self._paths = ClusterPaths(parts.address.path)
        self._registration: NodeRegistration | None = None
        self._cluster_id = ""
        self._is_reading_due = False

    # -- what the coordinator submits

    def open(self, registration: NodeRegistration, cluster_id: str, *, may_join: bool = True) -> str:
        """Connect and register. Returns the cluster's id. Raises UsageError."""
        self._registration = registration

        def join() -> None:
            self._cluster_id = self._find_cluster(cluster_id)
            # Before it is registered: the others would give it replicas.
            if not may_join and self._cluster_id != cluster_id:
                raise other_cluster(self._address, cluster_id, self._cluster_id)
            self._wait_for_number()

        self._open(join)
        return self._cluster_id

    def compare_and_set(self, version: int, value: bytes) -> CoordinatorRegister:
        """Raises Refused, and CoordinatorUnavailable where it may have been written."""
        client = self._client
        if client is None or self._state is not _CONNECTED or self._ending.is_set():
            raise CoordinatorUnavailable("ZooKeeper is not connected")
        path = self._paths.register
        try:
            if version == 0:
                self._wait(client.create_async(path, value, acl=client.own_acl))
                return CoordinatorRegister(1, value)
            return CoordinatorRegister(self._wait(client.set_async(path, value, version - 1)).version + 1, value)
        except (BadVersionError, NodeExistsError, NoNodeError):
            raise Refused(ErrorCode.INVALID_UPDATE_VERSION, f"the register no longer has version {version}") from None
        except FAILURES as error:
            raise CoordinatorUnavailable(f"ZooKeeper did not answer: {str(error) or type(error).__name__}") from None

    def describe(self, description: bytes) -> None:
        self._registration = replace(self._own, description=description)
        if self._state is _CONNECTED:
            self._guarded(self._register)

    # -- kazoo's threads

    def _members_watched(self, event: object) -> None:
        # All watches fire together where a connection ends: one reading is enough.
        if not self._is_reading_due:
            self._is_reading_due = True
            self._submit(partial(self._guarded, self._read_members))

    def _register_watched(self, event: object) -> None:
        self._submit(partial(self._guarded, self._read_register))

    # -- the worker thread

    @property
    def _own(self) -> NodeRegistration:
        assert self._registration is not None
        return self._registration

    def _find_cluster(self, cluster_id: str) -> str:
        """The cluster's id. It is founded where nothing is yet. Raises UsageError for what is another program's."""
        client, paths = self._client, self._paths
        assert client is not None
        content = self._content(paths.marker)
        if content is None:
            self._found_cluster(cluster_id)
            content = self._content(paths.marker) or b""
        try:
            marker = decode_marker(content)
        except ProtocolError:
            raise self._foreign(paths.marker) from None
        if marker.format != FORMAT:
            message = f"{paths.marker} in ZooKeeper was written by another version (format {marker.format})."
            raise UsageError(f"{message} Start the version that did it, or set another path.", ExitCode.CONFIG)
        self._create(paths.nodes, b"", client.own_acl)
        return marker.cluster_id

    def _found_cluster(self, cluster_id: str) -> None:
        client, paths = self._client, self._paths
        assert client is not None
        try:
            names = set(self._wait(client.get_children_async(paths.root)))
        except NoNodeError:
            names = set()
        foreign = names - OWN_NAMES - ({"zookeeper"} if paths.root == "/" else set())
        if foreign:
            raise self._foreign(f"{paths.root.rstrip('/')}/{min(foreign)}")
        # The parents are for others, too: only what is the cluster's own has its access rights.
        for path in paths.parents():
            self._create(path, b"", client.own_acl if path == paths.root else OPEN_ACL_UNSAFE)
        self._create(paths.marker, encode_marker(cluster_id), client.own_acl)

    def _foreign(self, path: str) -> UsageError:
        message = f"{self._address} has another program's data ({path}): set a path of the cluster's own."
        return UsageError(message, ExitCode.CONFIG)

    def _create(self, path: str, content: bytes, acl: object) -> None:
        """Create it, unless it is there: another node may have been faster."""
        assert self._client is not None
        with contextlib.suppress(NodeExistsError):
            self._wait(self._client.create_async(path, content, acl=acl))

    def _content(self, path: str) -> bytes | None:
        assert self._client is not None
        try:
            content: bytes = self._wait(self._client.get_async(path))[0]
        except NoNodeError:
            return None
        return content

    def _wait_for_number(self) -> None:
        """Register, once the registration of a process that died is gone. Raises UsageError after 1.5 sessions."""
        client, path = self._client, self._paths.node(self._own.node)
        assert client is not None
        give_up_ms = self._clock.monotonic_ms() + self.session_ms * 3 // 2
        while not self._register():
            is_gone = threading.Event()
            exists = self._wait(client.exists_async(path, watch=lambda _, is_gone=is_gone: is_gone.set()))
            while exists and not is_gone.wait(SLICE_S):
                if self._ending.is_set() or self._clock.monotonic_ms() > give_up_ms:
                    raise self._taken()

    def _taken(self) -> UsageError:
        return UsageError(
            f"Another process is node {self._own.node} at {self._address}. Stop it, or set another node.id.",
            ExitCode.CONFIG,
        )

    def _register(self) -> bool:
        """Have the node's registration be there and be this session's. False where another process has the number."""
        client, own = self._client, self._own
        assert client is not None
        path, content = self._paths.node(own.node), encode_registration(own)
        try:
            self._wait(client.create_async(path, content, acl=client.own_acl, ephemeral=True))
            return True
        except NodeExistsError:
            pass
        try:
            found, status = self._wait(client.get_async(path))
            if status.ephemeralOwner == client.session_id:
                if found != content:
                    self._wait(client.set_async(path, content))
                return True
            if decode_registration(str(own.node), found).incarnation == own.incarnation:
                # Of an earlier session of this process. Nobody sees the moment between the two.
                takeover = client.transaction()
                takeover.delete(path, status.version)
                takeover.create(path, content, acl=client.own_acl, ephemeral=True)
                return not any(isinstance(each, Exception) for each in self._wait(takeover.commit_async()))
        except (NoNodeError, NodeExistsError, BadVersionError, ProtocolError):
            pass  # it has changed since then, and the next attempt finds out
        return False

    def _tell_state(self, state: SessionState) -> None:
        self._tell(lambda listener: listener.session_changed(state))

    def _resume(self) -> None:
        assert self._client is not None
        self._wait(self._client.sync_async(self._paths.root))
        cluster_id = self._find_cluster(self._cluster_id)
        if cluster_id != self._cluster_id:
            _log.error("ZooKeeper has cluster %s at %s, and no longer %s.", cluster_id, self._address, self._cluster_id)
            return
        if self._register():
            self._change(SessionState.CONNECTED)
            self._read_register()
        else:
            _log.error("%s", self._taken())
            self._change(SessionState.LOST)
        self._read_members()

    def _read_members(self) -> None:
        self._is_reading_due = False
        client, own = self._client, self._own
        assert client is not None
        watch = self._members_watched
        names = self._wait(client.get_children_async(self._paths.nodes, watch=watch))
        if len(names) > NODES_MAX:
            _log.error("ZooKeeper has %d nodes at %s, and only %d are read.", len(names), self._address, NODES_MAX)
        asked = [(name, client.get_async(f"{self._paths.nodes}/{name}", watch=watch)) for name in names[:NODES_MAX]]
        members = {}
        for name, result in asked:
            try:
                member = decode_registration(name, self._wait(result)[0])
            except NoNodeError:
                continue  # gone in between; a watch says so
            except ProtocolError as error:
                _log.warning("%s/%s in ZooKeeper is passed over: %s.", self._paths.nodes, name, error)
                continue
            members[member.node] = member
        members = {node: members[node] for node in sorted(members)}
        self._tell(lambda listener: listener.members_changed(members))
        found = members.get(own.node)
        has_lost_it = found is not None and found.incarnation != own.incarnation and self._state is _CONNECTED
        if found is None or has_lost_it:
            # Somebody removed it, or another process had the number and is gone.
            self._submit(partial(self._guarded, self._resume))

    def _read_register(self) -> None:
        client, path, watch = self._client, self._paths.register, self._register_watched
        assert client is not None
        register = CoordinatorRegister(0, b"")
        if self._wait(client.exists_async(path, watch=watch)):
            try:
                content, status = self._wait(client.get_async(path, watch=watch))
                register = CoordinatorRegister(status.version + 1, content)
            except NoNodeError:
                pass
        self._tell(lambda listener: listener.register_changed(register))
