"""Spark's types as ours. Imported where Spark is."""

from pyspark.sql import types

from hutong.foundation.errors import UsageError
from hutong.pipelines.source.rows import kinds
from hutong.pipelines.source.rows.kinds import (
    TYPE_DEPTH_MAX,
    ArrayOf,
    DecimalOf,
    Kind,
    MapOf,
    Scalar,
    StructField,
    StructOf,
)

SCALARS: dict[type[types.DataType], str] = {
    types.BooleanType: kinds.BOOLEAN,
    types.ByteType: kinds.TINYINT,
    types.ShortType: kinds.SMALLINT,
    types.IntegerType: kinds.INT,
    types.LongType: kinds.BIGINT,
    types.FloatType: kinds.FLOAT,
    types.DoubleType: kinds.DOUBLE,
    types.StringType: kinds.STRING,
    types.BinaryType: kinds.BINARY,
    types.DateType: kinds.DATE,
    types.TimestampType: kinds.TIMESTAMP,
    types.TimestampNTZType: kinds.TIMESTAMP_NTZ,
}


def kind_of_type(data_type: types.DataType, depth: int = 0) -> Kind:
    """Raises UsageError for a type that has no counterpart."""
    if depth > TYPE_DEPTH_MAX:
        raise UsageError(f"a column's type is nested deeper than {TYPE_DEPTH_MAX} levels")
    match data_type:
        case types.DecimalType():
            return DecimalOf(data_type.precision, data_type.scale)
        case types.ArrayType():
            return ArrayOf(kind_of_type(data_type.elementType, depth + 1))
        case types.MapType() if isinstance(data_type.keyType, types.StringType):
            return MapOf(kind_of_type(data_type.valueType, depth + 1))
        case types.StructType():
            return StructOf(
                tuple(
                    StructField(field.name, kind_of_type(field.dataType, depth + 1), not field.nullable)
                    for field in data_type.fields
                )
            )
    name = SCALARS.get(type(data_type))
    if name is None:
        raise UsageError(f"a column of type {data_type.simpleString()} cannot be written with a schema: cast it")
    return Scalar(name)
