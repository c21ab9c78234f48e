"""Sends dead letters back to where they came from, once what was wrong is mended.

Each goes to the topic in its header `source-topic`, or to the topic that the parameter names, by its key; it loses the
headers that made it a dead letter and gets `replays`, the number of times it was sent back. A letter that came back
`replays_max` times stays: sent forever, a record that cannot be read would go round in circles. Such letters, and those
without `source-topic`, are the frame `parked`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hutong.pipelines.jobs.headers import (
    REASON,
    REPLAYS,
    SOURCE_HEADERS,
    SOURCE_TOPIC,
    header,
    header_text,
    headers_of,
    source_time,
    without,
)
from hutong.pipelines.jobs.job import Job, JobParameter
from hutong.pipelines.jobs.parameters import KEPT, NOW, keeps_timestamps, need_columns, the_only, whole_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LETTERS, PARKED = "letters", "parked"
JOB = Job(
    name="replay-dead-letters",
    kind="streaming or batch",
    summary="Sends dead letters back to the topics they came from, each so many times at most.",
    reads="dead letters as the job dead-letters writes them, with their headers",
    outputs=(
        (LETTERS, "key, value, headers, topic and timestamp, for a sink of the kind topic"),
        (PARKED, "letters that have been sent back too often or do not tell where to, unchanged"),
    ),
    parameters=(
        JobParameter("topic", "", "where all go; by default each to the topic it came from"),
        JobParameter("reason", "", "SQL pattern (LIKE) of the reasons that are mended; by default all"),
        JobParameter(
            "timestamps", KEPT, f"{KEPT}: that of the record before it became a letter; {NOW}: that of writing"
        ),
        JobParameter("replays_max", "3", "how many times a letter is sent back at most"),
    ),
    template="""\
@PIPELINE@
trigger = "available now"          # what is there now, and at the next run what came since

[sources.letters]
topic = "events.dead-letters"
options = { includeHeaders = "true" }

[transform]
job = "replay-dead-letters"
parameters = { topic = "events" }

[sinks.again]
from = "letters"
kind = "topic"
topic = "events"

[sinks.parked]
from = "parked"
kind = "topic"
topic = "events.parked"
""",
)


def transform(frames: "Mapping[str, DataFrame]", parameters: Mapping[str, str]) -> "dict[str, DataFrame]":
    """Letters to be sent back, and those that are not. Raises UsageError."""
    from pyspark.sql import functions as f

    records = the_only(frames, JOB.name)
    need_columns(records, ("value", "headers"), JOB.name)
    most = whole_number(parameters, "replays_max", 1)
    headers = headers_of(records)
    replays = f.coalesce(header_text(headers, REPLAYS).try_cast("int"), f.lit(0))
    target = f.lit(parameters["topic"]) if parameters["topic"] else header_text(headers, SOURCE_TOPIC)
    judged = records.withColumns({REPLAYS: replays, "target": target})
    if parameters["reason"]:
        judged = judged.where(header_text(headers, REASON).like(parameters["reason"]))
    goes = f.col("target").isNotNull() & (f.col(REPLAYS) < most)
    kept = without(headers, (REASON, REPLAYS, *SOURCE_HEADERS))
    again = f.concat(kept, f.array(header(REPLAYS, f.col(REPLAYS) + 1)))
    key = ["key"] if "key" in records.columns else []
    time = [source_time(headers).alias("timestamp")] if keeps_timestamps(parameters) else []
    sent = judged.where(goes).select(*key, "value", again.alias("headers"), f.col("target").alias("topic"), *time)
    return {LETTERS: sent, PARKED: judged.where(~goes).select(*key, "value", "headers")}
