"""The messages and enums of one file, each made when a type is first met.

Strategy: each of msgspec's types becomes a shape, and each type with a name of its own a message or an enum, once for
the whole file; its name is known before its fields are looked at, since types may hold themselves. What protobuf has
only as a field (a list in a list, None in a map) becomes a message around it.

Knows no methods. Raises UsageError, with the place, for what cannot cross.
"""

from collections.abc import Iterable, Sequence
from enum import Flag
from typing import Any, Final

from msgspec import inspect

from hutong.foundation.errors import UsageError
from hutong.rpc.grpc.proto.annotations import comment_of, peeled
from hutong.rpc.grpc.proto.fields import Part, numbered, optional, word_of
from hutong.rpc.grpc.proto.kinds import (
    LISTS,
    RECORDS,
    SCALARS,
    class_name,
    declared,
    enum_numbers,
    is_empty,
    key_shape,
    kind_of,
    literal_type,
    shown,
)
from hutong.rpc.grpc.proto.names import Names, identifier, upper_case
from hutong.rpc.grpc.proto.schema import EnumDeclaration, Label, MessageSchema, ProtoKind
from hutong.rpc.grpc.proto.shapes import (
    ABSENT,
    BoxShape,
    DurationShape,
    EnumShape,
    MessageShape,
    RecordShape,
    RowShape,
    ScalarShape,
    Shape,
    Slot,
    TimestampShape,
    UnionShape,
)

WELL_KNOWN: Final[dict[type[inspect.Type], type[TimestampShape | DurationShape]]] = {
    inspect.DateTimeType: TimestampShape,
    inspect.TimeDeltaType: DurationShape,
}


