"""The part of the page on one streaming query: throughput, where the time of batches went, lag, state.

Knows nothing of files or stages.
"""

from collections.abc import Sequence

from hutong.pipelines.engine.micro_batches import MicroBatch
from hutong.pipelines.engine.stages import size
from hutong.pipelines.report.model import Query
from hutong.pipelines.report.render.charts import Series, lines_over_time, stacked_bars, thinned
from hutong.pipelines.report.render.markup import SERIES_COLOUR_COUNT, count, duration, escaped
from hutong.pipelines.report.render.tables import Tile, percentile, tiles

PHASE_ORDER = ("asking for offsets", "planning", "noting the plan", "computing", "noting the end", "other")
ALL_OTHERS = "all others"


def query_section(query: Query) -> str:
    """Heading, figures and charts, or a sentence if the query reported no batch."""
    batches = sorted(query.batches.values(), key=lambda batch: batch.started_ms)
    heading = f"<h2>Query {escaped(query.name)}</h2>"
    if not batches:
        return f"{heading}<p>It reported no micro-batch.</p>"
    worked = [batch for batch in batches if batch.row_count or batch.phases_ms.get("computing")]
    parts = [heading, tiles(_figures(batches, worked)), _throughput(batches), _durations(worked)]
    parts += [_lag(batches), _state(batches), _lateness(batches)]
    return "".join(parts)


def _figures(batches: Sequence[MicroBatch], worked: Sequence[MicroBatch]) -> list[Tile]:
    rows = sum(batch.row_count for batch in batches)
    durations = [batch.duration_ms for batch in worked]
    busy_s = sum(durations) / 1000
    figures = [Tile("records read", count(rows)), Tile("micro-batches with work", count(len(worked)))]
    if busy_s:
        figures.append(Tile("records a second of work", count(round(rows / busy_s))))
    if durations:
        figures.append(Tile("batch, median", duration(percentile(durations, 0.5))))
        figures.append(Tile("batch, slowest of 100", duration(percentile(durations, 0.99))))
    if batches[-1].lag is not None:
        figures.append(Tile("behind at the end", count(batches[-1].lag)))
    late = sum(batch.late_row_count for batch in batches)
    return figures + ([Tile("rows too late", count(late))] if late else [])


def _throughput(batches: Sequence[MicroBatch]) -> str:
    groups = thinned(batches)
    came = Series("came in, records/s", [_mean([batch.arrived_per_s for batch in group]) for group in groups])
    done = Series("worked off while at work, records/s", [_speed(group) for group in groups])
    chart = lines_over_time("Throughput", _ends(groups), [came, done], count)
    return f"<h3>Throughput</h3>{_drawn_together(batches, groups)}{chart}"


def _durations(worked: Sequence[MicroBatch]) -> str:
    if not worked:
        return ""
    groups = thinned(worked)
    names = [
        f"batch {group[0].batch_id}" if len(group) == 1 else f"batches {group[0].batch_id} to {group[-1].batch_id}"
        for group in groups
    ]
    phases = [name for name in PHASE_ORDER if any(batch.phases_ms.get(name) for batch in worked)]
    series = [
        Series(name, [_mean([batch.phases_ms.get(name, 0) for batch in group]) for group in groups]) for name in phases
    ]
    chart = stacked_bars("Duration of micro-batches by phase", names, series, duration)
    return f"<h3>Where the time of each batch went</h3>{_drawn_together(worked, groups)}{chart}"


def _lag(batches: Sequence[MicroBatch]) -> str:
    """A line a topic; where there are more topics than colours, the last line has the rest."""
    most: dict[str, int] = {}
    for batch in batches:
        for topic, lag in (batch.lag_of_topic or {}).items():
            most[topic] = max(most.get(topic, 0), lag)
    if not most:
        return "<h3>Lag</h3><p class='hint'>No source of this query tells what it has to offer.</p>"
    topics = sorted(most, key=lambda topic: (-most[topic], topic))
    shown = topics if len(topics) <= SERIES_COLOUR_COUNT else topics[: SERIES_COLOUR_COUNT - 1]
    groups = thinned(batches)
    series = [Series(topic, [_worst_lag(group, {topic}) for group in groups]) for topic in shown]
    if len(shown) < len(topics):
        rest = set(topics[len(shown) :])
        series.append(Series(ALL_OTHERS, [_worst_lag(group, rest) for group in groups]))
    chart = lines_over_time("Lag", _ends(groups), series, count)
    hint = "Records that waited when the batch was planned and that it did not take, by topic."
    return f"<h3>Lag</h3><p class='hint'>{hint}</p>{chart}"


def _worst_lag(group: Sequence[MicroBatch], topics: set[str]) -> float | None:
    lags = [
        sum(lag for topic, lag in batch.lag_of_topic.items() if topic in topics)
        for batch in group
        if batch.lag_of_topic is not None and topics & batch.lag_of_topic.keys()
    ]
    return max(lags, default=None)


def _state(batches: Sequence[MicroBatch]) -> str:
    if all(batch.state_row_count is None for batch in batches):
        return ""
    groups = thinned(batches)
    rows = Series("rows in state", [_most([batch.state_row_count for batch in group]) for group in groups])
    memory = Series("memory of state", [_most([batch.state_bytes for batch in group]) for group in groups])
    drawn = lines_over_time("Rows in state", _ends(groups), [rows], count)
    drawn += lines_over_time("Memory of state", _ends(groups), [memory], size)
    return f"<h3>State</h3>{drawn}"


def _lateness(batches: Sequence[MicroBatch]) -> str:
    """A chart of the watermark's distance from the batch's time."""
    if all(batch.watermark_ms is None for batch in batches):
        return ""
    groups = thinned(batches)
    behind = [
        _most([batch.started_ms - batch.watermark_ms for batch in group if batch.watermark_ms is not None])
        for group in groups
    ]
    chart = lines_over_time(
        "Watermark behind the clock", _ends(groups), [Series("watermark behind the clock", behind)], duration
    )
    return f"<h3>Watermark</h3>{chart}"


def _drawn_together(batches: Sequence[MicroBatch], groups: Sequence[Sequence[MicroBatch]]) -> str:
    if len(groups) == len(batches):
        return ""
    return f"<p class='hint'>{len(batches):,} micro-batches, drawn as {len(groups)} means of neighbours.</p>"


def _ends(groups: Sequence[Sequence[MicroBatch]]) -> list[int]:
    """Return the end of each group's last batch; never falling, as clocks may be set back."""
    ends: list[int] = []
    for group in groups:
        ends.append(max([group[-1].started_ms + group[-1].duration_ms, *ends[-1:]]))
    return ends


def _speed(group: Sequence[MicroBatch]) -> float | None:
    milliseconds = sum(batch.duration_ms for batch in group if batch.row_count)
    return sum(batch.row_count for batch in group) * 1000 / milliseconds if milliseconds else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _most(values: Sequence[float | None]) -> float | None:
    return max((max(0.0, float(value)) for value in values if value is not None), default=None)
