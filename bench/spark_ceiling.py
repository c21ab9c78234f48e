"""The ceiling of Spark's Python Data Source API: sources that only hand over, and a writer that only counts.

Strategy: the batches of the source are built once per task and handed over again and again, of the columns of Kafka
records and about as large as one fetch; the writer looks at nothing but the number of rows. What a real source or sink
adds to this is its own cost. Workers import this module, so it imports little. Method names are Spark's.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow

SCHEMA = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
KEY_COUNT = 1000
ROW_BYTES = 32
"""The bytes of a row without key and value."""


@dataclass(frozen=True, slots=True)
class Shape:
    rows: int
    size: int
    partitions: int
    batch_bytes: int


class Slice(InputPartition):
    """One task: how many rows it hands over."""

    def __init__(self, index: int, rows: int) -> None:
        super().__init__((index, rows))


class CeilingSource(DataSource):
    """Takes the options rows, size (of a value), partitions and batchBytes."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return _BatchReader(self._shape())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _StreamReader(self._shape())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return _CountingWriter()

    def _shape(self) -> Shape:
        given = self.options
        names = ("rows", "size", "partitions", "batchBytes")
        return Shape(*(int(given[name]) for name in names))


class _BatchReader(DataSourceReader):
    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def partitions(self) -> list[InputPartition]:
        return slices(0, self._shape.rows, self._shape.partitions)

    def read(self, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
        return handed_over(partition, self._shape)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def initialOffset(self) -> dict[str, int]:
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int] | None = None, limit: ReadLimit | None = None) -> dict[str, int]:
        return {"row": self._shape.rows}

    def prepareForTriggerAvailableNow(self) -> None:
        pass

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return slices(start["row"], end["row"], self._shape.partitions)

    def read(self, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
        return handed_over(partition, self._shape)


class _CountingWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator["pyarrow.RecordBatch"]) -> WriterCommitMessage:
        for table in iterator:
            assert table.num_rows >= 0
        return WriterCommitMessage()


def slices(first: int, end: int, partitions: int) -> list[InputPartition]:
    edges = [first + (end - first) * index // partitions for index in range(partitions + 1)]
    return [Slice(index, edges[index + 1] - edges[index]) for index in range(partitions)]


def handed_over(partition: InputPartition, shape: Shape) -> Iterator["pyarrow.RecordBatch"]:
    """The rows of one task, all from the same memory."""
    if partition.value is None:  # Spark makes up a partition where a plan has none
        return
    index, rows = partition.value
    batch_rows = max(1, shape.batch_bytes // (shape.size + ROW_BYTES))
    batch = built(index, min(rows, batch_rows), shape.size)
    while rows > 0:
        part = batch if rows >= batch.num_rows else batch.slice(0, rows)
        rows -= part.num_rows
        yield part


def built(index: int, rows: int, size: int) -> "pyarrow.RecordBatch":
    """A batch of `rows` records of partition `index` with values of `size` bytes."""
    import numpy as np
    import pyarrow as pa

    filling = np.random.default_rng(1).bytes(rows * size)
    values = pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * size), pa.py_buffer(filling)]
    )
    numbers = np.arange(rows, dtype=np.int64)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([b"key-%04d" % (number % KEY_COUNT) for number in range(rows)], pa.binary()),
            values,
            pa.repeat(pa.scalar("ceiling"), rows),
            pa.repeat(pa.scalar(index, pa.int32()), rows),
            pa.array(numbers),
            pa.array(1_700_000_000_000_000 + numbers, pa.timestamp("us", tz="UTC")),
            pa.array(np.zeros(rows, np.int32)),
        ],
        names=["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"],
    )
