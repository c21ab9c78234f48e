"""Values of JSON checked by a JSON schema, drafts 4 to 2020-12.

Strategy: the first trouble ends the check, and every step counts: libraries collect all troubles with the values in
them, and run patterns, so that a small value may cost minutes or gigabytes. Patterns, formats and unevaluated parts are
not looked at. Where a schema has one of them, its answer "yes" is unsure, so that it neither makes `not` fail nor
chooses between `then` and `else`.

Knows nothing of registries.
"""

from collections.abc import Callable
from fractions import Fraction
from math import isfinite
from typing import Any, Final, Protocol, TypeGuard

from hutong.foundation.errors import ProtocolError, Refused
from hutong.registry.formats.writing.steps import WriteSteps

LEVELS_MAX: Final = 100
"""Of values, references and combinations together; each takes three calls of Python's thousand."""
_UNSURE: Final = (
    "pattern",
    "patternProperties",
    "format",
    "unevaluatedProperties",
    "unevaluatedItems",
    "$dynamicRef",
    "$recursiveRef",
)
_WITH_SIBLINGS: Final = ("2019-09", "2020-12")
"""Drafts in which a reference leaves the members next to it valid."""


class CheckingSchema(Protocol):
    """A schema that finds what it refers to: the part, and the document that has it."""

    @property
    def json(self) -> Any: ...

    def find_from(self, reference: str, document: Any) -> tuple[Any, Any]: ...


def check_json(schema: CheckingSchema, value: Any, steps: WriteSteps) -> None:
    """Raises ProtocolError for a value that the schema does not allow, which it names by its path."""
    try:
        trouble = _JsonCheck(schema, steps).trouble(schema.json, value, schema.json, LEVELS_MAX)
    except RecursionError:
        raise ProtocolError("it is nested too deep") from None
    if trouble is not None:
        raise ProtocolError(trouble)


