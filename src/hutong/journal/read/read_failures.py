"""Reads that the disk refused: counted, reported, and remembered for a while.

Strategy: a read that fails says nothing of what is written: other places can be read, and each flush has an answer of
its own. So a failure ends nothing here, while Apache Kafka takes the whole log directory offline. But an operator must
repair the disk, and learns nothing from clients that retry for ever.

Knows nothing of damage (CorruptData): the check of the data read reports that.
"""

from collections.abc import Callable
from typing import Final

from hutong.foundation.clock import Clock
from hutong.foundation.errors import StorageError

RECENT_MS: Final = 60_000


class ReadFailures:
    """The failed reads of one journal. Figures: total. `on_failure` gets each, perhaps many in a second."""

    def __init__(self, clock: Clock) -> None:
        self.total = 0
        self.on_failure: Callable[[StorageError], None] = lambda _error: None
        self._clock = clock
        self._last: StorageError | None = None
        self._last_at_ms = 0

    def add(self, error: StorageError) -> None:
        self.total += 1
        self._last, self._last_at_ms = error, self._clock.monotonic_ms()
        self.on_failure(error)

    @property
    def recent(self) -> StorageError | None:
        """The last one, if that was less than `RECENT_MS` ago."""
        return self._last if self._clock.monotonic_ms() - self._last_at_ms < RECENT_MS else None
