"""Separates readable records from unreadable ones, which become dead letters: unchanged, with the reason.

A dead letter is the record itself, key, value and headers, with further headers for the reason and the origin:
`reason`, `source-topic`, `source-partition`, `source-offset`, `source-timestamp`. The job replay-dead-letters sends
such records back.

`format` defines readable: text is UTF-8, json becomes a row of `schema`, combined is a line of a web server's access
log. So does `condition`, SQL over the record that must be true (null is not).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hutong.foundation.errors import UsageError
from hutong.pipelines.jobs import access_log
from hutong.pipelines.jobs.headers import (
    REASON,
    SOURCE_HEADERS,
    header,
    headers_of,
    origin_headers,
    with_free_partition,
    without,
)
from hutong.pipelines.jobs.job import Job, JobParameter
from hutong.pipelines.jobs.parameters import need_columns, the_only

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

GOOD, BAD = "good", "bad"
TEXT, JSON, COMBINED, ANY = "text", "json", "combined", "any"
FORMATS = (ANY, TEXT, JSON, COMBINED)
NOT_TEXT = "the value is not UTF-8 text"
NO_VALUE = "the record has no value"
NOT_JSON = "the value is not JSON"
NOT_OF_SCHEMA = "the value does not fit the schema"
CONDITION_FAILS = "the condition does not hold"
CORRUPT = "_corrupt"
JOB = Job(
    name="dead-letters",
    kind="streaming or batch",
    summary="Parts records that can be read from those that cannot, which become dead letters with a reason.",
    reads="records of any kind",
    outputs=(
        (GOOD, "the records that can be read, `partition` as `source_partition`"),
        (BAD, "dead letters: key, value and headers, for a sink of the kind topic"),
    ),
    parameters=(
        JobParameter("format", JSON, f"what a value must be: {', '.join(FORMATS)}"),
        JobParameter(
            "schema", "", "with json: the columns it must have, in Spark's words, such as user STRING, bytes BIGINT"
        ),
        JobParameter("condition", "", "SQL over the record that must hold, too, such as length(value) < 1000"),
    ),
    template="""\
@PIPELINE@
trigger = "10 seconds"

[sources.records]
topic = "events"
options = { includeHeaders = "true" }

[transform]
job = "dead-letters"
parameters = { format = "json", schema = "user STRING, bytes BIGINT" }

[sinks.good]
from = "good"
kind = "topic"
topic = "events-good"

[sinks.bad]
from = "bad"
kind = "topic"
topic = "events.dead-letters"
""",
)


def transform(frames: "Mapping[str, DataFrame]", parameters: Mapping[str, str]) -> "dict[str, DataFrame]":
    """The records that can be read and the dead letters. Raises UsageError."""
    records = the_only(frames, JOB.name)
    need_columns(records, ("value", "topic", "partition", "offset"), JOB.name)
    judged = records.withColumn(REASON, reason_of(parameters))
    good = judged.where(f"{REASON} IS NULL").drop(REASON)
    return {GOOD: with_free_partition(good), BAD: letters(judged.where(f"{REASON} IS NOT NULL"))}


def letters(records: "DataFrame") -> "DataFrame":
    """Dead letters of records with the column `reason`."""
    from pyspark.sql import functions as f

    kept = without(headers_of(records), (REASON, *SOURCE_HEADERS))
    headers = f.concat(kept, f.array(header(REASON, f.col(REASON))), origin_headers(records))
    key = ["key"] if "key" in records.columns else []
    return records.select(*key, "value", headers.alias("headers"))


def reason_of(parameters: Mapping[str, str]) -> "Column":
    """Return the reason a record is unreadable; null if it is readable."""
    from pyspark.sql import functions as f

    kind, condition = parameters["format"], parameters["condition"].strip()
    if kind not in FORMATS:
        raise UsageError(f"parameter format is '{kind}': it must be one of {', '.join(FORMATS)}")
    if parameters["schema"] and kind != JSON:
        raise UsageError(f"parameter schema is for format json, and format is {kind}: leave one of them out")
    reasons = []
    if kind != ANY:
        reasons.append(f.when(f.col("value").isNull(), NO_VALUE).when(~f.is_valid_utf8("value"), NOT_TEXT))
    if kind == JSON:
        reasons.append(_not_json(parameters["schema"].strip()))
    if kind == COMBINED:
        reasons.append(access_log.reason_of(f.col("value").cast("string")))
    if condition:
        reasons.append(f.when(~f.coalesce(f.expr(condition), f.lit(False)), f"{CONDITION_FAILS}: {condition}"))
    return f.coalesce(*reasons, f.lit(None).cast("string"))


def _not_json(schema: str) -> "Column":
    """Return the reason text is no JSON of the schema. A missing field is null, as everywhere in Spark."""
    from pyspark.sql import functions as f

    text = f.col("value").cast("string")
    broken = f.when(f.try_parse_json(text).isNull(), NOT_JSON)
    if not schema:
        return broken
    row = f.from_json(text, f"{schema}, {CORRUPT} STRING", {"columnNameOfCorruptRecord": CORRUPT})
    return f.coalesce(broken, f.when(row[CORRUPT].isNotNull() | row.isNull(), NOT_OF_SCHEMA))
