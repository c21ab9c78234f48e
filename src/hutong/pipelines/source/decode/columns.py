"""Arrow columns around the buffers that the fused pass fills.

The memory becomes columns without a copy, and is reused once they are released. The columns that are the same for every
record of a partition (topic, partition) are made once and sliced.

Column names and types are exactly those of Spark's own Kafka source; Spark compares them with its schema.
"""

from collections.abc import Sequence
from typing import TypeVar
from weakref import ref

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
    KEY_NULLS,
    ODD_HEADER_KEYS,
    ROW,
    VALUE_BYTES,
    VALUE_NULLS,
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
TIMESTAMP_TYPE = SCHEMA.field("timestamp").type
HEADER_BYTES_MIN = 2
"""The lengths of an empty key and a null value."""
ALL_VALID = 0xFF
NULLS_UNKNOWN = -1
"""pyarrow's value for a null count that is to be computed."""
ARENA_BYTES = 6 * 2**20
ARENA_ROWS = 128 * 2**10
"""The capacity of an arena, or more if one section needs more."""
ARENAS_KEPT_MAX = 3
"""One that is filled, one that Spark writes, and the first, which it keeps until the end of a task."""


class Lease:
    """Held by every buffer of a batch: the memory is lent as long as this lives."""

    __slots__ = ("__weakref__", "_arena")

    def __init__(self, arena: "Arena") -> None:
        self._arena = arena


