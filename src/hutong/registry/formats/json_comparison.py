"""Comparison of two JSON schemas: whether all that one allows is allowed by the other.

Strategy: keyword by keyword, from the reader's side: each bound of the reader must be as wide as the writer's. An open
object may hold any further member, so a member that only the reader describes must allow anything, unless the writer is
closed. Keywords whose meaning is not compared (`not`, `if`, `contains` and the like) must stay as they are. Errs on the
side of refusing.

Knows nothing of texts; references are found by the schemas themselves.
"""

from typing import Any, Final, Protocol

from hutong.registry.formats.shape import Troubles, encode_sorted

REFERENCES_FOLLOWED_MAX: Final = 64
_KEPT: Final = (
    "pattern",
    "format",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "minContains",
    "maxContains",
    "propertyNames",
    "patternProperties",
    "dependencies",
    "dependentSchemas",
    "dependentRequired",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contentEncoding",
)
_UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_ALL_TYPES: Final = frozenset({"null", "boolean", "object", "array", "number", "string", "integer"})


class ReferringSchema(Protocol):
    """A schema that finds what it refers to."""

    def find(self, reference: str) -> Any: ...


class JsonComparison:
    """One comparison; `troubles` has what it found."""

    def __init__(self, reader: ReferringSchema, writer: ReferringSchema) -> None:
        self.troubles = Troubles()
        self._reader = reader
        self._writer = writer
        self._seen: dict[tuple[int, int], bool] = {}
        self._held: list[Any] = []
        self._aside = 0  # how many alternatives of the reader are being tried

    def covers(self, reader: Any, writer: Any, path: str) -> bool:
        """True where the reader allows all that the writer allows."""
        self.troubles.count()
        reader, writer = _followed(reader, self._reader), _followed(writer, self._writer)
        # `true` and `{}` allow everything; a writer that allows nothing is covered.
        if reader is True or reader == {} or writer is False:
            return True
        if reader is False:
            return self._trouble("SCHEMA_CLOSED", path, "the reader allows nothing here")
        if not isinstance(writer, dict):
            writer = {}
        key = id(reader), id(writer)
        if key not in self._seen:
            self._held.append((reader, writer))  # some are made here: an id must not become another's
            self._seen[key] = True
            self._seen[key] = self._compare(reader, writer, path)
        elif not self._seen[key]:
            self._trouble("SCHEMA_CHANGED", path, "it does not fit, as elsewhere in the schema")
        return self._seen[key]

    def _compare(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> bool:
        for name in ("oneOf", "anyOf"):
            if isinstance(writer.get(name), list):
                rest = {key: value for key, value in writer.items() if key != name}
                branches = [{**rest, **each} if isinstance(each, dict) else each for each in writer[name]]
                results = [self.covers(reader, branch, f"{path}/{name}") for branch in branches]
                return all(results)
        checks = [
            self._alternatives(reader, writer, path),
            self._all_of(reader, writer, path),
            self._types(reader, writer, path),
            self._values(reader, writer, path),
            self._bounds(reader, writer, path),
            self._kept(reader, writer, path),
        ]
        kinds = _types_of(writer)
        if "object" in kinds:
            checks += [self._members(reader, writer, path), self._required(reader, writer, path)]
        if "array" in kinds:
            checks.append(self._items(reader, writer, path))
        return all(checks)

    def _alternatives(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> bool:
        for name in ("oneOf", "anyOf"):
            branches = reader.get(name)
            if not isinstance(branches, list):
                continue
            self._aside += 1  # an alternative that does not fit is no trouble if another one does
            found = any(self.covers(branch, writer, path) for branch in branches)
            self._aside -= 1
            if not found:
                return self._trouble("SUM_TYPE_NARROWED", path, f"no branch of the reader's {name} allows it")
        return True

    def _all_of(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> bool:
        branches = reader.get("allOf")
        own = [each for each in writer.get("allOf", ()) if isinstance(each, dict)]
        # What the writer demands in parts, it demands at once.
        whole = writer if not own else _merged([{k: v for k, v in writer.items() if k != "allOf"}, *own])
        if isinstance(branches, list):
            results = [self.covers(branch, whole, f"{path}/allOf") for branch in branches]
            return all(results)
        return True if not own else self.covers(reader, whole, path)

    def _types(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> bool:
        allowed = _types_of(reader)
        lacking = {each for each in _types_of(writer) if each not in allowed}
        if "number" in allowed:
            lacking.discard("integer")
        if "integer" in allowed and "number" not in _types_of(writer):
            lacking.discard("integer")
        if lacking:
            return self._trouble("TYPE_CHANGED", f"{path}/type", f"the reader takes no {', '.join(sorted(lacking))}")
        return True

    def _values(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> bool:
        allowed, written = _values_of(reader), _values_of(writer)
        if allowed is None:
            return True
        if written is None or written - allowed:
            return self._trouble("ENUM_ARRAY_NARROWED", f"{path}/enum", "the reader lacks a value of the writer")
        return True

    def _bounds(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> bool:
        tighter = [name for name in _UPPER if _is_tighter(reader.get(name), writer.get(name), 1)]
        tighter += [name for name in _LOWER if _is_tighter(reader.get(name), writer.get(name), -1)]
        step, theirs = reader.get("multipleOf"), writer.get("multipleOf")
        if _is_number(step) and step and (not _is_number(theirs) or theirs % step):
            tighter.append("multipleOf")
        if reader.get("uniqueItems") is True and writer.get("uniqueItems") is not True:
            tighter.append("uniqueItems")
        for name in tighter:
            self._trouble("BOUND_NARROWED", f"{path}/{name}", "the reader's bound is narrower than the writer's")
        return not tighter

    def _kept(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> bool:
        changed = [name for name in _KEPT if name in reader and reader[name] != writer.get(name)]
        for name in changed:
            self._trouble("KEYWORD_CHANGED", f"{path}/{name}", "the reader has another one than the writer")
        return not changed

    def _members(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> bool:
        read, written = _object(reader, "properties"), _object(writer, "properties")
        more_read, more_written = reader.get("additionalProperties", True), writer.get("additionalProperties", True)
        is_covered = True
        for name in sorted({*read, *written}):
            theirs = written.get(name, more_written)
            is_covered &= self.covers(read.get(name, more_read), theirs, f"{path}/properties/{name}")
        return is_covered & self.covers(more_read, more_written, f"{path}/additionalProperties")

    def _required(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> bool:
        asked, given = reader.get("required"), writer.get("required")
        members = _object(reader, "properties")
        have_defaults = {name for name, each in members.items() if isinstance(each, dict) and "default" in each}
        lacking = set(asked if isinstance(asked, list) else ()) - set(given if isinstance(given, list) else ())
        lacking -= have_defaults
        if lacking:
            names = ", ".join(sorted(map(str, lacking))[:10])
            return self._trouble("REQUIRED_ATTRIBUTE_ADDED", f"{path}/required", f"the reader demands {names}")
        return True

    def _items(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> bool:
        (read, more_read), (written, more_written) = _items_of(reader), _items_of(writer)
        is_covered = True
        for index in range(max(len(read), len(written))):
            ours = read[index] if index < len(read) else more_read
            theirs = written[index] if index < len(written) else more_written
            is_covered &= self.covers(ours, theirs, f"{path}/items/{index}")
        return is_covered & self.covers(more_read, more_written, f"{path}/items")

    def _trouble(self, kind: str, path: str, why: str) -> bool:
        if not self._aside:
            self.troubles.add(kind, path, why)
        return False


def _followed(schema: Any, document: ReferringSchema) -> Any:
    """The schema behind references. A circle of nothing but references allows everything."""
    for _ in range(REFERENCES_FOLLOWED_MAX):
        if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
            return schema
        schema = document.find(schema["$ref"])
    return True


def _types_of(schema: dict[str, Any]) -> frozenset[str]:
    kind = schema.get("type")
    if isinstance(kind, str):
        return frozenset({kind})
    return frozenset(each for each in kind if isinstance(each, str)) if isinstance(kind, list) else _ALL_TYPES


def _values_of(schema: dict[str, Any]) -> set[str] | None:
    if "const" in schema:
        return {encode_sorted(schema["const"])}
    listed = schema.get("enum")
    return {encode_sorted(each) for each in listed} if isinstance(listed, list) else None


def _object(schema: dict[str, Any], name: str) -> dict[str, Any]:
    found = schema.get(name)
    return found if isinstance(found, dict) else {}


def _items_of(schema: dict[str, Any]) -> tuple[list[Any], Any]:
    """The schemas of the first items, and that of all others. Before 2020-12 `items` may be the list."""
    first = schema.get("prefixItems")
    if isinstance(first, list):
        return first, schema.get("items", True)
    items = schema.get("items", True)
    return (items, schema.get("additionalItems", True)) if isinstance(items, list) else ([], items)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_tighter(ours: Any, theirs: Any, sign: int) -> bool:
    """True where the reader's bound excludes what the writer's allows. In draft 4 exclusive bounds are flags."""
    if isinstance(ours, bool):
        return ours and theirs is not True
    if not _is_number(ours):
        return False
    return not _is_number(theirs) or sign * theirs > sign * ours


def _merged(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """One schema that allows no less than all parts together: enough to compare with."""
    merged: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            if name == "properties" and isinstance(value, dict):
                merged[name] = {**merged.get(name, {}), **value}
            elif name == "required" and isinstance(value, list):
                merged[name] = [*merged.get(name, []), *value]
            else:
                merged.setdefault(name, value)
    return merged
