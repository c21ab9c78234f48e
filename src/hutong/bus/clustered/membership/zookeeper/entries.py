"""Shared entries in ZooKeeper, in the session of the membership.

Strategy: kazoo's requests are sent at once and answered on its own threads, so each answer is posted to the loop, where
a coroutine waits for it. Nothing of it passes through the membership's worker thread. Parents are containers, which go
by themselves when their last child has gone; so one that was there a moment ago is made again.

A session may have ended on the server before a client can know. So it counts as lost, with all that it had created for
itself, a third of its time after the connection was: kazoo takes a connection for dead after the first two thirds.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final
from uuid import UUID

from kazoo.exceptions import (
    BadVersionError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)

from hutong.bus.clustered.membership.zookeeper.containers import create_container_async
from hutong.bus.shared.port import Change, Changed, CreateEntry, RemoveEntry, SharedEntry, WriteEntry
from hutong.cluster.coordinator.port import SessionState
from hutong.cluster.coordinator.zookeeper.client import FAILURES, ZooKeeperClient
from hutong.foundation.errors import CoordinatorUnavailable, ExitCode, HutongError, OwnerGone, UsageError

ATTEMPTS_MAX: Final = 100
"""To create an entry whose parents go at the same time."""
_NOT_DONE: Final = (BadVersionError, NodeExistsError, NoNodeError, RolledBackError, RuntimeInconsistency)
_log = logging.getLogger("hutong.cluster")


@dataclass(frozen=True, slots=True)
class _EntryWatch:
    """A watch for kazoo, which keeps equal ones once: who looks again and again leaves no more than one."""

    post: Callable[[Changed], None]
    changed: Changed

    def __call__(self, event: object) -> None:
        self.post(self.changed)


class ZooKeeperEntries:
    """Made on the loop. `session_changed` comes there, too, from the membership."""

    def __init__(self, root: str, random: Random) -> None:
        self._root = root
        self._random = random
        self._loop = asyncio.get_running_loop()
        self._client: ZooKeeperClient | None = None  # None without a connection
        self._session_id: int | None = None
        self._loss: asyncio.TimerHandle | None = None
        self._lost: list[Callable[[], object]] = []
        self._asked: set[asyncio.Future[None]] = set()  # requests under way
        self._given_up: dict[str, None] = {}  # own entries to be removed: paths, or beginnings of paths
        self._removal: asyncio.Task[None] | None = None
        self._is_closed = False

    # -- of the membership

    def session_changed(self, client: ZooKeeperClient, state: SessionState) -> None:
        """Note the state of the session, whose client this is."""
        # News of the session's end in order.
        if self._is_closed:
            return
        if state is SessionState.CONNECTED:
            self._connected(client)
            return
        self._client = None
        self._fail_all(CoordinatorUnavailable("the connection with ZooKeeper has ended"))
        if state is SessionState.LOST:
            self._end_session()
        # A timer that runs already belongs to the same break, and a node without a session has nothing to lose.
        elif self._loss is None and self._session_id is not None:
            self._loss = self._loop.call_later(client.negotiated_ms / 3_000, self._end_session)

    def close(self) -> None:
        """Let every request from now on fail: the session ends in order."""
        self._is_closed = True
        self._client = None
        self._fail_all(OwnerGone("this node has left the cluster"))
        # Locks that are held still: they end with the session.
        self._end_session()

    def _connected(self, client: ZooKeeperClient) -> None:
        self._stop_timer()
        # A session may have been replaced with no word of its loss.
        if self._session_id not in (None, client.session_id):
            self._end_session()
        self._client, self._session_id = client, client.session_id
        # Of a session that goes on; those of another one have gone with it, and removing them does no harm.
        if self._given_up:
            self._removal = self._loop.create_task(self._remove_given_up())

    def _end_session(self) -> None:
        self._stop_timer()
        # A later word of the same loss.
        if self._session_id is None:
            return
        self._session_id = None
        for lost in list(self._lost):
            lost()

    def _stop_timer(self) -> None:
        if self._loss is not None:
            self._loss.cancel()
            self._loss = None

    # -- requests

    async def read(self, path: str, changed: Changed | None = None) -> SharedEntry | None:
        try:
            content, status = await self._ask(lambda client: client.get_async(self._full(path), self._watch(changed)))
        except NoNodeError:
            return None
        return SharedEntry(content, status.version)

    async def names(self, path: str, changed: Changed | None = None) -> list[str] | None:
        try:
            names = await self._ask(lambda client: client.get_children_async(self._full(path), self._watch(changed)))
        except NoNodeError:
            return None
        return sorted(names)

    async def create(self, path: str, content: bytes) -> bool:
        try:
            await self._create(path, lambda client: client.create_async(self._full(path), content, acl=client.own_acl))
        except NodeExistsError:
            return False
        return True

    async def create_own(self, parent: str, label: str) -> str:
        # Curator's protection: by a name of its own, an entry is found whose creation was not answered.
        begin = f"{parent}/_c_{UUID(int=self._random.getrandbits(128), version=4)}-{label}"
        try:
            created = await self._create(
                begin,
                lambda client: client.create_async(
                    self._full(begin), b"", acl=client.own_acl, ephemeral=True, sequence=True
                ),
            )
        # It may have been created, and would keep others waiting for as long as the session lives.
        except (CoordinatorUnavailable, asyncio.CancelledError):
            self._given_up[begin] = None
            self._remove_soon()
            raise
        name: str = created.rpartition("/")[2]
        return name

    async def write(self, path: str, content: bytes, version: int | None = None) -> bool:
        wanted = -1 if version is None else version
        return await self._is_done(lambda client: client.set_async(self._full(path), content, wanted))

    async def remove(self, path: str, version: int | None = None) -> bool:
        wanted = -1 if version is None else version
        return await self._is_done(lambda client: client.delete_async(self._full(path), wanted))

    async def change(self, changes: Sequence[Change]) -> bool:
        def begin(client: ZooKeeperClient) -> Any:
            transaction = client.transaction()
            for change in changes:
                match change:
                    case CreateEntry(path, content):
                        transaction.create(self._full(path), content, acl=client.own_acl)
                    case WriteEntry(path, content, version):
                        transaction.set_data(self._full(path), content, version)
                    case RemoveEntry(path, version):
                        transaction.delete(self._full(path), -1 if version is None else version)
            return transaction.commit_async()

        results = await self._ask(begin)
        return not any(isinstance(result, Exception) for result in results)

    async def give_up(self, path: str) -> None:
        self._given_up[path] = None
        self._remove_soon()
        if self._removal is not None:
            await asyncio.shield(self._removal)

    def add_loss_hook(self, lost: Callable[[], object]) -> None:
        self._lost.append(lost)

    def remove_loss_hook(self, lost: Callable[[], object]) -> None:
        if lost in self._lost:
            self._lost.remove(lost)

    # -- what they are made of

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _watch(self, changed: Changed | None) -> Callable[[object], None] | None:
        return None if changed is None else _EntryWatch(self._post, changed)

    def _post(self, work: Callable[[], object]) -> None:
        """Do it soon on the loop. On a thread of kazoo's."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work)

    async def _ask(self, begin: Callable[[ZooKeeperClient], Any]) -> Any:
        """Send a request and wait for its answer. Raises kazoo's errors for refusals, else CoordinatorUnavailable."""
        if self._is_closed:
            raise OwnerGone("this node has left the cluster")
        client = self._client
        # At once and not after a while: the caller knows better how long it can wait.
        if client is None:
            raise CoordinatorUnavailable("ZooKeeper is not reached")
        answered: asyncio.Future[None] = self._loop.create_future()
        self._asked.add(answered)
        answered.add_done_callback(self._asked.discard)
        try:
            result = begin(client)
            # Called at once where it is answered already, else on a thread of kazoo's.
            result.rawlink(lambda _: self._post(partial(_settle, answered)))
            await answered
            return result.get_nowait()
        except NoAuthError:
            message = "What the nodes share may not be used by this user: set the right NAME:PASSWORD for ZooKeeper."
            raise UsageError(message, ExitCode.NOPERM) from None
        # An answer: what it means, the caller knows.
        except (*_NOT_DONE, NotEmptyError):
            raise
        except FAILURES as error:
            raise CoordinatorUnavailable(f"ZooKeeper did not answer: {str(error) or type(error).__name__}") from None

    def _fail_all(self, error: HutongError) -> None:
        """Fail the requests under way: kazoo keeps those that come after the end of a connection for the next one."""
        for answered in list(self._asked):
            if not answered.done():
                answered.set_exception(error)

    async def _is_done(self, begin: Callable[[ZooKeeperClient], Any]) -> bool:
        try:
            await self._ask(begin)
        except _NOT_DONE:
            return False
        return True

    async def _create(self, path: str, begin: Callable[[ZooKeeperClient], Any]) -> Any:
        for _ in range(ATTEMPTS_MAX):
            try:
                return await self._ask(begin)
            # Containers go when their last child has gone, also between two of these requests.
            except NoNodeError:
                await self._make_parents(path)
        raise CoordinatorUnavailable(f"the parents of {path} in ZooKeeper go as soon as they are made")

    async def _make_parents(self, path: str) -> None:
        parts = path.split("/")[:-1]
        for count in range(1, len(parts) + 1):
            parent = self._full("/".join(parts[:count]))
            # One that is there, or whose own parent has gone again.
            await self._is_done(partial(_make_container, parent))

    # -- own entries that are to go

    def _remove_soon(self) -> None:
        # Without a connection the next one begins it; one that runs takes what has come since.
        if self._client is not None and (self._removal is None or self._removal.done()):
            self._removal = self._loop.create_task(self._remove_given_up())

    async def _remove_given_up(self) -> None:
        while self._given_up and self._client is not None:
            path = next(iter(self._given_up))
            try:
                await self._remove_all(path)
            except (CoordinatorUnavailable, OwnerGone):
                return  # what belongs to the session goes with it, or is removed after the next connection
            # The rights of the session have changed: trying again would not help.
            except UsageError as error:
                _log.error("%s", error)
            self._given_up.pop(path, None)

    async def _remove_all(self, path: str) -> None:
        """Remove the entry, or where that is the beginning of a name, the one that begins so."""
        # A whole name ends with a number.
        if not path.endswith("-"):
            await self.remove(path)
            return
        parent, _, begin = path.rpartition("/")
        for name in await self.names(parent) or ():
            if name.startswith(begin):
                await self.remove(f"{parent}/{name}")


def _make_container(path: str, client: ZooKeeperClient) -> Any:
    return create_container_async(client, path, client.own_acl)


def _settle(answered: "asyncio.Future[None]") -> None:
    # Its caller may have been cancelled.
    if not answered.done():
        answered.set_result(None)
