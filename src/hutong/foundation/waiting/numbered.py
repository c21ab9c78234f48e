"""Numbered wait table: waits that begin and end a million times a second, from several threads.

Strategy: `WaitTable` pays for a key and a timer per wait. Here each wait gets a number, is ended by it in any order,
and costs one dictionary entry: no timer, no reading of the clock. Waits of one timeout share a queue, and a queue is
cut into generations, as memory is into regions. A generation is open for a sixteenth of the timeout. Its waits expire a
timeout after it was closed. So no wait expires early, and none later than an eighth of its timeout plus LATE_MS_MAX; a
sixteenth of that comes from rounding timeouts up, which keeps the queues few. An empty queue has no timer.

Numbers come in blocks out of an iterator. Taking one is a single step of the interpreter, so it needs no lock. The
capacity is checked when a block is used up. The count of parked waits follows from the numbers handed out, so no wait
is counted. The thread that removes the dictionary entry ends the wait; that is a single step too, so exactly one wins.

Knows nothing of what is awaited. An owner has a table of its own: its end is the table's `close`. Timers belong to the
thread of the wheel; `post` brings work there.
"""

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from operator import length_hint
from typing import Any, Final, Generic, TypeVar

from hutong.foundation.clock import Clock
from hutong.foundation.errors import Expired, HutongError, LimitExceeded
from hutong.foundation.timers import TICK_MS, Timer, TimerWheel
from hutong.foundation.waiting.table import NEVER

V = TypeVar("V")
BLOCK_MAX: Final = 4096  # numbers that a generation holds ready
NUMBER_BITS: Final = 32  # a number is its generation's, shifted, plus one that counts within the generation
SHORT_BITS: Final = 20  # the same where a number has 31 bits
SHORT_GENERATIONS: Final = (1 << 31 - SHORT_BITS) - 1
EXPIRED_TOGETHER_MAX: Final = 500  # of one queue; the loop runs other work before the next
CHECKED_MAX: Final = 10_000  # waits of a closing generation that are asked if they are abandoned
LATE_MS_MAX: Final = 4 * TICK_MS
_FOREVER_MS: Final = 1 << 62
_NO_NUMBERS: Final[Iterator[int]] = iter(())

Post = Callable[[Callable[[], None]], None]


class NumberedWait(Generic[V]):
    """One wait. A subclass handles the outcome in `end`, which is called exactly once."""

    __slots__ = ("_generation", "_number")

    _generation: "_Generation[V]"  # both are set when it is parked
    _number: int

    @property
    def is_waiting(self) -> bool:
        return self._number in self._generation.waiting

    @property
    def is_abandoned(self) -> bool:
        """True when the waiter gave up without `abandon`. The table asks when the wait's generation closes."""
        return False

    def end(self, outcome: V | HutongError) -> None:
        """Handle the outcome: the value of `resume`, or the error that ended the wait."""
        raise NotImplementedError

    def resume(self, value: V) -> bool:
        """End the wait with `value`; from any thread. False if it had already ended.

        After True the wait has the value, although its task may be cancelled: holders of the wait can ask it.
        """
        if self._generation.waiting.pop(self._number, None) is None:
            return False
        self.end(value)
        return True

    def fail(self, error: HutongError) -> bool:
        """End the wait with `error`; from any thread. False if it had already ended."""
        if self._generation.waiting.pop(self._number, None) is None:
            return False
        self._generation.table._count("failed_total")
        self.end(error)
        return True

    def abandon(self) -> bool:
        """Forget the wait without an `end`, because the waiter gave up. False if it had already ended."""
        if self._generation.waiting.pop(self._number, None) is None:
            return False
        self._generation.table._count("abandoned_total")
        return True


class _Generation(Generic[V]):
    """The waits parked in one queue within one span of time.

    `numbers` are those it may still hand out, none once closed. From `due_ms` on the remaining waits expire.
    """

    __slots__ = ("closes_ms", "due_ms", "is_closed", "next_number", "number", "numbers", "table", "waiting")

    def __init__(self, table: "NumberedWaitTable[V]", number: int, closes_ms: int) -> None:
        self.table = table
        self.number = number
        self.waiting: dict[int, NumberedWait[V]] = {}
        self.numbers = _NO_NUMBERS
        self.next_number = number << table.numbers.bits
        self.closes_ms = closes_ms
        self.due_ms = 0
        self.is_closed = False


