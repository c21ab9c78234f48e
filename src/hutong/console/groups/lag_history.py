"""Lag over time: a ring of samples for each group that somebody looks at, and the rates that follow from them.

Strategy: samples come only while a page shows the group. The groups that were seen last keep theirs, so that a chart is
not empty when its page is opened again. Viewers of one group share a ring; rights differ, so each user has rings of
their own.

Knows no client and no clock.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SAMPLES_MAX: Final = 450  # 15 minutes at 2 seconds
GROUPS_WATCHED_MAX: Final = 200
RATE_MS: Final = 30_000
"""The time over which rates are taken: long enough for a consumer that commits every five seconds."""


@dataclass(frozen=True, slots=True)
class LagSample:
    """Sums over the partitions in which the group has an offset. `partitions` is their number."""

    time_ms: int
    partitions: int
    committed: int
    end: int

    @property
    def lag(self) -> int:
        return max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True)
class LagPace:
    """Records a second, and the time until the lag is 0 at this pace; None where it grows or nothing is known."""

    consumed_per_s: float | None
    produced_per_s: float | None
    catch_up_s: float | None


class LagHistory:
    """The samples of all groups, by a key of user and group."""

    def __init__(self, samples_max: int = SAMPLES_MAX, groups_max: int = GROUPS_WATCHED_MAX) -> None:
        self._samples_max = samples_max
        self._groups_max = groups_max
        self._rings: OrderedDict[tuple[str, str], deque[LagSample]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rings)

    def add(self, key: tuple[str, str], sample: LagSample) -> None:
        ring = self._rings.setdefault(key, deque(maxlen=self._samples_max))
        self._rings.move_to_end(key)
        # The clock of a machine may be set back: a chart needs times that rise.
        if ring and sample.time_ms <= ring[-1].time_ms:
            return
        ring.append(sample)
        if len(self._rings) > self._groups_max:
            self._rings.popitem(last=False)

    def samples(self, key: tuple[str, str], after_ms: int = -1) -> Sequence[LagSample]:
        """The samples that are later than `after_ms`."""
        return [sample for sample in self._rings.get(key, ()) if sample.time_ms > after_ms]

    def pace(self, key: tuple[str, str]) -> LagPace:
        ring = self._rings.get(key)
        return pace_of(ring) if ring else LagPace(None, None, None)


def pace_of(samples: Sequence[LagSample]) -> LagPace:
    """The pace of the last half minute, of samples with the same number of partitions as the last."""
    last = samples[-1]
    first = last
    for sample in reversed(samples):
        # Offsets of another set of partitions have another sum: that is no movement.
        if sample.partitions != last.partitions or last.time_ms - sample.time_ms > RATE_MS:
            break
        first = sample
    seconds = (last.time_ms - first.time_ms) / 1_000
    if not seconds:
        return LagPace(None, None, None)
    # A reset moves offsets back, and a topic that is made anew its end: neither is a pace.
    consumed = max(0.0, (last.committed - first.committed) / seconds)
    produced = max(0.0, (last.end - first.end) / seconds)
    gain = consumed - produced
    catch_up_s = 0.0 if not last.lag else last.lag / gain if gain > 0 else None
    return LagPace(consumed, produced, catch_up_s)
