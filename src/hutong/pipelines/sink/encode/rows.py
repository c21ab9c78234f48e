"""The columns of a table to be written, as the compiled passes read them.

Names and types are those of the sink of Spark's own Kafka source: `value` (string or binary) is required; `key`,
`topic`, `partition` and `headers` are optional. So is `timestamp`, which that sink does not take; where it is null a
record gets the time of writing. Other columns are ignored.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hutong.foundation.errors import UsageError
from hutong.pipelines.native import Bytes, Int32s, Int64s, bytes_of

N = TypeVar("N", bound=np.generic)


def _read_only(array: NDArray[N]) -> NDArray[N]:
    """A writable array is another type to the compiler, and each combination would be compiled anew."""
    array.flags.writeable = False
    return array


class BinaryRows(NamedTuple):
    """Row `r` is `content[ends[r]:ends[r + 1]]`, or null where `valid[r]` is 0. Without `present` all are null."""

    ends: Int32s
    content: Bytes
    valid: Bytes
    present: bool


class HeaderRows(NamedTuple):
    """The headers of row `r` are the pairs `ends[r]` to `ends[r + 1]`. Without `present` there are none."""

    ends: Int32s
    keys: BinaryRows
    values: BinaryRows
    present: bool


class TimeRows(NamedTuple):
    """The time of row `r` is `milliseconds[r]`. Without `present` all get the time at which their batch is sent."""

    milliseconds: Int64s
    present: bool


class RecordRows(NamedTuple):
    keys: BinaryRows
    values: BinaryRows
    headers: HeaderRows
    times: TimeRows


NO_ENDS = _read_only(np.zeros(1, np.int32))
ABSENT = BinaryRows(NO_ENDS, bytes_of(b""), bytes_of(b""), False)
NO_HEADERS = HeaderRows(NO_ENDS, ABSENT, ABSENT, False)
NO_TIMES = TimeRows(_read_only(np.zeros(1, np.int64)), False)
MICROSECONDS = 1000
NO_TIMESTAMP_MS = -1
"""Kafka's value for a record without a time; the source reads it as the millisecond before 1970."""


def record_rows(columns: Mapping[str, pa.Array], now_ms: int) -> RecordRows:
    """The columns of an Arrow batch that become part of records. Raises UsageError for a type that does not fit."""
    key = columns.get("key")
    headers = columns.get("headers")
    timestamp = columns.get("timestamp")
    return RecordRows(
        ABSENT if key is None else binary_rows("key", key),
        binary_rows("value", columns["value"]),
        NO_HEADERS if headers is None else header_rows(headers),
        NO_TIMES if timestamp is None else time_rows(timestamp, now_ms),
    )


def binary_rows(name: str, array: pa.Array) -> BinaryRows:
    """A string or binary column."""
    if not _is_bytes(array.type):
        raise UsageError(f"column {name} is of type {array.type}: cast it to string or binary")
    flat = array.cast(pa.binary())
    _, ends, content = flat.buffers()
    return BinaryRows(
        _ends_of(flat, ends),
        bytes_of(content or b""),
        bytes_of(flat.is_valid().to_numpy(zero_copy_only=False)),
        True,
    )


def header_rows(array: pa.Array) -> HeaderRows:
    """A column of array<struct<key: string, value: binary>>; null is the same as no headers."""
    if not pa.types.is_list(array.type) or not pa.types.is_struct(array.type.value_type):
        raise UsageError(f"column headers is of type {array.type}: it must be array<struct<key:string,value:binary>>")
    filled = array.fill_null([]) if array.null_count else array
    pairs = filled.values
    keys = binary_rows("headers.key", pairs.field(0))
    # Header keys are not nullable in the protocol; values are.
    if not keys.valid.all():
        raise UsageError("column headers holds a null key: Kafka's headers must have one")
    return HeaderRows(_ends_of(filled, filled.buffers()[1]), keys, binary_rows("headers.value", pairs.field(1)), True)


def time_rows(array: pa.Array, now_ms: int) -> TimeRows:
    """A column of timestamps; null is now. Raises UsageError, for times before 1970 as Java's producer does."""
    if not pa.types.is_timestamp(array.type) or array.type.tz is None:
        raise UsageError(
            f"column timestamp is of type {array.type}: cast it to timestamp (with time zone), or drop it so that "
            "records get the time of writing"
        )
    microseconds = array.cast(pa.timestamp("us", tz=array.type.tz)).cast(pa.int64())
    milliseconds: Int64s = microseconds.fill_null(0).to_numpy(zero_copy_only=False) // MICROSECONDS
    milliseconds[~array.is_valid().to_numpy(zero_copy_only=False)] = now_ms
    if len(milliseconds) and milliseconds.min() < NO_TIMESTAMP_MS:
        raise UsageError(
            f"column timestamp holds a time {-milliseconds.min()} ms before 1970, where Kafka's times begin: correct "
            "it, or set it to null for the time of writing"
        )
    return TimeRows(_read_only(milliseconds), True)


def _ends_of(array: pa.Array, buffer: pa.Buffer) -> Int32s:
    return _read_only(np.frombuffer(buffer, np.int32)[array.offset : array.offset + len(array) + 1])


def _is_bytes(kind: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_string, pa.types.is_large_binary, pa.types.is_large_string)
    return any(test(kind) for test in tests)
