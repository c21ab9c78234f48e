"""An Avro schema and the named types that it imports from other subjects, as one text.

A type is put in where it is named first; later places keep the name. Knows nothing of registries.
"""

import json
from collections.abc import Mapping
from typing import Any

from hutong.foundation.errors import ProtocolError

NAMED = ("record", "enum", "fixed", "error")
CHARACTERS_MAX = 4 * 2**20


def inlined(text: str, imported: Mapping[str, str]) -> str:
    """The text with the definitions in `imported`, by their full names. Raises ProtocolError."""
    if len(text) + sum(map(len, imported.values())) > CHARACTERS_MAX:
        raise ProtocolError(f"a schema and what it imports have more than {CHARACTERS_MAX} characters")
    try:
        definitions = {name: json.loads(other) for name, other in imported.items()}
        return json.dumps(_Inliner(definitions).walk(json.loads(text), ""))
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a schema in the registry is no JSON that can be read: {error}") from None


class _Inliner:
    """Gives each definition out once: a second one of the same name would be refused by any reader."""

    def __init__(self, definitions: dict[str, Any]) -> None:
        self._left = definitions

    def walk(self, schema: Any, namespace: str) -> Any:
        match schema:
            case str():
                return self._by_name(schema, namespace)
            case list():
                return [self.walk(branch, namespace) for branch in schema]
            case dict():
                return self._walk_object(schema, namespace)
            case _:
                return schema

    def _by_name(self, name: str, namespace: str) -> Any:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        for known in (full, name):
            if known in self._left:
                # A definition without a namespace of its own has that of its full name, not of the place.
                definition = self._left.pop(known)
                if isinstance(definition, dict) and "." not in str(definition.get("name", "")):
                    definition = {"namespace": known.rpartition(".")[0], **definition}
                return self.walk(definition, "")
        return name

    def _walk_object(self, schema: dict[str, Any], namespace: str) -> dict[str, Any]:
        inside = namespace
        if schema.get("type") in NAMED:
            name = str(schema.get("name", ""))
            inside = name.rpartition(".")[0] if "." in name else str(schema.get("namespace", namespace))
        walked = dict(schema)
        for part in ("type", "items", "values"):
            if part in schema:
                walked[part] = schema[part] if schema[part] in NAMED else self.walk(schema[part], inside)
        fields = schema.get("fields")
        if isinstance(fields, list):
            walked["fields"] = [self.walk(each, inside) for each in fields]
        return walked
