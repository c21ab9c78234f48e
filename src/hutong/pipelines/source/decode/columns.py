"""Arrow columns around the buffers that the fused pass fills.

Buffers come from pyarrow's own pool and become columns without a copy. The columns that are the same for every record
of a partition (topic, partition, nearly always timestampType) are made once and sliced.

Column names and types are exactly those of Spark's own Kafka source; Spark compares them with its schema.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hutong.pipelines.native import Bytes, Int64s
from hutong.pipelines.source.decode.records import (
    CURSOR_SLOTS,
    HEADER,
    HEADER_KEY_BYTES,
    HEADER_VALUE_BYTES,
    KEY_BYTES,
    ODD_HEADER_KEYS,
    ROW,
    VALUE_BYTES,
    BinaryColumn,
    HeaderColumn,
    RecordColumns,
)

N = TypeVar("N", bound=np.generic)

HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("headers", pa.list_(pa.field("element", HEADER_TYPE))),
    ]
)
HEADER_BYTES_MIN = 2
"""The lengths of an empty key and a null value."""


class Arena:
    """The buffers for one Arrow batch of at most `row_count` records taken from at most `byte_count` bytes.

    `byte_count` bounds the keys and the values each, since both come from the same records: pages that stay untouched
    cost nothing, and a pass that counts first would cost as much as the decoding.
    """

    def __init__(self, row_count: int, byte_count: int, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.cursor: Int64s = np.zeros(CURSOR_SLOTS, np.int64)
        header_bytes = byte_count if "headers" in names else 0
        header_count = header_bytes // HEADER_BYTES_MIN
        self.columns = RecordColumns(
            offsets=_array(row_count, np.int64),
            timestamps_us=_array(row_count, np.int64),
            timestamp_types=_array(row_count, np.int32),
            keys=_binary(row_count, byte_count if "key" in names else 0),
            values=_binary(row_count, byte_count if "value" in names else 0),
            headers=HeaderColumn(
                ends=_ends(row_count),
                valid=_valid(row_count),
                keys=_binary(header_count, header_bytes),
                values=_binary(header_count, header_bytes),
                capacity=header_count,
            ),
            capacity=row_count,
        )

    @property
    def row_count(self) -> int:
        """How many records the pass has appended."""
        return int(self.cursor[ROW])


class Assembler:
    """Makes Arrow batches of one partition's records, with the columns `names` in that order."""

    def __init__(self, topic: str, partition: int, names: Sequence[str]) -> None:
        self.schema = pa.schema([SCHEMA.field(name) for name in names])
        self._topic = topic
        self._partition = partition
        self._constants: dict[str, pa.Array] = {}
        self._constant_rows = 0

    def batch(self, arena: Arena) -> pa.RecordBatch:
        """The records in `arena` as a batch that owns the arena's buffers."""
        count = arena.row_count
        return pa.RecordBatch.from_arrays(
            [self._column(name, arena, count) for name in arena.names], schema=self.schema
        )

    def _column(self, name: str, arena: Arena, count: int) -> pa.Array:
        columns, cursor = arena.columns, arena.cursor
        match name:
            case "key":
                return _binary_array(pa.binary(), columns.keys, count, int(cursor[KEY_BYTES]))
            case "value":
                return _binary_array(pa.binary(), columns.values, count, int(cursor[VALUE_BYTES]))
            case "offset":
                return _fixed_array(pa.int64(), columns.offsets, count)
            case "timestamp":
                return _fixed_array(SCHEMA.field("timestamp").type, columns.timestamps_us, count)
            case "timestampType":
                return _fixed_array(pa.int32(), columns.timestamp_types, count)
            case "headers":
                return _header_array(columns.headers, count, cursor)
            case _:
                return self._constant(name, count)

    def _constant(self, name: str, count: int) -> pa.Array:
        if count > self._constant_rows:
            self._constant_rows = count
            self._constants = {
                "topic": pa.repeat(pa.scalar(self._topic, pa.string()), count),
                "partition": pa.repeat(pa.scalar(self._partition, pa.int32()), count),
            }
        return self._constants[name].slice(0, count)


def _array(count: int, kind: type[N]) -> NDArray[N]:
    """An uninitialised array over a buffer of pyarrow's pool."""
    return np.frombuffer(pa.allocate_buffer(count * np.dtype(kind).itemsize), kind)


def _ends(row_count: int) -> NDArray[np.int32]:
    ends = _array(row_count + 1, np.int32)
    ends[0] = 0
    return ends


def _valid(row_count: int) -> Bytes:
    valid = _array((row_count + 7) // 8, np.uint8)
    valid.fill(0xFF)
    return valid


def _binary(row_count: int, byte_count: int) -> BinaryColumn:
    return BinaryColumn(_ends(row_count), _array(byte_count, np.uint8), _valid(row_count), byte_count)


def _fixed_array(kind: pa.DataType, values: NDArray[N], count: int) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(values)], null_count=0)


def _binary_array(kind: pa.DataType, column: BinaryColumn, count: int, byte_count: int) -> pa.Array:
    content = pa.py_buffer(column.content).slice(0, byte_count)
    return pa.Array.from_buffers(kind, count, [pa.py_buffer(column.valid), pa.py_buffer(column.ends), content])


def _header_array(headers: HeaderColumn, count: int, cursor: Int64s) -> pa.Array:
    pair_count = int(cursor[HEADER])
    key_type = pa.binary() if cursor[ODD_HEADER_KEYS] else pa.string()
    keys = _binary_array(key_type, headers.keys, pair_count, int(cursor[HEADER_KEY_BYTES]))
    if cursor[ODD_HEADER_KEYS]:  # nothing keeps a producer from sending keys that are not UTF-8
        keys = pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())
    values = _binary_array(pa.binary(), headers.values, pair_count, int(cursor[HEADER_VALUE_BYTES]))
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADER_TYPE))
    buffers = [pa.py_buffer(headers.valid), pa.py_buffer(headers.ends)]
    return pa.Array.from_buffers(SCHEMA.field("headers").type, count, buffers, children=[pairs])
