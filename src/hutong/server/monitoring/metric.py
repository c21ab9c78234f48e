"""A row of the metrics page: what it is called and means, and the function that reads it from the node.

Strategy: `metric` makes a row in one call, and `each` and its kin make the reading of what many rows read alike.

Knows no metric.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hutong.foundation.histograms import Histogram
from hutong.journal.journal import Journal
from hutong.server.monitoring.exposition import Family, MetricKind, Samples, Scale, Spread, Value
from hutong.server.monitoring.sources import MessagingFigures, Sources
from hutong.server.monitoring.survey.result import Survey

COUNTER, GAUGE, HISTOGRAM, SUMMARY = MetricKind
SECONDS: Final = Scale(4, 24, 1e-6)  # 16 us to 17 s

Read = Callable[[Sources], Samples]
LabelsReady = Iterable[tuple[str, int | float]]  # samples whose labels are written out
Labelled = Iterator[tuple[Sequence[str], Value]]


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table. What is read `in_steps` takes long, and does not mind what changes between two samples."""

    family: Family
    read: Read
    in_steps: bool = False

    def samples(self, sources: Sources) -> Samples:
        samples = self.read(sources)
        return samples if self.in_steps else list(samples)


@dataclass(frozen=True, slots=True)
class MessagingMetric:
    """One row of the table that is read from the figures of the bus, contexts and services, counted once for a page."""

    family: Family
    read: Callable[[MessagingFigures], Labelled]


@dataclass(frozen=True, slots=True)
class Surveyed:
    """One row of the table that is read from a survey, and of which there may be many samples."""

    family: Family
    read: Callable[[Survey], LabelsReady]


def metric(name: str, kind: MetricKind, meaning: str, read: Read, *labels: str, in_steps: bool = False) -> Metric:
    return Metric(Family(name, kind, meaning, labels), read, in_steps)


def messaging_metric(
    name: str, kind: MetricKind, meaning: str, read: Callable[[MessagingFigures], Labelled], *labels: str
) -> MessagingMetric:
    return MessagingMetric(Family(name, kind, meaning, labels), read)


def surveyed(
    name: str, kind: MetricKind, meaning: str, read: Callable[[Survey], LabelsReady], *labels: str
) -> Surveyed:
    return Surveyed(Family(name, kind, meaning, labels), read)


def each(read: Callable[[Journal], int]) -> Read:
    """A figure of every partition group."""
    return lambda sources: [((group,), read(journal)) for group, journal in sources.journals.items()]


def each_spread(read: Callable[[Journal], Histogram], scale: Scale) -> Read:
    """A histogram of every partition group that has seen anything."""

    def samples(sources: Sources) -> Labelled:
        for group, journal in sources.journals.items():
            histogram = read(journal)
            if histogram.count:
                yield (group,), Spread(histogram, scale)

    return samples
