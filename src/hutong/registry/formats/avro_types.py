"""Avro schemas as types: JSON read by the rules of the specification (Avro 1.12, "Schema Declaration").

Strategy: one pass over the JSON makes the types and checks names; a named type is made before its fields, which may
refer to it. Defaults are checked by fastavro, which encodes them.

Knows nothing of compatibility.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Final

from hutong.registry.values import invalid_schema

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_RECORDS: Final = frozenset({"record", "error"})
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(eq=False, slots=True)
class AvroField:
    name: str
    type: "AvroType"
    has_default: bool
    aliases: tuple[str, ...]


@dataclass(eq=False, slots=True)
class AvroType:
    """One type. `name` is the full name of a record, enum or fixed."""

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    fields: list[AvroField] = field(default_factory=list)
    items: "AvroType | None" = None  # of arrays and maps
    branches: tuple["AvroType", ...] = ()
    symbols: tuple[str, ...] = ()
    default: str | None = None  # of enums
    size: int = 0

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]


class AvroNames:
    """Named types by their full names, and the reading of schemas that use them."""

    def __init__(self) -> None:
        self._types: dict[str, AvroType] = {}

    def read(self, schema: Any, namespace: str = "") -> AvroType:
        """Raises Refused."""
        if isinstance(schema, str):
            return self._named(schema, namespace)
        if isinstance(schema, list):
            return self._union(schema, namespace)
        if not isinstance(schema, dict):
            raise invalid_schema("a type is a name, a list or an object")
        return self._complex(schema, namespace)

    def _complex(self, schema: dict[str, Any], namespace: str) -> AvroType:
        kind = schema.get("type")
        if isinstance(kind, dict | list):
            return self.read(kind, namespace)
        if not isinstance(kind, str):
            raise invalid_schema("a type has no member `type`")
        if kind in _RECORDS:
            return self._record(schema, namespace)
        if kind == "enum":
            return self._enum(schema, namespace)
        if kind == "fixed":
            return self._fixed(schema, namespace)
        if kind in ("array", "map"):
            member = "items" if kind == "array" else "values"
            if member not in schema:
                raise invalid_schema(f"a type of kind {kind} has no member `{member}`")
            return AvroType(kind, items=self.read(schema[member], namespace))
        return self._named(kind, namespace)

    def _named(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        # A name without dots that is not in the namespace: Java's parser looks in the null namespace, too.
        found = self._types.get(full) or self._types.get(name)
        if found is None:
            raise invalid_schema(f"the type {name[:200]!r} is not known")
        return found

    def _union(self, schema: list[Any], namespace: str) -> AvroType:
        branches = tuple(self.read(each, namespace) for each in schema)
        seen = set()
        for each in branches:
            if each.kind == "union":
                raise invalid_schema("a union has another one as a branch")
            key = each.name or each.kind
            if key in seen:
                raise invalid_schema(f"a union has two branches of type {key}")
            seen.add(key)
        return AvroType("union", branches=branches)

    def _record(self, schema: dict[str, Any], namespace: str) -> AvroType:
        made = self._define("record", schema, namespace)
        fields = schema.get("fields")
        if not isinstance(fields, list):
            raise invalid_schema(f"the record {made.name} has no list of fields")
        inner = made.name.rpartition(".")[0]
        seen = set()
        for each in fields:
            if not isinstance(each, dict) or "type" not in each:
                raise invalid_schema(f"a field of {made.name} is no object with a type")
            name = _name(each.get("name"), "a field")
            if name in seen:
                raise invalid_schema(f"{made.name} has two fields {name}")
            seen.add(name)
            aliases = tuple(each["aliases"]) if isinstance(each.get("aliases"), list) else ()
            made.fields.append(AvroField(name, self.read(each["type"], inner), "default" in each, aliases))
        return made

    def _enum(self, schema: dict[str, Any], namespace: str) -> AvroType:
        made = self._define("enum", schema, namespace)
        symbols = schema.get("symbols")
        if not isinstance(symbols, list):
            raise invalid_schema(f"the enum {made.name} has no list of symbols")
        made.symbols = tuple(_name(each, "a symbol") for each in symbols)
        if len(set(made.symbols)) < len(made.symbols):
            raise invalid_schema(f"the enum {made.name} has a symbol twice")
        if "default" in schema:
            made.default = _name(schema["default"], "the default of an enum")
            if made.default not in made.symbols:
                raise invalid_schema(f"the default of {made.name} is none of its symbols")
        return made

    def _fixed(self, schema: dict[str, Any], namespace: str) -> AvroType:
        made = self._define("fixed", schema, namespace)
        size = schema.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise invalid_schema(f"the size of {made.name} is no number from 0")
        made.size = size
        return made

    def _define(self, kind: str, schema: dict[str, Any], namespace: str) -> AvroType:
        name = full_name(schema, namespace)
        for part in name.split("."):
            _name(part, "a type")
        if name in self._types:
            raise invalid_schema(f"the type {name} is there twice")
        inner = name.rpartition(".")[0]
        listed = schema.get("aliases")
        aliases = tuple(
            each if "." in each or not inner else f"{inner}.{each}"
            for each in (listed if isinstance(listed, list) else ())
            if isinstance(each, str)
        )
        made = self._types[name] = AvroType(kind, name, aliases)
        return made


def full_name(schema: dict[str, Any], namespace: str) -> str:
    """The full name of a definition. Raises Refused."""
    name = schema.get("name")
    if not isinstance(name, str) or not name:
        raise invalid_schema("a record, enum or fixed has no name")
    if "." in name:
        return name.lstrip(".")
    own = schema.get("namespace", namespace)
    if not isinstance(own, str):
        raise invalid_schema(f"the namespace of {name[:200]} is no text")
    return f"{own}.{name}" if own else name


def _name(value: Any, what: str) -> str:
    if not isinstance(value, str) or _NAME.fullmatch(value) is None:
        raise invalid_schema(f"{what} has the name {str(value)[:100]!r}; names are letters, digits and _")
    return value
