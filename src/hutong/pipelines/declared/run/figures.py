"""The figures of a pipeline's run that people look at, from the progress documents Spark gives out. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hutong.pipelines.engine.micro_batches import MicroBatch, micro_batch

RATE_BATCHES = 5
"""Over how many of the last batches a rate is taken."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One query: its last batch, what it reads per second, and how far behind the topics' ends it is."""

    query: str
    batch: int
    rows_per_second: float
    batch_ms: int
    lag: Mapping[str, int]
    """Records that were there and not yet read when the last batch was planned, by topic."""


def figures(documents: Sequence[Mapping[str, Any]]) -> list[Figures]:
    """The figures of each query in documents given oldest first; what is no progress is left out."""
    by_query: dict[str, list[MicroBatch]] = {}
    for batch in _batches(documents):
        by_query.setdefault(batch.query_id, []).append(batch)
    return [_figures(batches_done) for batches_done in by_query.values()]


def line_of(batches_done: Iterable[Figures]) -> str:
    """All queries in one line, for the terminal."""
    return "; ".join(
        f"{one.query}: batch {one.batch}, {one.rows_per_second:,.0f} rows/s, lag {sum(one.lag.values()):,}, "
        f"{one.batch_ms:,} ms"
        for one in batches_done
    )


def offsets_of(document: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return the end offsets of a query's topics after the batch, by topic and partition."""
    reached: dict[str, dict[str, int]] = {}
    for source in document.get("sources") or ():
        end = source.get("endOffset")
        if isinstance(end, dict) and all(isinstance(partitions, dict) for partitions in end.values()):
            for topic, partitions in end.items():
                reached.setdefault(topic, {}).update(partitions)
    return reached


def _batches(documents: Iterable[Mapping[str, Any]]) -> Iterable[MicroBatch]:
    for document in documents:
        try:
            yield micro_batch(document)
        except ValueError:
            continue


def _figures(batches_done: Sequence[MicroBatch]) -> Figures:
    last = batches_done[-1]
    recent = [batch for batch in batches_done if batch.row_count][-RATE_BATCHES:]
    milliseconds = sum(batch.duration_ms for batch in recent)
    return Figures(
        query=last.query,
        batch=last.batch_id,
        rows_per_second=sum(batch.row_count for batch in recent) * 1000 / milliseconds if milliseconds else 0.0,
        batch_ms=(recent or batches_done)[-1].duration_ms,
        lag=last.lag_of_topic or {},
    )
