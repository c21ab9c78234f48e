"""Reading a topic as a table that a stream looks things up in.

Spark settles the offsets of a batch source once for each query, so a stream would see the table as it was when the
query started for as long as it runs. Here a task asks for the ends of its partition when it reads, which is in each
micro-batch. Partitions that come later are not seen before the query starts again.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from hutong.foundation.errors import UsageError
from hutong.pipelines.client.cluster import EARLIEST, LATEST
from hutong.pipelines.client.clusters import shared_cluster
from hutong.pipelines.engine.failure_reports import failures_reported
from hutong.pipelines.source.options import SourceOptions
from hutong.pipelines.source.planning import at, subscribed
from hutong.pipelines.source.readers import BatchReader, RangePartition, read_range
from hutong.pipelines.source.splitting import OffsetRange

if TYPE_CHECKING:
    import pyarrow


class RefreshingReader(BatchReader):
    """All that its partitions hold whenever it is read."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        given = (options.starting, options.ending)
        if any((rule.offsets, rule.timestamps_ms, rule.timestamp_ms) != (None, None, None) for rule in given):
            raise UsageError("option refresh reads all that a topic holds: leave out offsets and timestamps")

    @failures_reported()
    def partitions(self) -> list[InputPartition]:
        partitions = subscribed(shared_cluster(self._options.cluster), self._options.subscription)
        return [RangePartition(OffsetRange(partition, EARLIEST, LATEST)) for partition in partitions]

    def read(self, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
        if not isinstance(partition, RangePartition):
            return
        wanted = partition.range.partition
        with failures_reported():
            cluster = shared_cluster(self._options.cluster)
            first, end = (at(cluster, [wanted], position)[wanted] for position in (EARLIEST, LATEST))
        yield from read_range(RangePartition(OffsetRange(wanted, first, end)), self._options)
