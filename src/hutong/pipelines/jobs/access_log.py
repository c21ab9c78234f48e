"""Statistics of a web server's access log, as a stream.

Lines are in Apache's combined log format. Per hour (UTC, by the time in the line) requests, bytes and status classes
are counted, and requests per path; both in one aggregation by grouping sets, whose state Spark keeps in the checkpoint:
a later run adds to an earlier one and each line counts once. Lines that cannot be read go to a topic of dead letters.

A `-` for bytes counts 0. The path is the request's target as logged, with its query; where the request is not of the
form METHOD TARGET PROTOCOL (a connection that sent none is logged as `-`), it is the whole request. Hours and paths are
never forgotten: the state grows with their number, not with the number of lines.
"""

from typing import TYPE_CHECKING, Any

from hutong.pipelines.jobs.headers import REASON, SOURCE_OFFSET, SOURCE_PARTITION, SOURCE_TOPIC, header
from hutong.pipelines.jobs.job import Job

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

JOB = Job(
    name="access-log",
    kind="streaming, SQL",
    summary="Requests, bytes and status classes of a web server per hour, and its most wanted paths.",
    reads="one line of Apache's combined log format per record",
    outputs=(
        ("per-hour.csv", "hour_utc, requests, bytes, status_2xx, status_3xx, status_4xx, status_5xx"),
        ("top-paths.csv", "path, requests; most wanted first, equal ones by path"),
        ("TOPIC.dead-letters", "lines that cannot be read, unchanged; why and from where in headers"),
    ),
)
HOUR_COLUMNS = ("hour_utc", "requests", "bytes", "status_2xx", "status_3xx", "status_4xx", "status_5xx")
PATH_COLUMNS = ("path", "requests")
DEAD_LETTERS_SUFFIX = ".dead-letters"

QUOTED = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
"""A quoted field; a backslash escapes what follows it. Possessive, so that it cannot backtrack."""
COMBINED = rf"^(\S+) (\S+) (\S+) \[([^\]]+)\] {QUOTED} ([0-9]{{3}}) ([0-9]+|-) {QUOTED} {QUOTED}\s*$"
CLIENT_GROUP, TIME_GROUP, REQUEST_GROUP, STATUS_GROUP, BYTES_GROUP = 1, 4, 5, 6, 7
TIME_FORMAT = "dd/MMM/yyyy:HH:mm:ss Z"
HOUR_FORMAT = "yyyy-MM-dd'T'HH:mm:ss'Z'"

NOT_TEXT = "the line is not UTF-8 text"
NOT_COMBINED = "the line is not in the combined log format"
NO_TIME = "the line's time does not exist"

SAMPLE = (
    '192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1024 "-" "Mozilla/5.0"',
    '192.0.2.2 - - [17/May/2015:11:05:03 +0000] "GET /nothing HTTP/1.1" 404 - "-" "curl/8"',
    "not a line of a log",
)
"""A log to explain the job with."""


def parsed(records: "DataFrame") -> "DataFrame":
    """Add `hour_utc`, `client`, `path`, `status`, `bytes`, and `reason`, which is null where nothing is amiss."""
    from pyspark.sql import functions as f

    line = f.decode(f.when(f.is_valid_utf8("value"), f.col("value")), "UTF-8")
    time = _time_of(f.col("line"))
    return (
        records.withColumn("line", line)
        .withColumn("time", time)
        .withColumn("reason", reason_of(f.col("line")))
        .withColumn("hour_utc", f.date_format(f.date_trunc("hour", "time"), HOUR_FORMAT))
        .withColumn("client", _field(CLIENT_GROUP))
        .withColumn("path", f.coalesce(f.get(f.split(_field(REQUEST_GROUP), " "), f.lit(1)), _field(REQUEST_GROUP)))
        .withColumn("status", _field(STATUS_GROUP).try_cast("int"))
        .withColumn("bytes", f.coalesce(_field(BYTES_GROUP).try_cast("bigint"), f.lit(0)))
    )


def reason_of(line: "Column") -> "Column":
    """Return the reason a line is unreadable; null if it is readable. A null line is no text."""
    from pyspark.sql import functions as f

    return (
        f.when(line.isNull(), NOT_TEXT).when(~line.rlike(COMBINED), NOT_COMBINED).when(_time_of(line).isNull(), NO_TIME)
    )


def statistics(lines: "DataFrame") -> "DataFrame":
    """Counts of the well-formed lines: one row per hour (`path` is null) and one per path (`hour_utc` is null)."""
    from pyspark.sql import functions as f

    def with_status(first_digit: int) -> "Column":
        return f.count_if(f.floor(f.col("status") / 100) == first_digit).alias(f"status_{first_digit}xx")

    return (
        lines.where("reason IS NULL")
        .groupingSets([["hour_utc"], ["path"]], "hour_utc", "path")
        .agg(
            f.count("*").alias("requests"),
            f.sum("bytes").alias("bytes"),
            *(with_status(first_digit) for first_digit in (2, 3, 4, 5)),
        )
    )


def dead_letters(lines: "DataFrame") -> "DataFrame":
    """Records for the topic of dead letters: key and value unchanged, the reason and the source in headers."""
    from pyspark.sql import functions as f

    headers = f.array(
        header(REASON, f.col("reason")),
        header(SOURCE_TOPIC, f.col("topic")),
        header(SOURCE_PARTITION, f.col("partition")),
        header(SOURCE_OFFSET, f.col("offset")),
    )
    return lines.where("reason IS NOT NULL").select("key", "value", headers.alias("headers"))


def per_hour(rows: "list[Row]") -> list[tuple[Any, ...]]:
    """The rows of per-hour.csv, from all rows of `statistics`."""
    return sorted(tuple(row[name] for name in HOUR_COLUMNS) for row in rows if row["hour_utc"] is not None)


def top_paths(rows: "list[Row]") -> list[tuple[str, int]]:
    """The rows of top-paths.csv: most requests first, equal ones by path."""
    paths = [(row["path"], row["requests"]) for row in rows if row["path"] is not None]
    return sorted(paths, key=lambda row: (-row[1], row[0]))


def _time_of(line: "Column") -> "Column":
    from pyspark.sql import functions as f

    return f.try_to_timestamp(f.regexp_extract(line, COMBINED, TIME_GROUP), f.lit(TIME_FORMAT))


def _field(group: int) -> "Column":
    from pyspark.sql import functions as f

    return f.regexp_extract("line", COMBINED, group)
