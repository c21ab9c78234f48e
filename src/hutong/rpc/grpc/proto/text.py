"""A schema as the text of a `.proto` file, for protoc and for people.

Strategy: the order of declaration, with docstrings as comments. The same schema gives the same text. So a file kept
with the source shows the effect of a change on clients (`hutong rpc proto --check`).

Knows nothing of Python's types.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from hutong.rpc.grpc.proto.schema import EnumDeclaration, Field, Label, MessageSchema, Schema

INDENT: Final = "  "
ONEOF: Final = "value"
"""The name of a union's oneof."""


def render(schema: Schema) -> str:
    """The whole file; it ends with a newline."""
    parts = ['syntax = "proto3";', f"package {schema.package};"]
    if schema.imports:
        parts.append("\n".join(f'import "{path}";' for path in schema.imports))
    parts.append("\n".join(_service(schema)))
    parts.extend("\n".join(_message(message)) for message in schema.messages)
    parts.extend("\n".join(_enum(declaration)) for declaration in schema.enums)
    return "\n\n".join(parts) + "\n"


def _service(schema: Schema) -> Iterator[str]:
    yield from _comment(schema.comment)
    yield f"service {schema.service} {{"
    for method in schema.methods:
        yield from _comment(method.comment, INDENT)
        stream = "stream " if method.is_streaming else ""
        yield f"{INDENT}rpc {method.name}({method.request}) returns ({stream}{method.response});"
    yield "}"


def _message(message: MessageSchema) -> Iterator[str]:
    yield from _comment(message.comment)
    if not message.fields:
        yield f"message {message.name} {{}}"
        return
    yield f"message {message.name} {{"
    if message.fields[0].label is Label.ONEOF:
        yield f"{INDENT}oneof {ONEOF} {{"
        yield from _fields(message.fields, INDENT * 2)
        yield f"{INDENT}}}"
    else:
        yield from _fields(message.fields, INDENT)
    yield "}"


def _fields(fields: Iterable[Field], indent: str) -> Iterator[str]:
    for field in fields:
        yield from _comment(field.comment, indent)
        if field.key is not None:
            kind = f"map<{field.key}, {field.type.name}>"
        elif field.label in (Label.OPTIONAL, Label.REPEATED):
            kind = f"{field.label.value} {field.type.name}"
        else:
            kind = field.type.name
        yield f"{indent}{kind} {field.name} = {field.number};"


def _enum(declaration: EnumDeclaration) -> Iterator[str]:
    yield from _comment(declaration.comment)
    yield f"enum {declaration.name} {{"
    for name, number in declaration.values:
        yield f"{INDENT}{name} = {number};"
    yield "}"


def _comment(text: str, indent: str = "") -> Iterator[str]:
    for line in text.splitlines():
        yield f"{indent}// {line}".rstrip()
