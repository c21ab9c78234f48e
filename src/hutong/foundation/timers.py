"""Coarse timers: a hierarchical wheel in which adding and cancelling cost the same for every deadline.

Strategy: time is cut into ticks. A timer is kept in the level given by the highest bit in which its tick differs from
the current one, six bits a level, so a slot is only ever entered from before it and never wraps (the scheme of Tokio's
`runtime::time::wheel`; the idea is Varghese and Lauck, SOSP '87). One bitmap per level finds the next occupied slot
without a scan. A timer may fire up to one tick late, and never early.

Knows no clock and no loop: time arrives with `advance`, and `drive` names the callback for an earlier wake-up.
"""

from collections import deque
from collections.abc import Callable

TICK_MS = 10
SLOT_BITS = 6
SLOT_MASK = (1 << SLOT_BITS) - 1
LEVELS = 6  # 64^6 ticks of 10 ms are 21 years after the wheel's start: further deadlines are brought forward to that
HORIZON_TICKS = (1 << SLOT_BITS * LEVELS) - 1
NEVER_TICK = HORIZON_TICKS + 1

Callback = Callable[[], None]


class Timer:
    """One deadline. It fires once or is cancelled; both release the callback."""

    __slots__ = ("_callback", "_slot", "_tick", "_wheel")

    def __init__(self, wheel: "TimerWheel", tick: int, callback: Callback) -> None:
        self._wheel = wheel
        self._tick = tick
        self._callback: Callback | None = callback
        self._slot: dict[Timer, None] | None = None

    def cancel(self) -> bool:
        """Forget the timer. True if it would still have fired."""
        if self._callback is None:
            return False
        self._callback = None
        self._wheel._count -= 1
        # Without a slot it is in `_due`, which skips timers that have no callback. Searching the queue would cost more.
        if self._slot is not None:
            del self._slot[self]
            self._slot = None
        return True

    @property
    def is_waiting(self) -> bool:
        return self._callback is not None


