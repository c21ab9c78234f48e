"""The membership's side on the loop: it submits work to the session's thread, and its listener is called from here.

Knows nothing of ZooKeeper's data.
"""

from collections.abc import Callable
from functools import partial
from random import SystemRandom

from hutong.bus.clustered.membership.port import MembershipListener
from hutong.bus.clustered.membership.zookeeper.entries import ZooKeeperEntries
from hutong.bus.clustered.membership.zookeeper.layout import VertxPaths, check_name
from hutong.bus.clustered.membership.zookeeper.session import Tell, TellSession, VertxSession
from hutong.cluster.coordinator.zookeeper.address import ZooKeeperAddress
from hutong.cluster.coordinator.zookeeper.connection import ConnectionParts
from hutong.cluster.coordinator.zookeeper.session_thread import SessionThread
from hutong.cluster.coordinator.zookeeper.settings import ZooKeeperSettings
from hutong.foundation.clock import Clock
from hutong.wire.vertx.cluster_nodes import NodeInfo


class ZooKeeperMembership:
    """Started once; `close` it also where the start failed or was cancelled."""

    def __init__(self, address: ZooKeeperAddress, settings: ZooKeeperSettings, clock: Clock) -> None:
        self._address = address
        self._settings = settings
        self._clock = clock
        self._thread: SessionThread | None = None
        self._session: VertxSession | None = None
        self._listener: MembershipListener | None = None
        self._entries: ZooKeeperEntries | None = None

    @property
    def entries(self) -> ZooKeeperEntries:
        assert self._entries is not None, "a membership is started first"
        return self._entries

    async def start(self, node: str, info: NodeInfo, listener: MembershipListener) -> None:
        assert self._session is None, "a membership is started once"
        thread = self._thread = SessionThread()
        self._listener = listener
        self._entries = self._make_entries(VertxPaths(self._address.path).root)
        session = self._session = self._make_session(
            ConnectionParts(self._address, self._settings, self._clock, thread),
            self._tell,
            lambda client, state: thread.post(partial(self.entries.session_changed, client, state)),
        )
        # What it tells is posted before its end is, so the listener has heard all when this returns.
        await thread.done(partial(session.open, node, info))

    def check(self, address: str) -> None:
        check_name(address)

    def announce(self, address: str, number: int) -> None:
        if self._session is not None and self._thread is not None:
            self._thread.submit(partial(self._session.announce, address, number))

    def withdraw(self, address: str, number: int) -> None:
        if self._session is not None and self._thread is not None:
            self._thread.submit(partial(self._session.withdraw, address, number))

    async def close(self) -> None:
        self._listener = None
        if self._entries is not None:
            self._entries.close()
        if self._session is None or self._thread is None:
            return
        self._session.interrupt()
        session, self._session = self._session, None
        thread, self._thread = self._thread, None
        await thread.close(session.end)

    def _make_entries(self, root: str) -> ZooKeeperEntries:
        return ZooKeeperEntries(root, SystemRandom())

    def _make_session(self, parts: ConnectionParts, tell: Tell, tell_session: TellSession) -> VertxSession:
        return VertxSession(parts, tell, tell_session)

    def _tell(self, call: Callable[[MembershipListener], None]) -> None:
        """Call the listener on the loop, unless the membership is closed by then. On the session's thread."""

        def told() -> None:
            if self._listener is not None:
                call(self._listener)

        # None once it is closed: nobody listens any more.
        thread = self._thread
        if thread is not None:
            thread.post(told)
