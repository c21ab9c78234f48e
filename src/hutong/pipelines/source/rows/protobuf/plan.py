"""Messages of a descriptor as plans for their binary form, and the Spark types that these give.

A message is a struct, a repeated field an array, a map a map whose keys are text, an enum its symbol. Timestamps and
the wrappers of scalars have columns of their own kind. A field is null where it is absent, if its file makes a
difference between that and its type's zero; else it is zero.

No column can hold a message that contains itself. As for Avro, it is unfolded `recursiveFieldMaxDepth` times, without
the fields that would hold it once more. Knows nothing of bytes.
"""

from dataclasses import dataclass
from typing import TypeAlias

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
from hutong.pipelines.source.rows.protobuf.descriptors import (
    ENUM,
    GROUP,
    REPEATED,
    REQUIRED,
    DescriptorSet,
    FieldDescriptor,
    MessageDescriptor,
)

NODES_MAX = 10_000
"""Messages may be fields of many others, so that a short schema could stand for a huge one."""
TYPES = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "fixed64",
    7: "fixed32",
    8: "bool",
    9: "string",
    12: "bytes",
    13: "uint32",
    15: "sfixed32",
    16: "sfixed64",
    17: "sint32",
    18: "sint64",
}
"""Numbers of FieldDescriptorProto.Type; those of messages and enums have plans of their own."""
UINT64 = DecimalOf(20, 0)
KINDS: dict[str, Kind] = {
    "double": Scalar(kinds.DOUBLE),
    "float": Scalar(kinds.FLOAT),
    "bool": Scalar(kinds.BOOLEAN),
    "string": Scalar(kinds.STRING),
    "bytes": Scalar(kinds.BINARY),
    **dict.fromkeys(("int32", "sint32", "sfixed32"), Scalar(kinds.INT)),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32"), Scalar(kinds.BIGINT)),
    **dict.fromkeys(("uint64", "fixed64"), UINT64),
}
TIMESTAMP = "google.protobuf.Timestamp"
WRAPPERS = {
    "google.protobuf.DoubleValue": "double",
    "google.protobuf.FloatValue": "float",
    "google.protobuf.Int64Value": "int64",
    "google.protobuf.UInt64Value": "uint64",
    "google.protobuf.Int32Value": "int32",
    "google.protobuf.UInt32Value": "uint32",
    "google.protobuf.BoolValue": "bool",
    "google.protobuf.StringValue": "string",
    "google.protobuf.BytesValue": "bytes",
}
_SECONDS, _NANOS = (
    FieldDescriptor("seconds", 1, 3, 1, "", None, False),
    FieldDescriptor("nanos", 2, 5, 1, "", None, False),
)
_OWN = {
    "google.protobuf.Duration": (_SECONDS, _NANOS),
    "google.protobuf.Any": (
        FieldDescriptor("type_url", 1, 9, 1, "", None, False),
        FieldDescriptor("value", 2, 12, 1, "", None, False),
    ),
    "google.protobuf.FieldMask": (FieldDescriptor("paths", 1, 9, REPEATED, "", None, False),),
}
"""Messages that come with protobuf, so that no registry has them."""


@dataclass(frozen=True, slots=True)
class ProtoScalar:
    """`type` is a name of `KINDS`."""

    type: str


@dataclass(frozen=True, slots=True)
class ProtoEnum:
    symbols: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class ProtoTimestamp:
    """google.protobuf.Timestamp."""


@dataclass(frozen=True, slots=True)
class ProtoWrapper:
    """A message that has one scalar, which may thereby be absent."""

    value: ProtoScalar


@dataclass(frozen=True, slots=True)
class ProtoMap:
    key: ProtoScalar
    value: "ProtoType"


@dataclass(frozen=True, slots=True)
class ProtoField:
    """`oneof` is the number of the oneof that it is a member of, in its message."""

    name: str
    number: int
    type: "ProtoType"
    is_repeated: bool = False
    is_required: bool = False
    has_presence: bool = True
    oneof: int | None = None


@dataclass(frozen=True, slots=True)
class ProtoMessage:
    """`place` is the message's own in its file."""

    full_name: str
    fields: tuple[ProtoField, ...]
    place: tuple[int, ...] = ()


ProtoType: TypeAlias = ProtoScalar | ProtoEnum | ProtoTimestamp | ProtoWrapper | ProtoMap | ProtoMessage


def plan_of(found: DescriptorSet, name: str = "", recursion_max: int | None = None) -> ProtoMessage:
    """The plan of a message of the last file, of its first one without a name. Raises ValueError."""
    if not found.own:
        raise ValueError("it has no message")
    if not name:
        return _Planner(found, recursion_max).message(found.own[0], ())
    for message in found.own:
        if name in (message.full_name, message.full_name.rpartition(".")[2]):
            return _Planner(found, recursion_max).message(message, ())
    names = ", ".join(message.full_name for message in found.own[:10])
    raise ValueError(f"it has no message {name[:100]!r}; it has {names}")


