"""Aggregates over windows of time, of a stream or of what a topic holds.

Windows are tumbling, or sliding where `slide` is given; they begin at whole multiples of their length (or slide)
since 1970 in UTC, shifted by `offset`. A stream with output mode `append` gives each window once, when the watermark
has passed its end; what comes later for it is left out and counted as `numRowsDroppedByWatermark` in the query's
progress. With `update` it gives a window again whenever it changes. Events without a time are left out.
"""

from typing import TYPE_CHECKING

from hutong.pipelines.jobs.events import (
    EVENT_TIME,
    SOURCE,
    TIMED,
    Frames,
    Parameters,
    duration,
    only_frame,
    optional_duration,
    timed,
)
from hutong.pipelines.jobs.job import Job, JobParameter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

JOB = Job(
    name="windows",
    kind="streaming or batch, DataFrame",
    summary="Aggregates over tumbling or sliding windows of event time, with late events left out by a watermark.",
    reads="events: any columns from which SQL makes a time",
    outputs=(("result", "start, end, what the parameter by says, what aggregates says"),),
    parameters=(
        SOURCE,
        *TIMED,
        JobParameter("window", "1 hour", "how long a window is"),
        JobParameter("slide", "", "how far apart windows begin; by default they follow one another"),
        JobParameter("offset", "", "how far from whole hours, days and so on (UTC) windows begin"),
        JobParameter("by", "", "what else to group by: SQL expressions with commas"),
        JobParameter("aggregates", "count(*) AS count", "what to compute: SQL expressions with names and commas"),
    ),
    template="""\
# Requests and bytes of a web server per hour and status, from lines of its access log.

@PIPELINE@
trigger = "10 seconds"

[sources.web]
topic = "web"

[transform]
job = "windows"

[transform.parameters]
lines = "combined"      # leave out where the source has columns of its own, and say time = "..."
window = "1 hour"
delay = "10 minutes"    # an hour is given out when events this much younger than its end have come
by = "status"
aggregates = "count(*) AS requests, sum(bytes) AS bytes"

[sinks.hours]
kind = "parquet"
path = "@NAME@-hours"
""",
)


def transform(frames: Frames, parameters: Parameters) -> "DataFrame":
    """Columns: `start`, `end`, those of `by`, those of `aggregates`."""
    given = JOB.with_defaults(parameters)
    length = duration(given, "window")
    slide, offset = optional_duration(given, "slide"), optional_duration(given, "offset")
    events = timed(only_frame(frames, given), given)
    return windowed(events, length, slide, offset, given["by"], given["aggregates"])


def windowed(
    events: "DataFrame", length: str, slide: str | None, offset: str | None, by: str, aggregates: str
) -> "DataFrame":
    """`by` and `aggregates` are lists of SQL expressions with commas; `by` may be empty."""
    from pyspark.sql import functions as f

    # A list of expressions is one struct to Spark, so that nothing here need know where one ends.
    keys = [f.window(EVENT_TIME, length, slide, offset).alias("window")]
    if by.strip():
        keys.append(f.expr(f"struct({by})").alias("by"))
    counted = events.groupBy(*keys).agg(f.expr(f"struct({aggregates})").alias("aggregates"))
    return counted.select("window.start", "window.end", *(["by.*"] if by.strip() else []), "aggregates.*")
