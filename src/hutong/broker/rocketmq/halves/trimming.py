"""The start of both logs: disk space comes back for what is decided.

The log of half messages begins at the oldest that is not decided. A record of a decision goes once the log of half
messages begins behind all that were there when it was written, and that is on the disk: without their decisions, half
messages would be asked about again.

Pure: offsets in, offsets out.
"""

from typing import Final, NamedTuple

MARKS_MAX: Final = 64


class Mark(NamedTuple):
    """All decisions before an offset are about half messages before another one."""

    decisions_end: int
    halves_end: int


class TrimPlan:
    """The offsets that both logs may begin at."""

    def __init__(self) -> None:
        self._marks: list[Mark] = []

    def note(self, decisions_end: int, halves_end: int) -> None:
        """Note how far both logs are."""
        if self._marks and self._marks[-1].decisions_end == decisions_end:
            return
        self._marks.append(Mark(decisions_end, halves_end))
        # Every second one is enough while one half message holds up the others: more is trimmed at a time, and later.
        if len(self._marks) > MARKS_MAX:
            del self._marks[:-1:2]

    def decisions_start(self, halves_start: int) -> int | None:
        """The offset that the log of decisions may begin at, once the other one begins there; None for no change."""
        passed = [mark for mark in self._marks if mark.halves_end <= halves_start]
        if not passed:
            return None
        del self._marks[: len(passed)]
        return passed[-1].decisions_end
