"""Writing: what Spark calls on the driver to check and commit, and in its Python workers to write Arrow batches.

Names of classes' methods and parameters are Spark's. Delivery is at least once with idempotent requests.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from hutong.foundation.errors import UsageError
from hutong.pipelines.client.clusters import shared_cluster, shared_producer
from hutong.pipelines.sink.options import SinkOptions

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task wrote."""

    row_count: int


class BatchWriter(DataSourceArrowWriter):
    """Appends a DataFrame to topics."""

    def __init__(self, options: SinkOptions, columns: Sequence[str]) -> None:
        check_columns(options, columns)
        self._options = options

    def write(self, iterator: Iterator["pyarrow.RecordBatch"]) -> WriterCommitMessage:
        return write_batches(iterator, self._options)


class StreamWriter(DataSourceStreamArrowWriter):
    """Appends each micro-batch of a query to topics."""

    def __init__(self, options: SinkOptions, columns: Sequence[str]) -> None:
        check_columns(options, columns)
        self._options = options

    def write(self, iterator: Iterator["pyarrow.RecordBatch"]) -> WriterCommitMessage:
        return write_batches(iterator, self._options)


def check_columns(options: SinkOptions, columns: Sequence[str]) -> None:
    """Raises UsageError when a required column is missing, before any task runs."""
    if "value" not in columns:
        raise UsageError(f"a column named value is required to write to a topic; there are {', '.join(columns)}")
    if options.topic is None and "topic" not in columns:
        raise UsageError("no topic is given: set the option topic, or add a column named topic")


def write_batches(tables: Iterator["pyarrow.RecordBatch"], options: SinkOptions) -> Written:
    """Writes one task's rows, in a Python worker, and returns once all are acknowledged."""
    from hutong.pipelines.sink.encode.encoder import Encoder

    cluster = shared_cluster(options.cluster)
    context = TaskContext.get()
    counts: dict[str, int] = {}

    def partition_count(topic: str) -> int:
        if topic not in counts:
            counts[topic] = len(cluster.topics([topic], create=True)[topic].partitions)
        return counts[topic]

    first = context.partitionId() if context else 0
    encoder = Encoder(options.topic, options.compression, options.batch_bytes, partition_count, first)
    row_count = 0
    with shared_producer(options.cluster, options.timeout_ms) as producer:
        for table in tables:
            for records in encoder.encode(table):
                producer.send(records)
            row_count += table.num_rows
        producer.flush()
    return Written(row_count)
