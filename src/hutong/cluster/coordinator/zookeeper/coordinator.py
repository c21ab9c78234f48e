"""The coordinator's side on the loop: it submits work to the session's thread, and its listener is called from here.

Knows nothing of ZooKeeper's data.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from hutong.cluster.coordinator.port import CoordinatorListener, CoordinatorRegister, NodeRegistration
from hutong.cluster.coordinator.zookeeper.address import ZooKeeperAddress
from hutong.cluster.coordinator.zookeeper.connection import ConnectionParts
from hutong.cluster.coordinator.zookeeper.session import ZooKeeperSession
from hutong.cluster.coordinator.zookeeper.session_thread import SessionThread
from hutong.cluster.coordinator.zookeeper.settings import ZooKeeperSettings
from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, LimitExceeded, OwnerGone
from hutong.foundation.waiting.pending import Continuation

WAITING_MAX: Final = 64
"""Compare-and-sets that wait for their answers."""
REGISTER_BYTES_MAX: Final = 512 * 1024
"""ZooKeeper takes a megabyte with all around it."""


class ZooKeeperCoordinator:
    """One node's session with ZooKeeper. Started once; `close` it also where the start failed or was cancelled."""

    def __init__(self, address: ZooKeeperAddress, settings: ZooKeeperSettings, clock: Clock) -> None:
        self._address = address
        self._settings = settings
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: SessionThread | None = None
        self._session: ZooKeeperSession | None = None
        self._listener: CoordinatorListener | None = None
        self._waiting = 0

    @property
    def session_ms(self) -> int:
        """As it was asked for, and after the start as the servers granted it."""
        return self._session.session_ms if self._session is not None else self._settings.session_ms

    async def start(
        self, registration: NodeRegistration, cluster_id: str, listener: CoordinatorListener, *, may_join: bool = True
    ) -> str:
        assert self._session is None, "a coordinator is started once"
        self._loop = asyncio.get_running_loop()
        thread = self._thread = SessionThread()
        self._listener = listener
        parts = ConnectionParts(self._address, self._settings, self._clock, thread)
        self._session = ZooKeeperSession(parts, self._tell)
        return await thread.done(partial(self._session.open, registration, cluster_id, may_join=may_join))

    def describe(self, description: bytes) -> None:
        assert self._session is not None
        assert self._thread is not None
        self._thread.submit(partial(self._session.describe, description))

    def compare_and_set(self, version: int, value: bytes, then: Continuation[CoordinatorRegister]) -> None:
        assert self._loop is not None
        if self._session is None or self._thread is None:
            self._loop.call_soon(then, OwnerGone("the node is stopping"))
        elif len(value) > REGISTER_BYTES_MAX:
            self._loop.call_soon(then, LimitExceeded("REGISTER_BYTES_MAX", REGISTER_BYTES_MAX))
        elif self._waiting >= WAITING_MAX:
            self._loop.call_soon(then, LimitExceeded("WAITING_MAX", WAITING_MAX))
        else:
            self._waiting += 1
            self._thread.submit(partial(self._session.compare_and_set, version, value), partial(self._answer, then))

    async def close(self) -> None:
        self._listener = None
        if self._session is None or self._thread is None:
            return
        self._session.interrupt()
        session, self._session = self._session, None
        thread, self._thread = self._thread, None
        # Behind all that was submitted, so every compare-and-set has had its answer.
        await thread.close(session.end)

    def _answer(self, then: Continuation[CoordinatorRegister], outcome: CoordinatorRegister | BaseException) -> None:
        self._waiting -= 1
        if isinstance(outcome, CoordinatorRegister | HutongError):
            then(outcome)
        else:
            raise outcome

    def _tell(self, call: Callable[[CoordinatorListener], None]) -> None:
        """Call the listener on the loop, unless the coordinator is closed by then. On the session's thread."""

        def told() -> None:
            if self._listener is not None:
                call(self._listener)

        # None once it is closed: nobody listens any more.
        thread = self._thread
        if thread is not None:
            thread.post(told)
