"""The contents of a `.proto` file as values: package, service, messages, enums.

Strategy: one neutral form between Python's types and the two outputs: `text` for people and protoc, `descriptors` for
gRPC's own reflection. Field numbers are part of it, so both agree.

Knows nothing of Python's types and nothing of gRPC.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

TIMESTAMP: Final = "google.protobuf.Timestamp"
DURATION: Final = "google.protobuf.Duration"
IMPORTS: Final = {TIMESTAMP: "google/protobuf/timestamp.proto", DURATION: "google/protobuf/duration.proto"}


class ProtoKind(Enum):
    """Kinds of named types."""

    SCALAR = "scalar"
    ENUM = "enum"
    MESSAGE = "message"


class Label(Enum):
    """Cardinality of a field."""

    SINGULAR = ""  # a scalar that is not there is zero; a message is there or not
    OPTIONAL = "optional"  # there or not, whatever its type
    REPEATED = "repeated"
    MAP = "map"
    ONEOF = "oneof"  # of all such fields of its message one is there, or none


@dataclass(frozen=True, slots=True)
class ProtoType:
    """`name` is a scalar's keyword, the name of a message or enum of this file, or a full name of google.protobuf."""

    name: str
    kind: ProtoKind


@dataclass(frozen=True, slots=True)
class Field:
    """`key` is the type of a map's keys, None for all others."""

    name: str
    type: ProtoType
    number: int
    label: Label = Label.SINGULAR
    key: str | None = None
    comment: str = ""


@dataclass(frozen=True, slots=True)
class MessageSchema:
    """Fields in the order of declaration. Those that are ONEOF belong to one group, `value`."""

    name: str
    fields: tuple[Field, ...]
    comment: str = ""


@dataclass(frozen=True, slots=True)
class EnumDeclaration:
    """The first of `values` (name, number) has the number 0."""

    name: str
    values: tuple[tuple[str, int], ...]
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Method:
    """`request` and `response` are messages of the file; `is_streaming`: responses are a stream."""

    name: str
    request: str
    response: str
    is_streaming: bool = False
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Schema:
    """One file with one service."""

    package: str
    service: str
    methods: tuple[Method, ...]
    messages: tuple[MessageSchema, ...]
    enums: tuple[EnumDeclaration, ...]
    comment: str = ""

    @property
    def full_name(self) -> str:
        """The service's name, as in the path of a call."""
        return f"{self.package}.{self.service}"

    @property
    def imports(self) -> tuple[str, ...]:
        """Files of google.protobuf that are used, in order of their names."""
        used = {field.type.name for message in self.messages for field in message.fields}
        return tuple(sorted(path for name, path in IMPORTS.items() if name in used))
