"""A wall clock for lengths of time: it keeps the pace of the monotonic clock where somebody sets the machine's clock.

Strategy: a difference between both clocks is slewed, never jumped over: by 500 parts per million of the time that has
passed, as adjtime(3) does in Linux. So a time-out that is stored as wall time lasts as long as it should within one
process, and drift is followed all the same. After a restart the machine's clock is believed.

Knows nothing of what the lengths are for. What is deleted by its age has a clock of its own, `DeletionClock`.
"""

from typing import Final

from hutong.foundation.clock import Clock

SLEW_OF_A_MILLION: Final = 500


class SteadyClock:
    """A `Clock` whose wall time never goes back and never jumps."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at_us = clock.monotonic_us()
        self._wall_us = clock.wall_ms() * 1000.0  # when it was that time

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()

    def monotonic_us(self) -> int:
        return self._clock.monotonic_us()

    def wall_ms(self) -> int:
        at_us = self._clock.monotonic_us()
        passed_us = at_us - self._at_us
        behind_us = self._clock.wall_ms() * 1000.0 - (self._wall_us + passed_us)
        slewed_us = passed_us * SLEW_OF_A_MILLION / 1_000_000
        self._at_us = at_us
        self._wall_us += passed_us + max(-slewed_us, min(slewed_us, behind_us))
        return int(self._wall_us // 1000)
