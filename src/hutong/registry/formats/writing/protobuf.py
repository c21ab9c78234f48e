"""Values of JSON to Protobuf messages, by protobuf's own JSON mapping.

Strategy: the message is the first one of its file, as for Confluent's proxy. protobuf's parser is in Python and looks
at all fields of a type for each message, so that work is counted before it begins. It bounds depth at 100 levels.

Knows nothing of registries.
"""

from typing import Any, Final

from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import EncodeError
from google.protobuf.message_factory import GetMessageClass

from hutong.foundation.errors import ProtocolError
from hutong.registry.formats.writing.steps import WriteSteps

FIRST_MESSAGE: Final = b"\0"
"""The place of the message before its bytes, short for [0] (Confluent's format)."""
_REASON_CHARACTERS_MAX: Final = 300


def first_message(file: Any) -> Any:
    """The descriptor of the first message; None where the file has none."""
    return next(iter(file.message_types_by_name.values()), None)


def write_protobuf(file: Any, value: Any, steps: WriteSteps) -> bytes:
    """The place of the message and its bytes. Raises ProtocolError."""
    descriptor = first_message(file)
    if descriptor is None:
        raise ProtocolError("the schema has no message")
    if not isinstance(value, dict):
        raise ProtocolError("a message is an object")
    parts, objects = _counted(value)
    steps.count(parts + objects * _fields_max(file))
    message = GetMessageClass(descriptor)()
    try:
        ParseDict(value, message, descriptor_pool=file.pool)
        return FIRST_MESSAGE + bytes(message.SerializeToString())
    # An Any whose type is no string or that has no value, and strings with lone surrogates, break its parser.
    except (ParseError, EncodeError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ProtocolError(str(error)[:_REASON_CHARACTERS_MAX]) from None


def _counted(value: Any) -> tuple[int, int]:
    """The parts of a value, and the objects among them."""
    parts = objects = 0
    waiting = [value]
    while waiting:
        each = waiting.pop()
        parts += 1
        if isinstance(each, dict):
            objects += 1
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
    return parts, objects


def _fields_max(file: Any) -> int:
    """The fields of the message that has the most, in this file and those that it imports."""
    found, seen, waiting = 0, set(), [file]
    while waiting:
        each = waiting.pop()
        if each.name in seen:
            continue
        seen.add(each.name)
        waiting += each.dependencies
        messages = [*each.message_types_by_name.values()]
        while messages:
            message = messages.pop()
            found = max(found, len(message.fields))
            messages += message.nested_types
    return found
