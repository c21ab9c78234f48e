"""The types that can be encoded: those that msgspec converts by itself. Any other type would need a hook on both sides.

Pure: knows no services.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import inspect

_KEYS = (
    inspect.StrType,
    inspect.IntType,
    inspect.FloatType,
    inspect.EnumType,
    inspect.LiteralType,
    inspect.UUIDType,
    inspect.DateTimeType,
    inspect.DateType,
    inspect.TimeType,
    inspect.DecimalType,
    inspect.AnyType,
)


def encoding_problem(kind: Any, is_service: Callable[[object], bool]) -> str | None:
    """Return the reason values of the type cannot be encoded, as the second half of a sentence; None if they can."""
    try:
        msgspec.json.Decoder(kind)
        found = inspect.type_info(kind)
    except (TypeError, ValueError, NameError, RecursionError) as error:
        return f"that cannot be converted: {error}".replace("\n", " ").rstrip(".")
    for part in _parts(found):
        if isinstance(part, inspect.CustomType | inspect.ExtType):
            custom = getattr(part, "cls", None)
            name = getattr(custom, "__qualname__", "Ext")
            if is_service(custom):
                return f"the service {name} is passed as an argument or a result, not inside of a value"
            if getattr(custom, "_is_protocol", False):
                return f"{name} is no service yet: decorate its Protocol with @service"
            return f"msgspec does not convert {name}: use a msgspec.Struct, a dataclass or a TypedDict"
        if isinstance(part, inspect.DictType) and not _is_key(part.key_type):
            return "JSON has no dict whose keys are not text or numbers"
    return None


def _is_key(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.Metadata):
        return _is_key(kind.type)
    if isinstance(kind, inspect.UnionType):
        return all(_is_key(one) for one in kind.types)
    return isinstance(kind, _KEYS)


def _parts(found: inspect.Type) -> Iterator[inspect.Type]:
    """The type and all that it is made of, each once: types may contain themselves."""
    seen: set[int] = set()
    left: list[Any] = [found]
    while left:
        part = left.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, tuple):
            left.extend(part)
        elif isinstance(part, inspect.Field):
            left.append(part.type)
        elif isinstance(part, inspect.Type):
            yield part
            left.extend([getattr(part, name) for name in part.__struct_fields__ if name not in ("cls", "default")])
