"""Reading: what Spark calls on the driver to plan, and in its Python workers to read.

Readers are pickled and sent to workers, so they hold nothing but options; a worker keeps its cluster connections from
task to task (`clusters`), and loads the compiled decoder only when it reads. Class and method names, and those of the
parameters, are Spark's.
"""

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition

from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import PeerError, ProtocolError, UsageError
from hutong.pipelines.client.cluster import LATEST, Cluster, TopicPartition
from hutong.pipelines.client.clusters import shared_cluster, shared_transactions
from hutong.pipelines.client.group_offsets import commit_offsets
from hutong.pipelines.engine.failure_reports import failures_reported
from hutong.pipelines.source.admission import Admission
from hutong.pipelines.source.fetching import PartitionReader
from hutong.pipelines.source.filters import Narrowing, narrowing
from hutong.pipelines.source.options import SourceOptions
from hutong.pipelines.source.planning import (
    Offsets,
    OffsetsJson,
    at,
    begin_at,
    from_json,
    inside_log,
    ranges_between,
    ranges_from,
    resolve,
    settled,
    subscribed,
    to_json,
    with_new,
)
from hutong.pipelines.source.splitting import OffsetRange, split

if TYPE_CHECKING:
    import pyarrow

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )

    HAS_LIMITS = True
except ModuleNotFoundError:  # PySpark 4.1
    from hutong.pipelines.source.older_spark import (  # type: ignore[assignment]
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )

    HAS_LIMITS = False

PROGRESS_MS_MAX = 2_000
"""The time that a stream may spend on publishing its progress."""


