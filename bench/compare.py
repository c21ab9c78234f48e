"""Turns, medians, ratios: the same measurements against every target, alternating, and the table at the end.

Strategy: for each measurement every target has a warm-up turn that is thrown away (a JVM's second run is twice its
first), then the targets take turns, in reversed order every second time, so that slow drift of a shared machine meets
all alike. Ratios are taken of medians and always read "times better than the baseline". Knows nothing of what is
measured.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.targets import Target


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a measurement. `higher_is_better` None: nothing to compare, only to know."""

    name: str
    unit: str
    higher_is_better: bool | None = None
    digits: int = 2


@dataclass(frozen=True, slots=True)
class Measurement:
    """`run(target, turn)` takes one turn against one target; turn 0 is the warm-up."""

    name: str
    run: Callable[[Target, int], Mapping[Figure, float]]
    targets: Sequence[Target]
    turns: int = 3
    warm_up: bool = True


@dataclass(slots=True)
class Results:
    """Values of all turns by (measurement, figure) and target name."""

    baseline: str | None
    not_compared: frozenset[str] = frozenset()  # targets that are no brokers
    values: dict[tuple[str, Figure], dict[str, list[float]]] = field(default_factory=dict)

    def add(self, measurement: str, target: str, figures: Mapping[Figure, float]) -> None:
        for figure, value in figures.items():
            self.values.setdefault((measurement, figure), {}).setdefault(target, []).append(value)

    def times_better(self, figure: Figure, medians: Mapping[str, float]) -> dict[str, float]:
        """Per target the ratio to the baseline; above 1 is better, whichever way the figure goes."""
        base = medians.get(self.baseline or "")
        if not base or figure.higher_is_better is None:
            return {}
        left_out = self.not_compared | {self.baseline}
        others = {target: value for target, value in medians.items() if target not in left_out and value}
        if figure.higher_is_better:
            return {target: value / base for target, value in others.items()}
        return {target: base / value for target, value in others.items()}

    def rows(self) -> list[dict[str, Any]]:
        """Everything, ready for JSON."""
        rows = []
        for (measurement, figure), by_target in self.values.items():
            medians = {target: statistics.median(values) for target, values in by_target.items()}
            rows.append(
                {
                    "measurement": measurement,
                    "figure": figure.name,
                    "unit": figure.unit,
                    "higher_is_better": figure.higher_is_better,
                    "values": by_target,
                    "medians": medians,
                    "times_better_than_baseline": self.times_better(figure, medians),
                }
            )
        return rows


def run(measurements: Iterable[Measurement], results: Results, progress: Callable[[str], None]) -> None:
    """Takes all turns of all measurements. An error of a broker ends the run: figures next to it would be worthless."""
    for measurement in measurements:
        for turn in range(0 if measurement.warm_up else 1, measurement.turns + 1):
            ordered = list(measurement.targets)
            for target in reversed(ordered) if turn % 2 else ordered:
                progress(f"{measurement.name}: {target.name}, {f'turn {turn}' if turn else 'warm-up'}")
                figures = measurement.run(target, turn)
                if turn:
                    results.add(measurement.name, target.name, figures)


def tables(results: Results, target_names: Sequence[str]) -> list[Table]:
    """One table per measurement: medians per target, and how many times better than the baseline."""
    grouped: dict[str, list[tuple[Figure, dict[str, float]]]] = {}
    for (measurement, figure), by_target in results.values.items():
        medians = {target: statistics.median(values) for target, values in by_target.items()}
        grouped.setdefault(measurement, []).append((figure, medians))
    return [_table(measurement, rows, results, target_names) for measurement, rows in grouped.items()]


def print_tables(results: Results, target_names: Sequence[str]) -> None:
    console = Console(width=None if Console().is_terminal else 160)
    for table in tables(results, target_names):
        console.print(table)
    if results.baseline:
        console.print(f"Medians; in brackets: times better than {results.baseline} (above 1 is better).")


def _table(
    measurement: str, rows: Sequence[tuple[Figure, Mapping[str, float]]], results: Results, target_names: Sequence[str]
) -> Table:
    names = [name for name in target_names if any(name in medians for _, medians in rows)]
    table = Table(title=measurement, title_justify="left", title_style="bold")
    table.add_column("figure")
    table.add_column("unit")
    for name in names:
        table.add_column(f"{name} (baseline)" if name == results.baseline else name, justify="right")
    for figure, medians in rows:
        ratios = results.times_better(figure, medians)
        cells = [
            f"{medians[name]:,.{figure.digits}f}{_ratio(ratios.get(name))}" if name in medians else "-"
            for name in names
        ]
        table.add_row(figure.name, figure.unit, *cells)
    return table


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f" ({ratio:.2f})"
