"""Filters of a query that reduce reading: by topic, partition, offset, and earliest time.

Spark passes the conditions of a WHERE clause, one simple comparison each, all of which hold for the wanted rows. Those
on topic and partition exclude partitions, those on offset cut ranges. Both are exact: Spark need not test them again. A
time moves the start of a range to the first record at or after it. Older records may follow, so Spark tests it too.
Keys and values are not considered.

Spark's filters are known here by the names of their classes. Knows nothing of brokers.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from hutong.pipelines.source.splitting import OffsetRange

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NEVER_NULL = ("topic", "partition", "offset", "timestamp", "timestampType")
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "EqualTo": operator.eq,
    "EqualNullSafe": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "In": lambda value, values: value in values,
}


@dataclass(frozen=True, slots=True)
class Narrowing:
    """The combined effect of all filters."""

    tests: tuple[tuple[str, str, Any], ...] = ()
    """Column (topic or partition), comparison, value."""
    first: int = 0
    end: int | None = None
    since_ms: int | None = None
    """Records before the first that is as young are not wanted."""

    def apply(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """The ranges without what topic, partition and offset rule out; empty ones are left out."""
        return [
            cut
            for one in ranges
            if all(COMPARISONS[name](getattr(one.partition, column), value) for column, name, value in self.tests)
            for cut in [self._cut(one)]
            if cut.size > 0
        ]

    def _cut(self, one: OffsetRange) -> OffsetRange:
        end = one.end if self.end is None else min(one.end, self.end)
        return OffsetRange(one.partition, max(one.first, self.first), end)


def narrowing(filters: Sequence[Any]) -> tuple[Narrowing, list[Any]]:
    """Combine the filters. Return their effect, and the filters that Spark must test itself."""
    tests: list[tuple[str, str, Any]] = []
    first, end, since_ms = 0, None, None
    left = []
    for one in filters:
        name, column = type(one).__name__, _column(one)
        value = getattr(one, "value", None)
        if name == "IsNotNull" and column in NEVER_NULL:
            continue
        if name in COMPARISONS and column in ("topic", "partition"):
            tests.append((column, name, value))
            continue
        bounds = _bounds(name, value) if column == "offset" else None
        if bounds is not None:
            first = max(first, bounds[0])
            end = end if bounds[1] is None else min(bounds[1], bounds[1] if end is None else end)
            continue
        since = _since_ms(name, value) if column == "timestamp" else None
        if since is not None:
            since_ms = since if since_ms is None else max(since, since_ms)
        left.append(one)
    return Narrowing(tuple(tests), first, end, since_ms), left


def _column(one: Any) -> str:
    attribute: tuple[str, ...] = getattr(one, "attribute", ())
    return attribute[0] if len(attribute) == 1 else ""


def _bounds(name: str, value: Any) -> tuple[int, int | None] | None:
    """First and end of the offsets that a comparison lets through; None where that is no range."""
    if not isinstance(value, int):
        return None
    match name:
        case "EqualTo" | "EqualNullSafe":
            return value, value + 1
        case "GreaterThan":
            return value + 1, None
        case "GreaterThanOrEqual":
            return value, None
        case "LessThan":
            return 0, value
        case "LessThanOrEqual":
            return 0, value + 1
        case _:
            return None


def _since_ms(name: str, value: Any) -> int | None:
    if name not in ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual"):
        return None
    if not isinstance(value, datetime) or value.tzinfo is None or value < EPOCH:
        return None
    return (value - EPOCH) // timedelta(milliseconds=1)
