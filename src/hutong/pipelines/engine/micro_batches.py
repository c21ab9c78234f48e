"""Facts on each micro-batch of a streaming query: rows, rates, phases of its time, lag.

Reads Spark's progress documents as they come: from a listener (offsets are objects), from `recentProgress`, from an
event log (offsets are text that holds JSON). They may come from another version of Spark or be damaged: only the
query's id, the batch and the time are required; any other missing value counts as empty.

Lag is a source's newest offset when the batch was planned, less the query's end offset: per topic, over the partitions
that both sides have. A source that reports no newest offset has no lag.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

PHASES = (
    ("latestOffset", "asking for offsets"),
    ("getOffset", "asking for offsets"),
    ("setOffsetRange", "asking for offsets"),
    ("getBatch", "planning"),
    ("queryPlanning", "planning"),
    ("walCommit", "noting the plan"),
    ("addBatch", "computing"),
    ("commitBatch", "noting the end"),
    ("commitOffsets", "noting the end"),
)
"""Spark's names of what it measured, and what we call it."""
WHOLE, OTHER = "triggerExecution", "other"


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One progress. Times are Unix milliseconds. Spark repeats the last batch with no rows while a query is idle."""

    query_id: str
    run_id: str
    query: str
    """Its name, or the beginning of its id."""
    batch_id: int
    started_ms: int
    duration_ms: int
    phases_ms: Mapping[str, int]
    row_count: int = 0
    arrived_per_s: float | None = None
    lag_of_topic: Mapping[str, int] | None = None
    """Rows, or None where no source reports its newest offset."""
    watermark_ms: int | None = None
    state_row_count: int | None = None
    state_bytes: int | None = None
    late_row_count: int = 0
    """Rows that came after the watermark had passed them."""

    @property
    def lag(self) -> int | None:
        """Rows that wait over all topics, or None where no source reports its newest offset."""
        return None if self.lag_of_topic is None else sum(self.lag_of_topic.values())


def micro_batch(progress: Mapping[str, Any]) -> MicroBatch:
    """Raises ValueError for what is no progress of a streaming query."""
    try:
        query_id, batch_id, started_ms = str(progress["id"]), int(progress["batchId"]), _time_ms(progress["timestamp"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError("this is not the progress of a streaming query") from error
    durations = _whole_numbers(progress.get("durationMs"))
    states = [state for state in _list(progress.get("stateOperators")) if isinstance(state, dict)]
    return MicroBatch(
        query_id=query_id,
        run_id=str(progress.get("runId", "")),
        query=str(progress.get("name") or query_id[:8]),
        batch_id=batch_id,
        started_ms=started_ms,
        duration_ms=durations.get(WHOLE) or _whole(progress.get("batchDuration")),
        phases_ms=_phases(durations),
        row_count=_rows(progress),
        arrived_per_s=_arrival_rate(progress),
        lag_of_topic=lag_of_topic(progress),
        watermark_ms=_optional_time_ms(_dict(progress.get("eventTime")).get("watermark")),
        state_row_count=sum(_whole(state.get("numRowsTotal")) for state in states) if states else None,
        state_bytes=sum(_whole(state.get("memoryUsedBytes")) for state in states) if states else None,
        late_row_count=sum(_whole(state.get("numRowsDroppedByWatermark")) for state in states),
    )


def lag_of_topic(progress: Mapping[str, Any]) -> dict[str, int] | None:
    """Return the unread rows of each topic after the batch; None if no source reports its newest offset."""
    lags: dict[str, int] = {}
    for source in _list(progress.get("sources")):
        if not isinstance(source, dict):
            continue
        latest, reached = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
        for (topic, partition), offset in latest.items():
            if (topic, partition) in reached:
                lags[topic] = lags.get(topic, 0) + max(0, offset - reached[topic, partition])
    return lags or None


def ranges_of(progress: Mapping[str, Any]) -> dict[tuple[str, int], tuple[int | None, int]]:
    """Return what the batch has read of each topic and partition: the first offset, and the one after the last.

    The first offset is None where it is not known. Empty ranges are left out.
    """
    ranges: dict[tuple[str, int], tuple[int | None, int]] = {}
    for source in _list(progress.get("sources")):
        if not isinstance(source, dict):
            continue
        begins, ends = _offsets(source.get("startOffset")), _offsets(source.get("endOffset"))
        # Of a query's first batch Spark tells no start. As many rows as offsets: it has read all of them.
        is_known = bool(begins) or source.get("numInputRows") == sum(ends.values())
        for place, end in ends.items():
            # A partition that is new to the query is read from its beginning.
            begin = begins.get(place, 0) if is_known else None
            if begin is not None and begin < 0:
                begin = None  # Kafka's numbers for "earliest" and "latest"
            if (begin or 0) < end:
                ranges[place] = (begin, end)
    return ranges


def _phases(durations: Mapping[str, int]) -> dict[str, int]:
    """Return Spark's phases under our names, and the unmeasured rest."""
    phases: dict[str, int] = {}
    for name, ours in PHASES:
        if name in durations:
            phases[ours] = phases.get(ours, 0) + durations[name]
    rest = durations.get(WHOLE, 0) - sum(phases.values())
    return phases | ({OTHER: rest} if rest > 0 else {})


def _rows(progress: Mapping[str, Any]) -> int:
    """Spark's listeners give the sum in Python; in JSON of older ones only the sources have it."""
    if "numInputRows" in progress:
        return _whole(progress["numInputRows"])
    return sum(_whole(_dict(source).get("numInputRows")) for source in _list(progress.get("sources")))


def _arrival_rate(progress: Mapping[str, Any]) -> float | None:
    """None where Spark could not divide: it gives NaN, text, or leaves it out."""
    entry = progress.get("inputRowsPerSecond")
    if entry is None:
        rates = [_dict(source).get("inputRowsPerSecond") for source in _list(progress.get("sources"))]
        numbers = [float(rate) for rate in rates if isinstance(rate, int | float)]
        entry = sum(numbers) if numbers else None
    return float(entry) if isinstance(entry, int | float) and 0 <= entry < float("inf") else None


def _offsets(entry: Any) -> dict[tuple[str, int], int]:
    """`{"topic": {"0": 5}}`, or the same as text; empty for offsets of another form."""
    if isinstance(entry, str):
        try:
            entry = json.loads(entry)
        except (ValueError, RecursionError):
            return {}
    return {
        (topic, int(partition)): offset
        for topic, partitions in _dict(entry).items()
        for partition, offset in _dict(partitions).items()
        if isinstance(offset, int) and str(partition).isdecimal()
    }


def _time_ms(entry: Any) -> int:
    if not isinstance(entry, str):
        raise TypeError
    moment = datetime.fromisoformat(entry)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _optional_time_ms(entry: Any) -> int | None:
    """Parse a watermark; one at the epoch has not started."""
    try:
        return _time_ms(entry) or None
    except (TypeError, ValueError, OverflowError):
        return None


def _whole_numbers(entry: Any) -> dict[str, int]:
    return {name: value for name, value in _dict(entry).items() if isinstance(value, int) and value >= 0}


def _whole(entry: Any) -> int:
    return entry if isinstance(entry, int) and entry > 0 else 0


def _dict(entry: Any) -> dict[str, Any]:
    return entry if isinstance(entry, dict) else {}


def _list(entry: Any) -> list[Any]:
    return entry if isinstance(entry, list) else []
