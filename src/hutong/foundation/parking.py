"""Parking: the one primitive for every wait. A continuation is parked under a key, with a deadline and an owner.

Strategy: a parked continuation ends exactly once: resumed with a value, expired by the timer wheel, or failed together
with its owner or its lot. Whoever comes first takes it out of the other two places, so every step costs the same
however many are parked. Almost every key holds one continuation at a time, so a key maps to the ticket itself and
only to a queue of tickets when there are several.

A wait that cannot begin, because its owner or its lot has ended, ends at once inside `park`. A continuation that raises
is our fault: the error passes through `resume`, `end` or `advance`, and those not yet ended stay parked.

Knows nothing of what is awaited, nor of threads: a lot belongs to one loop.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from hutong.foundation.errors import Expired, HutongError, LimitExceeded, OwnerGone
from hutong.foundation.timers import Timer, TimerWheel

V = TypeVar("V")
Continuation = Callable[[V | HutongError], None]


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
    """One parked continuation: the ticket by which it is ended from outside its lot."""

    __slots__ = ("_key", "_lot", "_owner", "_then", "_timer")

    def __init__(self, lot: "ParkingLot[V]", key: Hashable, then: Continuation[V], owner: Owner | None) -> None:
        self._lot = lot
        self._key = key
        self._then: Continuation[V] | None = then
        self._owner = owner
        self._timer: Timer | None = None

    @property
    def is_waiting(self) -> bool:
        return self._then is not None

    def resume(self, value: V) -> bool:
        """End the wait with `value`. False if it had already ended."""
        then = self._leave()
        if then is None:
            return False
        self._lot.resumed_total += 1
        then(value)
        return True

    def fail(self, error: HutongError) -> bool:
        """End the wait with `error`. False if it had already ended."""
        then = self._leave()
        if then is None:
            return False
        self._lot.failed_total += 1
        then(error)
        return True

    def abandon(self) -> bool:
        """End the wait without calling the continuation: the waiter itself has lost interest."""
        then = self._leave()
        self._lot.abandoned_total += then is not None
        return then is not None

    def _expire(self) -> None:
        then = self._leave()
        if then is not None:
            self._lot.expired_total += 1
            then(Expired(f"nothing came in time ({self._lot.name})"))

    def _leave(self) -> Continuation[V] | None:
        then, self._then = self._then, None
        if then is not None:
            self._lot._remove(self)
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._owner is not None and self._owner._parked is not None:
                self._owner._parked.pop(self, None)
                self._owner = None
        return then


class ParkingLot(Generic[V]):
    """Continuations parked under keys, at most `capacity` at a time.

    Invariant: parked_total = resumed_total + expired_total + failed_total + abandoned_total + len(lot).
    """

    def __init__(self, name: str, wheel: TimerWheel, capacity: int) -> None:
        self.name = name
        self.parked_total = 0
        self.resumed_total = 0
        self.expired_total = 0
        self.failed_total = 0
        self.abandoned_total = 0
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

        `deadline_ms` is absolute, in monotonic milliseconds. Raises LimitExceeded when the lot is full.
        """
        if self._count >= self._capacity:
            raise LimitExceeded(self.name, self._capacity)
        ticket = Parked(self, key, then, owner)
        self.parked_total += 1
        self._insert(key, ticket)
        ended = self._closed or (owner._ended if owner is not None else None)
        if ended is not None:
            ticket.fail(ended)
            return ticket
        if deadline_ms is not None:
            ticket._timer = self._wheel.add(deadline_ms, ticket._expire)
        if owner is not None:
            if owner._parked is None:
                owner._parked = {}
            owner._parked[ticket] = None
        return ticket

    def resume(self, key: Hashable, value: V) -> bool:
        """End the oldest wait under `key` with `value`. False if there is none."""
        ticket = self._oldest(key)
        return ticket is not None and ticket.resume(value)

    def resume_all(self, key: Hashable, value: V) -> int:
        """End every wait under `key`, oldest first; what is parked meanwhile stays. Returns how many."""
        return sum(ticket.resume(value) for ticket in self._all(key))

    def fail_all(self, key: Hashable, error: HutongError) -> int:
        """Fail every wait under `key`, oldest first. Returns how many."""
        return sum(ticket.fail(error) for ticket in self._all(key))

    def close(self, error: HutongError) -> int:
        """Fail every wait of the lot, and from now on each new one at once. Returns how many."""
        self._closed = error
        return sum(self.fail_all(key, error) for key in list(self._waiting))

    async def wait(self, key: Hashable, *, deadline_ms: int | None = None, owner: Owner | None = None) -> V:
        """Park the calling coroutine; raises the error that ended the wait. Cancelling it gives up the place."""
        import asyncio

        future: asyncio.Future[V] = asyncio.get_running_loop().create_future()

        def settle(value: V | HutongError) -> None:
            if future.done():
                return  # cancelled in this very turn of the loop: nobody is left to be told
            if isinstance(value, HutongError):
                future.set_exception(value)
            else:
                future.set_result(value)

        ticket = self.park(key, settle, deadline_ms=deadline_ms, owner=owner)
        try:
            return await future
        finally:
            ticket.abandon()

    def check_invariants(self) -> None:
        held = [ticket for key in self._waiting for ticket in self._all(key)]
        assert len(held) == self._count <= self._capacity
        assert all(ticket.is_waiting for ticket in held)
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


class OrderedLot(Generic[V]):
    """Continuations parked at a rising position: acknowledgements that wait for a flush.

    Positions never decrease, so a plain queue is enough: no keys, no timers, no tickets in the hottest path.
    """

    __slots__ = ("_capacity", "_parked", "failed_total", "name", "parked_total", "resumed_total")

    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self.parked_total = 0
        self.resumed_total = 0
        self.failed_total = 0
        self._capacity = capacity
        self._parked: deque[tuple[int, Continuation[V], V]] = deque()

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, position: int, then: Continuation[V], value: V) -> None:
        """Call `then(value)` once `position` is passed. Raises LimitExceeded when full, ValueError if out of order."""
        parked = self._parked
        if parked and position < parked[-1][0]:
            raise ValueError(f"position {position} is before {parked[-1][0]}, which is parked already")
        if len(parked) >= self._capacity:
            raise LimitExceeded(self.name, self._capacity)
        parked.append((position, then, value))
        self.parked_total += 1

    def resume_through(self, position: int) -> int:
        """Resume, in order, everything parked at or before `position`. Returns how many."""
        parked = self._parked
        count = 0
        while parked and parked[0][0] <= position:
            _, then, value = parked.popleft()
            self.resumed_total += 1
            count += 1
            then(value)
        return count

    def fail_all(self, error: HutongError) -> int:
        """Fail everything parked, in order. Returns how many."""
        count = 0
        while self._parked:
            _, then, _ = self._parked.popleft()
            self.failed_total += 1
            count += 1
            then(error)
        return count
