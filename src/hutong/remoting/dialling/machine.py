"""Back-off: when an address that could not be reached may be tried again.

Strategy: nobody tries by himself. The next invocation tries, unless that is too soon after a failure; then it fails at
once. The pause doubles with each failure up to a bound, with chance taken off so that many clients do not come
together, and is forgotten by the first success. A connection that stood and was lost is tried at once.

Knows no clock and no chance: both arrive with each event.
"""


class BackOff:
    """Of one address."""

    __slots__ = ("_failures", "_first_ms", "_most_ms", "_until_ms")

    def __init__(self, first_ms: int, most_ms: int) -> None:
        self._first_ms = first_ms
        self._most_ms = most_ms
        self._failures = 0
        self._until_ms = 0

    def pause_ms(self, now_ms: int) -> int:
        """The time left until the next attempt is allowed; 0 once it is."""
        return max(0, self._until_ms - now_ms) if self._failures else 0

    def failed(self, now_ms: int, chance: float) -> None:
        """An attempt failed; `chance` is from 0 to 1, and takes off up to half of the pause."""
        pause_ms = min(self._first_ms << min(self._failures, 30), self._most_ms)
        self._failures += 1
        self._until_ms = now_ms + max(1, round(pause_ms * (1 - chance / 2)))

    def succeeded(self) -> None:
        self._failures = 0
