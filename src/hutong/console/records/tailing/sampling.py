"""The live tail's sample: a bounded number of records a second is shown, and all are counted.

Strategy: a turn comes several times a second. What has arrived in one and fits the turn's share is shown; else its
newest records are, and the rest is counted alone. So a tail costs the same at any rate, and holds nothing between
turns. What a quiet turn did not use serves the next ones, for up to a second.

Knows nothing of clients. Time arrives with each call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hutong.console.limits import TAIL_RECORDS_PER_S

Span = tuple[int, int]
"""The first offset and the one after the last."""
_WINDOW_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class SampleFigures:
    """Records since the tail began, and those of the last second. `seen` counts offsets."""

    seen: int
    shown: int
    seen_per_s: int
    shown_per_s: int


class TailSampler:
    """One tail, which begins at the end of each partition."""

    def __init__(self, ends: Mapping[int, int], now_ms: int, per_second_max: int = TAIL_RECORDS_PER_S) -> None:
        self._positions = dict(ends)
        self._per_second_max = per_second_max
        self._credit = float(per_second_max)
        self._filled_ms = now_ms
        self._seen = self._shown = 0
        self._turns: deque[tuple[int, int, int]] = deque()  # of the last second: when, seen, shown

    def turn(self, ends: Mapping[int, int], now_ms: int) -> dict[int, Span]:
        """The offsets to read and show, with the ends of the partitions now. What is before them is passed over."""
        self._fill(now_ms)
        new = {place: end - self._positions.get(place, end) for place, end in ends.items()}
        seen = sum(count for count in new.values() if count > 0)
        shares = _shares({place: count for place, count in new.items() if count > 0}, int(self._credit))
        # A partition may be new, and one that was made again begins at 0.
        self._positions.update(ends)
        shown = sum(shares.values())
        self._credit -= shown
        self._note(seen, shown, now_ms)
        return {place: (ends[place] - share, ends[place]) for place, share in shares.items() if share}

    def figures(self) -> SampleFigures:
        return SampleFigures(
            self._seen, self._shown, sum(turn[1] for turn in self._turns), sum(turn[2] for turn in self._turns)
        )

    def check_invariants(self) -> None:
        assert 0 <= self._credit <= self._per_second_max
        assert self._shown <= self._seen
        assert all(seen >= shown >= 0 for _, seen, shown in self._turns)

    def _fill(self, now_ms: int) -> None:
        earned = self._per_second_max * max(0, now_ms - self._filled_ms) / 1_000
        self._credit = min(float(self._per_second_max), self._credit + earned)
        self._filled_ms = now_ms

    def _note(self, seen: int, shown: int, now_ms: int) -> None:
        self._seen += seen
        self._shown += shown
        self._turns.append((now_ms, seen, shown))
        while self._turns[0][0] <= now_ms - _WINDOW_MS:
            self._turns.popleft()


def _shares(new: Mapping[int, int], budget: int) -> dict[int, int]:
    """The records to show of each partition: all, or the budget in proportion, the largest remainders first."""
    total = sum(new.values())
    if total <= budget:
        return dict(new)
    shares = {place: count * budget // total for place, count in new.items()}
    left = budget - sum(shares.values())
    for place in sorted(new, key=lambda place: (-(new[place] * budget % total), place))[:left]:
        shares[place] += 1
    return shares
