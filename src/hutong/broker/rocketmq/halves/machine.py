"""The half messages that are not decided yet: who may end each, and when its producer is asked.

                     ┌──── asked (the 1st time after a while, then at intervals) ────┐
    stored ──▶ waiting ◀─────────────────────────────────────────────────────────────┘
                  │ ended by its producer, or asked too often
               deciding ── the append has failed ──▶ waiting
                  │ the decision is stored
                 gone

Strategy: nothing is kept of what is decided. The log of half messages begins at the oldest one that is not, so the
table and the log say the same after a restart.

Bounds: HALVES_MAX half messages wait, and the newest is at most SPAN_MAX behind the oldest.

Pure: times arrive with each call; events in, instructions out.
"""

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from hutong.foundation.errors import LimitExceeded

HALVES_MAX: Final = 100_000  # about 400 bytes of memory each
SPAN_MAX: Final = 1 << 26  # a start marks what is decided with one bit each: 8 MiB
CHECKS_TOGETHER_MAX: Final = 100  # each is read from the log, and sent
STALE_ENTRIES_MIN: Final = 1_000


class Half(NamedTuple):
    """The facts of a half message that decide who may end it, and when it is checked."""

    group: str
    user: str
    key: str  # the client's id of the message, empty for a client that gives none
    immunity_ms: int | None  # the time before the first check, where the message says it


@dataclass(frozen=True, slots=True)
class CheckRules:
    """The times of checks. `first_ms` is from the storage to the first check."""

    first_ms: int
    interval_ms: int
    times_max: int


class Claim(NamedTuple):
    """The client that wants to end a transaction. `is_producer`: its heartbeats or sends name the group."""

    group: str
    user: str
    keys: tuple[str, str]  # the ids of transaction and message, which are one and the same
    connection: int
    is_producer: bool


class HalfCheck(NamedTuple):
    """Instruction: ask the producer. `times` counts this one, too."""

    offset: int
    half: Half
    times: int


class GiveUp(NamedTuple):
    """Instruction: put the message aside, where it is not asked about any more."""

    offset: int


Instruction = HalfCheck | GiveUp


class Waiting:
    """One half message. `connection` has sent it; None after a restart.

    Unless it `is_deciding`, the heap has an entry with its `due_ms`.
    """

    __slots__ = ("connection", "due_ms", "half", "is_deciding", "times")

    def __init__(self, half: Half, connection: int | None, due_ms: int, times: int) -> None:
        self.half = half
        self.connection = connection
        self.due_ms = due_ms
        self.times = times
        self.is_deciding = False


