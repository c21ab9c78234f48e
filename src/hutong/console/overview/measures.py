"""The measures of the overview's rules, read from the samples of a node.

Strategy: a measure gives a value for each thing that it is about, with the labels that name the thing. Without enough
samples, or without the figure, it gives nothing.

Knows no threshold.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from hutong.console.nodes.history import History, quantile_of, together
from hutong.console.nodes.samples import Labels

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS


class Measured(NamedTuple):
    """One thing: its labels, the value that is compared, and the one that people are shown if it is another."""

    labels: Labels
    value: float
    shown: float | None = None


Measure = Callable[[History], Iterable[Measured]]


def now(name: str) -> Measure:
    """A gauge as it is."""

    def measure(history: History) -> Iterator[Measured]:
        if history.newest is not None:
            for labels, value in history.newest.series(name).items():
                yield Measured(labels, value)

    return measure


def share(part: str, whole: str) -> Measure:
    """One gauge as a share of another."""

    def measure(history: History) -> Iterator[Measured]:
        sample = history.newest
        of = None if sample is None else sample.value(whole)
        found = None if sample is None else sample.value(part)
        if of and found is not None:
            yield Measured((), found / of)

    return measure


def seconds_until(name: str) -> Measure:
    """The time from now to a moment."""

    def measure(history: History) -> Iterator[Measured]:
        if history.newest is not None:
            for labels, value in history.newest.series(name).items():
                yield Measured(labels, value - history.newest.wall_ms / 1_000)

    return measure


def increase(name: str, length_ms: int, *wanted: tuple[str, str]) -> Measure:
    """By how much a counter has grown in this time, as far as it is known.

    A counter of a node that is younger than that has grown by all that it counts. Of an older one the time is known in
    which somebody looked.
    """

    def measure(history: History) -> Iterator[Measured]:
        sample = history.newest
        if sample is None:
            return
        started_s = sample.value("process_start_time_seconds")
        found = history.over(length_ms)
        if started_s is not None and sample.wall_ms - started_s * 1_000 < length_ms:
            grown = dict(sample.series(name))
        else:
            grown = found.increases(name) if found is not None else {}
        for labels, value in grown.items():
            if set(wanted) <= set(labels):
                yield Measured(labels, value)

    return measure


def rate(name: str, length_ms: int, *wanted: tuple[str, str]) -> Measure:
    """The growth of a counter in a second."""

    def measure(history: History) -> Iterator[Measured]:
        found = history.over(length_ms)
        if found is not None:
            for labels, value in found.rates(name).items():
                if set(wanted) <= set(labels):
                    yield Measured(labels, value)

    return measure


def quantile(name: str, of: float, length_ms: int) -> Measure:
    """A quantile of the values that a histogram got."""

    def measure(history: History) -> Iterator[Measured]:
        found = history.over(length_ms)
        value = None if found is None else quantile_of(together(found.histograms(name).values()), of)
        if value is not None:
            yield Measured((), value)

    return measure


def failed_requests(length_ms: int, errors: frozenset[str]) -> Measure:
    """The requests in a second that are answered with one of these errors."""

    def measure(history: History) -> Iterator[Measured]:
        for measured in rate("kafka_network_requestmetrics_errors_total", length_ms)(history):
            if dict(measured.labels).get("error") in errors:
                yield measured

    return measure


def commits_of_late(length_ms: int) -> Measure:
    """By how much the offsets of each group with lag have moved in all of this time; the lag is what is shown."""

    def measure(history: History) -> Iterator[Measured]:
        found = history.over(length_ms)
        if found is None or found.length_ms < length_ms:
            return
        before = found.earlier.series("kafka_consumergroup_current_offset")
        offsets = found.later.series("kafka_consumergroup_current_offset")
        for labels, lag in found.later.series("kafka_consumergroup_lag").items():
            if lag > 0 and labels in before:
                yield Measured(labels, offsets.get(labels, 0.0) - before[labels], lag)

    return measure
