"""The samples that are kept of a node, and what two of them tell: rates, increases, quantiles of the time between.

Strategy: every sample of the last seconds, then one every hundred, for as long as the longest window of the rules. A
gap in which nobody looked begins the history anew.

Knows no metric.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from hutong.console.nodes.samples import Labels, Sample

RECENT_MS: Final = 12_000
KEPT_MS: Final = 700_000
SPACING_MS: Final = 100_000
GAP_MS_MAX: Final = 90_000


@dataclass(frozen=True, slots=True)
class SampledTime:
    """The time between two samples, and the changes in it."""

    earlier: Sample
    later: Sample

    @property
    def length_ms(self) -> int:
        return self.later.at_ms - self.earlier.at_ms

    def increases(self, name: str) -> dict[Labels, float]:
        """By how much each counter of a family has grown. One that was not there has grown from nothing."""
        before = self.earlier.series(name)
        return {labels: _grown(before.get(labels, 0.0), value) for labels, value in self.later.series(name).items()}

    def increase(self, name: str, **labels: str) -> float | None:
        """By how much those with these labels have grown together; None where there is none."""
        wanted = set(labels.items())
        found = [grown for having, grown in self.increases(name).items() if wanted <= set(having)]
        return sum(found) if found else None

    def rate(self, name: str, **labels: str) -> float | None:
        """The same for each second."""
        grown = self.increase(name, **labels)
        return None if grown is None else grown * 1_000 / self.length_ms

    def rates(self, name: str) -> dict[Labels, float]:
        return {labels: grown * 1_000 / self.length_ms for labels, grown in self.increases(name).items()}

    def histograms(self, name: str) -> dict[Labels, dict[float, float]]:
        """Each histogram of a family by its labels: the values up to each bound. Those without any are left out.

        Bounds that only one of the samples has are left out: a brief page shows every second one.
        """
        name = f"{name}_bucket"
        shared = {having[-1:] for having in self.earlier.series(name)}
        found: dict[Labels, dict[float, float]] = {}
        for having, grown in self.increases(name).items():
            # The bound is the last label of a bucket.
            if having and having[-1][0] == "le" and (not shared or having[-1:] in shared):
                found.setdefault(having[:-1], {})[float(having[-1][1])] = grown
        return {labels: dict(sorted(counts.items())) for labels, counts in found.items() if any(counts.values())}

    def quantile(self, name: str, quantile: float) -> float | None:
        """Of all histograms of a family together."""
        return quantile_of(together(self.histograms(name).values()), quantile)


class History:
    """The samples of one node."""

    def __init__(self) -> None:
        self._samples: list[Sample] = []

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def newest(self) -> Sample | None:
        return self._samples[-1] if self._samples else None

    def add(self, sample: Sample) -> None:
        """Keep a sample that is later than all others."""
        if self._samples and sample.at_ms - self._samples[-1].at_ms > GAP_MS_MAX:
            self._samples = []
        kept: dict[int, Sample] = {}
        for one in (*self._samples, sample):
            age_ms = sample.at_ms - one.at_ms
            if age_ms <= RECENT_MS:
                kept[one.at_ms] = one
            elif age_ms <= KEPT_MS:
                # The first of each hundred seconds; the negative key cannot be a recent one's.
                kept.setdefault(-1 - one.at_ms // SPACING_MS, one)
        self._samples = sorted(kept.values(), key=lambda one: one.at_ms)

    def over(self, length_ms: int) -> SampledTime | None:
        """The time of this length until now, or a longer one that was sampled; a shorter one at the start.

        None with a single sample.
        """
        if len(self._samples) < 2:
            return None
        later = self._samples[-1]
        old_enough = [one for one in self._samples[:-1] if later.at_ms - one.at_ms >= length_ms]
        return SampledTime(old_enough[-1] if old_enough else self._samples[0], later)


def quantile_of(buckets: Mapping[float, float], quantile: float) -> float | None:
    """The value that this share of all values does not exceed, evenly spread in its bucket. None of no values.

    As `histogram_quantile` of Prometheus has it: above the last bound it is that bound.
    """
    total = max(buckets.values(), default=0.0)
    if total <= 0:
        return None
    rank = quantile * total
    lower, below = 0.0, 0.0
    for bound, count in buckets.items():
        if count >= rank:
            if math.isinf(bound):
                return lower
            share = (rank - below) / (count - below) if count > below else 1.0
            return lower + (bound - lower) * share
        lower, below = bound, count
    return lower


def together(histograms: Iterable[Mapping[float, float]]) -> dict[float, float]:
    """The sum of several histograms with the same bounds."""
    counts: dict[float, float] = {}
    for histogram in histograms:
        for bound, count in histogram.items():
            counts[bound] = counts.get(bound, 0.0) + count
    return dict(sorted(counts.items()))


def _grown(before: float, now: float) -> float:
    # A counter that has fallen began anew: a topic that was deleted and made again.
    return now - before if now >= before else now
