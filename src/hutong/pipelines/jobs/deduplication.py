"""Leaves out records that come again.

In a stream, a record is left out when one with the same values in `columns` came within `delay` before, by event time:
Spark remembers each for that long after its own time and then forgets it, so memory is bounded and a duplicate that
comes later than `delay` may pass. A table (trigger "batch") is de-duplicated exactly: of all that are the same the
earliest stays, by event time, then by topic, partition and offset.

Records whose columns are null are the same as each other, as in SQL's DISTINCT.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hutong.pipelines.jobs.headers import with_free_partition
from hutong.pipelines.jobs.job import Job, JobParameter
from hutong.pipelines.jobs.parameters import names, need_columns, the_only

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

JOB = Job(
    name="deduplication",
    kind="streaming or batch",
    summary="Leaves out records that come again: within a time in a stream, exactly in a table.",
    reads="records of any kind with a column of time",
    outputs=(("records", "all columns of the source, `partition` as `source_partition`"),),
    parameters=(
        JobParameter("columns", "key", "what makes two records the same: columns with commas between them"),
        JobParameter("event_time", "timestamp", "the column of time"),
        JobParameter("delay", "10 minutes", "how long a stream remembers a record"),
    ),
    template="""\
@PIPELINE@
trigger = "10 seconds"             # "batch" de-duplicates all there is, exactly

[sources.records]
topic = "events"
options = { includeHeaders = "true" }

[transform]
job = "deduplication"
parameters = { columns = "key", delay = "10 minutes" }

[sinks.unique]
kind = "topic"
topic = "events-unique"
""",
)
TIES = ("topic", "partition", "offset")


def transform(frames: "Mapping[str, DataFrame]", parameters: Mapping[str, str]) -> "DataFrame":
    """The records without those that come again. Raises UsageError."""
    records = the_only(frames, JOB.name)
    columns, time = names(parameters, "columns"), parameters["event_time"]
    need_columns(records, (*columns, time), JOB.name)
    if records.isStreaming:
        unique = records.withWatermark(time, parameters["delay"]).dropDuplicatesWithinWatermark(list(columns))
    else:
        unique = earliest(records, columns, time)
    return with_free_partition(unique)


def earliest(records: "DataFrame", columns: tuple[str, ...], time: str) -> "DataFrame":
    """Of all rows with the same values in `columns` the one that was first."""
    from pyspark.sql import functions as f

    order = f.struct(time, *(name for name in TIES if name in records.columns))
    first = f.min_by(f.struct(*(f.col(name) for name in records.columns)), order).alias("first")
    return records.groupBy(*columns).agg(first).select("first.*")
