"""A topic read as a table: for each key its latest value, as compaction would leave it.

Within a partition the greater offset is the later. A key occurs in several partitions only if their number was changed:
then the later time decides. A key whose latest value is null is not in the table, nor are records without a key.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLACE_COLUMNS = frozenset({"key", "value", "topic", "partition", "offset", "timestamp"})


def is_log(frame: "DataFrame") -> bool:
    """Return True if a frame holds records with their offsets, so that it can be read as a table."""
    return set(frame.columns) >= PLACE_COLUMNS


def latest_per_key(records: "DataFrame") -> "DataFrame":
    """One row per key, with the columns of `records`. Works on any number of topics, taken together."""
    from pyspark.sql import functions as f

    row = f.struct(*(column for column in records.columns if column != "key"))
    last = f.max_by(f.col("row"), f.col("row.offset"))
    in_partitions = (
        records.where("key IS NOT NULL")
        .select("key", row.alias("row"))
        .groupBy("key", f.col("row.topic"), f.col("row.partition"))
        .agg(last.alias("row"))
    )
    last = f.max_by(f.col("row"), f.struct("row.timestamp", "row.offset"))
    table = in_partitions.groupBy("key").agg(last.alias("row")).where("row.value IS NOT NULL")
    return table.select("key", "row.*").select(*records.columns)
