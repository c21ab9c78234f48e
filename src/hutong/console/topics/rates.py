"""Records a second, from the end offsets that answers show anyway: nothing is asked for the sake of a rate.

Strategy: a few looks are kept, some seconds apart, and a rate is the rise since the oldest of them. A look that is too
old is dropped, so that a page which opens after an hour shows no mean of that hour.

Knows no clock and no broker.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

LOOK_INTERVAL_MS: Final = 2_000
LOOK_AGE_MS_MAX: Final = 60_000
LOOKS_MAX: Final = 6


@dataclass(frozen=True, slots=True)
class _Look:
    at_ms: int
    ends: Mapping[str, int]


class EndRates:
    """Rates of topics. `ends` are the sums of their end offsets; of one user's look only the topics that user sees."""

    def __init__(self) -> None:
        self._looks: deque[_Look] = deque()

    def look(self, ends: Mapping[str, int], now_ms: int) -> dict[str, float]:
        """The rates of these topics; those are missing that were not seen before."""
        looks = self._looks
        while looks and now_ms - looks[0].at_ms > LOOK_AGE_MS_MAX:
            looks.popleft()
        rates: dict[str, float] = {}
        for look in looks:
            passed_ms = now_ms - look.at_ms
            if passed_ms >= LOOK_INTERVAL_MS // 2:
                self._add(rates, look, ends, passed_ms)
        if not looks or now_ms - looks[-1].at_ms >= LOOK_INTERVAL_MS:
            looks.append(_Look(now_ms, dict(ends)))
        while len(looks) > LOOKS_MAX:
            looks.popleft()
        return rates

    def _add(self, rates: dict[str, float], look: _Look, ends: Mapping[str, int], passed_ms: int) -> None:
        for topic, end in ends.items():
            before = look.ends.get(topic)
            # A topic that was deleted and made again has a smaller end: its rate waits for the next look.
            if before is not None and end >= before and topic not in rates:
                rates[topic] = (end - before) * 1_000 / passed_ms
