"""Values to JSON-compatible builtins, and back. msgspec converts; this module has its options and error messages.

Bytes are base64 text (the standard alphabet, padded), times ISO 8601, decimals and UUIDs text, keys of dicts text.
Knows no transport.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from hutong.rpc.errors import BadArguments, BadReply, DispatchFailed

T = TypeVar("T")
_AS_THEY_ARE: Final[frozenset[type]] = frozenset({type(None), bool, int, float, str})
_NAMED: Final = re.compile(r"^(.*?)(?: - at `\$\.([^.\[`]+)(.*)`)?$", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(.+?)`$")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.+?)`$")


def to_builtins(value: Any) -> Any:
    """The value as None, bool, int, float, str, dicts and lists. Raises TypeError or ValueError if it is none of it."""
    if type(value) in _AS_THEY_ARE:
        return value
    try:
        return msgspec.to_builtins(value, str_keys=True)
    except RecursionError:
        raise ValueError("it contains itself, or is too deep") from None
    except (TypeError, ValueError, OverflowError):
        raise
    except Exception as error:  # a supervisor: attributes of other people's types, such as one not set
        raise ValueError(f"{type(error).__name__}: {error}") from error


def result_to_builtins(action: str, value: Any) -> Any:
    """A result, on its way to the caller. Raises DispatchFailed."""
    try:
        return to_builtins(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise DispatchFailed(f"the result of {action!r} cannot be sent: {error}") from None


def arguments_from(body: Any, action: str, kind: type[T]) -> T:
    """Convert decoded JSON to the argument struct of a method. Raises BadArguments, which names the parameter."""
    try:
        return msgspec.convert({} if body is None else body, kind, str_keys=True)
    except (msgspec.ValidationError, RecursionError, UnicodeError) as error:  # lone surrogates
        raise bad_arguments(action, error) from None


def result_from(body: Any, kind: Any, action: str) -> Any:
    """Convert decoded JSON to the result type of the signature. Raises BadReply."""
    if kind is Any or (kind is None and body is None) or type(body) is kind:
        return body
    try:
        return msgspec.convert(body, kind, str_keys=True)
    except (msgspec.ValidationError, RecursionError, UnicodeError) as error:  # lone surrogates
        raise bad_reply(action, error) from None
    except Exception as error:  # a supervisor: `__post_init__` of other people's types
        raise bad_reply(action, error) from error


def bad_arguments(action: str, error: Exception) -> BadArguments:
    """For transports: msgspec's complaint about arguments, as a sentence that names the parameter."""
    return BadArguments(f"{action}: {_sentence(str(error))}")


def bad_reply(action: str, error: Exception) -> BadReply:
    """For transports: msgspec's complaint about a result."""
    return BadReply(f"the answer to {action!r} is not what its signature says: {error}")


def _sentence(text: str) -> str:
    message, name, path = _NAMED.match(text).groups()  # type: ignore[union-attr]  # it matches everything
    if name is None:
        if missing := _MISSING.match(message):
            return f"the argument {missing[1]!r} is missing"
        if unknown := _UNKNOWN.match(message):
            return f"there is no parameter {unknown[1]!r}"
        if message.startswith("Expected `object`"):
            return f"arguments are an object, by the names of the parameters: {message.replace('`', '')}"
        return message.replace("`", "")
    where = f" (at {name}{path})" if path else ""
    return f"the argument {name!r} is wrong: {message.replace('`', '')}{where}"


def as_names(arguments: "msgspec.Struct | Mapping[str, Any]") -> Any:
    """Arguments by name, for JSON. Raises TypeError or ValueError for what cannot be sent."""
    return to_builtins(arguments if isinstance(arguments, msgspec.Struct) else dict(arguments))
