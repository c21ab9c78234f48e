"""Reading: what Spark calls on the driver to plan, and in its Python workers to read.

Readers are pickled and sent to workers, so they hold nothing but options; a worker keeps its cluster connections from
task to task (`clusters`), and loads the compiled decoder only when it reads. Class and method names, and those of the
parameters, are Spark's.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from hutong.pipelines.client.cluster import EARLIEST, LATEST, Cluster
from hutong.pipelines.client.clusters import shared_cluster
from hutong.pipelines.source.fetching import PartitionReader
from hutong.pipelines.source.options import SourceOptions
from hutong.pipelines.source.planning import (
    OffsetRange,
    Offsets,
    OffsetsJson,
    at,
    from_json,
    limit,
    ranges_between,
    resolve,
    split,
    subscribed,
    to_json,
)

if TYPE_CHECKING:
    import pyarrow


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

    def partitions(self) -> list[InputPartition]:
        options = self._options
        cluster = shared_cluster(options.cluster)
        partitions = subscribed(cluster, options.subscription)
        start = resolve(cluster, partitions, options.starting)
        end = resolve(cluster, partitions, options.ending)
        return _tasks(start, end, options)

    def read(self, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
        return read_range(partition, self._options)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A topic as it grows. One instance plans on the driver for as long as the query runs."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._target: Offsets | None = None
        """Where a query with trigger AvailableNow stops: the ends when it started."""

    def initialOffset(self) -> OffsetsJson:
        cluster = self._cluster()
        partitions = subscribed(cluster, self._options.subscription)
        return to_json(resolve(cluster, partitions, self._options.starting))

    def getDefaultReadLimit(self) -> ReadLimit:
        records_max = self._options.records_per_trigger_max
        return ReadAllAvailable() if records_max is None else ReadMaxRows(records_max)

    def latestOffset(self, start: OffsetsJson | None = None, limit: ReadLimit | None = None) -> OffsetsJson:
        """Both parameters are absent before Spark 4.2."""
        latest = self._latest() if self._target is None else self._target
        if start is None:
            return to_json(latest)
        return to_json(self._reachable(from_json(start), latest, limit))

    def reportLatestOffset(self) -> OffsetsJson:
        return to_json(self._latest())

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._latest()

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> list[InputPartition]:
        begin, until = from_json(start), from_json(end)
        return _tasks(self._with_new(begin, until), until, self._options)

    def read(self, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
        return read_range(partition, self._options)

    def stop(self) -> None:
        self._cluster().close()

    def _reachable(self, start: Offsets, latest: Offsets, read_limit: ReadLimit | None) -> Offsets:
        """`latest`, or as far as the limit allows; where the log ends before the start, the start."""
        start = self._with_new(start, latest)
        if not self._options.fetch.fail_on_data_loss:
            latest = {partition: max(offset, start.get(partition, 0)) for partition, offset in latest.items()}
        if isinstance(read_limit, ReadMaxRows):
            return limit(start, latest, read_limit.max_rows)
        return latest

    def _with_new(self, start: Offsets, end: Offsets) -> Offsets:
        """`start`, with partitions that came since at their beginning."""
        new = [partition for partition in end if partition not in start]
        return start | at(self._cluster(), new, EARLIEST)

    def _latest(self) -> Offsets:
        cluster = self._cluster()
        return at(cluster, subscribed(cluster, self._options.subscription), LATEST)

    def _cluster(self) -> Cluster:
        return shared_cluster(self._options.cluster)


def read_range(partition: InputPartition, options: SourceOptions) -> Iterator["pyarrow.RecordBatch"]:
    """The Arrow batches of one task, in a Python worker."""
    if not isinstance(partition, RangePartition):
        return  # Spark makes up a partition where a plan has none

    from hutong.pipelines.source.decode.decoder import Decoder
    from hutong.pipelines.source.decode.index import index_batches

    wanted = partition.range
    cluster = shared_cluster(options.cluster)
    decoder = Decoder(*wanted.partition, options.columns)
    reader = PartitionReader(cluster, wanted.partition, wanted.first, wanted.end, options.fetch, index_batches)
    for records, batches, aborted in reader:
        yield from decoder.decode(records, batches, wanted.first, wanted.end, aborted)


def _tasks(start: Offsets, end: Offsets, options: SourceOptions) -> list[InputPartition]:
    ranges = ranges_between(start, end, options.fetch.fail_on_data_loss)
    pieces = split(ranges, options.partitions_min, options.records_per_partition_max)
    return [RangePartition(piece) for piece in pieces]
