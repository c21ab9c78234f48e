"""Sessions: a client's events with no pause of `gap` or more between them.

Uses Spark's session windows: their state is merged in the JVM, so that no event passes through Python. A session is
emitted once, when the watermark passes its end, `gap` after its last event; a stream needs the output mode `append`. An
event that arrives after the watermark has passed its own end is dropped. Events without a time belong to no session;
those without a client share one.
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
    required,
    timed,
)
from hutong.pipelines.jobs.job import Job, JobParameter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SUMMARY = f"max({EVENT_TIME}) AS last, count(*) AS events"
JOB = Job(
    name="sessions",
    kind="streaming or batch, DataFrame",
    summary="Sessions: what each client did with no long pause between.",
    reads="events: any columns from which SQL makes a time and a client",
    outputs=(("result", "what the parameter by says, start, end, what aggregates says"),),
    parameters=(
        SOURCE,
        *TIMED,
        JobParameter("by", None, "what tells clients apart: SQL expressions with commas"),
        JobParameter("gap", "30 minutes", "the pause that ends a session"),
        JobParameter("aggregates", SUMMARY, "what to compute: SQL expressions with names and commas"),
    ),
    template="""\
# Visits to a web server: the requests of one client with no pause of half an hour.

@PIPELINE@
trigger = "10 seconds"

[sources.web]
topic = "web"

[transform]
job = "sessions"

[transform.parameters]
lines = "combined"      # leave out where the source has columns of its own, and say time = "..."
by = "client"
gap = "30 minutes"
delay = "10 minutes"    # a session is given out when events this much younger than its end have come
aggregates = '''
max(event_time) AS last, count(*) AS requests, sum(bytes) AS bytes,
min_by(path, event_time) AS first_path, max_by(path, event_time) AS last_path
'''

[sinks.visits]
kind = "parquet"
path = "@NAME@-visits"
""",
)


def transform(frames: Frames, parameters: Parameters) -> "DataFrame":
    """Columns: those of `by`, `start`, `end`, those of `aggregates`."""
    given = JOB.with_defaults(parameters)
    by = required(given, "by", "what tells one client from another, such as client")
    gap = duration(given, "gap")
    return sessions(timed(only_frame(frames, given), given), by, gap, given["aggregates"])


def sessions(events: "DataFrame", by: str, gap: str, aggregates: str = SUMMARY) -> "DataFrame":
    """`by` and `aggregates` are lists of SQL expressions with commas."""
    from pyspark.sql import functions as f

    keys = (f.session_window(EVENT_TIME, gap).alias("session"), f.expr(f"struct({by})").alias("by"))
    summed = events.groupBy(*keys).agg(f.expr(f"struct({aggregates})").alias("aggregates"))
    return summed.select("by.*", "session.start", "session.end", "aggregates.*")
