"""JSON Schema: drafts 4 to 2020-12, checked by their own schemas, and compared.

Strategy: the document is checked against the schema of its draft, which finds misspelt types and wrong bounds. Patterns
are neither compiled nor run. References are looked up in the document and in what it imports, never fetched.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from jsonschema import Draft7Validator, FormatChecker, SchemaError
from jsonschema.validators import validator_for

from hutong.registry.formats.json_comparison import JsonComparison
from hutong.registry.formats.shape import NamedText, ParsedSchema, decode_json, encode_json, encode_sorted
from hutong.registry.values import invalid_schema


class JsonSchema:
    """One parsed schema."""

    def __init__(self, json: Any, imports: dict[str, Any]) -> None:
        self.json = json
        self._imports = imports

    @property
    def canonical(self) -> str:
        return encode_json(self.json)

    def normalized(self) -> str:
        return encode_sorted(self.json)

    def troubles_reading(self, writer: ParsedSchema) -> list[str]:
        assert isinstance(writer, JsonSchema)
        comparison = JsonComparison(self, writer)
        comparison.covers(self.json, writer.json, "")
        return comparison.troubles.messages

    def find(self, reference: str) -> Any:
        """The part that a reference in this document means. Raises Refused."""
        return self.find_from(reference, self.json)[0]

    def find_from(self, reference: str, document: Any) -> tuple[Any, Any]:
        """The part that a reference in this document, or in one that it imports, means; and its own document."""
        name, _, fragment = reference.partition("#")
        if name:
            document = self.json if name == _id(self.json) else self._imports.get(name)
        if document is None:
            raise invalid_schema(f"it refers to {reference[:200]}, which is not there")
        if not fragment:
            return document, document
        found = _anchored(document, fragment) if not fragment.startswith("/") else _pointed(document, fragment)
        if not isinstance(found, dict | bool):
            raise invalid_schema(f"it refers to {reference[:200]}, which is not there")
        return found, document


class JsonFormat:
    """JSON Schema documents, which import others by their reference's name or `$id`."""

    def parse(self, text: str, imports: Sequence[NamedText]) -> JsonSchema:
        """Raises Refused."""
        known: dict[str, Any] = {}
        for each in imports:
            document = decode_json(each.text)
            known[each.name] = document
            known.setdefault(_id(document), document)
        json = decode_json(text)
        _check(json)
        schema = JsonSchema(json, known)
        for reference in _references(json):
            schema.find(reference)
        return schema


def _check(json: Any) -> None:
    if not isinstance(json, dict | bool):
        raise invalid_schema("a JSON schema is an object, true or false")
    try:
        # Without checkers of formats: that of `regex` would compile any pattern.
        validator_for(json, default=Draft7Validator).check_schema(json, format_checker=FormatChecker(formats=()))
    except SchemaError as error:
        place = "/".join(map(str, error.absolute_path))
        raise invalid_schema(f"at /{place}: {error.message[:300]}") from None


def _id(json: Any) -> str:
    found = json.get("$id", json.get("id", "")) if isinstance(json, dict) else ""
    return found.rstrip("#") if isinstance(found, str) else ""


def _pointed(document: Any, pointer: str) -> Any:
    """RFC 6901."""
    found = document
    for token in unquote(pointer)[1:].split("/"):
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(key)
        elif isinstance(found, list) and key.isascii() and key.isdigit() and len(key) < 7 and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found


def _anchored(document: Any, name: str) -> Any:
    waiting = [document]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if name in (each.get("$anchor"), each.get("$dynamicAnchor")) or each.get("$id") == f"#{name}":
                return each
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
    return None


def _references(json: Any) -> list[str]:
    found, waiting = [], [json]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            reference = each.get("$ref")
            if isinstance(reference, str):
                found.append(reference)
            # Values are no schemas, whatever they look like.
            waiting += [value for key, value in each.items() if key not in ("const", "enum", "default", "examples")]
        elif isinstance(each, list):
            waiting += each
    return found
