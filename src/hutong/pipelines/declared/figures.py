"""The figures of a pipeline's run that people look at, from the progress documents Spark gives out. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

RATE_BATCHES = 5
"""Over how many of the last batches a rate is taken."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One query: its last batch, what it reads per second, and how far behind the topics' ends it is."""

    query: str
    batch: int
    rows_per_second: float
    batch_ms: int
    lag: Mapping[str, int] = field(default_factory=dict)
    """Records that were there and not yet read when the last batch was planned, by topic."""

    @property
    def lag_total(self) -> int:
        return sum(self.lag.values())


def figures(documents: Sequence[Mapping[str, Any]]) -> list[Figures]:
    """The figures of each query in documents given oldest first."""
    by_query: dict[str, list[Mapping[str, Any]]] = {}
    for document in documents:
        by_query.setdefault(str(document.get("name") or document.get("id")), []).append(document)
    return [_figures(query, told) for query, told in by_query.items()]


def line_of(told: Iterable[Figures]) -> str:
    """All queries in one line, for the terminal."""
    return "; ".join(
        f"{one.query}: batch {one.batch}, {one.rows_per_second:,.0f} rows/s, lag {one.lag_total:,}, {one.batch_ms:,} ms"
        for one in told
    )


def lag_of(document: Mapping[str, Any]) -> dict[str, int]:
    """By topic, of the sources that have offsets by topic and partition."""
    lag: dict[str, int] = {}
    for source in document.get("sources") or ():
        end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        for topic, partitions in latest.items():
            for partition, offset in partitions.items():
                lag[topic] = lag.get(topic, 0) + max(0, offset - end.get(topic, {}).get(partition, 0))
    return lag


def offsets_of(document: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Where the sources of a query are once the batch is done, by topic and partition."""
    reached: dict[str, dict[str, int]] = {}
    for source in document.get("sources") or ():
        for topic, partitions in _offsets(source.get("endOffset")).items():
            reached.setdefault(topic, {}).update(partitions)
    return reached


def _figures(query: str, told: Sequence[Mapping[str, Any]]) -> Figures:
    last = told[-1]
    recent = [document for document in told if document.get("numInputRows")][-RATE_BATCHES:]
    rows = sum(document["numInputRows"] for document in recent)
    milliseconds = sum(_batch_ms(document) for document in recent)
    worked = recent[-1] if recent else last
    return Figures(
        query=query,
        batch=last.get("batchId", 0),
        rows_per_second=rows * 1000 / milliseconds if milliseconds else 0.0,
        batch_ms=_batch_ms(worked),
        lag=lag_of(last),
    )


def _batch_ms(document: Mapping[str, Any]) -> int:
    durations = document.get("durationMs") or {}
    return int(durations.get("triggerExecution") or 0)


def _offsets(told: Any) -> dict[str, dict[str, int]]:
    """Offsets of a topic source; empty for any other source."""
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except ValueError:
            return {}
    if not isinstance(told, dict) or not all(isinstance(partitions, dict) for partitions in told.values()):
        return {}
    return {
        topic: {str(partition): offset for partition, offset in partitions.items() if isinstance(offset, int)}
        for topic, partitions in told.items()
    }
