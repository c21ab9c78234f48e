"""The columns of a table to be written, as the compiled passes read them.

Names and types are those of the sink of Spark's own Kafka source: `value` (string or binary) is required; `key`,
`topic`, `partition` and `headers` are optional; other columns are ignored.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hutong.foundation.errors import UsageError
from hutong.pipelines.native import Bytes, Int32s, bytes_of

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


class RecordRows(NamedTuple):
    keys: BinaryRows
    values: BinaryRows
    headers: HeaderRows


NO_ENDS = _read_only(np.zeros(1, np.int32))
ABSENT = BinaryRows(NO_ENDS, bytes_of(b""), bytes_of(b""), False)
NO_HEADERS = HeaderRows(NO_ENDS, ABSENT, ABSENT, False)


def record_rows(columns: Mapping[str, pa.Array]) -> RecordRows:
    """The columns `value`, `key` and `headers` of an Arrow batch. Raises UsageError for a type that does not fit."""
    key = columns.get("key")
    headers = columns.get("headers")
    return RecordRows(
        ABSENT if key is None else binary_rows("key", key),
        binary_rows("value", columns["value"]),
        NO_HEADERS if headers is None else header_rows(headers),
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
    if not keys.valid.all():
        raise UsageError("column headers holds a null key: Kafka's headers must have one")
    return HeaderRows(_ends_of(filled, filled.buffers()[1]), keys, binary_rows("headers.value", pairs.field(1)), True)


def _ends_of(array: pa.Array, buffer: pa.Buffer) -> Int32s:
    return _read_only(np.frombuffer(buffer, np.int32)[array.offset : array.offset + len(array) + 1])


def _is_bytes(kind: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_string, pa.types.is_large_binary, pa.types.is_large_string)
    return any(test(kind) for test in tests)