class _JsonCheck:
    """One check. Each method returns the first trouble, None where there is none."""

    def __init__(self, schema: CheckingSchema, steps: WriteSteps) -> None:
        self._schema = schema
        self._steps = steps
        self._path: list[str] = []
        self._is_unsure = False
        draft = schema.json.get("$schema", "") if isinstance(schema.json, dict) else ""
        self._has_siblings = any(each in str(draft) for each in _WITH_SIBLINGS)

    def trouble(self, schema: Any, value: Any, document: Any, levels: int) -> str | None:
        if not levels:
            raise ProtocolError(f"{self._place}: it is nested more than {LEVELS_MAX} deep")
        self._steps.count()
        if schema is False:
            return self._at("nothing is allowed here")
        # True, and what no draft has.
        if not isinstance(schema, dict):
            return None
        below = _Below(self, document, levels - 1)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            found = self._referred(reference, value, document, levels - 1)
            if found is not None or not self._has_siblings:
                return found
        if any(name in schema for name in _UNSURE):
            self._is_unsure = True
        for check in (self._of_any, self._combined, self._of_kind):
            found = check(schema, value, below)
            if found is not None:
                return found
        return None

    def inside(self, name: str, schema: Any, value: Any, document: Any, levels: int) -> str | None:
        """The trouble of a part of the value."""
        self._path.append(name)
        found = self.trouble(schema, value, document, levels)
        self._path.pop()
        return found

    def _referred(self, reference: str, value: Any, document: Any, levels: int) -> str | None:
        try:
            schema, owner = self._schema.find_from(reference, document)
        except Refused as refused:
            raise ProtocolError(refused.message) from None
        return self.trouble(schema, value, owner, levels)

    def _of_any(self, schema: dict[str, Any], value: Any, _: "_Below") -> str | None:
        kinds = schema.get("type")
        if kinds is not None and not any(_is_kind(value, each) for each in _listed(kinds)):
            return self._at(f"it is not of type {', '.join(map(str, _listed(kinds)))}")
        if "const" in schema and not self._equal(schema["const"], value):
            return self._at("it is not the constant")
        choices = _list(schema, "enum")
        if choices and not any(self._equal(each, value) for each in choices):
            return self._at("it is none of the values of the enum")
        return None

    def _combined(self, schema: dict[str, Any], value: Any, below: "_Below") -> str | None:
        for part in _list(schema, "allOf"):
            found = below.trouble(part, value)
            if found is not None:
                return found
        choices = _list(schema, "anyOf")
        if choices and all(below.trouble(part, value) is not None for part in choices):
            return self._at("it is valid under none of anyOf")
        choices = _list(schema, "oneOf")
        if choices:
            answers = [self._answer(part, value, below) for part in choices]
            if not any(is_valid for is_valid, _ in answers):
                return self._at("it is valid under none of oneOf")
            if sum(is_valid and is_sure for is_valid, is_sure in answers) > 1:
                return self._at("it is valid under more than one of oneOf")
        if "not" in schema and self._answer(schema["not"], value, below) == (True, True):
            return self._at("it is valid under what `not` forbids")
        return self._chosen(schema, value, below) if "if" in schema else None

    def _chosen(self, schema: dict[str, Any], value: Any, below: "_Below") -> str | None:
        is_valid, is_sure = self._answer(schema["if"], value, below)
        part = schema.get("then" if is_valid else "else", True)
        return below.trouble(part, value) if is_sure or not is_valid else None

    def _answer(self, schema: Any, value: Any, below: "_Below") -> tuple[bool, bool]:
        """Return True for a value that is valid, and True where that is sure; "no" always is."""
        before, self._is_unsure = self._is_unsure, False
        is_valid = below.trouble(schema, value) is None
        is_sure = not self._is_unsure
        self._is_unsure = self._is_unsure or before
        return is_valid, is_sure

    def _of_kind(self, schema: dict[str, Any], value: Any, below: "_Below") -> str | None:
        if isinstance(value, dict):
            return self._counts(schema, len(value), "Properties") or self._object(schema, value, below)
        if isinstance(value, list):
            return self._counts(schema, len(value), "Items") or self._array(schema, value, below)
        if isinstance(value, str):
            return self._counts(schema, len(value), "Length")
        return self._number(schema, value) if _is_number(value) else None

    def _counts(self, schema: dict[str, Any], count: int, what: str) -> str | None:
        if count < _count(schema, f"min{what}", 0):
            return self._at(f"it has fewer than min{what}")
        if count > _count(schema, f"max{what}", count):
            return self._at(f"it has more than max{what}")
        return None

    def _number(self, schema: dict[str, Any], value: float) -> str | None:
        for name, is_beyond in _BOUNDS:
            bound = schema.get(name)
            if _is_number(bound) and is_beyond(value, bound):
                return self._at(f"it is beyond {name}")
            # Draft 4: a flag of the bound next to it.
            if bound is True and value == schema.get(name.removeprefix("exclusive").lower()):
                return self._at(f"it is beyond {name}")
        step = schema.get("multipleOf")
        # By their decimals, as they stand: 0.3 is three times 0.1.
        if _is_number(step) and step > 0 and Fraction(repr(value)) % Fraction(repr(step)):
            return self._at("it is no multiple of multipleOf")
        return None

    def _object(self, schema: dict[str, Any], value: dict[str, Any], below: "_Below") -> str | None:
        for name in _list(schema, "required"):
            self._steps.count()
            if str(name) not in value:
                return self._at(f"the member {str(name)[:100]} is missing")
        properties = _members(schema, "properties")
        # Which members patterns describe is not known here.
        others = True if "patternProperties" in schema else schema.get("additionalProperties", True)
        names = schema.get("propertyNames", True)
        for name, each in value.items():
            self._steps.count()
            found = below.inside(name, properties.get(name, others), each)
            if found is None and names is not True:
                found = below.inside(name, names, name)
            if found is not None:
                return found
        return self._depending(schema, value, below)

    def _depending(self, schema: dict[str, Any], value: dict[str, Any], below: "_Below") -> str | None:
        for keyword in ("dependencies", "dependentRequired", "dependentSchemas"):
            for name, needed in _members(schema, keyword).items():
                self._steps.count()
                if name not in value:
                    continue
                if not isinstance(needed, list):
                    found = below.trouble(needed, value)
                    if found is not None:
                        return found
                elif missing := next((each for each in map(str, needed) if each not in value), None):
                    return self._at(f"the member {name[:100]} needs {missing[:100]}")
        return None

    def _array(self, schema: dict[str, Any], value: list[Any], below: "_Below") -> str | None:
        items = schema.get("items", True)
        # Of 2020-12 `prefixItems`, before it a list in `items`, and `additionalItems` for what follows.
        first = items if isinstance(items, list) else _list(schema, "prefixItems")
        rest = schema.get("additionalItems", True) if isinstance(items, list) else items
        for place, each in enumerate(value):
            found = below.inside(str(place), first[place] if place < len(first) else rest, each)
            if found is not None:
                return found
        if schema.get("uniqueItems") is True and len({self._key(each) for each in value}) < len(value):
            return self._at("two items are equal")
        if "contains" not in schema:
            return None
        answers = [self._answer(schema["contains"], each, below) for each in value]
        if sum(is_valid for is_valid, _ in answers) < _count(schema, "minContains", 1):
            return self._at("it has too few items that `contains` describes")
        if sum(all(each) for each in answers) > _count(schema, "maxContains", len(answers)):
            return self._at("it has too many items that `contains` describes")
        return None

    def _equal(self, one: Any, other: Any) -> bool:
        self._steps.count()
        if isinstance(one, dict) and isinstance(other, dict):
            return one.keys() == other.keys() and all(self._equal(each, other[name]) for name, each in one.items())
        if isinstance(one, list) and isinstance(other, list):
            return len(one) == len(other) and all(map(self._equal, one, other))
        # 1 and 1.0 are one number in JSON Schema; true is another value than 1.
        return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)

    def _key(self, value: Any) -> Any:
        """A key that equal values share."""
        self._steps.count()
        if isinstance(value, dict):
            return frozenset((name, self._key(each)) for name, each in value.items())
        if isinstance(value, list):
            return tuple(self._key(each) for each in value)
        return _FLAGS[value] if isinstance(value, bool) else value

    def _at(self, why: str) -> str:
        return f"{self._place}: {why}"

    @property
    def _place(self) -> str:
        return f"at /{'/'.join(self._path)[:200]}"


