"""Archives topics to Parquet, partitioned by date, each record once.

A record goes to the folder of the date (UTC) of its event time, however late it comes: a late one makes a small new
file in its own date's folder, and readers of that date find it there. Event time is the record's timestamp, or any
expression of SQL over the record; a record without one goes to the folder of the date null.

Each micro-batch is written aside and then added to the archive's log together with its number, in one atomic step: a
batch that Spark runs again after a crash is recognised. `spark.read.parquet(FOLDER)` reads what the log lists.
"""

import threading
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import UsageError
from hutong.pipelines.archive.folder import ArchiveFolder, folder_of
from hutong.pipelines.archive.snapshot import BatchOf, with_batch
from hutong.pipelines.declared.declare.definition import AVAILABLE_NOW, BATCH
from hutong.pipelines.jobs.job import Job, JobParameter, Work
from hutong.pipelines.jobs.parameters import MIB, MINUTE_MS, needed, resolved_path, the_only, whole_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

JOB = Job(
    name="archive",
    kind="streaming",
    summary="Archives topics to Parquet by date, each record once, and makes few large files of many small ones.",
    reads="records of any kind",
    outputs=(("PATH/date=.../", "all columns of the source; spark.read.parquet(PATH) reads what counts"),),
    parameters=(
        JobParameter("path", None, "the archive's folder"),
        JobParameter("event_time", "timestamp", "SQL for a record's event time, whose date (UTC) it is filed under"),
        JobParameter("compact_every", "60", "after how many batches small files are compacted; 0 for never"),
        JobParameter("target_mib", "128", "how large files become by compaction"),
        JobParameter("grace_minutes", "60", "how long replaced files stay for readers that began before"),
    ),
    template="""\
@PIPELINE@
trigger = "1 minute"               # or "available now": up to the present end

[sources.records]
topic = "events"
options = { includeHeaders = "true" }

[transform]
job = "archive"
parameters = { path = "archive" }  # event_time = "try_to_timestamp(get_json_object(string(value), '$.time'))"
""",
)
DATE = "date"
QUERY_PROPERTY = "sql.streaming.queryId"
ORDER = ("topic", "partition", "offset")
DAY_S = 86_400
REFRESH_S = 1
FINISH_S_MAX = 60
"""The time for the current batch to finish once a stop is requested. A batch that is broken off is repeated later."""


def run(work: Work) -> str:
    """Archive until stopped, or until the present end where the trigger is `available now`."""
    from hutong.pipelines.jobs.compaction import compact  # which knows this module, too

    if work.pipeline.trigger == BATCH:
        raise UsageError(
            f'the job archive remembers where it was, as a stream does: set trigger = "{AVAILABLE_NOW}", not "{BATCH}"'
        )
    parameters = work.parameters
    archive = open_archive(resolved_path(work.pipeline.folder, needed(parameters, "path", JOB.name)))
    every = whole_number(parameters, "compact_every")
    target_bytes = whole_number(parameters, "target_mib", 1) * MIB
    grace_ms = whole_number(parameters, "grace_minutes") * MINUTE_MS
    rows = dated(the_only(work.frames, JOB.name), parameters["event_time"])
    add = batch_writer(archive)

    def write(batch: "DataFrame", number: int) -> None:
        add(batch, number)
        if every and number % every == every - 1:
            compact(batch.sparkSession, archive, SystemClock(), target_bytes=target_bytes, grace_ms=grace_ms)

    trigger = work.pipeline.trigger
    writer = rows.writeStream.queryName(JOB.name).option("checkpointLocation", str(work.checkpoint / JOB.name))
    triggered = (
        writer.trigger(availableNow=True) if trigger == AVAILABLE_NOW else writer.trigger(processingTime=trigger)
    )
    before = archive.latest().snapshot.row_count
    follow(triggered.foreachBatch(write).start(), work.stop)
    snapshot = archive.latest().snapshot
    return f"{snapshot.row_count - before:,} records archived; {archive.path} holds {snapshot.row_count:,} in " + (
        f"{len(snapshot.files):,} files"
    )


def open_archive(path: str) -> ArchiveFolder:
    """The archive in a folder, made where there is none. Raises UsageError when it cannot be there."""
    archive = ArchiveFolder(folder_of(path), SystemClock(), lambda: uuid.uuid4().hex)
    archive.prepare()
    return archive


def dated(records: "DataFrame", event_time: str) -> "DataFrame":
    """Add the column `date`, the UTC date of the SQL expression `event_time`. Raises UsageError when there is one."""
    from pyspark.sql import functions as f

    if DATE in records.columns:
        raise UsageError(f"the source has a column {DATE}, which the archive makes: leave it out or rename it")
    time_s = f.unix_seconds(f.expr(event_time).try_cast("timestamp"))  # the same in every time zone of the session
    return records.withColumn(DATE, f.date_from_unix_date(f.floor(time_s / f.lit(DAY_S)).cast("int")))


def add_rows(rows: "DataFrame", archive: ArchiveFolder, batch: BatchOf | None) -> bool:
    """Write dated rows and make them count. False when this batch was there before."""
    if batch is not None and archive.latest().snapshot.holds(batch):
        return False
    staged = archive.staging()
    # A date first, as the writer opens one file after the other; then as they were in the topic, which compresses well.
    order = [name for name in (DATE, *ORDER) if name in rows.columns]
    rows.sortWithinPartitions(*order).write.partitionBy(DATE).parquet(str(staged))
    files = archive.adopt(staged)
    return archive.commit(lambda snapshot: with_batch(snapshot, files, batch)) is not None


def batch_writer(archive: ArchiveFolder) -> Callable[["DataFrame", int], None]:
    """Return the function for `foreachBatch`."""

    def write(rows: "DataFrame", number: int) -> None:
        query = rows.sparkSession.sparkContext.getLocalProperty(QUERY_PROPERTY)
        assert query is not None, "foreachBatch is called in the thread of a streaming query"
        add_rows(rows, archive, BatchOf(query, number))

    return write


def follow(query: "StreamingQuery", stop: threading.Event) -> None:
    """Wait for a query's end, or for `stop` and then the end of its batch. Raises what the query failed with."""
    try:
        while not query.awaitTermination(REFRESH_S) and not stop.is_set():
            pass
        batch, finish_s = _batch_of(query), 0
        while _is_at(query, batch) and finish_s < FINISH_S_MAX:
            query.awaitTermination(REFRESH_S)
            finish_s += REFRESH_S
    finally:
        query.stop()


def _batch_of(query: "StreamingQuery") -> int:
    """The last batch that was done."""
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])


def _is_at(query: "StreamingQuery", done: int) -> bool:
    """Return True while the query is still at the batch after `done`."""
    return query.isActive and bool(query.status["isTriggerActive"]) and _batch_of(query) == done
