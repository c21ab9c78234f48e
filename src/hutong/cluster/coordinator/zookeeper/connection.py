"""A connection with ZooKeeper that is kept up: connected, followed, and replaced where its session cannot go on.

Strategy: everything runs on one worker thread, where a call of kazoo's may block, for a session's time at most. kazoo
calls back on threads of its own: these callbacks only submit work to the worker. So all of it happens in one order.

A watch fires once, and may be lost with the connection. So after each connection a subclass reads everything again
(`_resume`).

Knows nothing of what is in ZooKeeper.
"""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from kazoo.exceptions import (
    AuthFailedError,
    ConnectionLoss,
    NoAuthError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError

from hutong.cluster.coordinator.port import SessionState
from hutong.cluster.coordinator.zookeeper.address import ZooKeeperAddress
from hutong.cluster.coordinator.zookeeper.client import FAILURES, ZooKeeperClient
from hutong.cluster.coordinator.zookeeper.probe import SERVERS_PROBED_MAX, look_at, make_context, serves
from hutong.cluster.coordinator.zookeeper.settings import ZooKeeperSettings
from hutong.foundation.clock import Clock
from hutong.foundation.errors import ExitCode, HutongError, OwnerGone, UsageError

_AGAIN_S: Final = 0.5
_STUCK_SESSIONS: Final = 2
SLICE_S: Final = 0.05
_INTERRUPTIONS: Final = (
    AuthFailedError, ConnectionLoss, KazooTimeoutError, OperationTimeoutError, SessionExpiredError,
)  # fmt: skip
"""Failures that end with a new connection, or come with its end."""
_log = logging.getLogger("hutong.cluster")


class Worker(Protocol):
    """The worker thread of a connection: see SessionThread, which is one."""

    def submit(self, work: Callable[[], None], /) -> None:
        """Do the work on the thread; from any thread."""

    def submit_later(self, delay_ms: int, work: Callable[[], None], /) -> None:
        """The same after a while; on the worker thread."""


@dataclass(frozen=True, slots=True)
class ConnectionParts:
    """The servers of a connection, a user's settings for them, its clock, and its thread."""

    address: ZooKeeperAddress
    settings: ZooKeeperSettings
    clock: Clock
    worker: Worker


class ZooKeeperConnection(ABC):
    """Opened once. `interrupt` may be called on any thread, everything else on the worker thread."""

    def __init__(self, parts: ConnectionParts) -> None:
        """Raises UsageError for TLS files that cannot be used."""
        self._context = make_context(parts.settings.tls)
        self._address = parts.address
        self._settings = parts.settings
        self._clock = parts.clock
        self._submit = parts.worker.submit
        self._submit_later = parts.worker.submit_later
        self._client: ZooKeeperClient | None = None
        self._state = SessionState.LOST  # as the listener knows it
        self._is_open = False
        self._ending = threading.Event()

    @property
    def session_ms(self) -> int:
        return self._client.negotiated_ms if self._client is not None else self._settings.session_ms

    def interrupt(self) -> None:
        """Let no wait last longer: the node is stopping."""
        self._ending.set()

    def end(self) -> None:
        """End the session, with all that lives as long as it, and kazoo's threads."""
        self._ending.set()
        client, self._client = self._client, None
        if client is not None:
            client.end()

    @abstractmethod
    def _resume(self) -> None:
        """Register if need be, and read everything again: nothing is known of the time without a connection."""

    @abstractmethod
    def _tell_state(self, state: SessionState) -> None:
        """Tell the listener."""

    def _open(self, work: Callable[[], None]) -> None:
        """Connect, do the work, and follow the connection from then on. Raises UsageError, OwnerGone."""
        try:
            client = self._connect()
            work()
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
            if self._ending.wait(SLICE_S) or self._clock.monotonic_ms() > give_up_ms:
                found = look_at(self._address, self._context)
                seconds = self._settings.connect_timeout_ms / 1_000
                message = f"ZooKeeper did not answer within {seconds:g} s: {found}."
                raise UsageError(message, ExitCode.UNAVAILABLE)
        client.add_listener(partial(self._state_changed, client))
        return client

    def _state_changed(self, client: ZooKeeperClient, state: str) -> None:
        """On a thread of kazoo's."""
        self._submit(partial(self._follow, client, state))

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
        self._tell_state(state)

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
