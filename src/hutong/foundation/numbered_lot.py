"""Numbered lot: parking for waits that begin and end a million times a second, from several threads.

Strategy: beside `ParkingLot` (a key and a timer per wait) and `OrderedLot` (positions that are passed in order), the
third shape of waiting: each wait gets a number, is ended by it in any order, and costs one entry of a dict, no timer
and no look at the clock. Waits of one timeout stand in one line, and a line is cut into generations, as memory is into
regions. A generation is open for a sixteenth of the timeout; what is left in it a timeout after it was closed has
expired. So nothing expires early, and nothing later than an eighth of its timeout and LATE_MS_MAX (a sixteenth is the
rounding up of timeouts, which keeps the lines few). A line in which nobody stands has no timer.

Numbers come in blocks out of an iterator. Taking one is a single step of the interpreter, so it needs no lock; the
bound is looked at when a block is used up; and what was parked follows from what was handed out, so nobody counts.
Whoever takes the entry out of the dict ends the wait, which is a single step as well: exactly one comes first.

Knows nothing of what is awaited. An owner has a lot of its own: its end is the lot's `close`. Timers belong to the
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
from hutong.foundation.parking import NEVER
from hutong.foundation.timers import TICK_MS, Timer, TimerWheel

V = TypeVar("V")
BLOCK_MAX: Final = 4096  # numbers that a generation holds ready
NUMBER_BITS: Final = 32  # a number is its generation's, shifted, plus one that counts within the generation
SHORT_BITS: Final = 20  # the same where a number has 31 bits
SHORT_GENERATIONS: Final = (1 << 31 - SHORT_BITS) - 1
EXPIRED_PER_TURN_MAX: Final = 500  # of one line; the loop turns before the next
LOOKED_AT_MAX: Final = 10_000  # waits of a closing generation that are asked whether they are abandoned
LATE_MS_MAX: Final = 4 * TICK_MS
_FOREVER_MS: Final = 1 << 62
_NO_NUMBERS: Final[Iterator[int]] = iter(())

Post = Callable[[Callable[[], None]], None]


class Wait(Generic[V]):
    """Who waits. A subclass says in `end` what becomes of the outcome; it is called exactly once."""

    __slots__ = ("_generation", "_number")

    _generation: "_Generation[V]"  # both are set when it is parked
    _number: int

    @property
    def is_waiting(self) -> bool:
        return self._number in self._generation.waiting

    @property
    def is_abandoned(self) -> bool:
        """Whether the waiter has lost interest without a word. The lot asks when the wait's generation is closed."""
        return False

    def end(self, outcome: V | HutongError) -> None:
        """The wait is over: by whoever resumed it, or by the error that ended it."""
        raise NotImplementedError

    def resume(self, value: V) -> bool:
        """End the wait with `value`; from any thread. False if it had already ended.

        True says that the wait has the value: whoever holds the wait can ask it, although its task may be cancelled.
        """
        if self._generation.waiting.pop(self._number, None) is None:
            return False
        self.end(value)
        return True

    def fail(self, error: HutongError) -> bool:
        """End the wait with `error`; from any thread. False if it had already ended."""
        if self._generation.waiting.pop(self._number, None) is None:
            return False
        self._generation.lot._count("failed_total")
        self.end(error)
        return True

    def abandon(self) -> bool:
        """Forget the wait without an `end`: the waiter has lost interest. False if it had already ended."""
        if self._generation.waiting.pop(self._number, None) is None:
            return False
        self._generation.lot._count("abandoned_total")
        return True


class _Generation(Generic[V]):
    """What was parked in one line in one span of time.

    `numbers` are those it may still hand out; once closed it has none, and `due_ms` says when what is left expires.
    """

    __slots__ = ("closes_ms", "due_ms", "is_closed", "lot", "next_number", "number", "numbers", "waiting")

    def __init__(self, lot: "NumberedLot[V]", number: int, closes_ms: int) -> None:
        self.lot = lot
        self.number = number
        self.waiting: dict[int, Wait[V]] = {}
        self.numbers = _NO_NUMBERS
        self.next_number = number << lot.numbers.bits
        self.closes_ms = closes_ms
        self.due_ms = 0
        self.is_closed = False


