"""Models of messages: bytes to values and back, and their JSON schemas.

Strategy: msgspec decodes and checks in one pass. A pydantic model is found by its own method, so that pydantic is
imported by those alone who use it. Bytes and text pass as they are; everything else is JSON.

Knows no topics.
"""

import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Final, get_args

import msgspec

from hutong.foundation.errors import HutongError, UsageError

JSON: Final = b"application/json"
TEXT: Final = b"text/plain"
NAMESPACE: Final = "#/components/schemas/"
Decode = Callable[[bytes | None], Any]


class UndecodableMessage(HutongError):
    """The bytes of a message are not what the handler's annotation says."""


def is_pydantic(model: object) -> bool:
    """True for a model class of pydantic, which nobody has without having imported it."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(model, type) and issubclass(model, pydantic.BaseModel)


def decoder_of(model: Any) -> Decode:
    """Bytes of a record to a value of the model. The function raises UndecodableMessage.

    Raises UsageError for a model that has no decoder.
    """
    if model is bytes:
        return _raw
    if model is str:
        return _text
    arguments = get_args(model)
    inner = [each for each in arguments if each is not type(None)]
    # `Order | None`: None is a record without a value, a tombstone.
    if len(inner) == 1 and len(arguments) == 2 and type(None) in arguments:
        present = decoder_of(inner[0])
        return lambda value: None if value is None else present(value)
    decode = _json_decoder(model)

    def decoded(value: bytes | None) -> Any:
        if value is None:
            raise UndecodableMessage(f"a record without a value (a tombstone) is no {_shown(model)}")
        return decode(value)

    return decoded


def _raw(value: bytes | None) -> bytes:
    return value or b""


def _text(value: bytes | None) -> str:
    try:
        return (value or b"").decode()
    except UnicodeDecodeError as error:
        raise UndecodableMessage(f"it is no UTF-8: {error}") from None


def _json_decoder(model: Any) -> Callable[[bytes], Any]:
    if is_pydantic(model):
        validate: Callable[[bytes], Any] = model.model_validate_json
        failures: tuple[type[Exception], ...] = (ValueError,)  # pydantic's ValidationError is one
    else:
        try:
            validate = msgspec.json.Decoder(model).decode
            # Refuses classes for which msgspec would ask a hook with each message, and there is none.
            msgspec.json.schema(model)
        except TypeError as error:
            raise UsageError(
                f"{_shown(model)} cannot be decoded: {error}. Annotate the message with a msgspec.Struct, a dataclass, "
                "a pydantic model, a type such as dict[str, int], str or bytes."
            ) from None
        # RecursionError: msgspec's answer to nesting that is deeper than the interpreter allows.
        failures = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)

    def decoded(value: bytes) -> Any:
        try:
            return validate(value)
        except failures as error:
            raise UndecodableMessage(f"it is no {_shown(model)}: {error}") from None

    return decoded


def converter_of(model: Any) -> Callable[[Any], Any]:
    """A body of the event bus (dicts, lists, text, numbers, bytes) to a value of the model."""
    if model is Any:
        return lambda body: body
    if is_pydantic(model):
        validate: Callable[[Any], Any] = model.model_validate
    else:
        decoder_of(model)  # refused now, and not with the first message

        def validate(body: Any) -> Any:
            return msgspec.convert(body, model)

    def converted(body: Any) -> Any:
        try:
            return validate(body)
        except (ValueError, RecursionError) as error:  # msgspec's and pydantic's ValidationError are ValueErrors
            raise UndecodableMessage(f"it is no {_shown(model)}: {error}") from None

    return converted


def encoded(value: Any) -> tuple[bytes | None, bytes | None]:
    """The bytes of a record's value and its content type. Raises TypeError for what JSON cannot say."""
    if value is None or isinstance(value, bytes):
        return value, None
    if isinstance(value, str):
        return value.encode(), TEXT
    if is_pydantic(type(value)):
        return value.model_dump_json().encode(), JSON
    return msgspec.json.encode(value), JSON


def to_body(value: Any) -> Any:
    """A value as a body of the event bus."""
    if is_pydantic(type(value)):
        return value.model_dump(mode="json")
    return msgspec.to_builtins(value, builtin_types=(bytes,))


def json_schemas(models: list[Any]) -> tuple[dict[Any, dict[str, Any]], dict[str, Any]]:
    """The schema of each model, and the named ones to which they refer (under NAMESPACE)."""
    schemas: dict[Any, dict[str, Any]] = {}
    components: dict[str, Any] = {}
    for model in models:
        if model is bytes:
            schemas[model] = {"type": "string", "format": "binary"}
        elif is_pydantic(model):
            own = model.model_json_schema(ref_template=NAMESPACE + "{model}")
            components |= own.pop("$defs", {})
            components[model.__name__] = own
            schemas[model] = {"$ref": NAMESPACE + model.__name__}
        else:
            try:
                (found,), named = msgspec.json.schema_components([model], ref_template=NAMESPACE + "{name}")
            except TypeError:  # a result may be of any type that encodes itself: its document says nothing of it
                found, named = {}, {}
            schemas[model] = found
            components |= named
    return schemas, components


@cache
def _shown(model: Any) -> str:
    return model.__name__ if isinstance(model, type) and not get_args(model) else str(model)
