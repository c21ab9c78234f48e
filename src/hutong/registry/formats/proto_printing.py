"""File descriptors as Protobuf's language: the text that is kept of a schema, however it was sent.

Strategy: one form for each descriptor. Names are as short as their package allows. What has no text form here is left
out, and `protobuf` notices.
"""

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf import descriptor_pb2 as pb

from hutong.registry.formats.proto_reading import LABELS, SCALARS

_SCALAR_NAMES: Final = {number: name for name, number in SCALARS.items()}
_LABEL_NAMES: Final = {number: name for name, number in LABELS.items()}
_Field: Any = pb.FieldDescriptorProto


def print_file(file: Any) -> str:
    """The text of a descriptor whose types are resolved."""
    return "\n".join(_Printer(file).lines()) + "\n"


class _Printer:
    def __init__(self, file: Any) -> None:
        self._file = file
        self._is_proto3 = file.syntax == "proto3"
        self._prefix = f".{file.package}." if file.package else "."

    def lines(self) -> Iterator[str]:
        file = self._file
        yield f'syntax = "{file.syntax or "proto2"}";'
        if file.package:
            yield f"package {file.package};"
        if file.dependency:
            yield ""
        for index, name in enumerate(file.dependency):
            yield f"import {'public ' if index in file.public_dependency else ''}{_quoted(name)};"
        options = list(_options(file.options))
        if options:
            yield ""
        yield from (f"option {each};" for each in options)
        for message in file.message_type:
            yield ""
            yield from self._message(message)
        for enum in file.enum_type:
            yield ""
            yield from self._enum(enum)
        for service in file.service:
            yield ""
            yield from self._service(service)
        yield from self._extensions(file.extension)

    def _message(self, message: Any) -> Iterator[str]:
        yield f"message {message.name} {{"
        yield from _indented(self._members(message))
        yield "}"

    def _members(self, message: Any) -> Iterator[str]:
        yield from (f"option {each};" for each in _options(message.options))
        yield from _reserved(message, is_exclusive=True)
        for each in message.extension_range:
            yield f"extensions {_range(each.start, each.end - 1, 2**29 - 1)};"
        maps = {f"{nested.name}": nested for nested in message.nested_type if nested.options.map_entry}
        printed: set[int] = set()
        for field in message.field:
            if not field.HasField("oneof_index") or field.proto3_optional:
                yield self._field(field, maps)
            # A oneof is where its first field is.
            elif field.oneof_index not in printed:
                printed.add(field.oneof_index)
                yield f"oneof {message.oneof_decl[field.oneof_index].name} {{"
                inside = [each for each in message.field if _is_in(each, field.oneof_index)]
                yield from _indented(iter([self._field(each, maps) for each in inside]))
                yield "}"
        for nested in message.nested_type:
            if not nested.options.map_entry:
                yield from self._message(nested)
        for enum in message.enum_type:
            yield from self._enum(enum)
        yield from self._extensions(message.extension)

    def _field(self, field: Any, maps: dict[str, Any]) -> str:
        entry = maps.get(field.type_name.rpartition(".")[2])
        if entry is not None and field.label == _Field.LABEL_REPEATED:
            kind = f"map<{self._type(entry.field[0])}, {self._type(entry.field[1])}>"
            return f"{kind} {field.name} = {field.number}{_field_options(field)};"
        is_bare = field.HasField("oneof_index") or (self._is_proto3 and field.label == _Field.LABEL_OPTIONAL)
        label = "" if is_bare and not field.proto3_optional else f"{_LABEL_NAMES[field.label]} "
        return f"{label}{self._type(field)} {field.name} = {field.number}{_field_options(field)};"

    def _type(self, field: Any) -> str:
        return _SCALAR_NAMES.get(field.type) or self._short(field.type_name)

    def _short(self, name: str) -> str:
        return name.removeprefix(self._prefix) if name.startswith(self._prefix) else name

    def _enum(self, enum: Any) -> Iterator[str]:
        yield f"enum {enum.name} {{"
        yield from (f"  option {each};" for each in _options(enum.options))
        yield from _indented(_reserved(enum, is_exclusive=False))
        yield from (f"  {each.name} = {each.number};" for each in enum.value)
        yield "}"

    def _service(self, service: Any) -> Iterator[str]:
        yield f"service {service.name} {{"
        for each in service.method:
            takes = f"{'stream ' if each.client_streaming else ''}{self._short(each.input_type)}"
            gives = f"{'stream ' if each.server_streaming else ''}{self._short(each.output_type)}"
            yield f"  rpc {each.name} ({takes}) returns ({gives});"
        yield "}"

    def _extensions(self, fields: Any) -> Iterator[str]:
        for field in fields:
            yield f"extend {self._short(field.extendee)} {{"
            yield f"  {self._field(field, {})}"
            yield "}"


def _is_in(field: Any, oneof_index: int) -> bool:
    return bool(field.HasField("oneof_index") and field.oneof_index == oneof_index and not field.proto3_optional)


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _reserved(target: Any, *, is_exclusive: bool) -> Iterator[str]:
    maximum = 2**29 - 1 if is_exclusive else 2**31 - 1
    for each in target.reserved_range:
        yield f"reserved {_range(each.start, each.end - is_exclusive, maximum)};"
    for name in target.reserved_name:
        yield f"reserved {_quoted(name)};"


def _range(first: int, last: int, maximum: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last == maximum else last}"


def _field_options(field: Any) -> str:
    options = []
    if field.HasField("default_value"):
        is_text = field.type in (_Field.TYPE_STRING, _Field.TYPE_BYTES)
        options.append(f"default = {_quoted(field.default_value) if is_text else field.default_value}")
    if field.HasField("json_name"):
        options.append(f"json_name = {_quoted(field.json_name)}")
    options += _options(field.options)
    return f" [{', '.join(options)}]" if options else ""


def _options(options: Any) -> Iterator[str]:
    """Those of protobuf's own that are set."""
    for field, value in options.ListFields():
        if field.is_repeated or field.message_type is not None or field.is_extension or field.name == "map_entry":
            continue
        if field.enum_type is not None:
            yield f"{field.name} = {field.enum_type.values_by_number[value].name}"
        elif isinstance(value, bool):
            yield f"{field.name} = {str(value).lower()}"
        elif isinstance(value, str):
            yield f"{field.name} = {_quoted(value)}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
