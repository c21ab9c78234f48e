"""Parking: the one primitive for every wait. A continuation is parked under a key, with a deadline and an owner.

Strategy: a parked continuation ends exactly once: resumed with a value, expired by the timer wheel, or failed together
with its owner or its lot. Whoever comes first takes it out of the other two places, so every step costs the same
however many are parked. Almost every key holds one continuation at a time, so a key maps to the ticket itself and
only to a queue of tickets when there are several.

A wait that cannot begin, because its owner or its lot has ended, ends at once inside `park`. A continuation that raises
is our fault: the error passes through `resume`, `end` or `advance`, and those not yet ended stay parked.

`resume` says whether the wait took the value. A coroutine whose task was cancelled does not take it, although the task
has not run since: the value is for the next wait under the key, or `resume` returns False. A task that is cancelled
after its wait took a value, and before it runs, gives the value back (`give_back` of `wait`). So of a value that was
taken one coroutine returns from `wait` with it, or it is given back.

Knows nothing of what is awaited, nor of threads: a lot belongs to one loop.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from hutong.foundation.errors import Expired, HutongError, LimitExceeded, OwnerGone
from hutong.foundation.timers import Timer, TimerWheel

if TYPE_CHECKING:
    import asyncio

V = TypeVar("V")
Continuation = Callable[[V | HutongError], None]
NEVER: Final = -1
"""As a timeout of an ordered lot: the wait has no deadline."""


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
        """End the wait with `value`. False if it had already ended, or its task has been cancelled."""
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


class _Awaited(Parked[V]):
    """A parked coroutine. Its future is cancelled with its task, a turn of the loop before the task can say so."""

    __slots__ = ("future",)

    def __init__(self, lot: "ParkingLot[V]", key: Hashable, future: "asyncio.Future[V]", owner: Owner | None) -> None:
        super().__init__(lot, key, self.settle, owner)
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


class ParkingLot(Generic[V]):
    """Continuations parked under keys, at most `capacity` at a time.

    Invariant: parked_total = resumed_total + expired_total + failed_total + abandoned_total + len(lot). Of the resumed,
    given_back_total were cancelled before they ran.
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

        `deadline_ms` is absolute, in monotonic milliseconds. Raises LimitExceeded when the lot is full.
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
        """Fail every wait of the lot, and from now on each new one at once. Returns how many."""
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


_Batch = tuple[int, int, Iterator[tuple[Continuation[V], V]]]
"""What was parked together: position, deadline, and what is left of it, oldest first."""


class _Line(Generic[V]):
    """The batches of one timeout, so positions and deadlines both rise. `timer` is set for the oldest, or earlier."""

    __slots__ = ("batches", "timeout_ms", "timer")

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.batches: deque[_Batch[V]] = deque()
        self.timer: Timer | None = None


