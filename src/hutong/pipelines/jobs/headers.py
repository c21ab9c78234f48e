"""Columns of Spark for a record's headers and origin, shared by jobs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HEADERS_TYPE = "array<struct<key: string, value: binary>>"
SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET = "source-topic", "source-partition", "source-offset"
SOURCE_TIMESTAMP = "source-timestamp"
REASON, REPLAYS = "reason", "replays"
SOURCE_HEADERS = (SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET, SOURCE_TIMESTAMP)


def header(name: str, value: "Column") -> "Column":
    """One header; its value as text."""
    from pyspark.sql import functions as f

    return f.struct(f.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))


def headers_of(records: "DataFrame") -> "Column":
    """The headers that records have; none where they were not read."""
    from pyspark.sql import functions as f

    given = f.col("headers") if "headers" in records.columns else f.lit(None)
    return f.coalesce(given.cast(HEADERS_TYPE), f.array().cast(HEADERS_TYPE))


def without(headers: "Column", names: tuple[str, ...]) -> "Column":
    """Return `headers` without those of these names."""
    from pyspark.sql import functions as f

    return f.filter(headers, lambda one: ~one["key"].isin(*names))


def header_text(headers: "Column", name: str) -> "Column":
    """The value of the last header of this name as text; null without one."""
    from pyspark.sql import functions as f

    found = f.filter(headers, lambda one: one["key"] == name)
    return f.try_element_at(found, f.lit(-1))["value"].cast("string")


def origin_headers(records: "DataFrame") -> "Column":
    """Headers for a record's origin; the time only if it was read."""
    from pyspark.sql import functions as f

    known = [
        header(name, f.col(name.removeprefix("source-"))) for name in (SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET)
    ]
    if "timestamp" in records.columns:
        known.append(header(SOURCE_TIMESTAMP, f.unix_millis("timestamp")))
    return f.array(*known)


def with_origin(records: "DataFrame") -> "Column":
    """A record's headers and its origin; origin headers of an earlier job are replaced."""
    from pyspark.sql import functions as f

    return f.concat(without(headers_of(records), SOURCE_HEADERS), origin_headers(records))


def source_time(headers: "Column") -> "Column":
    """The timestamp that a record had where it came from; null without one, or for one that no record can have had.

    Anybody can write headers: a time to come would be refused by the broker at each attempt.
    """
    from pyspark.sql import functions as f

    time_ms = header_text(headers, SOURCE_TIMESTAMP).try_cast("bigint")
    return f.when(time_ms.between(0, f.unix_millis(f.current_timestamp())), f.timestamp_millis(time_ms))


def with_free_partition(records: "DataFrame") -> "DataFrame":
    """Rename the column `partition`, which a sink would obey: another topic may have other partitions."""
    return records.withColumnRenamed("partition", "source_partition")
