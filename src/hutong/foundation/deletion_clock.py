"""The time by which things are old enough to be deleted: the wall clock's, unless that has jumped ahead.

Strategy: between two calls the wall clock advances as the monotonic one does. Where it is ahead by more than
`JUMP_MS_MIN`, nobody can tell a clock that was set wrong from one that was set right. So time continues from where it
was, at the monotonic pace, until the new time has lasted for `hold_ms`. What is deleted too late costs space;
what is deleted too early is gone. A clock that is set back is believed at once: it deletes less. A machine that was
asleep, and a node that was not running for long, look the same as a jump and are treated alike.

Knows nothing of what is deleted. Apache Kafka has no such guard: it believes every clock at once.
"""

from collections.abc import Callable
from typing import Final

from hutong.foundation.clock import Clock

JUMP_MS_MIN: Final = 600_000  # less is a correction as clocks get them, and deletes little


class DeletionClock:
    """Call `now_ms` every few minutes at least. `notify` gets a sentence about each jump and its end."""

    def __init__(
        self,
        clock: Clock,
        *,
        hold_ms: int,
        known_ms: int | None = None,
        notify: Callable[[str], None] = lambda _sentence: None,
    ) -> None:
        """`known_ms` is a time that was right before this start, None where none was; `hold_ms` 0 believes all."""
        self.ahead_ms = 0  # of the time that is gone by, while the wall clock is not believed
        self._clock = clock
        self._hold_ms = hold_ms
        self._notify = notify
        self._wall_ms = clock.wall_ms() if known_ms is None else min(known_ms, clock.wall_ms())
        self._at_ms = clock.monotonic_ms()  # when it was that time
        self._held_at_ms = 0

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        wall_ms, at_ms = self._clock.wall_ms(), self._clock.monotonic_ms()
        steady_ms = self._wall_ms + at_ms - self._at_ms
        ahead_ms = wall_ms - steady_ms
        if ahead_ms > JUMP_MS_MIN and self._hold_ms:
            # A second jump during the hold restarts it. Smaller differences are the corrections that clocks get.
            if not self.ahead_ms or ahead_ms > self.ahead_ms + JUMP_MS_MIN:
                self._hold(ahead_ms, at_ms)
            if at_ms - self._held_at_ms < self._hold_ms:
                return steady_ms
        if self.ahead_ms:
            self._notify("The clock is believed again: records, offsets and ids are deleted by their age as before.")
            self.ahead_ms = 0
        self._wall_ms, self._at_ms = wall_ms, at_ms
        return wall_ms

    def _hold(self, ahead_ms: int, at_ms: int) -> None:
        self.ahead_ms, self._held_at_ms = ahead_ms, at_ms
        self._notify(
            f"The clock is {ahead_ms // 60_000} minutes ahead of when this node knew the time last: nothing is deleted "
            f"for its age until it has kept that time for {self._hold_ms // 1000} s."
        )
