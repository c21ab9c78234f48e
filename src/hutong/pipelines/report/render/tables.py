"""Tables and tiles of figures, as HTML. Every text is escaped here."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hutong.pipelines.report.render.markup import escaped


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Tile:
    what: str
    value: str


@dataclass(frozen=True, slots=True)
class Markup:
    """A cell that is HTML already."""

    html: str


Cell = str | Markup


def table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> str:
    heads = "".join(f"<th{_kind(column)}>{escaped(column.title)}</th>" for column in columns)
    body = "".join(f"<tr>{_cells(columns, row)}</tr>" for row in rows)
    return f"<div class='wide'><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"


def tiles(figures: Iterable[Tile]) -> str:
    items = "".join(f"<li><b>{escaped(tile.value)}</b><span>{escaped(tile.what)}</span></li>" for tile in figures)
    return f"<ul class='tiles'>{items}</ul>"


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of at least one value."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _cells(columns: Sequence[Column], row: Sequence[Cell]) -> str:
    return "".join(
        f"<td{_kind(column)}>{cell.html if isinstance(cell, Markup) else escaped(cell)}</td>"
        for column, cell in zip(columns, row, strict=True)
    )


def _kind(column: Column) -> str:
    return " class='number'" if column.is_number else ""