class OrderedLot(Generic[V]):
    """Continuations parked at a rising position: acknowledgements that wait for a flush.

    Positions never decrease, so plain queues are enough: no keys, no tickets. Nor does a deadline cost anything while
    all goes well: what is parked with the same timeout stands in one line, whose deadlines rise, so one timer for the
    oldest is enough, and that is looked at again only when it fires. Timeouts are rounded up, by an eighth at most, so
    that there are few lines whatever is asked for.

    Resumed is in the order of positions; at one position, those of one timeout in the order in which they came.
    Invariant: parked_total = resumed_total + expired_total + failed_total + len(lot).
    """

    __slots__ = (
        "_capacity",
        "_foremost",
        "_last_position",
        "_lines",
        "_wheel",
        "expired_total",
        "failed_total",
        "name",
        "parked_total",
        "resumed_total",
    )

    def __init__(self, name: str, wheel: TimerWheel, capacity: int) -> None:
        self.name = name
        self.parked_total = 0
        self.resumed_total = 0
        self.expired_total = 0
        self.failed_total = 0
        self._wheel = wheel
        self._capacity = capacity
        self._last_position = 0
        self._lines: dict[int, _Line[V]] = {}
        self._foremost: _Line[V] | None = None  # whose oldest batch has the least position; None while nothing waits

    @property
    def is_empty(self) -> bool:
        return self._foremost is None

    def __len__(self) -> int:
        return self.parked_total - self.resumed_total - self.expired_total - self.failed_total

    def park(
        self,
        position: int,
        waits: "Sequence[tuple[Continuation[V], V]]",
        *,
        timeout_ms: int = NEVER,
        now_ms: int = 0,
    ) -> None:
        """Call `then(value)` for each (then, value) once `position` is passed, or `then(Expired)` after `timeout_ms`.

        `now_ms` is monotonic time; it and the position never decrease. Raises LimitExceeded, with nothing parked, when
        there are too many, and ValueError if out of order.
        """
        if position < self._last_position:
            raise ValueError(f"position {position} is before {self._last_position}, where some were parked already")
        if len(self) + len(waits) > self._capacity:
            raise LimitExceeded(self.name, self._capacity)
        self._last_position = position
        if timeout_ms != NEVER:
            timeout_ms = _rounded_up(timeout_ms)
        line = self._lines.get(timeout_ms)
        if line is None:
            line = self._lines[timeout_ms] = _Line(timeout_ms)
        line.batches.append((position, 0 if timeout_ms == NEVER else now_ms + timeout_ms, iter(waits)))
        self.parked_total += len(waits)
        if self._foremost is None:
            self._foremost = line
        if line.timer is None and timeout_ms != NEVER:
            self._arm(line)

    def resume_through(self, position: int) -> int:
        """Resume, in order, everything parked at or before `position`. Returns how many."""
        before = self.resumed_total
        while (line := self._foremost) is not None and line.batches[0][0] <= position:
            for then, value in line.batches[0][2]:
                self.resumed_total += 1
                then(value)
            self._drop_ended(line)
        return self.resumed_total - before

    def fail_all(self, error: HutongError) -> int:
        """Fail everything parked, in order. Returns how many."""
        before = self.failed_total
        while (line := self._foremost) is not None:
            for then, _ in line.batches[0][2]:
                self.failed_total += 1
                then(error)
            self._drop_ended(line)
        return self.failed_total - before

    def stop_timers(self) -> None:
        """The owner ends: nothing expires any more. What is parked can still be resumed or failed."""
        for line in self._lines.values():
            if line.timer is not None:
                line.timer.cancel()

    def check_invariants(self) -> None:
        for line in self._lines.values():
            ordered = [(position, deadline_ms) for position, deadline_ms, _ in line.batches]
            assert ordered == sorted(ordered)
            if ordered:
                assert self._foremost is not None
                assert self._foremost.batches[0][0] <= ordered[0][0]
            assert line.timeout_ms == NEVER or line.timer is not None
        assert len(self) == sum(length_hint(waits) for line in self._lines.values() for _, _, waits in line.batches)

    def _drop_ended(self, line: "_Line[V]") -> None:
        """Drop the line's oldest batch if nothing is left of it: a continuation may have ended more meanwhile."""
        batches = line.batches
        if batches and not length_hint(batches[0][2]):
            batches.popleft()
        foremost = line if batches else None
        if len(self._lines) > 1:
            waiting = [line for line in self._lines.values() if line.batches]
            foremost = min(waiting, key=lambda line: line.batches[0][0], default=None)
        self._foremost = foremost

    def _arm(self, line: "_Line[V]") -> None:
        line.timer = self._wheel.add(line.batches[0][1], lambda: self._expire(line))

    def _expire(self, line: "_Line[V]") -> None:
        """End what is overdue, and look again when the then oldest is due; a line that nobody stands in goes."""
        error = Expired(f"nothing came in time ({self.name})")
        try:
            while line.batches and line.batches[0][1] <= self._wheel.now_ms:
                for then, _ in line.batches[0][2]:
                    self.expired_total += 1
                    then(error)
                self._drop_ended(line)
        finally:
            if line.batches:
                self._arm(line)
            else:
                del self._lines[line.timeout_ms]


def _rounded_up(timeout_ms: int) -> int:
    """The next number with at most four binary digits before its zeros, so by less than an eighth."""
    timeout_ms = max(timeout_ms, 0)
    shift = max(0, timeout_ms.bit_length() - 4)
    return -(-timeout_ms >> shift) << shift
