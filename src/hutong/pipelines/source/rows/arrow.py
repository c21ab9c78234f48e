"""The Arrow types that Spark expects for ours, and columns of them.

Spark compares the type of every column with its own, to the name of a list's element.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from hutong.pipelines.source.rows import kinds
from hutong.pipelines.source.rows.kinds import ArrayOf, DecimalOf, Kind, MapOf, Scalar, StructOf

SCALARS: Mapping[str, pa.DataType] = {
    kinds.BOOLEAN: pa.bool_(),
    kinds.TINYINT: pa.int8(),
    kinds.SMALLINT: pa.int16(),
    kinds.INT: pa.int32(),
    kinds.BIGINT: pa.int64(),
    kinds.FLOAT: pa.float32(),
    kinds.DOUBLE: pa.float64(),
    kinds.STRING: pa.string(),
    kinds.BINARY: pa.binary(),
    kinds.DATE: pa.date32(),
    kinds.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    kinds.TIMESTAMP_NTZ: pa.timestamp("us"),
}


def arrow_type(kind: Kind) -> pa.DataType:
    """Return the Arrow type that Spark uses for the type."""
    match kind:
        case Scalar(name):
            return SCALARS[name]
        case DecimalOf(precision, scale):
            return pa.decimal128(precision, scale)
        case ArrayOf(element):
            return pa.list_(pa.field("element", arrow_type(element)))
        case MapOf(value):
            return pa.map_(pa.field("key", pa.string(), nullable=False), pa.field("value", arrow_type(value)))
        case StructOf(fields):
            return pa.struct([pa.field(field.name, arrow_type(field.kind)) for field in fields])


def column_of(values: Sequence[Any], kind: pa.DataType, failed: Callable[[int, str], None]) -> pa.Array:
    """The values as a column. One that does not fit is reported to `failed` and becomes null."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        if len(values) == 1:
            failed(0, str(error).partition("\n")[0])
            return pa.nulls(1, kind)
    middle = len(values) // 2
    halves = [
        column_of(values[:middle], kind, failed),
        column_of(values[middle:], kind, lambda row, reason: failed(middle + row, reason)),
    ]
    return pa.concat_arrays(halves)
