"""Memory budget of all connections: the bound, and the choice of those to pause or close. A machine without a clock.

What counts is what a connection keeps us from freeing: unfinished and waiting requests, what parked ones keep, answers
that are not sent and answers that are sent and not read.

Strategy: nothing is counted as it passes. Memory can only grow by traffic, so `step_bytes` says how much more of it may
pass until all connections must be checked again, and `judge` decides on what was found. From a half of the bound
on it is tight: a connection with a large share is paused (no further request of it begins) until that is gone, and
answers should be small. Beyond the bound the largest holder is closed, first those that did not read for a while: that
spares fast readers of large answers.

Being held does not end by itself where requests wait for minutes, or where a client is gone and its connection is not
read. While it is tight, a holder whose waiting requests and answers stayed the same for STILL_MS is closed. Input is no
reason for that: it goes by being handled, or by the deadline of its frame.

Knows nothing of connections: a holder is any hashable object.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

HOLD_FROM_BYTES: Final = 64 * 1024  # less is nobody's fault, and thousands of it are little
STALLED_MS: Final = 100  # of not reading anything of what was sent
STALLED_WEIGHT: Final = 4  # how much more a byte counts of a peer that does not read
STILL_MS: Final = 10_000  # of being held without change; a common long poll takes half a second
STEP_BYTES_MIN: Final = 1024 * 1024

HolderT = TypeVar("HolderT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Holding(Generic[HolderT]):
    """The memory of one holder: all of it, the part it does not read, and the part received and not begun."""

    holder: HolderT
    memory_bytes: int
    unread_bytes: int
    input_bytes: int = 0

    @property
    def kept_bytes(self) -> int:
        """Of requests that wait and of answers."""
        return self.memory_bytes - self.input_bytes


@dataclass(slots=True)
class MemoryVerdict(Generic[HolderT]):
    """The holders to pause, to resume and to close. None is in two of them."""

    hold: list[HolderT] = field(default_factory=list)
    resume: list[HolderT] = field(default_factory=list)
    close: list[HolderT] = field(default_factory=list)


class MemoryBudget(Generic[HolderT]):
    """`held_bytes` is what the last check found, less what was closed then.

    Invariant: a paused holder was seen in the last check, and held HOLD_FROM_BYTES or more when it was first held.
    """

    def __init__(self, bytes_max: int) -> None:
        if bytes_max < 1:
            raise ValueError("a budget has at least one byte")
        self.bytes_max = bytes_max
        self.held_bytes = 0
        self.is_tight = False
        self.holds_total = 0
        self.closed_total = 0
        self._held: dict[HolderT, tuple[int, int]] = {}  # in the order found; what it keeps, since when: (bytes, ms)
        self._unread: dict[HolderT, tuple[int, int]] = {}  # the least since when it was seen: (bytes, ms)

    @property
    def held_count(self) -> int:
        """The number of paused holders."""
        return len(self._held)

    @property
    def held(self) -> list[HolderT]:
        """Those that are held, in the order in which they were found."""
        return list(self._held)

    @property
    def step_bytes(self) -> int:
        """The traffic allowed until the next check, so that the bound is not exceeded by much."""
        return max(STEP_BYTES_MIN, (self.bytes_max - self.held_bytes) // 2)

    def judge(self, holdings: Iterable[Holding[HolderT]], now_ms: int) -> MemoryVerdict[HolderT]:
        """Decide on all holders, as they were found now."""
        # Most connections of an idle node hold nothing and need no verdict.
        seen = [holding for holding in holdings if holding.memory_bytes]
        self.held_bytes = sum(holding.memory_bytes for holding in seen)
        self._note_reading(seen, now_ms)
        verdict: MemoryVerdict[HolderT] = MemoryVerdict()
        # Pausing cannot free what a peer does not read: only a close does.
        if self.held_bytes > self.bytes_max:
            self._close_worst(seen, verdict, now_ms)
        # Closes above have lowered the sum: what is enough already spares the others.
        if self._held and 2 * self.held_bytes >= self.bytes_max:
            self._close_still(seen, verdict, now_ms)
        self.closed_total += len(verdict.close)
        self.is_tight = 2 * self.held_bytes >= self.bytes_max
        self._hold_or_resume(seen, verdict, now_ms)
        return verdict

    def _note_reading(self, seen: list[Holding[HolderT]], now_ms: int) -> None:
        noted: dict[HolderT, tuple[int, int]] = {}
        for holding in seen:
            if holding.unread_bytes:
                least, since_ms = self._unread.get(holding.holder, (holding.unread_bytes, now_ms))
                # New answers raise the amount, so only a new minimum proves that the peer reads.
                has_read = holding.unread_bytes < least
                noted[holding.holder] = (holding.unread_bytes, now_ms) if has_read else (least, since_ms)
        self._unread = noted

    def _close_worst(self, seen: list[Holding[HolderT]], verdict: MemoryVerdict[HolderT], now_ms: int) -> None:
        def weight(holding: Holding[HolderT]) -> int:
            _, since_ms = self._unread.get(holding.holder, (0, now_ms))
            return holding.memory_bytes * (STALLED_WEIGHT if now_ms - since_ms >= STALLED_MS else 1)

        for holding in sorted(seen, key=weight, reverse=True):
            if self.held_bytes <= self.bytes_max:
                break
            verdict.close.append(holding.holder)
            self.held_bytes -= holding.memory_bytes

    def _close_still(self, seen: list[Holding[HolderT]], verdict: MemoryVerdict[HolderT], now_ms: int) -> None:
        """Close those that keep most, of the held ones without change, until it is no longer tight."""
        closed = set(verdict.close)
        for holding in sorted(seen, key=lambda holding: holding.kept_bytes, reverse=True):
            # Sorted by what they keep: all that follow keep less.
            if 2 * self.held_bytes < self.bytes_max or holding.kept_bytes < HOLD_FROM_BYTES:
                break
            kept_bytes, since_ms = self._held.get(holding.holder, (0, now_ms))
            is_still = holding.kept_bytes == kept_bytes and now_ms - since_ms >= STILL_MS
            if is_still and holding.holder not in closed:
                verdict.close.append(holding.holder)
                self.held_bytes -= holding.memory_bytes

    def _hold_or_resume(self, seen: list[Holding[HolderT]], verdict: MemoryVerdict[HolderT], now_ms: int) -> None:
        """Keep a holder paused while memory is tight and it holds more than half of its large share."""
        closed, held = set(verdict.close), dict[HolderT, tuple[int, int]]()
        for holding in seen:
            holder = holding.holder
            if holder in closed or not self.is_tight:
                continue
            # Half the threshold for those already held: else they would flap at it.
            if 2 * holding.memory_bytes >= HOLD_FROM_BYTES * (1 if holder in self._held else 2):
                before = self._held.get(holder)
                is_same = before is not None and before[0] == holding.kept_bytes
                held[holder] = before if before and is_same else (holding.kept_bytes, now_ms)
        verdict.hold = [holder for holder in held if holder not in self._held]
        verdict.resume = [holder for holder in self._held if holder not in held and holder not in closed]
        self.holds_total += len(verdict.hold)
        self._held = held

    def check_invariants(self) -> None:
        assert self.held_bytes >= 0
        assert not self._held or self.is_tight
        assert self.is_tight == (2 * self.held_bytes >= self.bytes_max)
