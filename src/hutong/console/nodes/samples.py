"""A page of metrics in Prometheus' text format 0.0.4, as figures by name and labels.

Strategy: only the families that somebody asks for are read; their other labels are folded away at once, so that ten
thousand partitions become one figure of their group. A line that the format does not allow is left out and counted.

Knows no metric and no clock.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

LINES_MAX: Final = 500_000
LINE_CHARACTERS_MAX: Final = 8_192
VALUES_MAX: Final = 50_000
"""Of one sample, after folding."""
Labels = tuple[tuple[str, str], ...]
_LABEL: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)",?')
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]{1,3})?)")
_BOUND: Final = re.compile(rf"{_NUMBER.pattern}|\+Inf")
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPED: Final = {"n": "\n"}


@dataclass(frozen=True, slots=True)
class Kept:
    """The labels of a family that are kept, and how samples that are equal in them become one.

    Unless it is `with_fewer`, each sample has all of these labels; others are refused.
    """

    labels: tuple[str, ...] = ()
    fold: Callable[[float, float], float] = lambda one, other: one + other
    with_fewer: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of one moment. `is_cut`: the page had more of them than VALUES_MAX, or more lines than LINES_MAX."""

    at_ms: int
    wall_ms: int
    values: Mapping[str, Mapping[Labels, float]]
    lines: int = 0
    refused: int = 0
    is_cut: bool = False
    is_full: bool = True

    def series(self, name: str) -> Mapping[Labels, float]:
        """The figures of a family by their labels; none where it is not there."""
        return self.values.get(name, {})

    def value(self, name: str, **labels: str) -> float | None:
        """The sum of the figures that have these labels; None where there is none."""
        wanted = set(labels.items())
        found = [value for having, value in self.series(name).items() if wanted <= set(having)]
        return sum(found) if found else None


class SampleReader:
    """Reads pages of one node, and remembers what it found out about their series."""

    def __init__(self, kept: Mapping[str, Kept]) -> None:
        self._kept = kept
        self._known: dict[str, tuple[str, Labels]] = {}  # family and labels by a series' text: parsing takes far longer

    def read(self, page: str, at_ms: int, wall_ms: int, *, is_full: bool = True) -> Sample:
        values: dict[str, dict[Labels, float]] = {}
        if len(self._known) > 2 * VALUES_MAX:  # of topics and groups that have gone
            self._known = {}
        lines = page.split("\n", LINES_MAX)
        is_cut = len(lines) > LINES_MAX
        refused = count = 0
        for line in lines[:LINES_MAX]:
            if not self._is_kept(line):
                continue
            found = self._parsed(line)
            if found is None:
                refused += 1
                continue
            (name, labels), value = found
            family = values.setdefault(name, {})
            if labels in family:
                family[labels] = self._kept[name].fold(family[labels], value)
            elif count < VALUES_MAX:
                family[labels] = value
                count += 1
            else:
                is_cut = True
        return Sample(at_ms, wall_ms, values, len(lines), refused, is_cut, is_full)

    def _is_kept(self, line: str) -> bool:
        brace = line.find("{")
        return (line[:brace] if brace >= 0 else line.partition(" ")[0]) in self._kept

    def _parsed(self, line: str) -> tuple[tuple[str, Labels], float] | None:
        """The series and the value of a sample; None for what the format does not allow."""
        series, _, number = line.rpartition(" ")
        known = self._known.get(series)
        if known is None:
            if len(line) > LINE_CHARACTERS_MAX:
                return None
            # A label's value may hold spaces and braces; what follows the last brace cannot.
            end = line.rfind("}") + 1 or line.find(" ")
            series = line[:end]
            numbers = line[end:].split()
            if end < 0 or not 1 <= len(numbers) <= 2:  # a timestamp may follow
                return None
            number = numbers[0]
            known = self._known.get(series) or self._series(series)
        if known is None or not _NUMBER.fullmatch(number):
            return None
        value = float(number)
        return (known, value) if math.isfinite(value) else None

    def _series(self, series: str) -> tuple[str, Labels] | None:
        name = series.partition("{")[0]
        kept = self._kept.get(name)
        labels = None if kept is None else _labels_of(series, kept)
        if labels is None:
            return None
        self._known[series] = known = (name, labels)
        return known


def _labels_of(series: str, kept: Kept) -> Labels | None:
    """Those of its labels that are kept; None for a text that is no series of the family."""
    brace = series.find("{")
    at, end = (brace + 1, len(series) - 1) if brace >= 0 else (0, 0)
    found: list[tuple[str, str]] = []
    while at < end:
        match = _LABEL.match(series, at, end)
        if match is None or (match[1] == "le" and not _BOUND.fullmatch(match[2])):
            return None
        if match[1] in kept.labels:
            found.append((match[1], _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), match[2])))
        at = match.end()
    names = {name for name, _ in found}
    is_whole = len(names) == len(found) and (kept.with_fewer or len(found) == len(kept.labels))
    return tuple(found) if is_whole else None
