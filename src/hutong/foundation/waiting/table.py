"""Wait table: continuations parked under keys, each with a deadline and an owner. The general primitive for waiting.

Strategy: a parked continuation ends exactly once: resumed with a value, expired by the timer wheel, or failed together
with its owner or its table. The first of these removes it from the other two places, so every step has the same cost
for any number of waits. Almost every key has one continuation at a time, so a key maps to the ticket itself; it maps to
an ordered set of tickets only when there are several.

A wait whose owner or table has ended already ends at once inside `park`. A continuation that raises is our fault: the
error passes through `resume`, `end` or `advance`, and the waits not yet ended stay parked.

`resume` returns True when the wait took the value. A coroutine whose task was cancelled does not take it, although the
task has not run since: the value goes to the next wait under the key, or `resume` returns False. A task may also be
cancelled after its wait took a value and before it runs. Then the value is given back (`give_back` of `wait`). So
exactly one coroutine returns from `wait` with a taken value, or the value is given back.

Knows nothing of what is awaited, nor of threads: a table belongs to one loop.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from hutong.foundation.errors import Expired, HutongError, LimitExceeded, OwnerGone
from hutong.foundation.timers import Timer, TimerWheel
from hutong.foundation.waiting.pending import Continuation, settle_future

if TYPE_CHECKING:
    import asyncio

V = TypeVar("V")
NEVER: Final = -1
"""As a timeout of an ordered or a numbered wait table: the wait has no deadline."""


class Owner:
    """A connection or component whose end fails every wait parked under it."""

    __slots__ = ("_ended", "_parked")

    def __init__(self) -> None:
        self._parked: dict[ParkedWait[Any], None] | None = None  # made on first use: most connections never wait
        self._ended: HutongError | None = None

    @property
    def has_ended(self) -> bool:
        return self._ended is not None

    def end(self, error: HutongError | None = None) -> int:
        """Fail all waits of this owner, oldest first, with `error` or else OwnerGone. Returns the number failed."""
        if self._ended is None:
            self._ended = error or OwnerGone("the owner has ended")
        # A copy: each failing ticket removes itself, and its continuation may park or fail others.
        return sum(ticket.fail(self._ended) for ticket in list(self._parked or ()))

    def __len__(self) -> int:
        return len(self._parked) if self._parked else 0


class ParkedWait(Generic[V]):
    """The ticket of one parked continuation, by which code outside the table ends it."""

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
        """End the wait without calling the continuation, because the waiter itself gave up."""
        then = self._leave()
        self._table.abandoned_total += then is not None
        return then is not None

    def _expire(self) -> None:
        then = self._leave()
        if then is not None:
            self._table.expired_total += 1
            then(Expired(f"nothing came in time ({self._table.name})"))

    def _leave(self) -> Continuation[V] | None:
        then, self._then = self._then, None  # cleared first: a second end finds None, also while `then` runs
        if then is not None:
            self._table._remove(self)
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._owner is not None and self._owner._parked is not None:
                self._owner._parked.pop(self, None)
                self._owner = None
        return then


class _Awaited(ParkedWait[V]):
    """A parked coroutine. Its future is cancelled with its task, one loop iteration before the task can run."""

    __slots__ = ("future",)

    def __init__(self, table: "WaitTable[V]", key: Hashable, future: "asyncio.Future[V]", owner: Owner | None) -> None:
        super().__init__(table, key, partial(settle_future, future), owner)
        self.future = future

    @property
    def is_waiting(self) -> bool:
        return super().is_waiting and not self.future.cancelled()

    def resume(self, value: V) -> bool:
        return not self._has_left() and super().resume(value)

    def fail(self, error: HutongError) -> bool:
        return not self._has_left() and super().fail(error)

    def _has_left(self) -> bool:
        if self.future.cancelled():
            self.abandon()  # counted here and not as resumed: the value goes to the next wait
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
        self._waiting: dict[Hashable, ParkedWait[V] | OrderedDict[ParkedWait[V], None]] = {}
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
    ) -> ParkedWait[V]:
        """Call `then` exactly once: with the value, or with the error that ends the wait (Expired, OwnerGone ...).

        `deadline_ms` is absolute, in monotonic milliseconds. Raises LimitExceeded when the table is full.
        """
        ticket = ParkedWait(self, key, then, owner)
        self._park(ticket, deadline_ms, owner)
        return ticket

    def _park(self, ticket: ParkedWait[V], deadline_ms: int | None, owner: Owner | None) -> None:
        if self._count >= self._capacity:
            raise LimitExceeded(self.name, self._capacity)
        self.parked_total += 1
        # Inserted before the check for an end, so that a failing wait passes through the same books as any other.
        self._insert(ticket._key, ticket)
        ended = self._closed or (owner._ended if owner is not None else None)
        if ended is not None:
            ticket.fail(ended)  # before a timer or the owner holds it: there is nothing to undo
            return
        if deadline_ms is not None:
            ticket._timer = self._wheel.add(deadline_ms, ticket._expire)  # a wheel's timer: constant cost to cancel
        if owner is not None:
            # A dict keeps the order in which waits were parked, so an ending owner fails the oldest first.
            if owner._parked is None:
                owner._parked = {}
            owner._parked[ticket] = None

    def resume(self, key: Hashable, value: V) -> bool:
        """End the oldest wait under `key` with `value`. False if there is none."""
        while (ticket := self._oldest(key)) is not None:
            if ticket.resume(value):
                return True
            # Its task was cancelled: the ticket has removed itself, and the next one is the oldest now.
        return False

    def resume_all(self, key: Hashable, value: V) -> int:
        """End every wait under `key`, oldest first. Waits parked meanwhile stay. Returns the number ended."""
        return sum(ticket.resume(value) for ticket in self._all(key))

    def fail_all(self, key: Hashable, error: HutongError) -> int:
        """Fail every wait under `key`, oldest first. Returns the number failed."""
        return sum(ticket.fail(error) for ticket in self._all(key))

    def close(self, error: HutongError) -> int:
        """Fail every wait of the table, and from now on each new one at once. Returns the number failed."""
        # Set before the first continuation runs: what that parks fails at once instead of waiting for ever.
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
        before it ran. Use it for values that another waiter must get then.
        """
        import asyncio  # here: pure machines import this module, and only coroutines need a loop

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
            # Only a task that was cancelled between its future's result and its next step gives back: a cancelled
            # future took nothing, and a failed one has no value.
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

    def _insert(self, key: Hashable, ticket: ParkedWait[V]) -> None:
        self._count += 1
        present = self._waiting.setdefault(key, ticket)
        if present is ticket:
            return  # the only one under its key, as nearly always: no set is made
        if isinstance(present, OrderedDict):
            present[ticket] = None
        else:
            self._waiting[key] = OrderedDict(((present, None), (ticket, None)))

    def _remove(self, ticket: ParkedWait[V]) -> None:
        self._count -= 1
        present = self._waiting[ticket._key]
        if isinstance(present, OrderedDict):
            del present[ticket]
            if present:
                return
        del self._waiting[ticket._key]  # an empty key costs nothing: keys are connections and producers by thousands

    def _oldest(self, key: Hashable) -> ParkedWait[V] | None:
        present = self._waiting.get(key)
        return next(iter(present)) if isinstance(present, OrderedDict) else present

    def _all(self, key: Hashable) -> list[ParkedWait[V]]:
        present = self._waiting.get(key)
        if present is None:
            return []
        return list(present) if isinstance(present, OrderedDict) else [present]
