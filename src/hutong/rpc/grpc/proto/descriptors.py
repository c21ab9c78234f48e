"""A schema as protobuf's own descriptors, and the message classes that they make. Needs the extra `grpc`.

Strategy: the descriptors are built directly, so no compiler is needed where a service runs; they are what protoc makes
of the text (a test compares). Each service has a pool of its own, since two may have types of the same name.

Knows nothing of Python's types and nothing of servers.
"""

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2

from hutong.rpc.grpc.proto.names import json_name, pascal_case
from hutong.rpc.grpc.proto.schema import EnumDeclaration, Field, Label, MessageSchema, ProtoKind, ProtoType, Schema
from hutong.rpc.grpc.proto.text import ONEOF

_FieldProto: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "bool": _FieldProto.TYPE_BOOL,
    "int64": _FieldProto.TYPE_INT64,
    "double": _FieldProto.TYPE_DOUBLE,
    "string": _FieldProto.TYPE_STRING,
    "bytes": _FieldProto.TYPE_BYTES,
}
_KINDS: Final = {ProtoKind.ENUM: _FieldProto.TYPE_ENUM, ProtoKind.MESSAGE: _FieldProto.TYPE_MESSAGE}


def file_of(schema: Schema) -> Any:
    """The FileDescriptorProto."""
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{schema.full_name.replace('.', '/')}.proto",
        package=schema.package,
        syntax="proto3",
        dependency=schema.imports,
    )
    for message in schema.messages:
        _add_message(file.message_type.add(name=message.name), message, schema.package)
    for declaration in schema.enums:
        _add_enum(file.enum_type.add(name=declaration.name), declaration)
    service = file.service.add(name=schema.service)
    for method in schema.methods:
        service.method.add(
            name=method.name,
            input_type=f".{schema.package}.{method.request}",
            output_type=f".{schema.package}.{method.response}",
            server_streaming=method.is_streaming or None,
        )
    return file


def pool_of(schema: Schema) -> Any:
    """A descriptor pool with the file and what it imports."""
    pool = descriptor_pool.DescriptorPool()
    for module in (timestamp_pb2, duration_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file_of(schema).SerializeToString())
    return pool


def message_class(pool: Any, schema: Schema, name: str) -> Any:
    """The class of a message of the file, or of google.protobuf by its full name."""
    full_name = name if "." in name else f"{schema.package}.{name}"
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(full_name))


def _add_message(proto: Any, message: MessageSchema, package: str) -> None:
    for field in message.fields:
        made = proto.field.add(name=field.name, number=field.number, json_name=json_name(field.name))
        if field.key is None:
            _set_type(made, field.type, package)
        else:
            _make_map(proto, made, field, package, message.name)
        is_many = field.label in (Label.REPEATED, Label.MAP)
        made.label = _FieldProto.LABEL_REPEATED if is_many else _FieldProto.LABEL_OPTIONAL
        if field.label is Label.ONEOF:
            made.oneof_index = 0
    if any(field.label is Label.ONEOF for field in message.fields):
        proto.oneof_decl.add(name=ONEOF)
    for field, made in zip(message.fields, proto.field, strict=True):
        if field.label is Label.OPTIONAL:  # protobuf has it as a oneof of one, behind the real ones
            made.proto3_optional = True
            made.oneof_index = len(proto.oneof_decl)
            proto.oneof_decl.add(name=f"_{field.name}")


def _make_map(proto: Any, made: Any, field: Field, package: str, owner: str) -> None:
    """Make a map: a list of entries, whose type is nested in the message."""
    assert field.key is not None
    entry = proto.nested_type.add(name=f"{pascal_case(field.name)}Entry")
    entry.options.map_entry = True
    for number, (name, kind) in enumerate((("key", ProtoType(field.key, ProtoKind.SCALAR)), ("value", field.type)), 1):
        part = entry.field.add(name=name, number=number, json_name=name, label=_FieldProto.LABEL_OPTIONAL)
        _set_type(part, kind, package)
    made.type = _FieldProto.TYPE_MESSAGE
    made.type_name = f".{package}.{owner}.{entry.name}"


def _set_type(made: Any, kind: ProtoType, package: str) -> None:
    if kind.kind is ProtoKind.SCALAR:
        made.type = _SCALARS[kind.name]
        return
    made.type = _KINDS[kind.kind]
    made.type_name = f".{kind.name}" if "." in kind.name else f".{package}.{kind.name}"


def _add_enum(proto: Any, declaration: EnumDeclaration) -> None:
    for name, number in declaration.values:
        proto.value.add(name=name, number=number)
