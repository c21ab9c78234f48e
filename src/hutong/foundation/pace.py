"""A rate of bytes that is kept by pauses: each part counts when it has moved, and says when the next one is due.

Strategy: everybody who moves something shares the rate, as parts come. A pause in between is not made up for.

Knows nothing of what moves, and of who waits. Time arrives with each call.
"""

from math import ceil


class BytePace:
    """Bounds the bytes of a second, in parts of any size."""

    def __init__(self, bytes_per_second: int) -> None:
        self._bytes_per_second = bytes_per_second
        self._free_ms = 0.0  # when all that was moved may have been moved

    def alter(self, bytes_per_second: int) -> None:
        """Go by another rate at once: what was moved by the old one may wait for hours."""
        # The same rate again, as with a change of another setting, forgives nothing.
        if bytes_per_second != self._bytes_per_second:
            self._bytes_per_second, self._free_ms = bytes_per_second, 0.0

    def count(self, moved_bytes: int, now_ms: int) -> None:
        """Note what was moved."""
        # A part that is larger than a second's worth is not cut: the pause after it is longer.
        self._free_ms = max(self._free_ms, now_ms) + moved_bytes * 1000 / self._bytes_per_second

    def due_ms(self, now_ms: int) -> int:
        """The time from which on more may be moved."""
        return max(now_ms, ceil(self._free_ms))
