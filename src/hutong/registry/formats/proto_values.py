"""Protobuf messages as values, read by the file that has them, with the place of the message before them.

Strategy: protobuf's own parser, which bounds depth at 100 levels, then the fields that are set. For people not
protobuf's JSON: that fails for values that it cannot write, such as an Any of a type that is not here.

Knows nothing of registries.
"""

from typing import Any, Final

from google.protobuf.json_format import MessageToDict, SerializeToJsonError
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from hutong.foundation.errors import ProtocolError

INDEXES_MAX: Final = 32
_REASON_CHARACTERS_MAX: Final = 300
_VARINT_BYTES_MAX: Final = 5


def read_protobuf(file: Any, data: bytes) -> tuple[str, Any]:
    """The full name of the message and its fields by name. Raises ProtocolError."""
    message = _parsed(file, data)
    try:
        return message.DESCRIPTOR.full_name, _fields(message)
    # The strings of proto2 are looked at when they are asked for.
    except UnicodeDecodeError as error:
        raise ProtocolError(str(error)) from None


def read_protobuf_json(file: Any, data: bytes) -> Any:
    """The message in protobuf's JSON. Raises ProtocolError, also for a value that has none there."""
    try:
        return MessageToDict(_parsed(file, data), descriptor_pool=file.pool)
    # An Any of a type that is not here, times out of range, numbers that a Value may not have.
    except (SerializeToJsonError, TypeError, ValueError, KeyError, RecursionError) as error:
        raise ProtocolError(str(error)[:_REASON_CHARACTERS_MAX]) from None


def _parsed(file: Any, data: bytes) -> Any:
    """Raises ProtocolError."""
    indexes, at = _indexes(data)
    message = GetMessageClass(_message(file, indexes))()
    try:
        message.ParseFromString(data[at:])
    except DecodeError as error:
        raise ProtocolError(str(error)) from None
    return message


def _indexes(data: bytes) -> tuple[list[int], int]:
    """The place of the message (Confluent's format): how many numbers, each message's number in the one around it."""
    count, at = _varint(data, 0)
    if not count:
        return [0], at  # short for the first message of the file
    if not 0 < count <= INDEXES_MAX:
        raise ProtocolError(f"the place of the message has {count} numbers, not 1 to {INDEXES_MAX}")
    indexes = []
    for _ in range(count):
        index, at = _varint(data, at)
        indexes.append(index)
    return indexes, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    raw = 0
    for place, byte in enumerate(data[at : at + _VARINT_BYTES_MAX]):
        raw |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return raw >> 1 ^ -(raw & 1), at + place + 1
    raise ProtocolError("the place of the message is cut off")


def _message(file: Any, indexes: list[int]) -> Any:
    found: Any = None
    nested = list(file.message_types_by_name.values())
    for index in indexes:
        if not 0 <= index < len(nested):
            raise ProtocolError(f"the schema has no message {index} there")
        found = nested[index]
        # As Java's serializer counts: entries of maps are no messages that a file has.
        nested = [each for each in found.nested_types if not each.GetOptions().map_entry]
    return found


def _fields(message: Any) -> dict[str, Any]:
    return {
        field.full_name if field.is_extension else field.name: _field(field, value)
        for field, value in message.ListFields()
    }


def _field(field: Any, value: Any) -> Any:
    entry = field.message_type if field.message_type and field.message_type.GetOptions().map_entry else None
    if entry is not None:
        return {key: _single(entry.fields_by_name["value"], value[key]) for key in value}
    # Lists of protobuf have no common class, and the message google.protobuf.ListValue has their methods.
    if not hasattr(value, "ListFields") and (hasattr(value, "append") or hasattr(value, "add")):
        return [_single(field, each) for each in value]
    return _single(field, value)


def _single(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return _fields(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value
