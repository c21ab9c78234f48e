"""A lock that all nodes share: Curator's InterProcessSemaphoreMutex.

Strategy: who waits has a numbered entry, and the lowest number is next. It makes the lease's entry, waits until that is
the only one, and gives its place to the next. All entries end with the session of their node, and so does the lock.

Knows no ZooKeeper.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

from hutong.bus.shared.names import checked_name
from hutong.bus.shared.port import EntryStore
from hutong.bus.shared.running import SharedWork
from hutong.bus.waiting.promise import Promise, settle_all
from hutong.foundation.errors import CoordinatorUnavailable, Expired, OwnerGone

TIMEOUT_MS_DEFAULT: Final = 10_000
"""As in Vert.x."""
_LOCK_LABEL: Final = "lock-"
_LEASE_LABEL: Final = "lease-"


class HeldLock:
    """A lock that this process has. It is lost where its session may have ended: another node may have it then."""

    def __init__(self, work: SharedWork, store: EntryStore, name: str, path: str) -> None:
        self.name = name
        self.is_lost = False
        self._work = work
        self._store = store
        self._path = path
        self._is_released = False  # by the holder; a lost one is to be released, too
        self._waiting: list[Promise[None]] = []  # for the loss
        store.add_loss_hook(self._lost)
        work.locks_held += 1

    def lost(self) -> Promise[None]:
        """Await it to hear of the loss, or call back by its `then`. Fails with OwnerGone once the lock is released."""
        promise = self._work.promise()
        self._work.on_loop(lambda: self._await_loss(promise))
        return promise

    def release(self) -> Promise[None]:
        """Let others have the lock. A second call does nothing."""
        return self._work.run(self._release)

    async def _release(self, store: EntryStore) -> None:
        if not self._is_released:
            self._is_released = True
            # The store that it was acquired in: the bus may have joined a cluster since.
            self._store.remove_loss_hook(self._lost)
            # A lost one was counted out when that was noticed.
            if not self.is_lost:
                self._work.locks_held -= 1
            settle_all(self._waiting, OwnerGone(f"the lock {self.name!r} has been released"))
            await self._store.give_up(self._path)

    def _lost(self) -> None:
        # A session may end more than once before the holder releases it.
        if not self.is_lost:
            self._work.locks_held -= 1
            self._work.locks_lost_total += 1
        self.is_lost = True
        settle_all(self._waiting, None)

    def _await_loss(self, promise: Promise[None]) -> None:
        # Asked on the loop, where it is lost: a loss cannot come in between.
        if self.is_lost:
            promise.resume(None)
        elif self._is_released:
            promise.fail(OwnerGone(f"the lock {self.name!r} has been released"))
        else:
            self._waiting.append(promise)


class SharedLock:
    """Made by `bus.shared.lock`: `async with` it, or call `acquire`. It is not reentrant. Any thread may call."""

    def __init__(self, work: SharedWork, name: str, timeout_ms: int) -> None:
        """Raises UsageError for a name that ZooKeeper cannot keep, ValueError for a timeout below 1."""
        if timeout_ms < 1:
            raise ValueError(f"timeout_ms must be at least 1, not {timeout_ms}")
        self.name = checked_name(name, "lock")
        self._work = work
        self._timeout_ms = timeout_ms
        self._held: dict[asyncio.Task[Any] | None, HeldLock] = {}  # by task: several may use the object

    def acquire(self) -> Promise[HeldLock]:
        """Wait for the lock, in turn. Fails with Expired where it does not come free within the timeout."""
        return self._work.run(self._acquire, unwanted=HeldLock.release)

    async def __aenter__(self) -> HeldLock:
        held = await self.acquire()
        self._held[asyncio.current_task()] = held
        return held

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Release it. Raises OwnerGone where it was lost, unless the block raises something already."""
        held = self._held.pop(asyncio.current_task())
        await held.release()
        # What the block did may have happened while another node had the lock, and nobody might have asked.
        if held.is_lost and error is None:
            raise OwnerGone(f"the lock {self.name!r} was lost before it was released: its session may have ended")

    async def _acquire(self, store: EntryStore) -> HeldLock:
        try:
            # Over all of it: a place in the queue and a lease are two waits.
            async with asyncio.timeout(self._timeout_ms / 1_000):
                path = await self._lease(store)
        except TimeoutError:
            raise Expired(f"the lock {self.name!r} did not come free within {self._timeout_ms} ms") from None
        return HeldLock(self._work, store, self.name, path)

    async def _lease(self, store: EntryStore) -> str:
        """Get a lease, and return its path."""
        queue, leases = f"locks/{self.name}/locks", f"locks/{self.name}/leases"
        place = await store.create_own(queue, _LOCK_LABEL)
        try:
            await _until(store, queue, place, lambda names: names.index(place) == 0)
            # Made while the place is held, so at most one waits for the lease of the last holder to go.
            lease = await store.create_own(leases, _LEASE_LABEL)
            try:
                await _until(store, leases, lease, lambda names: len(names) == 1)
            except BaseException:  # a timeout as well
                await store.give_up(f"{leases}/{lease}")
                raise
        finally:
            await store.give_up(f"{queue}/{place}")
        return f"{leases}/{lease}"


async def _until(store: EntryStore, path: str, own: str, condition: Callable[[list[str]], bool]) -> None:
    """Wait until the names below the path, by their numbers, are as they must be. Raises CoordinatorUnavailable."""
    while True:
        changed = asyncio.Event()
        names = sorted(await store.names(path, changed.set) or (), key=_number)
        # It went with the session, which another one has replaced.
        if own not in names:
            raise CoordinatorUnavailable("the session ended while a lock was waited for")
        if condition(names):
            return
        await changed.wait()


def _number(name: str) -> Any:
    # ZooKeeper pads it, so it sorts as text. What is before it is different for each client (Curator's protection).
    return name.rpartition("-")[2]
