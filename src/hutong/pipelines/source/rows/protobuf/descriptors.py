"""Protobuf's descriptors: files as `protoc` and registries hand them out, with the messages and enums in them.

A file is itself a Protobuf message (google/protobuf/descriptor.proto), of which the members that decide on the wire
format are read. A set of files is what `protoc --descriptor_set_out --include_imports` writes. Knows nothing of plans.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hutong.pipelines.source.rows.protobuf.wire import LEN, VARINT, append_sized, append_varint, fields_of

SET_BYTES_MAX = 4 * 2**20
NESTED_MAX = 32
"""Messages in messages of a file."""
PROTO3 = "proto3"
GROUP, MESSAGE, ENUM = 10, 11, 14
REPEATED, REQUIRED = 3, 2
_FILE = 1  # in a FileDescriptorSet


@dataclass(frozen=True, slots=True)
class FieldDescriptor:
    """`type` is a number of FieldDescriptorProto.Type; `type_name` is that of the message or enum."""

    name: str
    number: int
    type: int
    label: int
    type_name: str = ""
    oneof: int | None = None
    has_presence: bool = True


@dataclass(frozen=True, slots=True)
class MessageDescriptor:
    """`place` are the numbers of the message in its file, and of those around it first."""

    full_name: str
    place: tuple[int, ...]
    fields: tuple[FieldDescriptor, ...] = ()
    is_map_entry: bool = False


@dataclass(slots=True)
class DescriptorSet:
    """Messages and enums of several files by their full names; `own` are the messages of the last file, in order."""

    messages: dict[str, MessageDescriptor] = field(default_factory=dict)
    enums: dict[str, dict[int, str]] = field(default_factory=dict)
    own: list[MessageDescriptor] = field(default_factory=list)

    def at(self, place: Sequence[int]) -> MessageDescriptor | None:
        """The message of the last file at this place; None where there is none."""
        wanted = tuple(place)
        return next((message for message in self.own if message.place == wanted), None)


def set_text(files: Iterable[bytes]) -> str:
    """Files as the text of a set, those first that others need."""
    out = bytearray()
    for content in files:
        append_sized(_FILE, content, out)
    return base64.b64encode(out).decode()


def file_of_one(name: str) -> bytes:
    """A file with one message of this name, which has one field of text."""
    field, message, out = bytearray(), bytearray(), bytearray()
    append_sized(1, b"x", field)
    for number, value in ((3, 1), (4, 1), (5, 9)):
        append_varint(number << 3 | VARINT, field)
        append_varint(value, field)
    append_sized(1, name.encode(), message)
    append_sized(2, bytes(field), message)
    append_sized(4, bytes(message), out)
    return bytes(out)


def parse_set(text: str) -> DescriptorSet:
    """A set of files in base64. Raises ValueError."""
    try:
        content = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("it is no base64 of what protoc --descriptor_set_out writes") from None
    files = [value for number, _, value in fields_of(content) if number == _FILE and isinstance(value, bytes)]
    if not files:
        raise ValueError("it has no file in it")
    return parse_files(files)


def parse_files(files: Sequence[bytes]) -> DescriptorSet:
    """The last one is the schema, the others are what it imports. Raises ValueError."""
    if sum(map(len, files)) > SET_BYTES_MAX:
        raise ValueError(f"it has more than {SET_BYTES_MAX} bytes")
    found = DescriptorSet()
    for content in files:
        # Names are kept from all files, places from the last one alone.
        found.own = []
        _read_file(content, found)
    return found


def parse_file_text(text: str) -> bytes:
    """One file in base64, as a registry hands it out. Raises ValueError."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("it is no file descriptor in base64") from None


def _read_file(content: bytes, found: DescriptorSet) -> None:
    members = _members(content)
    # Editions decide on presence and packing by options of their own.
    if 14 in members:
        raise ValueError("it has an edition of Protobuf, and neither proto2 nor proto3")
    package, is_proto3 = _text(members, 2), _text(members, 12) == PROTO3
    for place, message in enumerate(_contents(members, 4)):
        _read_message(message, package, (place,), is_proto3, found)
    for each in _contents(members, 5):
        _read_enum(each, package, found)


def _read_message(content: bytes, scope: str, place: tuple[int, ...], is_proto3: bool, found: DescriptorSet) -> bool:
    """Read a message with those in it; True for the entry of a map."""
    if len(place) > NESTED_MAX:
        raise ValueError(f"messages are nested deeper than {NESTED_MAX} levels")
    members = _members(content)
    name = _within(scope, _text(members, 1))
    # The later one would change the first in silence.
    if name in found.messages:
        raise ValueError(f"it has the message {name} twice")
    options = _members(b"".join(_contents(members, 7)))
    fields = tuple(_field(each, is_proto3) for each in _contents(members, 2))
    is_map_entry = _number(options, 7) == 1
    message = MessageDescriptor(name, place, fields, is_map_entry)
    found.messages[name] = message
    found.own.append(message)
    number = 0
    for each in _contents(members, 3):
        # As Java's serializer counts: entries of maps are no messages that a file has.
        number += not _read_message(each, name, (*place, number), is_proto3, found)
    for each in _contents(members, 4):
        _read_enum(each, name, found)
    if is_map_entry:
        found.own.remove(message)
    return is_map_entry


def _field(content: bytes, is_proto3: bool) -> FieldDescriptor:
    members = _members(content)
    oneof = _number(members, 9) if 9 in members else None
    type_, label = _number(members, 5), _number(members, 4)
    # proto3 has it for messages, members of a oneof, and what is marked as optional, which is a oneof of its own.
    has_presence = not is_proto3 or oneof is not None or type_ == MESSAGE
    is_optional = _number(members, 17) == 1
    return FieldDescriptor(
        _text(members, 1),
        _number(members, 3),
        type_,
        label,
        _text(members, 6),
        None if is_optional else oneof,
        has_presence,
    )


def _read_enum(content: bytes, scope: str, found: DescriptorSet) -> None:
    members = _members(content)
    symbols: dict[int, str] = {}
    for each in _contents(members, 2):
        value = _members(each)
        number = _number(value, 2)
        # Of two names for a number (allow_alias) the first counts, as in protobuf's JSON.
        symbols.setdefault(number - 2**64 if number >> 63 else number, _text(value, 1))
    found.enums[_within(scope, _text(members, 1))] = symbols


def _within(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _members(content: bytes) -> Mapping[int, list[int | bytes]]:
    """Values by their fields' numbers: integers, and the bytes of fields that have a length."""
    found: dict[int, list[int | bytes]] = {}
    for number, kind, value in fields_of(content):
        if kind in (VARINT, LEN):
            found.setdefault(number, []).append(value)
    return found


def _contents(members: Mapping[int, list[int | bytes]], number: int) -> list[bytes]:
    return [value for value in members.get(number, ()) if isinstance(value, bytes)]


def _text(members: Mapping[int, list[int | bytes]], number: int) -> str:
    """Raises ValueError for what is no UTF-8."""
    found = _contents(members, number)
    return found[-1].decode() if found else ""


def _number(members: Mapping[int, list[int | bytes]], number: int) -> int:
    found = [value for value in members.get(number, ()) if isinstance(value, int)]
    return found[-1] if found else 0
