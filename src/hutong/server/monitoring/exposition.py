"""Prometheus' text format, version 0.0.4: metric families in, bytes out.

Strategy: a family is its name, kind, meaning and label names, and the samples of the moment; histograms come as the
powers of two that `foundation.histograms` counts exactly. The format is a few lines of text (Prometheus documentation,
"Exposition formats"), so it is written here rather than by a library that brings a registry of its own.

Knows nothing of what is measured.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hutong.foundation.histograms import Histogram

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class MetricKind(StrEnum):
    """The type of a family in Prometheus. A counter's name ends with `_total`."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"  # here samples with a label `quantile`, and no more


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its name, and the texts of its HELP and TYPE lines. `labels` are names in the samples' order."""

    name: str
    kind: MetricKind
    meaning: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scale:
    """The bounds that a histogram shows: 2^first_bits to 2^last_bits of its own unit, times `unit` (1e-6: us as s)."""

    first_bits: int
    last_bits: int
    unit: float = 1.0

    def bounds(self) -> list[str]:
        return [f"{2**bits * self.unit:.10g}" for bits in range(self.first_bits, self.last_bits + 1)]


@dataclass(frozen=True, slots=True)
class Spread:
    """A sample of a histogram family."""

    histogram: Histogram
    scale: Scale


Value = int | float | Spread
Samples = Iterable[tuple[Sequence[str], Value]]


LINES_PER_PIECE: Final = 150  # well under a millisecond of the event loop


def render(
    families: Iterable[tuple[Family, Samples]], *, histogram_step: int = 1, with_empty: bool = True
) -> Iterator[bytes]:
    """The page of all families, in their order and in pieces of some length; a piece may end within a family.

    A family without samples has its HELP and TYPE all the same, if it is `with_empty`. Of the bounds of a histogram
    every `histogram_step`th is shown.
    """
    lines: list[str] = []
    for family, samples in families:
        # As they are now: between two pieces a partition group may come or go.
        present = list(samples)
        if present or with_empty:
            lines += _heading(family)
        for values, value in present:
            labels = [f'{name}="{_label(text)}"' for name, text in zip(family.labels, values, strict=True)]
            if isinstance(value, Spread):
                lines += _histogram(family.name, labels, value, histogram_step)
            else:
                lines.append(f"{family.name}{_braced(labels)} {_number(value)}")
            if len(lines) >= LINES_PER_PIECE:
                yield _piece(lines)
                lines = []
    yield _piece(lines)


def render_written(
    family: Family, samples: Iterable[tuple[str, int | float]], *, with_empty: bool = True
) -> Iterator[bytes]:
    """One family in pieces, of samples whose labels are written out by `braced`."""
    name, heading = family.name, _heading(family)
    lines, heading = (heading, []) if with_empty else ([], heading)
    for labels, value in samples:
        if heading:
            lines, heading = heading, []
        lines.append(f"{name}{labels} {value}")
        if len(lines) >= LINES_PER_PIECE * 3:  # these are written faster
            yield _piece(lines)
            lines = []
    if lines:
        yield _piece(lines)


def _piece(lines: list[str]) -> bytes:
    return "\n".join((*lines, "")).encode()


def braced(names: Sequence[str], values: Sequence[str]) -> str:
    """Labels as they follow a metric's name."""
    return _braced([f'{name}="{_label(text)}"' for name, text in zip(names, values, strict=True)])


def _heading(family: Family) -> list[str]:
    return [f"# HELP {family.name} {_help(family.meaning)}", f"# TYPE {family.name} {family.kind}"]


def _histogram(name: str, labels: list[str], spread: Spread, step: int) -> list[str]:
    scale, histogram = spread.scale, spread.histogram
    counts = histogram.through_powers_of_two(scale.first_bits, scale.last_bits)
    prefix = f"{name}_bucket{{{''.join(label + ',' for label in labels)}le="
    bounds = list(zip(scale.bounds(), counts, strict=True))[::step]
    lines = [f'{prefix}"{bound}"}} {count}' for bound, count in bounds]
    count = histogram.count
    lines.append(f'{prefix}"+Inf"}} {count}')
    lines.append(f"{name}_sum{_braced(labels)} {_number(histogram.sum * scale.unit)}")
    lines.append(f"{name}_count{_braced(labels)} {count}")
    return lines


def _braced(labels: list[str]) -> str:
    return f"{{{','.join(labels)}}}" if labels else ""


def _number(value: int | float) -> str:
    return repr(value) if isinstance(value, float) else str(int(value))


def _help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _label(text: str) -> str:
    return _help(text).replace('"', r"\"")
