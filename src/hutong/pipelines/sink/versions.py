"""Batch writes that count once although the job that makes them runs again: `txnAppId` and `txnVersion`.

    frame.write.format("hutong").option("txnAppId", "nightly").option("txnVersion", 20260131)...

Before any task runs, the driver finishes what an earlier attempt had decided; if the version counts then, tasks write
nothing. Otherwise they write in transactions, and the driver commits those as it does a query's batch: `sink/commit`
records which they are before it commits the first. In `foreachBatch` the batch's number is the version.

Names of methods and parameters are Spark's. The writer is pickled and holds nothing but options.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from hutong.foundation.errors import HutongError, Refused, UsageError
from hutong.pipelines.client.clusters import shared_transactions
from hutong.pipelines.engine import failure_reports
from hutong.pipelines.sink.commit.driver import SHUT_OUT, Committer, taken_over
from hutong.pipelines.sink.commit.record import application_query, name_of
from hutong.pipelines.sink.options import SinkOptions
from hutong.pipelines.sink.writers import Written, batch_of, check_columns, task_of, write_batches

if TYPE_CHECKING:
    import pyarrow


class VersionWriter(DataSourceArrowWriter):
    """Appends a DataFrame to topics, unless this version of it is there."""

    def __init__(self, options: SinkOptions, columns: Sequence[str], stream: TextIO | None = None) -> None:
        """On the driver. Raises UsageError, Outdated, HalfDone, or what the brokers refuse."""
        assert options.write_version is not None
        check_columns(options, columns)
        self._options = options
        self._version = options.write_version.version
        self._query_id = application_query(options.write_version.app_id, options.topic)
        if not shared_transactions(options.cluster).are_supported():
            raise UsageError(
                "the brokers have no transactions that can be looked at (Kafka 3.0 or later): leave txnAppId and "
                "txnVersion out, and mind that a job that runs again writes its rows again"
            )
        self._counts = self._committer().settle(self._query_id, self._version)
        if self._counts:
            self._report_dropped(sys.stderr if stream is None else stream)

    @failure_reports.failures_reported()
    def write(self, iterator: Iterator["pyarrow.RecordBatch"]) -> WriterCommitMessage:
        if self._counts:
            return Written(0)
        try:
            return write_batches(iterator, self._options, task_of(self._query_id, self._version))
        except Refused as error:
            if error.code in SHUT_OUT:
                raise taken_over(self._query_id) from error
            raise

    @failure_reports.failures_reported()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        batch = batch_of(messages, self._version)
        if batch is not None and not self._committer().commit_version(batch):
            self._report_dropped(sys.stderr)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        batch = batch_of(messages, self._version)
        if batch is not None:
            with suppress(HutongError):  # Spark's own failure is reported already; the transactions time out
                self._committer().abort(batch)

    def _report_dropped(self, stream: TextIO) -> None:
        """Report what is dropped: two jobs with one id look like two attempts of one."""
        what = f"version {self._version} of {name_of(self._query_id)}"
        stream.write(f"hutong: nothing is written: {what} was written before; two jobs need two ids\n")
        stream.flush()

    def _committer(self) -> Committer:
        return Committer(shared_transactions(self._options.cluster))