class TimerWheel:
    """All timers of one loop, ticking from `start_ms` (monotonic milliseconds)."""

    def __init__(self, start_ms: int, tick_ms: int = TICK_MS) -> None:
        if tick_ms < 1:
            raise ValueError("a tick lasts at least one millisecond")
        self._start_ms = start_ms
        self._tick_ms = tick_ms
        self._tick = 0  # everything due at or before this tick has fired or is in `_due`
        self._count = 0
        self._slots: list[dict[Timer, None] | None] = [None] * (LEVELS << SLOT_BITS)
        self._occupied = [0] * LEVELS  # bit n of level l is set iff slot n of that level holds a dict
        self._due: deque[Timer] = deque()
        self._wake: Callable[[int], None] | None = None
        self._announced_tick = 0  # an earlier timer than this must be announced; 0 while nobody listens

    def __len__(self) -> int:
        return self._count

    @property
    def now_ms(self) -> int:
        """Everything due until then has fired or is being fired; the tick that a callback runs in."""
        return self._start_ms + self._tick * self._tick_ms

    def drive(self, wake: Callable[[int], None]) -> None:
        """Name the driver: `wake(at_ms)` gets the time at which `advance` is needed next; it replaces the time before.

        It is called after each `advance` that leaves timers waiting, and when an earlier timer is added.
        """
        self._wake = wake
        self._announce()

    def add(self, deadline_ms: int, callback: Callback) -> Timer:
        """Call back in the first `advance` to `deadline_ms` (absolute) or later; a past deadline one tick from now."""
        tick = (deadline_ms - self._start_ms + self._tick_ms - 1) // self._tick_ms
        # The slots up to the current tick have been entered: no level would ever fire the timer from there.
        if tick <= self._tick:
            tick = self._tick + 1
        elif tick > HORIZON_TICKS:
            tick = HORIZON_TICKS
        # Rounded up above: a timer may fire a tick late, and never early.
        timer = Timer(self, tick, callback)
        self._count += 1
        self._place(timer)
        if tick < self._announced_tick:
            self._announce()
        return timer

    def advance(self, now_ms: int) -> int:
        """Fire what is due, earlier ticks first; returns how many fired.

        A callback that raises ends the call; the others of its tick fire in the next one.
        """
        target = max(self._tick, min((now_ms - self._start_ms) // self._tick_ms, HORIZON_TICKS))
        try:
            fired = self._fire_due()
            while (step := self._next_step())[0] <= target:
                self._enter(*step)
                fired += self._fire_due()
            self._tick = target
        # Also after a callback that raised: the driver must still learn when to come back.
        finally:
            self._announce()
        return fired

    def next_deadline_ms(self) -> int | None:
        """The time at which `advance` has work next, or None while nothing waits.

        Never later than the first timer's tick; it may be earlier, where a far slot must be spread over nearer ones.
        """
        if not self._count:
            return None
        tick = self._tick if self._due else self._next_step()[0]
        return self._start_ms + tick * self._tick_ms

    def check_invariants(self) -> None:
        timers = [timer for slot in self._slots if slot for timer in slot] + [t for t in self._due if t.is_waiting]
        assert len(timers) == self._count
        for index, slot in enumerate(self._slots):
            level, position = index >> SLOT_BITS, index & SLOT_MASK
            assert (slot is not None) == bool(self._occupied[level] >> position & 1)
            if slot is not None:
                assert position > self._tick >> level * SLOT_BITS & SLOT_MASK
                assert all(timer._slot is slot for timer in slot)

    def _place(self, timer: Timer) -> None:
        tick = timer._tick
        # The highest bit that differs names the level: below it the wheel has yet to turn, above it both agree.
        level = ((tick ^ self._tick).bit_length() - 1) // SLOT_BITS
        position = tick >> level * SLOT_BITS & SLOT_MASK
        index = (level << SLOT_BITS) + position
        slot = self._slots[index]
        if slot is None:
            slot = self._slots[index] = {}
            self._occupied[level] |= 1 << position
        slot[timer] = None
        timer._slot = slot

    def _announce(self) -> None:
        if self._wake is None:
            return
        deadline_ms = self.next_deadline_ms()
        self._announced_tick = NEVER_TICK
        if deadline_ms is not None:
            self._announced_tick = (deadline_ms - self._start_ms) // self._tick_ms
            self._wake(deadline_ms)

    def _next_step(self) -> tuple[int, int]:
        """The first tick whose slot must be entered, and its level: a lower level always comes before a higher one."""
        # Levels in rising order: each slot of a level is nearer than any of the next, since it differs in a lower bit.
        for level, occupied in enumerate(self._occupied):
            if occupied:
                # The lowest set bit is the next slot: those behind the current position have been emptied already.
                position = (occupied & -occupied).bit_length() - 1
                shift = level * SLOT_BITS
                return (self._tick >> shift + SLOT_BITS << SLOT_BITS | position) << shift, level
        return NEVER_TICK, 0

    def _enter(self, tick: int, level: int) -> None:
        """Move to `tick`: its slot's timers become due, or are spread over the levels below."""
        position = tick >> level * SLOT_BITS & SLOT_MASK
        index = (level << SLOT_BITS) + position
        slot = self._slots[index] or {}
        self._slots[index] = None
        self._occupied[level] &= ~(1 << position)
        self._tick = tick
        for timer in slot:
            timer._slot = None
            # At level 0 a slot is one tick. At higher ones most timers move to a lower level, once for each level.
            if timer._tick <= tick:
                self._due.append(timer)
            else:
                self._place(timer)

    def _fire_due(self) -> int:
        fired = 0
        while self._due:
            timer = self._due.popleft()
            # Cleared before the call: a callback that cancels its own timer finds nothing to cancel.
            callback, timer._callback = timer._callback, None
            if callback is not None:
                self._count -= 1
                fired += 1
                callback()
        return fired
