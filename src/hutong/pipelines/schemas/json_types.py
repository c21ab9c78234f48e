"""A JSON schema as the type of a column: what values of it are like, and the Spark type that this gives.

The part of JSON Schema that describes data is read: types, members, items, references, and null as one choice of two.
What only narrows values (bounds, patterns, enumerations) changes no type. A schema that leaves the type open, or that
has a choice of several, has no column. Knows nothing of registries and of bytes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import unquote

from hutong.pipelines.source.rows import kinds
from hutong.pipelines.source.rows.kinds import TYPE_DEPTH_MAX, ArrayOf, Kind, MapOf, Scalar, StructField, StructOf

SCHEMA_CHARACTERS_MAX = 2**20
NODES_MAX = 10_000
"""References may lead to one part from many places, so that a short schema could stand for a huge one."""
SCALARS = {"string": kinds.STRING, "integer": kinds.BIGINT, "number": kinds.DOUBLE, "boolean": kinds.BOOLEAN}
FORMATS = {"date": kinds.DATE, "date-time": kinds.TIMESTAMP}
BASE64 = "base64"


@dataclass(frozen=True, slots=True)
class JsonScalar:
    """A value of the Spark type `name`."""

    name: str


@dataclass(frozen=True, slots=True)
class JsonItems:
    """An array, or an object whose members all have one type."""

    item: "JsonType"
    is_map: bool
    is_nullable: bool


@dataclass(frozen=True, slots=True)
class JsonMember:
    name: str
    type: "JsonType"
    is_required: bool
    is_nullable: bool


@dataclass(frozen=True, slots=True)
class JsonObject:
    members: tuple[JsonMember, ...]


JsonType: TypeAlias = JsonScalar | JsonItems | JsonObject


def parse_json_schema(text: str, imports: Mapping[str, str] | None = None) -> JsonType:
    """The type; `imports` are other documents by the names of references. Raises ValueError."""
    documents = {name: _document(other) for name, other in (imports or {}).items()}
    document = _document(text)
    found, _ = _JsonTypeParser(documents).type_of(document, document, ())
    return found


def kind_of_json(found: JsonType) -> Kind:
    """The type of the column. Members may be missing in records of other versions, so none is required."""
    match found:
        case JsonScalar(name):
            return Scalar(name)
        case JsonItems(item, is_map):
            return MapOf(kind_of_json(item)) if is_map else ArrayOf(kind_of_json(item))
        case JsonObject(members):
            return StructOf(tuple(StructField(member.name, kind_of_json(member.type)) for member in members))


def _document(text: str) -> Any:
    if len(text) > SCHEMA_CHARACTERS_MAX:
        raise ValueError(f"it is longer than {SCHEMA_CHARACTERS_MAX} characters")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


class _JsonTypeParser:
    """One schema. `path` are the names of members around a part, for errors."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents
        self._nodes = 0
        self._around: list[int] = []

    def type_of(self, schema: Any, document: Any, path: tuple[str, ...]) -> tuple[JsonType, bool]:
        """The type, and True where null is allowed as well."""
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise ValueError(f"it has more than {NODES_MAX} parts, with those that it refers to")
        if len(self._around) > TYPE_DEPTH_MAX:
            raise _unfit(path, f"is nested deeper than {TYPE_DEPTH_MAX} levels")
        # By identity: a reference leads to the same object again, while equal schemas may well stand in each other.
        if id(schema) in self._around:
            raise _unfit(path, "contains itself")
        if not isinstance(schema, dict):
            raise _unfit(path, "leaves the type open")
        self._around.append(id(schema))
        try:
            return self._of_object(schema, document, path)
        finally:
            self._around.pop()

    def _of_object(self, schema: dict[str, Any], document: Any, path: tuple[str, ...]) -> tuple[JsonType, bool]:
        if isinstance(schema.get("$ref"), str):
            part, owner = self._referred(schema["$ref"], document, path)
            return self.type_of(part, owner, path)
        for name in ("oneOf", "anyOf"):
            # Next to a type they only narrow it.
            if name in schema and "type" not in schema:
                return self._choice(schema[name], document, path)
        if isinstance(schema.get("allOf"), list) and len(schema["allOf"]) == 1 and "type" not in schema:
            return self.type_of(schema["allOf"][0], document, path)
        # Drafts from 4 on: one name, or a list of them.
        named = schema.get("type")
        names = named if isinstance(named, list) else [named]
        wanted = [name for name in names if name != "null"]
        if len(wanted) != 1:
            raise _unfit(path, "has several types" if wanted else "leaves the type open")
        return self._of_type(str(wanted[0]), schema, document, path), "null" in names

    def _of_type(self, name: str, schema: dict[str, Any], document: Any, path: tuple[str, ...]) -> JsonType:
        match name:
            case "object":
                return self._members(schema, document, path)
            case "array":
                item, has_nulls = self.type_of(schema.get("items"), document, (*path, "[]"))
                return JsonItems(item, False, has_nulls)
            case "string" if schema.get("contentEncoding") == BASE64:
                return JsonScalar(kinds.BINARY)
            case "string":
                return JsonScalar(FORMATS.get(str(schema.get("format")), kinds.STRING))
            case _ if name in SCALARS:
                return JsonScalar(SCALARS[name])
        raise _unfit(path, "leaves the type open")

    def _choice(self, choices: Any, document: Any, path: tuple[str, ...]) -> tuple[JsonType, bool]:
        """Null or another type, as generators write what may be null."""
        if not isinstance(choices, list):
            raise _unfit(path, "has no list of choices")
        others = [each for each in choices if each != {"type": "null"}]
        if len(others) != 1:
            raise _unfit(path, "is a choice of several types")
        found, is_nullable = self.type_of(others[0], document, path)
        return found, is_nullable or len(others) < len(choices)

    def _members(self, schema: dict[str, Any], document: Any, path: tuple[str, ...]) -> JsonType:
        properties, required = schema.get("properties"), schema.get("required")
        # As Confluent's generators write maps; without either, members of any name and type are allowed.
        if not isinstance(properties, dict) or not properties:
            if not isinstance(schema.get("additionalProperties"), dict):
                raise _unfit(path, "has no members")
            value, is_nullable = self.type_of(schema["additionalProperties"], document, (*path, "{}"))
            return JsonItems(value, True, is_nullable)
        needed = required if isinstance(required, list) else []
        return JsonObject(
            tuple(
                JsonMember(name, found, name in needed, is_nullable)
                for name, part in properties.items()
                for found, is_nullable in (self.type_of(part, document, (*path, name)),)
            )
        )

    def _referred(self, reference: str, document: Any, path: tuple[str, ...]) -> tuple[Any, Any]:
        name, _, fragment = reference.partition("#")
        owner = document
        # A reference that is none of a fragment alone names another document, by its reference's name or its id.
        if name and name != _id(document):
            found = self._documents.get(name)
            owner = (
                found
                if found is not None
                else next((other for other in self._documents.values() if _id(other) == name), None)
            )
        part = owner
        # RFC 6901: a JSON pointer.
        for token in unquote(fragment).split("/")[1:]:
            key = token.replace("~1", "/").replace("~0", "~")
            part = part.get(key) if isinstance(part, dict) else None
        if part is None or (fragment and not fragment.startswith("/")):
            raise _unfit(path, f"refers to {reference[:100]!r}, which is not there")
        return part, owner


def _id(document: Any) -> str:
    found = document.get("$id", document.get("id")) if isinstance(document, dict) else None
    return found.rstrip("#") if isinstance(found, str) else ""


def _unfit(path: tuple[str, ...], why: str) -> ValueError:
    return ValueError(f"{'member ' + '.'.join(path)[:200] if path else 'it'} {why}, so no column can hold it")
