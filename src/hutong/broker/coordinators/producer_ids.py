"""Producer ids: every idempotent producer gets one that nobody ever had (KIP-98).

Strategy: ids are reserved in blocks by a record; only ids below a durable reservation are given out, so a crash can
skip ids but never give one twice. The next block is reserved while the current one is still half full: nobody waits.

Knows nothing of requests or of what producers do with their ids.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import LimitExceeded

if TYPE_CHECKING:
    from hutong.broker.topics.catalogue import StateLog
    from hutong.foundation.errors import HutongError
    from hutong.foundation.waiting.table import WaitTable

PRODUCER_ID_BLOCK: Final = 1_000
_KEY: Final = b"producer-ids"


class ProducerIds:
    """Gives out producer ids, each once."""

    def __init__(self, waiting: WaitTable[None]) -> None:
        self._waiting = waiting
        self._state: StateLog | None = None
        self._next = 0
        self._durable_end = 0  # ids below may be given out; never decreases
        self._reserved_end = 0  # ids below are in a record on its way to disk; never below _durable_end

    def replay(self, key: bytes, value: bytes | None) -> None:
        if key == _KEY and value is not None:
            self._durable_end = self._reserved_end = self._next = max(self._durable_end, int(value))

    def start(self, state: StateLog) -> None:
        """From here on reservations are recorded in `state`. Called once, after replay."""
        self._state = state

    def take(self, then: Callable[[int | HutongError], None]) -> None:
        """Give out one id: at once where a reserved one is left, else once the next block is durable.

        `then` gets LimitExceeded where too many wait for that.
        """
        if self._reserved_end - self._next <= PRODUCER_ID_BLOCK // 2:
            self._reserve()
        if self._next < self._durable_end:
            then(self._next_id())
            return

        def reserved(outcome: HutongError | None) -> None:
            if outcome is not None:
                then(outcome)
            else:
                self.take(then)

        try:
            self._waiting.park(None, reserved)
        except LimitExceeded as full:
            then(full)

    def _next_id(self) -> int:
        producer_id = self._next
        self._next += 1
        return producer_id

    def _reserve(self) -> None:
        assert self._state is not None, "an id is taken before the state was replayed"
        end = self._reserved_end + PRODUCER_ID_BLOCK
        self._reserved_end = end

        def recorded(error: HutongError | None) -> None:
            if error is None:
                self._durable_end = max(self._durable_end, end)
                self._waiting.resume_all(None, None)
            else:
                self._reserved_end = self._durable_end  # not on record: the next to ask reserves anew
                self._waiting.fail_all(None, error)

        self._state.append(_KEY, str(end).encode(), recorded)