class _Below:
    """The checks of parts of a schema, in its document, one level deeper."""

    __slots__ = ("_check", "_document", "_levels")

    def __init__(self, check: _JsonCheck, document: Any, levels: int) -> None:
        self._check = check
        self._document = document
        self._levels = levels

    def trouble(self, schema: Any, value: Any) -> str | None:
        return self._check.trouble(schema, value, self._document, self._levels)

    def inside(self, name: str, schema: Any, value: Any) -> str | None:
        return self._check.inside(name, schema, value, self._document, self._levels)


_BOUNDS: Final[tuple[tuple[str, Callable[[Any, Any], bool]], ...]] = (
    ("minimum", lambda value, bound: value < bound),
    ("maximum", lambda value, bound: value > bound),
    ("exclusiveMinimum", lambda value, bound: value <= bound),
    ("exclusiveMaximum", lambda value, bound: value >= bound),
)
_FLAGS: Final = {True: object(), False: object()}
"""Keys that no number has: true is another value than 1."""
_KINDS: Final[dict[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": lambda value: _is_number(value),
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
}


def _is_kind(value: Any, kind: Any) -> bool:
    return isinstance(kind, str) and kind in _KINDS and _KINDS[kind](value)


def _is_number(value: Any) -> TypeGuard[float]:
    if isinstance(value, float):
        return isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


# References may lead to values that only look like schemas, so that no draft has checked their members.


def _list(schema: dict[str, Any], name: str) -> list[Any]:
    found = schema.get(name)
    return found if isinstance(found, list) else []


def _members(schema: dict[str, Any], name: str) -> dict[str, Any]:
    found = schema.get(name)
    return found if isinstance(found, dict) else {}


def _count(schema: dict[str, Any], name: str, default: int) -> float:
    found = schema.get(name)
    return found if _is_number(found) else default


def _listed(kinds: Any) -> list[Any]:
    return kinds if isinstance(kinds, list) else [kinds]
