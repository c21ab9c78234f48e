"""Conditions on a part of a JSON document: a path, and perhaps a comparison.

    condition = path [ operator operand ]
    path      = "$" { "." name | "[" digits "]" | "[" quoted "]" }
    operator  = "=" | "==" | "!=" | "<" | "<=" | ">" | ">=" | "~"
    operand   = a JSON string, number, true, false or null, or a word that is taken as a string

`~` takes a regular expression of RE2. Without an operator the part must be there. Numbers are compared as numbers and
strings as strings; a part of another type is unequal, and neither less nor greater.

Strategy: a path has no wildcards, so that a record costs as many steps as the path has. Knows nothing of records.
"""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from hutong.console.limits import CONDITION_CHARS_MAX, PATH_STEPS_MAX
from hutong.console.records.searching.patterns import Pattern, compiled
from hutong.console.records.searching.refusals import WrongSearch

_STEP: Final = re.compile(r'\.([A-Za-z_@#$À-￿][\w@#$À-￿-]*)|\[(\d{1,9})\]|\[("(?:[^"\\]|\\.)*")\]')
_OPERATOR: Final = re.compile(r"\s*(!=|==|<=|>=|=|<|>|~)\s*")
_ORDERS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class JsonCondition:
    """One condition. `pattern` is that of `~`."""

    steps: tuple[str | int, ...]
    operator: str = ""
    operand: Any = None
    pattern: Pattern | None = None

    def holds(self, document: Any) -> bool:
        """True where the document has such a part."""
        part = _part(document, self.steps)
        if part is _MISSING:
            # What is not there is unequal to everything; a path alone asks for what is there.
            return self.operator == "!="
        if not self.operator:
            return True
        if self.operator == "~":
            assert self.pattern is not None, "it comes with its operator"
            return isinstance(part, str) and self.pattern.is_in(part.encode(errors="replace"))
        if self.operator in ("=", "!="):
            return _equal(part, self.operand) == (self.operator == "=")
        return _comparable(part, self.operand) and _ORDERS[self.operator](part, self.operand)


def parse_json_condition(text: str) -> JsonCondition:
    """Raises WrongSearch, which says where the text is wrong."""
    if len(text) > CONDITION_CHARS_MAX:
        raise WrongSearch(f"a condition has at most {CONDITION_CHARS_MAX} characters")
    text = text.strip()
    if not text.startswith("$"):
        raise WrongSearch("a path begins with $, as in $.order.items[0].price > 5")
    steps, at = _steps(text)
    found = _OPERATOR.match(text, at)
    if found is None:
        if text[at:].strip():
            raise WrongSearch(
                f"after {text[:at]} comes an operator: = != < <= > >= ~, or nothing; not {text[at:][:50]}"
            )
        return JsonCondition(steps)
    rest = text[found.end() :].strip()
    if not rest:
        raise WrongSearch(f"after {found[1]} comes a value")
    if found[1] == "~":
        return JsonCondition(steps, "~", pattern=compiled(str(_operand(rest)), ignores_case=False))
    operand = _operand(rest)
    if found[1] in _ORDERS and not _comparable(operand, operand):
        raise WrongSearch(f"{found[1]} compares with a number or a string")
    return JsonCondition(steps, "=" if found[1] == "==" else found[1], operand)


def _steps(text: str) -> tuple[tuple[str | int, ...], int]:
    steps: list[str | int] = []
    at = 1
    while found := _STEP.match(text, at):
        name, index, quoted = found.groups()
        steps.append(name if name is not None else int(index) if index is not None else _quoted(quoted))
        at = found.end()
        if len(steps) > PATH_STEPS_MAX:
            raise WrongSearch(f"a path has at most {PATH_STEPS_MAX} steps")
    if text[at : at + 1] in (".", "["):
        raise WrongSearch(f'after {text[:at]} comes .name, [0] or ["a name"], not {text[at:][:50]}')
    return tuple(steps), at


def _quoted(text: str) -> str:
    try:
        return msgspec.json.decode(text.encode(), type=str)
    except (msgspec.DecodeError, UnicodeEncodeError):
        raise WrongSearch(f"{text[:50]} is no JSON string") from None


def _operand(text: str) -> Any:
    try:
        value = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        if text.startswith('"'):
            raise WrongSearch(f"{text[:50]} is no JSON string") from None
        return text
    if isinstance(value, dict | list):
        raise WrongSearch("a part is compared with a string, a number, true, false or null")
    return value


def _part(document: Any, steps: tuple[str | int, ...]) -> Any:
    found = document
    for step in steps:
        if isinstance(step, int):
            if not isinstance(found, list) or step >= len(found):
                return _MISSING
            found = found[step]
        else:
            if not isinstance(found, dict) or step not in found:
                return _MISSING
            found = found[step]
    return found


def _equal(part: Any, operand: Any) -> bool:
    # True is 1 to Python, and not to JSON.
    if isinstance(part, bool) or isinstance(operand, bool):
        return part is operand
    return bool(part == operand)


def _comparable(part: Any, operand: Any) -> bool:
    if isinstance(part, bool) or isinstance(operand, bool):
        return False
    numbers = isinstance(part, int | float) and isinstance(operand, int | float)
    return numbers or (isinstance(part, str) and isinstance(operand, str))
