"""Questions to a leader that may be elected just now: asked again until one answers or the time is over.

Strategy: between two attempts the question is a parked wait, whose deadline is the next attempt. So the waits of a node
are counted and bounded, and end at once when it stops.

Knows nothing of what is asked, and of whom.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from hutong.foundation.clock import Clock
from hutong.foundation.errors import Expired, HutongError, LimitExceeded, OwnerGone
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.foundation.waiting.table import WaitTable

WAITS_MAX: Final = 20_000  # as many as a node has connections
T = TypeVar("T")


class AskingAgain:
    """All questions of a node that wait for their next attempt, from the start to `close`."""

    def __init__(self, clock: Clock, timers: TimerWheel) -> None:
        self.waits: Final[WaitTable[None]] = WaitTable("asked_again", timers, WAITS_MAX)
        self._clock = clock

    def ask(
        self,
        attempt: Callable[[Continuation[T]], None],
        may_repeat: Callable[[HutongError], bool],
        *,
        again_ms: int,
        until_ms: int,
        then: Continuation[T],
    ) -> None:
        """Make the attempt until its outcome is final or the time is over; `then` gets the last outcome."""

        def answered(outcome: T | HutongError) -> None:
            now_ms = self._clock.monotonic_ms()
            if not isinstance(outcome, HutongError) or not may_repeat(outcome) or now_ms >= until_ms:
                then(outcome)
                return
            try:
                self.waits.park(None, go_on, deadline_ms=now_ms + again_ms)
            except LimitExceeded as error:
                then(error)

        def go_on(outcome: HutongError | None) -> None:
            if isinstance(outcome, Expired):
                attempt(answered)
            elif outcome is not None:
                then(outcome)  # the node stops

        attempt(answered)

    def close(self) -> None:
        """End all of them, and let none begin to wait."""
        self.waits.close(OwnerGone("the node is stopping"))
