"""The pace of copies to replicas that lack much: one for all groups of a node, so that copies leave room for clients.

Strategy: each copy says what it has moved, and asks when the next part is due. Copies that go on at the same time share
the rate, as they come.

Knows nothing of what is copied. Time arrives with each call.
"""

from math import ceil


class CopyPace:
    """Bounds the bytes of a second, in parts of any size."""

    def __init__(self, bytes_per_second: int) -> None:
        self._bytes_per_second = bytes_per_second
        self._free_ms = 0.0  # when all that was moved may have been moved

    def alter(self, bytes_per_second: int) -> None:
        """Go by another rate at once: what was moved by the old one may wait for hours."""
        self._bytes_per_second, self._free_ms = bytes_per_second, 0.0

    def count(self, moved_bytes: int, now_ms: int) -> None:
        """Note what was moved."""
        self._free_ms = max(self._free_ms, now_ms) + moved_bytes * 1000 / self._bytes_per_second

    def due_ms(self, now_ms: int) -> int:
        """The time from which on more may be moved."""
        return max(now_ms, ceil(self._free_ms))
