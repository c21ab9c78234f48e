"""The rate of bytes at which all users of a console read together.

Strategy: what was read is counted, and the next read waits for its turn. Decides nothing about what is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.console.limits import READ_WAIT_MS_MAX, RECORDS_BYTES_PER_S
from hutong.foundation.pace import BytePace
from hutong.rest.errors import too_many

if TYPE_CHECKING:
    from hutong.console.streams import Pause
    from hutong.foundation.clock import Clock


class ReadBudget:
    """Counted on any thread, waited for on the loop."""

    def __init__(self, clock: Clock, pause: Pause, bytes_per_s: int = RECORDS_BYTES_PER_S) -> None:
        self._clock = clock
        self._pause = pause
        self._pace = BytePace(bytes_per_s)

    def count(self, size_bytes: int) -> None:
        self._pace.count(size_bytes, self._clock.monotonic_ms())

    def due_in_ms(self) -> int:
        """The time until more may be read, 0 for now."""
        now_ms = self._clock.monotonic_ms()
        return self._pace.due_ms(now_ms) - now_ms

    async def wait(self) -> None:
        """Wait until more may be read. Raises WebRefusal(429) where that takes too long."""
        wait_ms = self.due_in_ms()
        if wait_ms > READ_WAIT_MS_MAX:
            raise too_many("others read a lot in this console just now")
        if wait_ms:
            await self._pause(wait_ms)