class Numbers:
    """Where numbers come from, and who waits under them. Lots may share one: then a number belongs to one of all.

    `bits` of a number count within its generation.
    """

    __slots__ = ("_generations", "_next_generation", "bits")

    def __init__(self, bits: int = NUMBER_BITS) -> None:
        self.bits = bits
        self._next_generation = itertools.count(1)
        self._generations: dict[int, _Generation[Any]] = {}

    def find(self, number: int) -> Wait[Any] | None:
        """Who waits under `number`, or None."""
        generation = self._generations.get(number >> self.bits)
        return None if generation is None else generation.waiting.get(number)

    def take(self, number: int) -> Wait[Any] | None:
        """Take out who waits under `number`, for the caller to `end`; None if nobody does (any more)."""
        generation = self._generations.get(number >> self.bits)
        return None if generation is None else generation.waiting.pop(number, None)

    def _new_generation(self) -> int:
        return next(self._next_generation)


class ShortNumbers(Numbers):
    """Numbers of 31 bits, for a protocol that has no room for more. Of one lot alone.

    The numbers of a generation that has ended come again when all others have had their turn, 2,046 generations later:
    minutes for a timeout of seconds, at any rate. Whoever answers later than that may answer another question.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        super().__init__(SHORT_BITS)
        self._last = 0

    def _new_generation(self) -> int:
        for _ in range(SHORT_GENERATIONS):
            self._last = self._last % SHORT_GENERATIONS + 1
            if self._last not in self._generations:
                return self._last
        raise LimitExceeded("short_generations", SHORT_GENERATIONS)


class Line(Generic[V]):
    """The waits of one timeout. Keep it where the timeout is always the same: `park` is then all that a wait costs."""

    __slots__ = ("_closed", "_lot", "_open", "_timer", "_timer_ms", "timeout_ms")

    def __init__(self, lot: "NumberedLot[V]", timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._lot = lot
        self._open: _Generation[V] = lot._idle
        self._closed: deque[_Generation[V]] = deque()  # oldest first, so with rising `due_ms`
        self._timer: Timer | None = None
        self._timer_ms = 0

    def park(self, wait: Wait[V]) -> None:
        """From now on `wait` is ended exactly once. Raises LimitExceeded when the lot is full; any thread may call."""
        while True:
            generation = self._open
            try:
                number = next(generation.numbers)
            except StopIteration:
                if self._lot._make_room(self, wait):
                    continue
                return
            wait._number = number
            wait._generation = generation
            generation.waiting[number] = wait
            # Another thread may have closed the generation between our look and our entry; what is entered late would
            # expire early, or never.
            if not generation.is_closed or generation.waiting.pop(number, None) is None:
                return
            self._lot._count("_unused_total")


class NumberedLot(Generic[V]):
    """Continuations under numbers, at most `capacity` at a time.

    Invariant: parked_total = resumed_total + expired_total + failed_total + abandoned_total + len(lot).
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
        self._handed_total = 0  # numbers given to generations; those not used are counted once their generation closes
        self._unused_total = 0
        self._refused_total = 0  # parked when the lot was closed: they never had a number
        self.numbers = numbers or Numbers()
        self._idle: _Generation[V] = _Generation(
            self, 0, 0
        )  # of a line in which nobody parks: no numbers, never an entry
        self._idle.is_closed = True
        self._lines: dict[int, Line[V]] = {}
        self._ended: HutongError | None = None
        self._lock = threading.Lock()  # of all but the entries themselves

    def __len__(self) -> int:
        return sum([len(generation.waiting) for generation in self._living()])

    @property
    def parked_total(self) -> int:
        unused = sum([length_hint(line._open.numbers) for line in list(self._lines.values())])
        return self._handed_total - self._unused_total - unused + self._refused_total

    @property
    def resumed_total(self) -> int:
        return self.parked_total - self.expired_total - self.failed_total - self.abandoned_total - len(self)

    @property
    def has_ended(self) -> bool:
        return self._ended is not None

    def line(self, timeout_ms: int) -> Line[V]:
        """Where waits with this timeout stand (NEVER: without one). The same line for timeouts that round to it."""
        rounded_ms = timeout_ms if timeout_ms == NEVER else _rounded_up(timeout_ms)
        line = self._lines.get(rounded_ms)
        if line is None:
            with self._lock:
                line = self._lines.setdefault(rounded_ms, Line(self, rounded_ms))
        return line

    def close(self, error: HutongError) -> int:
        """Fail every wait, and from now on each new one at once. Returns how many."""
        with self._lock:
            self._ended = self._ended or error
            for line in self._lines.values():
                self._shut(line, 0)
            generations = list(self._living())
            for line in self._lines.values():
                line._closed.clear()
            left = [wait for generation in generations for wait in list(generation.waiting.values())]
        failed = sum([wait.fail(self._ended) for wait in left])
        for generation in generations:
            self.numbers._generations.pop(generation.number, None)
        self._post(self._stop_timers)
        return failed

    def check_invariants(self) -> None:
        """For one thread alone with the lot, when what was posted has been done."""
        ended = self.resumed_total + self.expired_total + self.failed_total + self.abandoned_total
        assert self.parked_total == ended + len(self)
        assert self.resumed_total >= 0
        assert len(self) <= self._capacity
        assert not self._idle.waiting
        for line in self._lines.values():
            generations = [*line._closed, *([] if line._open is self._idle else [line._open])]
            assert all(self.numbers._generations[generation.number] is generation for generation in generations)
            assert all(generation.is_closed for generation in line._closed)
            dues_ms = [generation.due_ms for generation in line._closed]
            assert dues_ms == sorted(dues_ms)
            assert not generations or line.timeout_ms == NEVER or line._timer is not None
        assert all(
            number >> self.numbers.bits == generation.number and wait._generation is generation
            for generation in self._living()
            for number, wait in generation.waiting.items()
        )

    def forget_abandoned(self) -> int:
        """Abandon now what would be found abandoned by and by. Returns how many."""
        before = self.abandoned_total
        with self._lock:
            for generation in self._living():
                self._forget(generation, len(generation.waiting))
        return self.abandoned_total - before

    def _forget(self, generation: "_Generation[V]", looked_at_max: int) -> None:
        for wait in list(islice(generation.waiting.values(), looked_at_max)):
            if wait.is_abandoned and generation.waiting.pop(wait._number, None) is not None:
                self.abandoned_total += 1

    def _living(self) -> Iterator["_Generation[V]"]:
        """The generations in which somebody may wait."""
        for line in list(self._lines.values()):
            yield from list(line._closed)
            yield line._open

    def _count(self, figure: str) -> None:
        with self._lock:
            setattr(self, figure, getattr(self, figure) + 1)

    def _make_room(self, line: Line[V], wait: Wait[V]) -> bool:
        """Give the line numbers to hand out; False if the lot has ended, and so the wait with it."""
        with self._lock:
            if self._ended is None:
                opened = self._supply(line)
            else:
                self._refused_total += 1
                self.failed_total += 1
        if self._ended is not None:
            wait._number, wait._generation = -1, self._idle
            wait.end(self._ended)
            return False
        if opened and line.timeout_ms != NEVER:
            self._post(lambda: self._arm(line))
        return True

    def _supply(self, line: Line[V]) -> bool:
        """Another block for the open generation of `line`; True if one had to be opened."""
        generation = line._open
        if length_hint(generation.numbers):
            return False  # another thread was here first
        room = self._capacity - len(self) - sum([length_hint(other._open.numbers) for other in self._lines.values()])
        if room < 1:
            room += self._take_back(line)
        if room < 1:
            raise LimitExceeded(self.name, self._capacity)
        if generation.next_number + BLOCK_MAX > generation.number + 1 << self.numbers.bits:
            self._shut(line, _FOREVER_MS if line.timeout_ms == NEVER else self._clock.monotonic_ms() + line.timeout_ms)
            generation = line._open
        opened = generation is self._idle
        if opened:
            closes_ms = 0 if line.timeout_ms == NEVER else self._clock.monotonic_ms() + _span_ms(line.timeout_ms)
            generation = _Generation(self, self.numbers._new_generation(), closes_ms)
            self.numbers._generations[generation.number] = generation
        first, size = generation.next_number, min(room, BLOCK_MAX)
        generation.next_number += size
        generation.numbers = iter(range(first, first + size))
        self._handed_total += size
        line._open = generation
        return opened

    def _take_back(self, line: Line[V]) -> int:
        """The room that other lines keep ready, so that the bound is exact."""
        taken = 0
        for other in self._lines.values():
            if other is not line:
                taken += length_hint(other._open.numbers)
                other._open.numbers = _NO_NUMBERS
        self._unused_total += taken
        return taken

    def _shut(self, line: Line[V], due_ms: int) -> None:
        """Close the open generation; if nobody waits in it, it is gone."""
        generation = line._open
        if generation is self._idle:
            return
        line._open = self._idle
        generation.is_closed = True
        generation.due_ms = due_ms
        self._unused_total += length_hint(generation.numbers)
        generation.numbers = _NO_NUMBERS
        self._forget(generation, LOOKED_AT_MAX)
        if generation.waiting:
            line._closed.append(generation)
        else:
            del self.numbers._generations[generation.number]

    def _arm(self, line: Line[V]) -> None:
        """Have `_look` called when the line's open generation closes or its oldest closed one is due."""
        times_ms = [generation.due_ms for generation in islice(line._closed, 1)]
        if line._open is not self._idle:
            times_ms.append(line._open.closes_ms)
        if not times_ms or self._ended is not None:
            return
        at_ms = min(times_ms)
        if line._timer is not None:
            if line._timer_ms <= at_ms:
                return
            line._timer.cancel()
        line._timer_ms = at_ms
        line._timer = self._wheel.add(at_ms, lambda: self._look(line))

    def _look(self, line: Line[V]) -> None:
        if line._timer is not None:
            line._timer.cancel()
            line._timer = None
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            if line._open is not self._idle and line._open.closes_ms <= now_ms:
                self._shut(line, now_ms + line.timeout_ms)
        try:
            self._expire(line, now_ms)
        finally:
            if line._closed and line._closed[0].due_ms <= now_ms:
                self._post(lambda: self._look(line))
            else:
                self._arm(line)

    def _expire(self, line: Line[V], now_ms: int) -> None:
        error = Expired(f"nothing came in time ({self.name})")
        left = EXPIRED_PER_TURN_MAX
        while line._closed and (line._closed[0].due_ms <= now_ms or not line._closed[0].waiting):
            waiting = line._closed[0].waiting
            for number in list(islice(waiting, left)):
                wait = waiting.pop(number, None)
                if wait is not None:
                    left -= 1
                    self.expired_total += 1
                    wait.end(error)
            if waiting:
                return
            with self._lock:
                self.numbers._generations.pop(line._closed.popleft().number, None)

    def _stop_timers(self) -> None:
        for line in self._lines.values():
            if line._timer is not None:
                line._timer.cancel()
                line._timer = None


def _span_ms(timeout_ms: int) -> int:
    """For how long a generation is open."""
    return max(timeout_ms >> 4, TICK_MS)


def _rounded_up(timeout_ms: int) -> int:
    """The next number with at most five binary digits before its zeros, so by less than a sixteenth."""
    timeout_ms = max(timeout_ms, 0)
    shift = max(0, timeout_ms.bit_length() - 5)
    return -(-timeout_ms >> shift) << shift
