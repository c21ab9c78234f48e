"""What annotations and classes say of themselves: `msgspec.Meta` at a field, None among its types, docstrings.

Knows no shapes.
"""

import inspect as python
from dataclasses import dataclass
from typing import Any, Final

from msgspec import inspect

from hutong.foundation.errors import UsageError

FIELD_NUMBER: Final = "field_number"
"""In `msgspec.Meta(extra={...})`: the number that a field has in the `.proto`."""


@dataclass(frozen=True, slots=True)
class Peeled:
    """A type without what is said around it. `number` is None unless there is one."""

    kind: inspect.Type
    is_nullable: bool = False
    number: int | None = None
    comment: str = ""


def peeled(where: str, kind: inspect.Type) -> Peeled:
    """Take off `Annotated` and `| None`, in either order. Raises UsageError for a wrong field number."""
    number: int | None = None
    comment = ""
    is_nullable = False
    while True:
        if isinstance(kind, inspect.Metadata):
            comment = comment or str((kind.extra_json_schema or {}).get("description", ""))
            number = number if number is not None else (kind.extra or {}).get(FIELD_NUMBER)
            kind = kind.type
        elif isinstance(kind, inspect.UnionType) and kind.includes_none:
            is_nullable = True
            others = tuple(variant for variant in kind.types if not isinstance(variant, inspect.NoneType))
            kind = others[0] if len(others) == 1 else inspect.UnionType(others)
        else:
            break
    if number is not None and type(number) is not int:
        raise UsageError(f'{where}: Meta(extra={{"{FIELD_NUMBER}": ...}}) takes a whole number, not {number!r}.')
    return Peeled(kind, is_nullable, number, comment)


def comment_of(cls: Any) -> str:
    """The docstring that somebody wrote for the class: not what dataclasses and enums make up, and not a base's."""
    text = vars(getattr(cls, "__origin__", cls)).get("__doc__")
    is_made_up = not text or text.startswith(f"{getattr(cls, '__name__', '')}(") or text == "An enumeration."
    return "" if is_made_up else python.cleandoc(text)
