"""The session of a node with ZooKeeper: its registration, the register, and the news of both.

Strategy: everything runs on one worker thread, where a call of kazoo's may block, for a session's time at most. kazoo
calls back on threads of its own: these callbacks only submit work to the worker. So all of it happens in one order.

A watch fires once, and may be lost with the connection. So each reading sets it anew, and after each connection
everything is read again. Whatever became of the registration, the node registers anew where it is not there.
"""

import contextlib
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionLoss,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import OPEN_ACL_UNSAFE

from hutong.cluster.coordinator.port import (
    CoordinatorListener,
    CoordinatorRegister,
    NodeRegistration,
    SessionState,
    other_cluster,
)
from hutong.cluster.coordinator.zookeeper.address import ZooKeeperAddress
from hutong.cluster.coordinator.zookeeper.client import FAILURES, ZooKeeperClient
from hutong.cluster.coordinator.zookeeper.layout import (
    FORMAT,
    OWN_NAMES,
    ClusterPaths,
    decode_marker,
    decode_registration,
    encode_marker,
    encode_registration,
)
from hutong.cluster.coordinator.zookeeper.probe import SERVERS_PROBED_MAX, look_at, make_context, serves
from hutong.cluster.coordinator.zookeeper.settings import ZooKeeperSettings
from hutong.foundation.clock import Clock
from hutong.foundation.errors import (
    CoordinatorUnavailable,
    ExitCode,
    HutongError,
    OwnerGone,
    ProtocolError,
    Refused,
    UsageError,
)
from hutong.wire.kafka.error_codes import ErrorCode

NODES_MAX: Final = 1_000
_CONNECTED: Final = SessionState.CONNECTED
_AGAIN_S: Final = 0.5
_STUCK_SESSIONS: Final = 2
_SLICE_S: Final = 0.05
_INTERRUPTIONS: Final = (
    AuthFailedError, ConnectionLoss, KazooTimeoutError, OperationTimeoutError, SessionExpiredError,
)  # fmt: skip
"""Failures that end with a new connection, or come with its end."""
_log = logging.getLogger("hutong.cluster")

Tell = Callable[[Callable[[CoordinatorListener], None]], None]