class Numbers:
    """The source of numbers and the index of waits. Tables may share one: a number then belongs to one table.

    `bits` of a number count within its generation.
    """

    __slots__ = ("_generations", "_next_generation", "bits")

    def __init__(self, bits: int = NUMBER_BITS) -> None:
        self.bits = bits
        self._next_generation = itertools.count(1)
        self._generations: dict[int, _Generation[Any]] = {}

    def find(self, number: int) -> NumberedWait[Any] | None:
        """The wait under `number`, or None."""
        generation = self._generations.get(number >> self.bits)
        return None if generation is None else generation.waiting.get(number)

    def take(self, number: int) -> NumberedWait[Any] | None:
        """Remove the wait under `number`, for the caller to `end`; None if there is none any more."""
        generation = self._generations.get(number >> self.bits)
        return None if generation is None else generation.waiting.pop(number, None)

    def _new_generation(self) -> int:
        return next(self._next_generation)


class ShortNumbers(Numbers):
    """Numbers of 31 bits, for a protocol without room for more. Of one table alone.

    The numbers of a generation that has ended are reused after 2,046 other generations: minutes for a timeout of
    seconds. A peer that answers later than that may answer another request.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        super().__init__(SHORT_BITS)
        self._last = 0

    def _new_generation(self) -> int:
        # A generation may be alive for a whole timeout, so numbers in use are skipped; all in use is a bound reached.
        for _ in range(SHORT_GENERATIONS):
            self._last = self._last % SHORT_GENERATIONS + 1
            if self._last not in self._generations:
                return self._last
        raise LimitExceeded("short_generations", SHORT_GENERATIONS)


class WaitQueue(Generic[V]):
    """The waits of one timeout. Callers with a constant timeout keep it, so that a wait costs only `park`."""

    __slots__ = ("_closed", "_open", "_table", "_timer", "_timer_ms", "timeout_ms")

    def __init__(self, table: "NumberedWaitTable[V]", timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._table = table
        self._open: _Generation[V] = table._idle
        self._closed: deque[_Generation[V]] = deque()  # oldest first, so with rising `due_ms`
        self._timer: Timer | None = None
        self._timer_ms = 0

    def park(self, wait: NumberedWait[V]) -> None:
        """Enter `wait`, to be ended exactly once; any thread may call. Raises LimitExceeded when the table is full."""
        while True:
            generation = self._open
            try:
                # `next` of a range iterator is atomic under the GIL: no lock on this path.
                number = next(generation.numbers)
            except StopIteration:
                if self._table._make_room(self, wait):
                    continue
                return
            wait._number = number
            wait._generation = generation
            generation.waiting[number] = wait
            # Another thread may close the generation between taking the number and entering the wait. A wait entered
            # after the close would expire early or never, so it is taken out again and gets a new number.
            if not generation.is_closed or generation.waiting.pop(number, None) is None:
                return
            self._table._count("_unused_total")


class NumberedWaitTable(Generic[V]):
    """Continuations under numbers, at most `capacity` at a time.

    Invariant: parked_total = resumed_total + expired_total + failed_total + abandoned_total + len(table).
    """

    def __init__(
        self, name: str, wheel: TimerWheel, clock: Clock, capacity: int, post: Post, numbers: Numbers | None = None
    ) -> None:
        self.name = name
        self.expired_total = 0
        self.failed_total = 0
        self.abandoned_total = 0
        self._wheel = wheel
        self._clock = clock
        self._capacity = capacity
        self._post = post
        self._handed_total = 0  # numbers given to generations; unused ones are subtracted when their generation closes
        self._unused_total = 0
        self._refused_total = 0  # parked when the table was closed: they never had a number
        self.numbers = numbers or Numbers()
        self._idle: _Generation[V] = _Generation(self, 0, 0)  # of a queue without waits: no numbers, never an entry
        self._idle.is_closed = True
        self._queues: dict[int, WaitQueue[V]] = {}
        self._ended: HutongError | None = None
        self._lock = threading.Lock()  # of all but the entries themselves

    def __len__(self) -> int:
        return sum([len(generation.waiting) for generation in self._living()])

    @property
    def parked_total(self) -> int:
        unused = sum([length_hint(queue._open.numbers) for queue in list(self._queues.values())])
        return self._handed_total - self._unused_total - unused + self._refused_total

    @property
    def resumed_total(self) -> int:
        return self.parked_total - self.expired_total - self.failed_total - self.abandoned_total - len(self)

    @property
    def has_ended(self) -> bool:
        return self._ended is not None

    def queue(self, timeout_ms: int) -> WaitQueue[V]:
        """The queue for this timeout (NEVER: without one); the same one for all timeouts that round to it."""
        rounded_ms = timeout_ms if timeout_ms == NEVER else _rounded_up(timeout_ms)
        queue = self._queues.get(rounded_ms)
        if queue is None:
            with self._lock:
                # Another thread may have made it between the look-up and the lock.
                queue = self._queues.setdefault(rounded_ms, WaitQueue(self, rounded_ms))
        return queue

    def close(self, error: HutongError) -> int:
        """Fail every wait, and from now on each new one at once. Returns the number failed."""
        with self._lock:  # waits parked meanwhile find no numbers, come to `_make_room` and see `_ended`
            self._ended = self._ended or error
            for queue in self._queues.values():
                self._close_generation(queue, 0)
            generations = list(self._living())
            for queue in self._queues.values():
                queue._closed.clear()
            left = [wait for generation in generations for wait in list(generation.waiting.values())]
        # Outside the lock: a continuation may park another wait, which needs it.
        failed = sum([wait.fail(self._ended) for wait in left])
        for generation in generations:
            self.numbers._generations.pop(generation.number, None)
        # The wheel belongs to its loop, and any thread may close the table.
        self._post(self._stop_timers)
        return failed

    def check_invariants(self) -> None:
        """Check the books; for a single thread, after all posted work is done."""
        ended = self.resumed_total + self.expired_total + self.failed_total + self.abandoned_total
        assert self.parked_total == ended + len(self)
        assert self.resumed_total >= 0
        assert len(self) <= self._capacity
        assert not self._idle.waiting
        for queue in self._queues.values():
            generations = [*queue._closed, *([] if queue._open is self._idle else [queue._open])]
            assert all(self.numbers._generations[generation.number] is generation for generation in generations)
            assert all(generation.is_closed for generation in queue._closed)
            dues_ms = [generation.due_ms for generation in queue._closed]
            assert dues_ms == sorted(dues_ms)
            assert not generations or queue.timeout_ms == NEVER or queue._timer is not None
        assert all(
            number >> self.numbers.bits == generation.number and wait._generation is generation
            for generation in self._living()
            for number, wait in generation.waiting.items()
        )

    def forget_abandoned(self) -> int:
        """Abandon now the waits whose waiters gave up without `abandon`. Returns their number."""
        before = self.abandoned_total
        with self._lock:
            for generation in self._living():
                self._forget(generation, len(generation.waiting))
        return self.abandoned_total - before

    def _forget(self, generation: "_Generation[V]", checked_max: int) -> None:
        for wait in list(islice(generation.waiting.values(), checked_max)):
            # A cancelled asyncio task calls nothing of ours: only its future shows it, so the waits are asked.
            if wait.is_abandoned and generation.waiting.pop(wait._number, None) is not None:
                self.abandoned_total += 1

    def _living(self) -> Iterator["_Generation[V]"]:
        """The generations that may contain waits."""
        for queue in list(self._queues.values()):
            yield from list(queue._closed)
            yield queue._open

    def _count(self, figure: str) -> None:
        with self._lock:
            setattr(self, figure, getattr(self, figure) + 1)

    def _make_room(self, queue: WaitQueue[V], wait: NumberedWait[V]) -> bool:
        """Give the queue more numbers. False if the table has ended; the wait has ended with it then."""
        with self._lock:
            if self._ended is None:
                opened = self._supply_numbers(queue)
            else:
                self._refused_total += 1
                self.failed_total += 1
        # Ended outside the lock, as every wait is: the continuation may park another one.
        if self._ended is not None:
            wait._number, wait._generation = -1, self._idle
            wait.end(self._ended)
            return False
        # The wheel belongs to its loop, and this may be any thread. Only the first wait of a generation posts.
        if opened and queue.timeout_ms != NEVER:
            self._post(lambda: self._arm(queue))
        return True

    def _supply_numbers(self, queue: WaitQueue[V]) -> bool:
        """Supply the open generation of `queue` with a block of numbers; True if a generation was opened for it."""
        generation = queue._open
        if length_hint(generation.numbers):
            return False  # another thread supplied it while this one waited for the lock
        # Numbers that a generation holds ready count as taken, because a thread takes one of them without the lock.
        room = self._capacity - len(self) - sum([length_hint(other._open.numbers) for other in self._queues.values()])
        if room < 1:  # other queues may hold unused numbers, up to BLOCK_MAX each
            room += self._reclaim_numbers(queue)
        if room < 1:
            raise LimitExceeded(self.name, self._capacity)
        # The generation's numbers are used up before its time: the rest of its waits expire together.
        if generation.next_number + BLOCK_MAX > generation.number + 1 << self.numbers.bits:
            self._close_generation(
                queue, _FOREVER_MS if queue.timeout_ms == NEVER else self._clock.monotonic_ms() + queue.timeout_ms
            )
            generation = queue._open
        opened = generation is self._idle
        if opened:
            closes_ms = 0 if queue.timeout_ms == NEVER else self._clock.monotonic_ms() + _span_ms(queue.timeout_ms)
            generation = _Generation(self, self.numbers._new_generation(), closes_ms)
            self.numbers._generations[generation.number] = generation
        first, size = generation.next_number, min(room, BLOCK_MAX)
        generation.next_number += size
        # A block at a time: the capacity is enforced here and not for each wait.
        generation.numbers = iter(range(first, first + size))
        self._handed_total += size
        queue._open = generation
        return opened

    def _reclaim_numbers(self, queue: WaitQueue[V]) -> int:
        """Reclaim the unused numbers of other queues, so that the bound is exact."""
        taken = 0
        for other in self._queues.values():
            if other is not queue:
                taken += length_hint(other._open.numbers)
                other._open.numbers = _NO_NUMBERS
        self._unused_total += taken
        return taken

    def _close_generation(self, queue: WaitQueue[V], due_ms: int) -> None:
        """Close the open generation; without waits it is dropped at once."""
        generation = queue._open
        # The table's own empty generation serves as "none", so that `park` needs no test for it.
        if generation is self._idle:
            return
        queue._open = self._idle
        generation.is_closed = True
        generation.due_ms = due_ms
        self._unused_total += length_hint(generation.numbers)
        generation.numbers = _NO_NUMBERS
        # A bounded share of the waits whose waiters gave up, so that closing stays cheap.
        self._forget(generation, CHECKED_MAX)
        if generation.waiting:
            queue._closed.append(generation)
        else:
            del self.numbers._generations[generation.number]

    def _arm(self, queue: WaitQueue[V]) -> None:
        """Set the timer for the close of the open generation, or for the expiry of the oldest closed one."""
        times_ms = [generation.due_ms for generation in islice(queue._closed, 1)]
        if queue._open is not self._idle:
            times_ms.append(queue._open.closes_ms)
        # Nothing to expire, or the table has ended, which stops the timers for good.
        if not times_ms or self._ended is not None:
            return
        at_ms = min(times_ms)
        if queue._timer is not None:
            # An earlier timer checks the queue and arms again: cheaper than moving it.
            if queue._timer_ms <= at_ms:
                return
            queue._timer.cancel()
        queue._timer_ms = at_ms
        queue._timer = self._wheel.add(at_ms, lambda: self._check_queue(queue))

    def _check_queue(self, queue: WaitQueue[V]) -> None:
        if queue._timer is not None:
            queue._timer.cancel()
            queue._timer = None
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            # The timer may be early (see `_arm`): then nothing is due, and it is set again below.
            if queue._open is not self._idle and queue._open.closes_ms <= now_ms:
                # From the close on, so that the youngest wait has its whole timeout; the oldest waits a sixteenth
                # longer.
                self._close_generation(queue, now_ms + queue.timeout_ms)
        try:
            self._expire(queue, now_ms)
        finally:  # also after a wait's `end` that raised: those behind it must still expire
            if queue._closed and queue._closed[0].due_ms <= now_ms:
                self._post(lambda: self._check_queue(queue))
            else:
                self._arm(queue)

    def _expire(self, queue: WaitQueue[V], now_ms: int) -> None:
        error = Expired(f"nothing came in time ({self.name})")
        left = EXPIRED_TOGETHER_MAX
        while queue._closed and (queue._closed[0].due_ms <= now_ms or not queue._closed[0].waiting):
            waiting = queue._closed[0].waiting
            for number in list(islice(waiting, left)):
                wait = waiting.pop(number, None)
                # None: another thread ended it between the snapshot and here.
                if wait is not None:
                    left -= 1
                    self.expired_total += 1
                    wait.end(error)
            if waiting:
                return  # `_check_queue` posts the rest, so that a mass expiry does not block the loop
            # Under the lock, since `ShortNumbers` reuses a generation's number once it is gone from here.
            with self._lock:
                self.numbers._generations.pop(queue._closed.popleft().number, None)

    def _stop_timers(self) -> None:
        for queue in self._queues.values():
            if queue._timer is not None:
                queue._timer.cancel()
                queue._timer = None


def _span_ms(timeout_ms: int) -> int:
    """The time for which a generation is open."""
    return max(timeout_ms >> 4, TICK_MS)


def _rounded_up(timeout_ms: int) -> int:
    """Round up to a number with at most five binary digits before its zeros: by less than a sixteenth."""
    timeout_ms = max(timeout_ms, 0)
    shift = max(0, timeout_ms.bit_length() - 5)
    return -(-timeout_ms >> shift) << shift
