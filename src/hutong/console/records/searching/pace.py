"""The pace of a search: how long to pause after each step, so that the node and its clients hardly notice it.

Strategy: a step's work is measured in processor time, and the pause keeps its share below a bound. The bound moves: a
pause that ends late says that the loop, which serves the brokers' clients as well, has a lot to do. Then the share is
halved; it grows again slowly (as TCP's windows do). So a search is fast on a quiet node, and costs next to
nothing on a busy one.

Knows no clock.
"""

from typing import Final

SHARE_MAX: Final = 0.5
SHARE_MIN: Final = 0.02
"""Of one processor, for all that a search does in Python."""
PAUSE_MS_MIN: Final = 1
PAUSE_MS_MAX: Final = 1_000
_LATE_US: Final = 1_500
"""Timers of an idle loop are up to a millisecond late: its clock has milliseconds."""
_GROWTH: Final = 1.1


class SearchPace:
    """The pace of one search; it begins carefully."""

    def __init__(self) -> None:
        self.share = 0.05

    def pause_ms(self, worked_us: int) -> int:
        """The pause after this much work."""
        wanted = worked_us * (1 / self.share - 1) / 1_000
        return round(min(PAUSE_MS_MAX, max(PAUSE_MS_MIN, wanted)))

    def note_pause(self, planned_ms: int, took_us: int) -> None:
        """Learn from how late a pause ended."""
        if took_us - 1_000 * planned_ms > _LATE_US:
            self.share = max(SHARE_MIN, self.share / 2)
        else:
            self.share = min(SHARE_MAX, self.share * _GROWTH)