class Catalogue:
    """`messages` by name, in the order in which they were met, None while their fields are looked at.

    `shapes` are those that need a message class.
    """

    def __init__(self, names: Names) -> None:
        self.messages: dict[str, MessageSchema | None] = {}
        self.enums: list[EnumDeclaration] = []
        self.shapes: list[MessageShape] = []
        self._names = names
        self._named: dict[object, Shape] = {}

    # -- what holds fields

    def declare(self, record: RecordShape | RowShape, parts: Sequence[Part], comment: str = "") -> None:
        name = record.type.name
        record.members = tuple(part.member for part in parts)
        self.shapes.append(record)
        self.messages[name] = MessageSchema(name, numbered(name, parts), comment)

    def parts(self, where: str, fields: Iterable[inspect.Field], *, is_row: bool = False) -> list[Part]:
        """Of fields in the order of declaration. The fields of a row have no defaults: all are there."""
        return [
            self.part(f"{where}: {field.name!r}", field.name, field.type, None if is_row else field) for field in fields
        ]

    def part(self, where: str, name: str, kind: inspect.Type, field: inspect.Field | None = None) -> Part:
        slot, number, comment = self.slot(where, kind, field)
        return Part(identifier(name, where), name if field is None else field.encode_name, slot, number, comment)

    def slot(self, where: str, kind: inspect.Type, field: inspect.Field | None = None) -> tuple[Slot, int | None, str]:
        """Return the slot, its requested number, and its comment. Without `field` it is a required one."""
        annotation = peeled(where, kind)
        is_required = field is None or field.required
        when_absent = None if annotation.is_nullable and is_required else ABSENT
        if not annotation.is_nullable and (is_required or (field is not None and is_empty(field))):
            slot = self._repeated(where, annotation.kind)  # nothing and an empty list are the same
            if slot is None and is_required:
                slot = Slot(self._shape(where, annotation.kind))
        else:
            slot = None
        if slot is None:
            shape = self._shape(where, annotation.kind)
            label = Label.SINGULAR if shape.type.kind is ProtoKind.MESSAGE else Label.OPTIONAL
            slot = Slot(shape, label, when_absent=when_absent)
        return slot, annotation.number, annotation.comment

    def _repeated(self, where: str, kind: inspect.Type) -> Slot | None:
        if isinstance(kind, LISTS):
            return Slot(self._item(where, kind.item_type), Label.REPEATED)
        if isinstance(kind, inspect.DictType):
            key = key_shape(where, peeled(where, kind.key_type).kind)
            return Slot(self._item(where, kind.value_type), Label.MAP, key)
        return None

    def _item(self, where: str, kind: inspect.Type) -> Shape:
        """Return the shape of a list's or a map's items: an item that may be None needs a message around it."""
        annotation = peeled(where, kind)
        shape = self._shape(where, annotation.kind)
        if not annotation.is_nullable:
            return shape
        return self._box(f"Optional{word_of(shape)}", "value", optional(shape))

    def _box(self, name: str, field: str, slot: Slot) -> Shape:
        key = ("box", name, slot.label, slot.key and slot.key.type.name, slot.shape.type.name)
        if key not in self._named:
            box = BoxShape(self._names.take(name, key), field, slot)
            self._named[key] = box
            self.shapes.append(box)
            self.messages[name] = MessageSchema(name, numbered(name, [Part(field, field, slot)]))
        return self._named[key]

    # -- single values

    def _shape(self, where: str, kind: inspect.Type) -> Shape:
        """Of what fits into one field. Raises UsageError."""
        if (scalar := SCALARS.get(type(kind))) is not None:
            return ScalarShape(scalar)
        if isinstance(kind, RECORDS):
            return self._record(kind)
        if (repeated := self._repeated(where, kind)) is not None:
            if repeated.key is None:
                return self._box(f"ListOf{word_of(repeated.shape)}", "items", repeated)
            return self._box(f"MapOf{word_of(repeated.key)}To{word_of(repeated.shape)}", "entries", repeated)
        if (well_known := WELL_KNOWN.get(type(kind))) is not None:
            return self._well_known(well_known)
        match kind:
            case inspect.EnumType():
                return self._enum(where, kind.cls)
            case inspect.LiteralType():
                return ScalarShape(literal_type(where, kind.values))
            case inspect.UnionType():
                return self._union(where, kind)
            case inspect.TupleType():
                return self._tuple(where, kind)
        raise UsageError(f"{where} is {shown(kind)}, which has no equal in a .proto; name the type that it has.")

    def _well_known(self, kind: type[TimestampShape | DurationShape]) -> Shape:
        if kind not in self._named:
            shape = kind()
            self._named[kind] = shape
            self.shapes.append(shape)
        return self._named[kind]

    def _record(self, kind: Any) -> Shape:
        cls = kind.cls
        if cls in self._named:
            return self._named[cls]
        name = self._names.take(class_name(cls), cls)
        tag_field, tag = getattr(kind, "tag_field", ""), getattr(kind, "tag", None)
        is_row = isinstance(kind, inspect.NamedTupleType) or getattr(kind, "array_like", False)
        record: RecordShape | RowShape
        record = RowShape(name, tag) if is_row else RecordShape(name, None if tag is None else (str(tag_field), tag))
        self._named[cls] = record
        self.messages[name] = None
        self.declare(record, self.parts(name, declared(kind), is_row=is_row), comment_of(cls))
        return record

    def _tuple(self, where: str, kind: inspect.TupleType) -> Shape:
        parts = [
            Part(f"item_{number}", "", self.slot(where, item)[0]) for number, item in enumerate(kind.item_types, 1)
        ]
        name = "TupleOf" + "And".join(part.word for part in parts)
        key = ("tuple", name)
        if key not in self._named:
            row = RowShape(self._names.take(name, key))
            self._named[key] = row
            self.declare(row, parts)
        return self._named[key]

    def _union(self, where: str, kind: inspect.UnionType) -> Shape:
        bare = [peeled(where, variant).kind for variant in kind.types]
        variants = [(variant, self._shape(where, variant)) for variant in bare]
        words = [word_of(shape) for _, shape in variants]
        name = "Or".join(words)
        key = ("union", name, tuple(shape.type for _, shape in variants))
        if key not in self._named:
            union = UnionShape(self._names.take(name, key))
            self._named[key] = union
            self.shapes.append(union)
            named = [(upper_case(word).lower(), shape) for word, (_, shape) in zip(words, variants, strict=True)]
            union.fill((field, shape, kind_of(variant)) for (field, shape), variant in zip(named, bare, strict=True))
            parts = [Part(field, field, Slot(shape, Label.ONEOF)) for field, shape in named]
            self.messages[name] = MessageSchema(name, numbered(name, parts))
        return self._named[key]

    def _enum(self, where: str, cls: Any) -> Shape:
        if cls in self._named:
            return self._named[cls]
        if issubclass(cls, Flag):
            raise UsageError(f"{where} is {cls.__name__}, whose members are combined; take a list of an Enum.")
        name = self._names.take(class_name(cls), cls)
        prefix = upper_case(name)
        names = {f"{prefix}_{upper_case(identifier(member.name, name))}": member.value for member in cls}
        if len(names) < len(cls):
            raise UsageError(f"{where} is {name}, whose members have the same name but for case.")
        numbers = enum_numbers(list(names.values()))
        declared = {member: numbers[value] for member, value in names.items()}
        if 0 not in declared.values():
            declared = {f"{prefix}_UNSPECIFIED": 0} | declared
        ordered = sorted(declared.items(), key=lambda pair: pair[1] != 0)  # the one with 0 first
        self.enums.append(EnumDeclaration(name, tuple(ordered), comment_of(cls)))
        self._named[cls] = EnumShape(name, numbers)
        return self._named[cls]
