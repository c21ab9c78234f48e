"""Parking: the one primitive for every wait. A continuation is parked under a key, with a deadline and an owner.

Strategy: a parked continuation ends exactly once: resumed with a value, expired by the timer wheel, or failed together
with its owner or its table. Whoever comes first takes it out of the other two places, so every step costs the same
however many are parked. Almost every key holds one continuation at a time, so a key maps to the ticket itself and
only to a queue of tickets when there are several.

A wait that cannot begin, because its owner or its table has ended, ends at once inside `park`. A continuation that
raises is our fault: the error passes through `resume`, `end` or `advance`, and those not yet ended stay parked.

`resume` says whether the wait took the value. A coroutine whose task was cancelled does not take it, although the task
has not run since: the value is for the next wait under the key, or `resume` returns False. A task that is cancelled
after its wait took a value, and before it runs, gives the value back (`give_back` of `wait`). So of a value that was
taken one coroutine returns from `wait` with it, or it is given back.

Knows nothing of what is awaited, nor of threads: a table belongs to one loop.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from hutong.foundation.errors import Expired, HutongError, LimitExceeded, OwnerGone
from hutong.foundation.timers import Timer, TimerWheel

if TYPE_CHECKING:
    import asyncio

V = TypeVar("V")
Continuation = Callable[[V | HutongError], None]
NEVER: Final = -1
"""As a timeout of an ordered wait table: the wait has no deadline."""


class Owner:
    """Anything that can end, and what it waits for with it: a connection, a component."""

    __slots__ = ("_ended", "_parked")

    def __init__(self) -> None:
        self._parked: dict[Parked[Any], None] | None = None  # made on first use: most connections never wait
        self._ended: HutongError | None = None

    @property
    def has_ended(self) -> bool:
        return self._ended is not None

    def end(self, error: HutongError | None = None) -> int:
        """Fail everything parked under this owner, oldest first, with `error` or else OwnerGone; returns how many."""
        if self._ended is None:
            self._ended = error or OwnerGone("the owner has ended")
        return sum(ticket.fail(self._ended) for ticket in list(self._parked or ()))

    def __len__(self) -> int:
        return len(self._parked) if self._parked else 0


class Parked(Generic[V]):
    """One parked continuation: the ticket by which it is ended from outside its table."""

    __slots__ = ("_key", "_owner", "_table", "_then", "_timer")

    def __init__(self, table: "WaitTable[V]", key: Hashable, then: Continuation[V], owner: Owner | None) -> None:
        self._table = table
        self._key = key
        self._then: Continuation[V] | None = then
        self._owner = owner
        self._timer: Timer | None = None

    @property
    def is_waiting(self) -> bool:
        return self._then is not None

    def resume(self, value: V) -> bool:
        """End the wait with `value`. False if it had already ended, or its task has been cancelled."""
        then = self._leave()
        if then is None:
            return False
        self._table.resumed_total += 1
        then(value)
        return True

    def fail(self, error: HutongError) -> bool:
        """End the wait with `error`. False if it had already ended."""
        then = self._leave()
        if then is None:
            return False
        self._table.failed_total += 1
        then(error)
        return True

    def abandon(self) -> bool:
        """End the wait without calling the continuation: the waiter itself has lost interest."""
        then = self._leave()
        self._table.abandoned_total += then is not None
        return then is not None

    def _expire(self) -> None:
        then = self._leave()
        if then is not None:
            self._table.expired_total += 1
            then(Expired(f"nothing came in time ({self._table.name})"))

    def _leave(self) -> Continuation[V] | None:
        then, self._then = self._then, None
        if then is not None:
            self._table._remove(self)
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._owner is not None and self._owner._parked is not None:
                self._owner._parked.pop(self, None)
                self._owner = None
        return then


class _Awaited(Parked[V]):
    """A parked coroutine. Its future is cancelled with its task, a turn of the loop before the task can say so."""

    __slots__ = ("future",)

    def __init__(self, table: "WaitTable[V]", key: Hashable, future: "asyncio.Future[V]", owner: Owner | None) -> None:
        super().__init__(table, key, self.settle, owner)
        self.future = future

    @property
    def is_waiting(self) -> bool:
        return super().is_waiting and not self.future.cancelled()

    def resume(self, value: V) -> bool:
        return not self._has_left() and super().resume(value)

    def fail(self, error: HutongError) -> bool:
        return not self._has_left() and super().fail(error)

    def settle(self, value: V | HutongError) -> None:
        """The continuation. A deadline may have passed when the task had been cancelled."""
        if self.future.cancelled():
            return
        if isinstance(value, HutongError):
            self.future.set_exception(value)
        else:
            self.future.set_result(value)

    def _has_left(self) -> bool:
        if self.future.cancelled():
            self.abandon()
            return True
        return False


class WaitTable(Generic[V]):
    """Continuations parked under keys, at most `capacity` at a time.

    Invariant: parked_total = resumed_total + expired_total + failed_total + abandoned_total + len(table). Of the
    resumed, given_back_total were cancelled before they ran.
    """

    def __init__(self, name: str, wheel: TimerWheel, capacity: int) -> None:
        self.name = name
        self.parked_total = 0
        self.resumed_total = 0
        self.expired_total = 0
        self.failed_total = 0
        self.abandoned_total = 0
        self.given_back_total = 0
        self._wheel = wheel
        self._capacity = capacity
        self._waiting: dict[Hashable, Parked[V] | OrderedDict[Parked[V], None]] = {}
        self._count = 0
        self._closed: HutongError | None = None

    def __len__(self) -> int:
        return self._count

    def park(
        self,
        key: Hashable,
        then: Continuation[V],
        *,
        deadline_ms: int | None = None,
        owner: Owner | None = None,
    ) -> Parked[V]:
        """Call `then` exactly once: with the value, or with Expired, OwnerGone or whatever error ends the wait.

        `deadline_ms` is absolute, in monotonic milliseconds. Raises LimitExceeded when the table is full.
        """
        ticket = Parked(self, key, then, owner)
        self._park(ticket, deadline_ms, owner)
        return ticket

    def _park(self, ticket: Parked[V], deadline_ms: int | None, owner: Owner | None) -> None:
        if self._count >= self._capacity:
            raise LimitExceeded(self.name, self._capacity)
        self.parked_total += 1
        self._insert(ticket._key, ticket)
        ended = self._closed or (owner._ended if owner is not None else None)
        if ended is not None:
            ticket.fail(ended)
            return
        if deadline_ms is not None:
            ticket._timer = self._wheel.add(deadline_ms, ticket._expire)
        if owner is not None:
            if owner._parked is None:
                owner._parked = {}
            owner._parked[ticket] = None

    def resume(self, key: Hashable, value: V) -> bool:
        """End the oldest wait under `key` with `value`. False if there is none."""
        while (ticket := self._oldest(key)) is not None:
            if ticket.resume(value):
                return True  # else its task has been cancelled, and it has left its place to the next one
        return False

    def resume_all(self, key: Hashable, value: V) -> int:
        """End every wait under `key`, oldest first; what is parked meanwhile stays. Returns how many."""
        return sum(ticket.resume(value) for ticket in self._all(key))

    def fail_all(self, key: Hashable, error: HutongError) -> int:
        """Fail every wait under `key`, oldest first. Returns how many."""
        return sum(ticket.fail(error) for ticket in self._all(key))

    def close(self, error: HutongError) -> int:
        """Fail every wait of the table, and from now on each new one at once. Returns how many."""
        self._closed = error
        return sum(self.fail_all(key, error) for key in list(self._waiting))

    async def wait(
        self,
        key: Hashable,
        *,
        deadline_ms: int | None = None,
        owner: Owner | None = None,
        give_back: Callable[[V], object] | None = None,
    ) -> V:
        """Park the calling coroutine; raises the error that ended the wait. Cancelling it gives up the place.

        `give_back(value)` is called instead of returning the value when the task is cancelled after it was resumed and
        before it ran: for values that somebody else must get then.
        """
        import asyncio

        future: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        ticket = _Awaited(self, key, future, owner)
        self._park(ticket, deadline_ms, owner)
        is_taken = False
        try:
            value = await future
            is_taken = True
            return value
        finally:
            ticket.abandon()
            # A future that was cancelled took nothing; one that failed has nothing to give back.
            if not is_taken and future.done() and not future.cancelled() and future.exception() is None:
                self.given_back_total += 1
                if give_back is not None:
                    give_back(future.result())

    def check_invariants(self) -> None:
        held = [ticket for key in self._waiting for ticket in self._all(key)]
        assert len(held) == self._count <= self._capacity
        assert all(ticket._then is not None for ticket in held)
        ended = self.resumed_total + self.expired_total + self.failed_total + self.abandoned_total
        assert self.parked_total == ended + self._count

    def _insert(self, key: Hashable, ticket: Parked[V]) -> None:
        self._count += 1
        present = self._waiting.setdefault(key, ticket)
        if present is ticket:
            return
        if isinstance(present, OrderedDict):
            present[ticket] = None
        else:
            self._waiting[key] = OrderedDict(((present, None), (ticket, None)))

    def _remove(self, ticket: Parked[V]) -> None:
        self._count -= 1
        present = self._waiting[ticket._key]
        if isinstance(present, OrderedDict):
            del present[ticket]
            if present:
                return
        del self._waiting[ticket._key]

    def _oldest(self, key: Hashable) -> Parked[V] | None:
        present = self._waiting.get(key)
        return next(iter(present)) if isinstance(present, OrderedDict) else present

    def _all(self, key: Hashable) -> list[Parked[V]]:
        present = self._waiting.get(key)
        if present is None:
            return []
        return list(present) if isinstance(present, OrderedDict) else [present]