class HalfMachine:
    """The table. `end_offset` is behind the newest half message that it has seen."""

    def __init__(self, rules: CheckRules) -> None:
        self.end_offset = 0
        self._rules = rules
        self._halves: OrderedDict[int, Waiting] = OrderedDict()  # by offset, rising
        self._due: list[tuple[int, int]] = []  # a heap of times and offsets; entries of what is decided are passed over
        self._coming = 0

    def __len__(self) -> int:
        return len(self._halves)

    @property
    def start_offset(self) -> int:
        """The oldest half message that is not decided, or the end."""
        return next(iter(self._halves), self.end_offset)

    @property
    def due_ms(self) -> int | None:
        """The time at which `due` has something to do; None if there is nothing."""
        self._forget_decided()
        return self._due[0][0] if self._due else None

    def check_invariants(self) -> None:
        """Assert what is always true between calls."""
        assert list(self._halves) == sorted(self._halves)
        assert all(offset < self.end_offset for offset in self._halves)
        due = set(self._due)
        assert all(each.is_deciding or (each.due_ms, offset) in due for offset, each in self._halves.items())
        assert len(self._due) <= 2 * len(self._halves) + STALE_ENTRIES_MIN + 1
        assert self._coming >= 0

    # -- storing

    def expect(self) -> None:
        """Keep a place for a half message that is on its way to the log. Raises LimitExceeded."""
        if len(self._halves) + self._coming >= HALVES_MAX:
            raise LimitExceeded("HALVES_MAX", HALVES_MAX)
        if self.end_offset - self.start_offset >= SPAN_MAX:
            raise LimitExceeded("SPAN_MAX", SPAN_MAX)
        self._coming += 1

    def not_stored(self) -> None:
        """Give the place back: the append has failed."""
        self._coming -= 1

    def stored(self, offset: int, half: Half, connection: int, now_ms: int) -> None:
        """Wait for the end of a half message that is in the log."""
        self._coming -= 1
        self._add(offset, Waiting(half, connection, now_ms + self._first_ms(half), 0))

    def found(self, offset: int, half: Half, times: int, age_ms: int, now_ms: int) -> None:
        """Wait for the end of a half message that an earlier life of the node has stored."""
        # Its producer needs some time, too, until it is connected again.
        wait_ms = max(self._rules.first_ms, self._first_ms(half) - max(0, age_ms))
        self._add(offset, Waiting(half, None, now_ms + wait_ms, times))

    def passed(self, offset: int) -> None:
        """Note a record that nobody waits for."""
        self.end_offset = max(self.end_offset, offset + 1)

    # -- ending

    def end(self, offset: int, claim: Claim) -> bool:
        """Begin to decide as a client wants it. False, with nothing changed, where it is not its to end, or decided."""
        waiting = self._halves.get(offset)
        if waiting is None or waiting.is_deciding or not _may_end(waiting, claim):
            return False
        waiting.is_deciding = True
        return True

    def failed(self, offset: int, now_ms: int) -> None:
        """Wait for another end, or another check: the decision could not be stored."""
        waiting = self._halves[offset]
        waiting.is_deciding = False
        waiting.due_ms = now_ms + self._rules.interval_ms
        self._push(waiting.due_ms, offset)

    def decided(self, offset: int) -> None:
        """Forget a half message whose decision is stored."""
        del self._halves[offset]
        self._bound_heap()

    # -- asking

    def due(self, now_ms: int) -> Iterator[Instruction]:
        """Yield what is due, at most CHECKS_TOGETHER_MAX: `due_ms` shows the rest."""
        for _ in range(CHECKS_TOGETHER_MAX):
            self._forget_decided()
            if not self._due or self._due[0][0] > now_ms:
                return
            _, offset = heapq.heappop(self._due)
            waiting = self._halves[offset]
            if waiting.times >= self._rules.times_max:
                waiting.is_deciding = True
                yield GiveUp(offset)
                continue
            waiting.times += 1
            waiting.due_ms = now_ms + self._rules.interval_ms
            self._push(waiting.due_ms, offset)
            yield HalfCheck(offset, waiting.half, waiting.times)

    def _first_ms(self, half: Half) -> int:
        return self._rules.first_ms if half.immunity_ms is None else half.immunity_ms

    def _add(self, offset: int, waiting: Waiting) -> None:
        assert offset >= self.end_offset, "half messages come in order"
        self.end_offset = offset + 1
        self._halves[offset] = waiting
        self._push(waiting.due_ms, offset)

    def _push(self, due_ms: int, offset: int) -> None:
        heapq.heappush(self._due, (due_ms, offset))
        self._bound_heap()

    def _bound_heap(self) -> None:
        # What is decided soon leaves its entry until it would be due, which may be days.
        if len(self._due) > 2 * len(self._halves) + STALE_ENTRIES_MIN:
            self._due = [entry for entry in self._due if self._is_current(entry)]
            heapq.heapify(self._due)

    def _forget_decided(self) -> None:
        while self._due and not self._is_current(self._due[0]):
            heapq.heappop(self._due)

    def _is_current(self, entry: tuple[int, int]) -> bool:
        due_ms, offset = entry
        waiting = self._halves.get(offset)
        return waiting is not None and not waiting.is_deciding and waiting.due_ms == due_ms


def _may_end(waiting: Waiting, claim: Claim) -> bool:
    """Return True for the connection that sent it, or one whose heartbeats name its group; always of the same user."""
    half = waiting.half
    is_known = claim.is_producer or claim.connection == waiting.connection
    # The id is the client's own, and hard to guess: offsets are not.
    is_meant = not half.key or half.key in claim.keys
    return is_known and is_meant and (claim.group, claim.user) == (half.group, half.user)
