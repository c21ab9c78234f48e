"""Sends records again: an archive, or any table of records with topic, partition and offset, back into a topic.

One task sends the records of a partition in the order of their offsets, so the order per partition and per key stays.
With `partitions = "kept"` a record goes to the partition with its old number; `"by key"` lets the sink choose as
producers do, for a topic with another number of partitions. Key, value and headers go out unchanged.

A record gets a new offset and keeps its timestamp, unless `timestamps = "now"` gives it the time of writing: a topic
whose `retention.ms` is shorter than a record's age deletes that record soon after. With `origin` the headers name the
source: `source-topic`, `source-partition`, `source-offset`, `source-timestamp` (Unix milliseconds).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hutong.foundation.errors import UsageError
from hutong.pipelines.jobs.headers import headers_of, with_origin
from hutong.pipelines.jobs.job import Job, JobParameter
from hutong.pipelines.jobs.parameters import KEPT, NOW, flag, keeps_timestamps, need_columns, the_only

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BY_KEY = "by key"
JOB = Job(
    name="replay",
    kind="batch",
    summary="Sends the records of an archive into a topic again, in the order they had in each partition.",
    reads="an archive, or any table with the columns value, topic, partition and offset",
    outputs=(("records", "key, value, headers, timestamp and partition, for a sink of the kind topic"),),
    parameters=(
        JobParameter("where", "true", "SQL that chooses records, such as date = '2015-05-17' AND topic = 'web'"),
        JobParameter(
            "partitions", KEPT, f"{KEPT}: a record's partition is the one it had; {BY_KEY}: as producers choose"
        ),
        JobParameter(
            "timestamps", KEPT, f"{KEPT}: as they were; {NOW}: the time of writing, from which retention counts"
        ),
        JobParameter("origin", "no", "yes adds headers that tell topic, partition, offset and timestamp of before"),
    ),
    template="""\
@PIPELINE@
trigger = "batch"

[sources.archive]
kind = "parquet"
path = "archive"

[transform]
job = "replay"
parameters = { where = "date >= '2015-05-17'" }

[sinks.again]
kind = "topic"
topic = "events-again"
""",
)


def transform(frames: "Mapping[str, DataFrame]", parameters: Mapping[str, str]) -> "DataFrame":
    """Records as the sink takes them. Raises UsageError."""
    records = the_only(frames, JOB.name)
    need_columns(records, ("value", "topic", "partition", "offset"), JOB.name)
    if parameters["partitions"] not in (KEPT, BY_KEY):
        raise UsageError(f"parameter partitions is '{parameters['partitions']}': it must be '{KEPT}' or '{BY_KEY}'")
    keep = ["partition"] if parameters["partitions"] == KEPT else []
    if keeps_timestamps(parameters) and "timestamp" in records.columns:
        keep.append("timestamp")
    chosen = records.where(parameters["where"])
    headers = with_origin(chosen) if flag(parameters, "origin") else headers_of(chosen)
    ordered = chosen.withColumn("headers", headers)
    if not records.isStreaming:
        # All of a partition in one task, in its order. A stream's tasks are so already.
        ordered = ordered.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")
    key = ["key"] if "key" in records.columns else []
    return ordered.select(*key, "value", "headers", *keep)