class Arena:
    """The buffers for one Arrow batch at a time: at most `row_count` records taken from at most `byte_count` bytes.

    `byte_count` bounds the keys and the values each, since both come from the same records. Untouched pages cost
    nothing, and counting first would cost as much as the decoding. Sections of bytes are appended until the batch is
    made; the memory is reused once the batch is released.
    """

    def __init__(self, row_count: int, byte_count: int, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.cursor: Int64s = np.zeros(CURSOR_SLOTS, np.int64)
        self.bytes_taken = 0
        """Of the sections appended so far."""
        self.rows_taken = 0
        """Those that their batches claimed; some may be outside the window."""
        self._row_count = row_count
        self._byte_count = byte_count
        self._lease: ref[Lease] | None = None
        header_bytes = byte_count if "headers" in names else 0
        header_count = header_bytes // HEADER_BYTES_MIN
        self.columns = RecordColumns(
            offsets=np.empty(row_count, np.int64),
            timestamps_us=np.empty(row_count, np.int64),
            timestamp_types=np.empty(row_count, np.int32),
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
        """The number of appended records."""
        return int(self.cursor[ROW])

    @property
    def is_free(self) -> bool:
        """Return True if the batch made of it has been released."""
        return self._lease is None or self._lease() is None

    def has_room(self, row_count: int, byte_count: int) -> bool:
        """Return True if it has room for these further records and bytes."""
        return self.rows_taken + row_count <= self._row_count and self.bytes_taken + byte_count <= self._byte_count

    def reserve(self, row_count: int, byte_count: int) -> None:
        """Count a section that is about to be appended."""
        self.rows_taken += row_count
        self.bytes_taken += byte_count

    def lend(self) -> Lease:
        """Return a lease that all buffers of the batch hold."""
        lease = Lease(self)
        self._lease = ref(lease)
        return lease

    def clear(self) -> None:
        """Empty again; it must be free."""
        columns, headers = self.columns, self.columns.headers
        for valid, nulls in ((columns.keys.valid, KEY_NULLS), (columns.values.valid, VALUE_NULLS)):
            # Bits are cleared for nulls alone, so without any they are all set still.
            if self.cursor[nulls]:
                valid.fill(ALL_VALID)
        if self.columns.headers.capacity:
            for valid in (headers.valid, headers.keys.valid, headers.values.valid):
                valid.fill(ALL_VALID)
        self.cursor.fill(0)
        self.rows_taken = self.bytes_taken = 0


class Arenas:
    """Arenas that are used again and again, because fresh memory costs more than what is written to it."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._kept: list[Arena] = []

    def empty(self, row_count: int, byte_count: int) -> Arena:
        """An arena with room for at least that much."""
        for arena in [one for one in self._kept if one.is_free]:
            arena.clear()
            if arena.has_room(row_count, byte_count):
                return arena
            # Too small for this section: a larger one takes its place.
            self._kept.remove(arena)
        made = Arena(max(row_count, ARENA_ROWS), max(byte_count, ARENA_BYTES), self._names)
        # Another is used once and freed with its batch.
        if len(self._kept) < ARENAS_KEPT_MAX:
            self._kept.append(made)
        return made


class Assembler:
    """Makes Arrow batches of one partition's records, with the columns `names` in that order."""

    def __init__(self, topic: str, partition: int, names: Sequence[str]) -> None:
        self.schema = pa.schema([SCHEMA.field(name) for name in names])
        self._topic = topic
        self._partition = partition
        self._constants: dict[str, pa.Array] = {}
        self._constant_rows = 0

    def batch(self, arena: Arena) -> pa.RecordBatch:
        """The records in `arena` as a batch that holds a lease of its memory."""
        lent = _Lent(arena.lend())
        return pa.RecordBatch.from_arrays([self._column(name, arena, lent) for name in arena.names], schema=self.schema)

    def _column(self, name: str, arena: Arena, lent: "_Lent") -> pa.Array:
        columns, cursor, count = arena.columns, arena.cursor, arena.row_count
        match name:
            case "key":
                return lent.binary(pa.binary(), columns.keys, count, int(cursor[KEY_BYTES]), int(cursor[KEY_NULLS]))
            case "value":
                nulls = int(cursor[VALUE_NULLS])
                return lent.binary(pa.binary(), columns.values, count, int(cursor[VALUE_BYTES]), nulls)
            case "offset":
                return lent.fixed(pa.int64(), columns.offsets, count)
            case "timestamp":
                return lent.fixed(TIMESTAMP_TYPE, columns.timestamps_us, count)
            case "timestampType":
                return lent.fixed(pa.int32(), columns.timestamp_types, count)
            case "headers":
                return lent.headers(columns.headers, count, cursor)
            case _:
                return self._constant(name, count)

    def _constant(self, name: str, count: int) -> pa.Array:
        # Made once for the longest batch so far and sliced for shorter ones.
        if count > self._constant_rows:
            self._constant_rows = count
            self._constants = {
                "topic": pa.repeat(pa.scalar(self._topic, pa.string()), count),
                "partition": pa.repeat(pa.scalar(self._partition, pa.int32()), count),
            }
        return self._constants[name].slice(0, count)


class _Lent:
    """Makes columns of an arena's memory."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease

    def fixed(self, kind: pa.DataType, values: NDArray[N], count: int) -> pa.Array:
        return pa.Array.from_buffers(kind, count, [None, self._buffer(values, count)], null_count=0)

    def binary(
        self, kind: pa.DataType, column: BinaryColumn, count: int, byte_count: int, nulls: int = NULLS_UNKNOWN
    ) -> pa.Array:
        valid = self._buffer(column.valid, _bytes_of_bits(count)) if nulls else None
        buffers = [valid, self._buffer(column.ends, count + 1), self._buffer(column.content, byte_count)]
        return pa.Array.from_buffers(kind, count, buffers, null_count=nulls)

    def headers(self, headers: HeaderColumn, count: int, cursor: Int64s) -> pa.Array:
        pair_count = int(cursor[HEADER])
        key_type = pa.binary() if cursor[ODD_HEADER_KEYS] else pa.string()
        keys = self.binary(key_type, headers.keys, pair_count, int(cursor[HEADER_KEY_BYTES]), nulls=0)
        if cursor[ODD_HEADER_KEYS]:  # nothing keeps a producer from sending keys that are not UTF-8
            keys = pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())
        values = self.binary(pa.binary(), headers.values, pair_count, int(cursor[HEADER_VALUE_BYTES]))
        pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADER_TYPE))
        buffers = [self._buffer(headers.valid, _bytes_of_bits(count)), self._buffer(headers.ends, count + 1)]
        return pa.Array.from_buffers(SCHEMA.field("headers").type, count, buffers, children=[pairs])

    def _buffer(self, array: NDArray[N], count: int) -> pa.Buffer:
        """The first `count` elements."""
        return pa.foreign_buffer(array.ctypes.data, count * array.itemsize, self._lease)


def _bytes_of_bits(count: int) -> int:
    return (count + 7) // 8


def _ends(row_count: int) -> NDArray[np.int32]:
    ends = np.empty(row_count + 1, np.int32)
    ends[0] = 0
    return ends


def _valid(row_count: int) -> Bytes:
    return np.full(_bytes_of_bits(row_count), ALL_VALID, np.uint8)


def _binary(row_count: int, byte_count: int) -> BinaryColumn:
    return BinaryColumn(_ends(row_count), np.empty(byte_count, np.uint8), _valid(row_count), byte_count)