class ZooKeeperSession:
    """Made anew for each start of a coordinator. `interrupt` may be called on any thread."""

    def __init__(
        self,
        address: ZooKeeperAddress,
        settings: ZooKeeperSettings,
        clock: Clock,
        submit: Callable[[Callable[[], None]], None],
        submit_later: Callable[[int, Callable[[], None]], None],
        tell: Tell,
    ) -> None:
        """`submit` gives work to the worker thread, also after milliseconds. `tell` calls the listener on the loop.

        Raises UsageError for TLS files that cannot be used.
        """
        self._context = make_context(settings.tls)
        self._address = address
        self._settings = settings
        self._clock = clock
        self._submit = submit
        self._submit_later = submit_later
        self._tell = tell
        self._paths = ClusterPaths(address.path)
        self._client: ZooKeeperClient | None = None
        self._registration: NodeRegistration | None = None
        self._cluster_id = ""
        self._state = SessionState.LOST  # as the listener knows it
        self._is_open = False
        self._ending = threading.Event()
        self._is_reading_due = False

    @property
    def session_ms(self) -> int:
        return self._client.negotiated_ms if self._client is not None else self._settings.session_ms

    # -- what the coordinator submits

    def open(self, registration: NodeRegistration, cluster_id: str, *, may_join: bool = True) -> str:
        """Connect and register. Returns the cluster's id. Raises UsageError."""
        self._registration = registration
        try:
            client = self._connect()
            self._cluster_id = self._find_cluster(cluster_id)
            # Before it is registered: the others would give it replicas.
            if not may_join and self._cluster_id != cluster_id:
                raise other_cluster(self._address, cluster_id, self._cluster_id)
            self._wait_for_number()
            self._is_open = True
            self._follow(client, client.state)
        except NoAuthError:
            message = f"{self._address} may not be used by this user: set the right NAME:PASSWORD for ZooKeeper."
            raise self._failed(UsageError(message, ExitCode.NOPERM)) from None
        except FAILURES as error:
            message = (
                f"ZooKeeper at {self._address.hosts} failed while this node registered ({_name(error)}); try again."
            )
            raise self._failed(UsageError(message, ExitCode.UNAVAILABLE)) from None
        except UsageError as error:
            raise self._failed(error) from None
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
            raise CoordinatorUnavailable(f"ZooKeeper did not answer: {_name(error)}") from None

    def describe(self, description: bytes) -> None:
        self._registration = replace(self._own, description=description)
        if self._state is _CONNECTED:
            self._guarded(self._register)

    def interrupt(self) -> None:
        """Let no wait of `open` last longer: the node is stopping."""
        self._ending.set()

    def end(self) -> None:
        """Give the registration back, and end kazoo's threads."""
        self._ending.set()
        client, self._client = self._client, None
        if client is not None:
            client.end()

    # -- kazoo's threads

    def _state_changed(self, client: ZooKeeperClient, state: str) -> None:
        self._submit(partial(self._follow, client, state))

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

    def _wait(self, result: Any) -> Any:
        """The outcome of a call of kazoo's. It comes within a session's time, or the connection is dead."""
        return result.get(timeout=self.session_ms / 1_000)

    def _failed(self, error: UsageError) -> HutongError:
        is_stopping = self._ending.is_set()
        self.end()
        return OwnerGone("the node is stopping") if is_stopping else error

    def _connect(self) -> ZooKeeperClient:
        client = self._client = ZooKeeperClient(self._address, self._settings)
        give_up_ms = self._clock.monotonic_ms() + self._settings.connect_timeout_ms
        client.start_async()
        while not client.connected:
            if self._ending.wait(_SLICE_S) or self._clock.monotonic_ms() > give_up_ms:
                found = look_at(self._address, self._context)
                seconds = self._settings.connect_timeout_ms / 1_000
                message = f"ZooKeeper did not answer within {seconds:g} s: {found}."
                raise UsageError(message, ExitCode.UNAVAILABLE)
        client.add_listener(partial(self._state_changed, client))
        return client

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
            while exists and not is_gone.wait(_SLICE_S):
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

    def _follow(self, client: ZooKeeperClient, state: str) -> None:
        """Follow a change of the connection."""
        if client is not self._client or not self._is_open or self._ending.is_set():
            return
        if state == "CONNECTED":
            self._guarded(self._resume)
            return
        self._change(SessionState.SUSPENDED if state == "SUSPENDED" else SessionState.LOST)
        if client.has_ended:
            self._replace(client)
        else:
            self._submit_later(_STUCK_SESSIONS * self.session_ms, partial(self._look_again, client))

    def _look_again(self, client: ZooKeeperClient, *, has_served: bool = False) -> None:
        """Begin again where a server works at two looks in succession, and this session cannot go on.

        A server that has lost its disk refuses each client that has seen more than it, for ever (ZOOKEEPER-832).
        """
        if client is not self._client or client.connected or self._ending.is_set():
            return
        is_serving = any(serves(server, self._context) for server in self._address.servers[:SERVERS_PROBED_MAX])
        # At the first look it may just be back, and kazoo between two attempts: sessions survive such an outage.
        if is_serving and has_served:
            self._replace(client)
        else:
            again = partial(self._look_again, client, has_served=is_serving)
            self._submit_later(_STUCK_SESSIONS * self.session_ms, again)

    def _replace(self, client: ZooKeeperClient) -> None:
        """Begin another session where this one cannot go on. It can take over the registration of the other one."""
        _log.error("The session with ZooKeeper at %s has ended for good, and another is begun.", self._address.hosts)
        client.end()
        self._change(SessionState.LOST)
        if not self._ending.wait(_AGAIN_S):
            self._client = client = ZooKeeperClient(self._address, self._settings)
            client.add_listener(partial(self._state_changed, client))
            client.start_async()

    def _change(self, state: SessionState) -> None:
        if state is not self._state:
            level = logging.INFO if state is SessionState.CONNECTED else logging.WARNING
            _log.log(level, "The session with ZooKeeper at %s is %s.", self._address.hosts, state.value)
        self._state = state
        self._tell(lambda listener: listener.session_changed(state))

    def _resume(self) -> None:
        """Register if need be, and read everything again: nothing is known of the time without a connection."""
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

    def _guarded(self, work: Callable[[], object]) -> None:
        """Do what needs a connection. Without one it is left to the next, which reads everything."""
        client = self._client
        if client is None or not client.connected or self._ending.is_set():
            return
        try:
            work()
        except _INTERRUPTIONS as error:
            # A server that answers no request and yet its heartbeats: nothing else would begin it again.
            if client.connected and isinstance(error, KazooTimeoutError):
                self._submit(partial(self._guarded, self._resume))
        except (*FAILURES, UsageError) as error:
            _log.error("The cluster's data in ZooKeeper could not be read or written: %s", _name(error))
            self._submit_later(_STUCK_SESSIONS * self.session_ms, partial(self._guarded, self._resume))


def _name(error: Exception) -> str:
    return str(error) or type(error).__name__
