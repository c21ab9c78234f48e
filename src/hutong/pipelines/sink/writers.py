"""Spark's writer interface: on the driver to check and commit, in its Python workers to write Arrow batches.

A task writes in a transaction that it leaves open and names in its commit message. At the end of the batch the driver
ends them all (`commit`). Without transactions the writes of a task are visible at once, and a repeated task writes
again.

Names of classes' methods and parameters are Spark's. Writers are pickled and hold nothing but options.
"""

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import HutongError, UsageError
from hutong.pipelines.client.clusters import shared_cluster, shared_transactions
from hutong.pipelines.engine import failure_reports
from hutong.pipelines.sink.commit.driver import Committer, WrittenBatch
from hutong.pipelines.sink.commit.machine import BatchDecision, TaskTransaction
from hutong.pipelines.sink.options import SinkOptions
from hutong.pipelines.sink.registered import framed

if TYPE_CHECKING:
    import pyarrow

Messages = Sequence[WriterCommitMessage | None]
NO_BATCH = 0
JOB_PREFIX = "batch-"
QUERY_ID, BATCH_ID, RUN_ID = "sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id"
"""Local properties of Spark's tasks; for a stream the job group is named by the run."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The result of one task. `transaction` is None without rows."""

    row_count: int
    transaction: TaskTransaction | None = None
    query_id: str = ""
    """Empty where what was written counts already."""
    run_id: str = ""
    topics: frozenset[str] = frozenset()
    was_retried: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """The identity of one task."""

    query_id: str
    run_id: str
    batch_id: int
    number: int
    is_retry: bool


class BatchWriter(DataSourceArrowWriter):
    """Appends a DataFrame to topics."""

    def __init__(self, options: SinkOptions, columns: Sequence[str]) -> None:
        check_columns(options, columns)
        self._options = options
        self._job_id = JOB_PREFIX + os.urandom(8).hex()  # made on the driver, the same in all tasks

    @failure_reports.failures_reported()
    def write(self, iterator: Iterator["pyarrow.RecordBatch"]) -> WriterCommitMessage:
        return write_batches(iterator, self._options, task_of(self._job_id))

    @failure_reports.failures_reported()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        decision = decision_of(messages, NO_BATCH)
        if decision.transactions:
            Committer(shared_transactions(self._options.cluster)).commit_job(decision)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if any(isinstance(one, Written) and one.query_id for one in messages):
            decision = decision_of(messages, NO_BATCH)
            with suppress(HutongError):  # Spark's own failure is reported already; the transactions time out
                Committer(shared_transactions(self._options.cluster)).abort_job(self._job_id, decision)


class StreamWriter(DataSourceStreamArrowWriter):
    """Appends each micro-batch of a query to topics."""

    def __init__(self, options: SinkOptions, columns: Sequence[str]) -> None:
        check_columns(options, columns)
        self._options = options

    @failure_reports.failures_reported()
    def write(self, iterator: Iterator["pyarrow.RecordBatch"]) -> WriterCommitMessage:
        return write_batches(iterator, self._options, task_of(None))

    @failure_reports.failures_reported()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        batch = batch_of(messages, batchId)
        if batch is not None:
            Committer(shared_transactions(self._options.cluster)).commit(batch)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        batch = batch_of(messages, batchId)
        if batch is not None:
            with suppress(HutongError):
                Committer(shared_transactions(self._options.cluster)).abort(batch)


def check_columns(options: SinkOptions, columns: Sequence[str]) -> None:
    """Raises UsageError when a required column is missing, before any task runs."""
    if "value" not in columns:
        raise UsageError(f"a column named value is required to write to a topic; there are {', '.join(columns)}")
    if options.topic is None and "topic" not in columns:
        raise UsageError("no topic is given: set the option topic, or add a column named topic")


def task_of(job_id: str | None, version: int = NO_BATCH) -> Task:
    """Identify the running task; `job_id` and `version` replace query and batch in a batch job."""
    context = TaskContext.get()
    assert context is not None
    return Task(
        query_id=job_id or context.getLocalProperty(QUERY_ID) or "",
        run_id=context.getLocalProperty(RUN_ID) or "",
        batch_id=version if job_id else int(context.getLocalProperty(BATCH_ID) or NO_BATCH),
        number=context.partitionId(),
        is_retry=context.attemptNumber() > 0,
    )


def decision_of(messages: Messages, batch_id: int) -> BatchDecision:
    """Combine the transactions of a batch's tasks; a failed task has no message."""
    written = [one.transaction for one in messages if isinstance(one, Written) and one.transaction is not None]
    return BatchDecision(batch_id, len(messages), tuple(sorted(written)))


def batch_of(messages: Messages, batch_id: int) -> WrittenBatch | None:
    """Return the batch; None if it has no transactions."""
    reported = [one for one in messages if isinstance(one, Written) and one.query_id]
    if not reported:
        return None
    return WrittenBatch(
        reported[0].query_id,
        reported[0].run_id,
        decision_of(messages, batch_id),
        frozenset().union(*(one.topics for one in reported)),
        any(one.was_retried for one in reported),
    )


def write_batches(tables: Iterator["pyarrow.RecordBatch"], options: SinkOptions, task: Task) -> Written:
    """Write one task's rows, in a Python worker, and return once all are acknowledged."""
    from hutong.pipelines.sink.encode.encoder import Encoder
    from hutong.pipelines.sink.transactional import is_exactly_once, open_producer

    first = next((table for table in tables if table.num_rows), None)
    if first is None:
        exactly_once = is_exactly_once(options, shared_transactions(options.cluster))
        return Written(0, None, task.query_id if exactly_once else "", task.run_id)
    cluster = shared_cluster(options.cluster)
    counts: dict[str, int] = {}

    def partition_count(topic: str) -> int:
        if topic not in counts:
            counts[topic] = len(cluster.topics([topic], create=True)[topic].partitions)
        return counts[topic]

    now_ms = SystemClock().wall_ms
    encoder = Encoder(options.topic, options.compression, options.batch_bytes, partition_count, task.number, now_ms)
    row_count = 0
    with open_producer(options, task.query_id, task.batch_id) as (producer, owner):
        for table in itertools.chain([first], tables):
            for records in encoder.encode(framed(table, options.framed)):
                producer.send(records)
            row_count += table.num_rows
        producer.flush()
    if owner is None:
        return Written(row_count)
    transaction = TaskTransaction(task.number, owner, row_count)
    return Written(row_count, transaction, task.query_id, task.run_id, frozenset(counts), task.is_retry)
