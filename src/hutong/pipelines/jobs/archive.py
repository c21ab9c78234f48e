"""Archives topics to Parquet, partitioned by date, each record once.

A record goes to the folder of the date (UTC) of its event time, however late it comes: a late one makes a small new file
in its own date's folder, and readers of that date find it there. Event time is the record's timestamp, or any expression
of SQL over the record; a record without one goes to the folder of the date null.

Each micro-batch is written aside and then added to the archive's log together with its number, in one atomic step: a
batch that Spark runs again after a crash is recognised. `spark.read.parquet(FOLDER)` reads what the log lists.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from hutong.foundation.errors import UsageError
from hutong.pipelines.archive.folder import ArchiveFolder
from hutong.pipelines.archive.snapshot import BatchOf, with_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DATE = "date"
QUERY_PROPERTY = "sql.streaming.queryId"
ORDER = ("topic", "partition", "offset")


def dated(records: "DataFrame", event_time: str) -> "DataFrame":
    """Adds the column `date`, the UTC date of the SQL expression `event_time`. Raises UsageError when there is one."""
    from pyspark.sql import functions as f

    if DATE in records.columns:
        raise UsageError(f"the source has a column {DATE}, which the archive makes: leave it out or rename it")
    time = f.expr(event_time).cast("timestamp")
    return records.withColumn(DATE, f.to_date(f.to_utc_timestamp(time, f.current_timezone())))


def add_rows(rows: "DataFrame", archive: ArchiveFolder, batch: BatchOf | None) -> bool:
    """Writes dated rows and makes them count. False when this batch was there before."""
    if batch is not None and archive.latest().snapshot.holds(batch):
        return False
    staged = archive.staging()
    # A date first, as the writer opens one file after the other; then as they were in the topic, which compresses well.
    order = [name for name in (DATE, *ORDER) if name in rows.columns]
    rows.sortWithinPartitions(*order).write.partitionBy(DATE).parquet(str(staged))
    files = archive.adopt(staged)
    return archive.commit(lambda snapshot: with_batch(snapshot, files, batch)) is not None


def batch_writer(archive: ArchiveFolder) -> Callable[["DataFrame", int], None]:
    """What `foreachBatch` calls."""

    def write(rows: "DataFrame", number: int) -> None:
        query = rows.sparkSession.sparkContext.getLocalProperty(QUERY_PROPERTY)
        add_rows(rows, archive, BatchOf(query, number))

    return write
