"""Types as msgspec has read them: the single fields of a `.proto`, and the distinction of a union's values.

Knows no messages and no numbers of fields.
"""

from collections.abc import Sequence
from typing import Any, Final, get_args, get_origin

from msgspec import inspect

from hutong.foundation.errors import UsageError
from hutong.rpc.grpc.proto.names import pascal_case
from hutong.rpc.grpc.proto.shapes import ARRAY, OBJECT, ScalarShape

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
KEYS: Final = ("bool", "int64", "string")  # what a map's key may be, of what we use

SCALARS: Final[dict[type[inspect.Type], str]] = {
    inspect.BoolType: "bool",
    inspect.IntType: "int64",
    inspect.FloatType: "double",
    inspect.StrType: "string",
    inspect.BytesType: "bytes",
    inspect.ByteArrayType: "bytes",
    inspect.MemoryViewType: "bytes",
    inspect.DateType: "string",
    inspect.TimeType: "string",
    inspect.UUIDType: "string",
    inspect.DecimalType: "string",
}
LISTS: Final = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType, inspect.CollectionType)
RECORDS: Final = (inspect.StructType, inspect.DataclassType, inspect.TypedDictType, inspect.NamedTupleType)


def declared(kind: Any) -> tuple[inspect.Field, ...]:
    """The fields of a record in the order of declaration, those of its bases first."""
    if not isinstance(kind, inspect.TypedDictType):
        return kind.fields  # type: ignore[no-any-return]
    order = list(getattr(kind.cls, "__origin__", kind.cls).__annotations__)  # msgspec has them by the alphabet
    return tuple(sorted(kind.fields, key=lambda field: order.index(field.name)))


def is_empty(field: inspect.Field) -> bool:
    """Return True if the default is an empty list, dict or the like."""
    if field.default_factory in (list, dict, set, frozenset, tuple):
        return True
    return isinstance(field.default, tuple | frozenset) and not field.default


def enum_numbers(values: list[Any]) -> dict[Any, int]:
    """Members that are small whole numbers have these; others are counted from 1."""
    if all(type(value) is int and INT32_MIN <= value <= INT32_MAX for value in values):
        return {value: value for value in values}
    return {value: number for number, value in enumerate(values, 1)}


def key_shape(where: str, kind: inspect.Type) -> ScalarShape:
    """Of a map's keys. An enum's member is its value there: a map has no enums as keys."""
    name = SCALARS.get(type(kind), "")
    if isinstance(kind, inspect.EnumType | inspect.LiteralType):
        name = "int64" if kind_of(kind) is int else "string"
    if name not in KEYS:
        raise UsageError(f"{where} is a map whose keys are {shown(kind)}; in a .proto they are text or whole numbers.")
    return ScalarShape(name)


def literal_type(where: str, values: Sequence[object]) -> str:
    kinds = {type(value) for value in values}
    if kinds == {str}:
        return "string"
    if kinds == {int}:
        return "int64"
    raise UsageError(f"{where} is a Literal of text and numbers; a .proto has a field for one or the other.")


def kind_of(kind: inspect.Type) -> object:
    """Return msgspec's distinction of this type from others of a union; see `shapes`."""
    tag = getattr(kind, "tag", None)
    if isinstance(kind, inspect.StructType) and tag is not None:
        return (ARRAY, tag) if kind.array_like else (OBJECT, kind.tag_field, tag)
    if isinstance(kind, (*LISTS, inspect.TupleType, inspect.NamedTupleType)) or getattr(kind, "array_like", False):
        return ARRAY
    if isinstance(kind, (*RECORDS, inspect.DictType)):
        return OBJECT
    if isinstance(kind, inspect.EnumType | inspect.LiteralType):
        values = [member.value for member in kind.cls] if isinstance(kind, inspect.EnumType) else kind.values
        return int if all(isinstance(value, int) for value in values) else str
    return {inspect.BoolType: bool, inspect.IntType: int, inspect.FloatType: float}.get(type(kind), str)


def class_name(cls: Any) -> str:
    """`Page[Item]` is `PageOfItem`."""
    origin = get_origin(cls)
    if origin is None:
        return str(cls.__name__)
    return f"{origin.__name__}Of" + "And".join(pascal_case(class_name(argument)) for argument in get_args(cls))


def shown(kind: inspect.Type) -> str:
    cls = getattr(kind, "cls", None)
    return getattr(cls, "__name__", type(kind).__name__.removesuffix("Type"))