def kind_of_proto(found: ProtoType) -> Kind:
    """The type of the column."""
    match found:
        case ProtoScalar(type_) | ProtoWrapper(ProtoScalar(type_)):
            return KINDS[type_]
        case ProtoEnum():
            return Scalar(kinds.STRING)
        case ProtoTimestamp():
            return Scalar(kinds.TIMESTAMP)
        case ProtoMap(_, value):
            return MapOf(kind_of_proto(value))
        case ProtoMessage(_, fields):
            return StructOf(tuple(StructField(field.name, kind_of_field(field)) for field in fields))


def kind_of_field(field: ProtoField) -> Kind:
    kind = kind_of_proto(field.type)
    return ArrayOf(kind) if field.is_repeated else kind


class _Planner:
    """Makes the plan of one message. `path` are the names of fields around a part, for errors."""

    def __init__(self, found: DescriptorSet, recursion_max: int | None) -> None:
        self._found = found
        self._recursion_max = recursion_max
        self._nodes = 0
        self._around: list[str] = []

    def message(self, message: MessageDescriptor, path: tuple[str, ...]) -> ProtoMessage:
        # Readers are nested as plans are, so this bounds Python's stack as well.
        if len(self._around) >= TYPE_DEPTH_MAX:
            raise _unfit(path, f"is nested deeper than {TYPE_DEPTH_MAX} levels")
        self._around.append(message.full_name)
        made = [self._field(field, message.full_name, (*path, field.name)) for field in message.fields]
        self._around.pop()
        fields = tuple(field for field in made if field is not None)
        # Arrow and Spark have structs without members, but files such as Parquet have none.
        if not fields:
            raise _unfit(path, f"is of the message {message.full_name}, which has no fields")
        return ProtoMessage(message.full_name, fields, message.place)

    def _field(self, field: FieldDescriptor, scope: str, path: tuple[str, ...]) -> ProtoField | None:
        """The field; None for one that would hold a message once more than it is unfolded."""
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise ValueError(f"it has more than {NODES_MAX} fields, with those of all messages in others")
        type_ = self._type(field, scope, path)
        if type_ is None:
            return None
        is_repeated = field.label == REPEATED and not isinstance(type_, ProtoMap)
        is_required = field.label == REQUIRED
        return ProtoField(field.name, field.number, type_, is_repeated, is_required, field.has_presence, field.oneof)

    def _type(self, field: FieldDescriptor, scope: str, path: tuple[str, ...]) -> ProtoType | None:
        if field.type in TYPES:
            return ProtoScalar(TYPES[field.type])
        if field.type == GROUP:
            raise _unfit(path, "is a group")
        name = self._full_name(field.type_name, scope)
        if field.type == ENUM or name in self._found.enums:
            if name not in self._found.enums:
                # google.protobuf.NullValue, say.
                raise _unfit(path, f"is of the enum {field.type_name[:100]}, which is not there")
            return ProtoEnum(tuple(self._found.enums[name].items()))
        return self._of_message(name, field, path)

    def _of_message(self, name: str, field: FieldDescriptor, path: tuple[str, ...]) -> ProtoType | None:
        # By name: registries do not hand out the files that come with protobuf.
        if name == TIMESTAMP:
            return ProtoTimestamp()
        if name in WRAPPERS:
            return ProtoWrapper(ProtoScalar(WRAPPERS[name]))
        message = self._found.messages.get(name)
        if message is None and name in _OWN:
            message = MessageDescriptor(name, (), _OWN[name])
        if message is None:
            raise _unfit(path, f"is of the message {field.type_name[:100]}, which is not there")
        if message.is_map_entry:
            return self._map(message, path)
        # Those around it alone: a message may be a field of several others.
        times = self._around.count(name)
        if times and self._recursion_max is None:
            raise _unfit(path, f"holds the message {name} that holds it; set recursiveFieldMaxDepth")
        return None if self._recursion_max is not None and times >= self._recursion_max else self.message(message, path)

    def _map(self, entry: MessageDescriptor, path: tuple[str, ...]) -> ProtoType | None:
        by_number = {field.number: field for field in entry.fields}
        key, value = by_number.get(1), by_number.get(2)
        if key is None or value is None or key.type not in TYPES:
            raise _unfit(path, "is a map without key or value")
        found = self._type(value, entry.full_name, path)
        return None if found is None else ProtoMap(ProtoScalar(TYPES[key.type]), found)

    def _full_name(self, name: str, scope: str) -> str:
        """A name with a dot in front is full; another one is looked for in the scope and those around it."""
        if name.startswith("."):
            return name[1:]
        while True:
            full = f"{scope}.{name}" if scope else name
            if full in self._found.messages or full in self._found.enums or not scope:
                return full
            scope = scope.rpartition(".")[0]


def _unfit(path: tuple[str, ...], why: str) -> ValueError:
    return ValueError(f"{'field ' + '.'.join(path)[:200] if path else 'it'} {why}, so no column can hold it")