class RangePartition(InputPartition):
    """One Spark task: a range of one partition."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(wanted)

    @property
    def range(self) -> OffsetRange:
        wanted = self.value
        assert isinstance(wanted, OffsetRange)
        return wanted


class BatchReader(DataSourceReader):
    """A topic as it is now, from the starting to the ending offsets."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._narrowing = Narrowing()

    @failures_reported()
    def partitions(self) -> list[InputPartition]:
        options = self._options
        cluster = shared_cluster(options.cluster)
        partitions = subscribed(cluster, options.subscription)
        fail = options.fetch.fail_on_data_loss
        start = inside_log(cluster, resolve(cluster, partitions, options.starting), options.starting, fail)
        end = inside_log(cluster, resolve(cluster, partitions, options.ending), options.ending, fail)
        ranges = ranges_from(start, end, options.starting, options.ending)
        ranges = self._narrowing.apply(ranges)
        if self._narrowing.since_ms is not None:
            ranges = begin_at(cluster, ranges, self._narrowing.since_ms)
        return _tasks(ranges, options)

    def read(self, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
        return read_range(partition, self._options)


class FilteringReader(BatchReader):
    """Reads less where the query's filters allow.

    A class of its own: Spark refuses every query of a reader with `pushFilters` unless
    `spark.sql.python.filterPushdown.enabled` is set, so it is for those who ask for it.
    """

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:
        self._narrowing, left = narrowing(filters)
        return left


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A topic as it grows. One instance plans on the driver for as long as the query runs."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._admission = Admission(options.limits, SystemClock())
        self._target: Offsets | None = None
        """The end of a query with trigger AvailableNow: the end offsets when it started."""

    @failures_reported()
    def initialOffset(self) -> OffsetsJson:
        self._check_limits()
        options, cluster = self._options, self._cluster()
        partitions = subscribed(cluster, options.subscription)
        start = resolve(cluster, partitions, options.starting)
        return to_json(inside_log(cluster, start, options.starting, options.fetch.fail_on_data_loss))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Report to Spark that there are limits; `Admission` applies them."""
        limits = self._options.limits
        if limits.records_max is not None:
            return ReadMaxRows(limits.records_max)
        return ReadAllAvailable() if limits.records_min is None else ReadMinRows(limits.records_min)

    @failures_reported()
    def latestOffset(self, start: OffsetsJson | None = None, limit: ReadLimit | None = None) -> OffsetsJson:
        """Both parameters are absent before Spark 4.2."""
        self._check_limits()
        if start is None:
            return to_json(self._target if self._target is not None else self._ends())
        known = from_json(start)
        latest = self._target if self._target is not None else self._latest(known)
        begin = with_new(self._cluster(), known, latest, fail_on_data_loss=False)  # `partitions` reports a loss
        once = isinstance(limit, ReadAllAvailable)
        return to_json(self._admission.reach(begin, latest, everything=once, wait=self._target is None))

    @failures_reported()
    def reportLatestOffset(self) -> OffsetsJson:
        return to_json(self._ends(missing_ok=True))

    @failures_reported()
    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ends()

    @failures_reported()
    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> list[InputPartition]:
        begin, until = from_json(start), from_json(end)
        fail = self._options.fetch.fail_on_data_loss
        begin = with_new(self._cluster(), begin, until, fail)
        return _tasks(ranges_between(begin, until, fail), self._options)

    def read(self, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
        return read_range(partition, self._options)

    def commit(self, end: OffsetsJson) -> None:
        """Publish the progress for lag tools. It is never read back, so a failure does not fail the query."""
        if self._options.group_id is None:
            return
        coordinators = shared_transactions(self._options.cluster).coordinators
        with suppress(PeerError):
            commit_offsets(coordinators, self._options.group_id, from_json(end), PROGRESS_MS_MAX)

    def stop(self) -> None:
        self._cluster().close()

    def _check_limits(self) -> None:
        """Raises UsageError for bounds of a batch, where this PySpark knows none.

        Not while the reader is made: PySpark 4.1 hides what is raised there behind an UnboundLocalError of its own.
        """
        limits = self._options.limits
        if not HAS_LIMITS and (limits.records_max is not None or limits.records_min is not None):
            raise UsageError(
                "Options maxOffsetsPerTrigger and minOffsetsPerTrigger need PySpark 4.2: "
                "leave them out, or run `pip install 'pyspark>=4.2'`."
            )

    def _latest(self, known: Offsets) -> Offsets:
        """The ends of what is there now; of topics that were there once, only what still is."""
        options = self._options
        return settled(
            lambda: self._ends(missing_ok=bool(known)),
            known,
            options.look_again_count,
            lambda: time.sleep(options.look_again_ms / 1000),
        )

    def _ends(self, *, missing_ok: bool = False) -> Offsets:
        cluster = self._cluster()
        return at(cluster, subscribed(cluster, self._options.subscription, missing_ok=missing_ok), LATEST)

    def _cluster(self) -> Cluster:
        return shared_cluster(self._options.cluster)


def read_range(partition: InputPartition, options: SourceOptions) -> Iterator["pyarrow.RecordBatch"]:
    """The Arrow batches of one task, in a Python worker."""
    if not isinstance(partition, RangePartition):
        return  # Spark makes up a partition where a plan has none

    from hutong.pipelines.source.decode.decoder import Decoder
    from hutong.pipelines.source.decode.index import index_batches
    from hutong.pipelines.source.rows.columns import RowDecoder

    wanted = partition.range
    with failures_reported(), _naming(wanted.partition):
        cluster = shared_cluster(options.cluster)
        typed = None if options.row.is_plain else RowDecoder(*wanted.partition, options.columns, options.row)
        decoder = Decoder(*wanted.partition, options.columns if typed is None else typed.read_names)
        reader = PartitionReader(cluster, wanted.partition, wanted.first, wanted.end, options.fetch, index_batches)
        decoded = decoder.decode_all(reader, wanted.first, wanted.end)
        for batch in decoded if typed is None else filter(None, map(typed.decode, decoded)):
            _keep_loaded()
            yield batch


@cache
def _keep_loaded() -> None:
    """A worker of Spark's looks for garbage in all of its memory after each task: not in what is loaded by now.

    Measured: 50 ms a task. Most of it is the compiler's own, which loads the decoder's code with the first batch.
    """
    if TaskContext.get() is not None:
        gc.freeze()


@contextmanager
def _naming(partition: TopicPartition) -> Iterator[None]:
    """Add the partition's name to errors of unreadable bytes."""
    try:
        yield
    except ProtocolError as error:
        text = str(error)
        raise error if str(partition) in text else ProtocolError(f"{partition} cannot be read: {text}") from None


def _tasks(ranges: Sequence[OffsetRange], options: SourceOptions) -> list[InputPartition]:
    pieces = split(ranges, options.partitions_min, options.records_per_partition_max)
    return [RangePartition(piece) for piece in pieces]
