"""The common part of formats: parsed schemas, named imports, and bounds of the JSON in which schemas are written.

Strategy: depth and size are checked before anything recursive sees a schema, so that no schema exhausts the stack.

Knows no format.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from hutong.registry.values import invalid_schema

DEPTH_MAX: Final = 64
NODES_MAX: Final = 50_000
MESSAGES_MAX: Final = 100
PAIRS_MAX: Final = 50_000
"""Pairs of parts of two schemas that one comparison looks at."""


class NamedText(NamedTuple):
    """A schema that another one imports by a name; those that it needs itself come before it."""

    name: str
    text: str


class ParsedSchema(Protocol):
    """A schema that was understood."""

    @property
    def canonical(self) -> str:
        """The text that is kept: of two with the same meaning and order, the same."""
        ...

    def normalized(self) -> str:
        """The text that is kept where the client asks for one that does not depend on order."""
        ...

    def troubles_reading(self, writer: "ParsedSchema") -> list[str]:
        """The reasons for which this schema does not read what `writer` of the same format has written."""
        ...


class SchemaFormat(Protocol):
    """One format."""

    def parse(self, text: str, imports: Sequence[NamedText]) -> ParsedSchema:
        """Raises Refused(INVALID_SCHEMA)."""
        ...


class Troubles:
    """Reasons of an incompatibility, and the steps of a comparison; both have a bound."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self._left = PAIRS_MAX

    def add(self, kind: str, path: str, why: str) -> None:
        if len(self.messages) < MESSAGES_MAX:
            self.messages.append(f"{kind} at {path or '/'}: {why}")

    def count(self) -> None:
        """Count one pair. Raises Refused where two schemas are too much to compare."""
        self._left -= 1
        if self._left < 0:
            raise invalid_schema(f"comparing it takes more than {PAIRS_MAX} steps")


def decode_json(text: str) -> Any:
    """The JSON of a schema. Raises Refused for one that is too deep, too large or none."""
    try:
        found = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise invalid_schema(f"it is no JSON: {error}") from None
    check_bounds(found)
    return found


def check_bounds(value: Any) -> None:
    """Raises Refused."""
    level, nodes = [value], 0
    for _ in range(DEPTH_MAX):
        nodes += len(level)
        if nodes > NODES_MAX:
            raise invalid_schema(f"it has more than {NODES_MAX} parts")
        level = [each for part in level for each in _parts(part)]
        if not level:
            return
    raise invalid_schema(f"it is nested more than {DEPTH_MAX} deep")


def encode_json(value: Any) -> str:
    """Compact, in the order of its members."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def encode_sorted(value: Any) -> str:
    """Compact, with members in order."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def _parts(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else ()
