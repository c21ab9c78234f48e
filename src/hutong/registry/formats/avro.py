"""Avro: schemas as canonical text, and their comparison.

Strategy: the text is kept with the members of each type in the order in which Java's library writes them, and with
names and namespaces as it does, so that a schema of a Java client and the same one of another have one id.
"""

from collections.abc import Sequence
from typing import Any, Final

from fastavro.schema import SchemaParseException, UnknownType, parse_schema

from hutong.registry.formats.avro_compatibility import AvroComparison
from hutong.registry.formats.avro_types import PRIMITIVES, AvroNames, AvroType, full_name
from hutong.registry.formats.shape import NamedText, ParsedSchema, decode_json, encode_json
from hutong.registry.values import invalid_schema

_ORDER: Final = ("type", "name", "namespace", "doc", "fields", "symbols", "size", "items", "values", "default", "order")
_RANKS: Final = {name: rank for rank, name in enumerate(_ORDER)}
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})


class AvroSchema:
    """One parsed schema."""

    def __init__(self, json: Any, type_: AvroType) -> None:
        self._json = json
        self.type = type_

    @property
    def canonical(self) -> str:
        return encode_json(_ordered(self._json, "", is_sorted=False))

    def normalized(self) -> str:
        return encode_json(_ordered(self._json, "", is_sorted=True))

    def troubles_reading(self, writer: ParsedSchema) -> list[str]:
        assert isinstance(writer, AvroSchema)
        comparison = AvroComparison()
        comparison.compare(self.type, writer.type)
        return comparison.troubles.messages


class AvroFormat:
    """Avro schemas, which import named types by reference."""

    def parse(self, text: str, imports: Sequence[NamedText]) -> AvroSchema:
        """Raises Refused."""
        names = AvroNames()
        known: dict[str, Any] = {}
        for each in imports:
            json = decode_json(each.text)
            names.read(json)
            _check_defaults(json, known)
        json = _bare_name(text) or decode_json(text)
        type_ = names.read(json)
        _check_defaults(json, known)
        return AvroSchema(json, type_)


def _bare_name(text: str) -> str | None:
    """Java's parser takes `string` without quotes, too, as clients of old send it."""
    stripped = text.strip()
    return stripped if stripped in PRIMITIVES and stripped != "null" else None


def _check_defaults(json: Any, known: dict[str, Any]) -> None:
    """Let fastavro look at it: it knows which default fits which type."""
    try:
        parse_schema(_ordered(json, "", is_sorted=False), named_schemas=known)
    except (SchemaParseException, UnknownType, KeyError, TypeError, ValueError) as error:
        raise invalid_schema(str(error)[:500]) from None


def _ordered(schema: Any, namespace: str, *, is_sorted: bool) -> Any:
    """The same schema with its members in order, and names without what their place says already."""
    if isinstance(schema, str):
        return _relative(schema, namespace)
    if isinstance(schema, list):
        return [_ordered(each, namespace, is_sorted=is_sorted) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema["type"] if isinstance(schema["type"], str) else ""
    members = dict(schema)
    inner = namespace
    if kind in _NAMED:
        name = full_name(schema, namespace)
        inner, _, members["name"] = name.rpartition(".")
        members.pop("namespace", None)
        if inner != namespace:
            members["namespace"] = inner
    elif set(schema) == {"type"}:
        return _ordered(schema["type"], namespace, is_sorted=is_sorted)
    else:
        members["type"] = _ordered(schema["type"], namespace, is_sorted=is_sorted)
    for member in ("items", "values"):
        if kind in ("array", "map") and member in members:
            members[member] = _ordered(members[member], inner, is_sorted=is_sorted)
    if kind in ("record", "error"):
        members["fields"] = [_ordered_field(each, inner, is_sorted=is_sorted) for each in schema["fields"]]
    return _arranged(members, is_sorted=is_sorted)


def _ordered_field(field: dict[str, Any], namespace: str, *, is_sorted: bool) -> dict[str, Any]:
    members = {"name": field["name"], "type": _ordered(field["type"], namespace, is_sorted=is_sorted)}
    rest = {name: value for name, value in field.items() if name not in ("name", "type")}
    # The order that is the default says nothing.
    if rest.get("order") == "ascending":
        del rest["order"]
    return members | _arranged(rest, is_sorted=is_sorted)


def _arranged(members: dict[str, Any], *, is_sorted: bool) -> dict[str, Any]:
    def rank(name: str) -> tuple[int, str]:
        return _RANKS.get(name, len(_RANKS)), name if is_sorted else ""

    return {name: members[name] for name in sorted(members, key=rank)}


def _relative(name: str, namespace: str) -> str:
    own, dot, short = name.rpartition(".")
    return short if dot and own == namespace and short not in PRIMITIVES else name
