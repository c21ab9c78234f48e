"""Protobuf's rules by which a reader understands a writer's bytes (protobuf.dev, "Updating A Message Type").

Strategy: messages are compared by their names within the package, fields by their numbers. Kinds that share a wire
format and a meaning may take each other's place. Fields that only one side has are no trouble, unless they are
required or were members of a oneof.
"""

from collections import Counter
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor as Kind

from hutong.registry.formats.shape import Troubles

_VARINT: Final = frozenset(
    {Kind.TYPE_INT32, Kind.TYPE_INT64, Kind.TYPE_UINT32, Kind.TYPE_UINT64, Kind.TYPE_BOOL, Kind.TYPE_ENUM}
)
_GROUPS: Final = (
    _VARINT,
    frozenset({Kind.TYPE_SINT32, Kind.TYPE_SINT64}),
    frozenset({Kind.TYPE_STRING, Kind.TYPE_BYTES}),
    frozenset({Kind.TYPE_FIXED32, Kind.TYPE_SFIXED32}),
    frozenset({Kind.TYPE_FIXED64, Kind.TYPE_SFIXED64}),
)
_DELIMITED: Final = frozenset({Kind.TYPE_STRING, Kind.TYPE_BYTES, Kind.TYPE_MESSAGE})


class ProtoComparison:
    """One comparison; `troubles` has what it found."""

    def __init__(self) -> None:
        self.troubles = Troubles()

    def compare(self, reader: Any, writer: Any) -> None:
        """Compare two files."""
        self._messages(reader.message_types_by_name, writer.message_types_by_name, "")

    def _messages(self, reader: Any, writer: Any, path: str) -> None:
        for name, theirs in writer.items():
            self.troubles.count()
            ours = reader.get(name)
            place = f"{path}/{name}"
            if ours is None:
                self.troubles.add("MESSAGE_REMOVED", place, "the reader has no such message")
                continue
            self._fields(ours, theirs, place)
            self._oneofs(ours, theirs, place)
            self._messages(ours.nested_types_by_name, theirs.nested_types_by_name, place)

    def _fields(self, reader: Any, writer: Any, path: str) -> None:
        written = writer.fields_by_number
        for number, theirs in written.items():
            self.troubles.count()
            ours, place = reader.fields_by_number.get(number), f"{path}/{number}"
            if ours is not None:
                self._field(ours, theirs, place)
            elif theirs.is_required:
                self.troubles.add("REQUIRED_FIELD_REMOVED", place, f"the writer demands {theirs.name}")
            elif _oneof_of(theirs):
                self.troubles.add("ONEOF_FIELD_REMOVED", place, f"the reader's oneof has no {theirs.name}")
        for number, ours in reader.fields_by_number.items():
            if ours.is_required and (number not in written or not written[number].is_required):
                self.troubles.add("REQUIRED_FIELD_ADDED", f"{path}/{number}", f"the reader demands {ours.name}")

    def _field(self, reader: Any, writer: Any, path: str) -> None:
        if not _fits(reader.type, writer.type):
            why = f"{reader.name} is of another kind than the writer's {writer.name}"
            self.troubles.add("FIELD_KIND_CHANGED", path, why)
        elif reader.type == Kind.TYPE_MESSAGE and _name(reader) != _name(writer):
            why = f"{reader.name} is a {_name(reader)}, the writer's a {_name(writer)}"
            self.troubles.add("FIELD_NAMED_TYPE_CHANGED", path, why)
        # One value of these is read as the last of many, and the other way round; numbers are packed.
        elif reader.is_repeated != writer.is_repeated and reader.type not in _DELIMITED:
            self.troubles.add("FIELD_NUMERIC_LABEL_CHANGED", path, f"{reader.name} is repeated on one side alone")

    def _oneofs(self, reader: Any, writer: Any, path: str) -> None:
        """Fields that could be set together must not become alternatives."""
        moved: Counter[str] = Counter()
        for number, theirs in writer.fields_by_number.items():
            ours = reader.fields_by_number.get(number)
            name = "" if ours is None else _oneof_of(ours)
            if name and not _oneof_of(theirs):
                moved[name] += 1
        for name, count in moved.items():
            if count > 1:
                why = f"{count} fields of the writer are alternatives for the reader"
                self.troubles.add("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{name}", why)


def _fits(ours: int, theirs: int) -> bool:
    return ours == theirs or any(ours in group and theirs in group for group in _GROUPS)


def _name(field: Any) -> str:
    """The name of its message within the package, which may change."""
    message = field.message_type
    package = message.file.package
    name: str = message.full_name
    return name.removeprefix(f"{package}.") if package else name


def _oneof_of(field: Any) -> str:
    """The name of its oneof; empty for none, and for the one that proto3 makes of an optional field."""
    found = field.containing_oneof
    if found is None or (len(found.fields) == 1 and found.name == f"_{field.name}"):
        return ""
    return str(found.name)
