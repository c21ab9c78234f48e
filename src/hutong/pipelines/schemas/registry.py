"""A blocking client of a schema registry: the latest schema of a subject, a schema by its id, registration.

A schema is handed out as one text, with what it imports put into it. Schemas never change under their id, so each is
asked for once in the life of a process. Knows nothing of Spark.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import quote

from hutong.foundation.errors import ProtocolError, Refused
from hutong.pipelines.errors import AccessDenied
from hutong.pipelines.schemas.http import exchange
from hutong.pipelines.schemas.imports import inlined
from hutong.pipelines.schemas.settings import RegistrySettings
from hutong.pipelines.source.rows.protobuf.descriptors import parse_file_text

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
NAMES = {AVRO: "Avro", JSON: "JSON Schema", PROTOBUF: "Protobuf"}
_FORMS = {PROTOBUF: "?format=serialized"}
"""So that a descriptor comes in the place of text."""
IMPORTS_MAX = 256
KEPT_MAX = 1_000
REGISTRIES_MAX = 8
DENIED = (401, 403)
NOT_FOUND = 404

Exchange: TypeAlias = Callable[[RegistrySettings, str, str, bytes | None], tuple[int, bytes]]


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema, its id, and the texts that it imports by name, those first that others need. Avro needs none."""

    id: int
    text: str
    imports: tuple[tuple[str, str], ...] = ()


class RemoteRegistry:
    """One registry. `ask` sends a request and returns status and body."""

    def __init__(self, settings: RegistrySettings, ask: Exchange = exchange) -> None:
        self._settings = settings
        self._ask = ask
        self._kept: dict[int, str] = {}
        self._files: dict[int, tuple[bytes, ...]] = {}

    def latest(self, subject: str, kind: str = AVRO) -> RegisteredSchema:
        """Raises Refused, AccessDenied, Unavailable or ProtocolError."""
        found = self._json("GET", f"/subjects/{quote(subject, safe='')}/versions/latest{_FORMS.get(kind, '')}")
        what = f"subject {subject}"
        if kind == AVRO:
            return RegisteredSchema(_number(found, "id"), self._text(found, what))
        return self._with_imports(_number(found, "id"), found, kind, what)

    def avro_text(self, schema_id: int) -> str:
        """The schema with this id. Raises Refused, AccessDenied, Unavailable or ProtocolError."""
        if schema_id not in self._kept:
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
            self._kept[schema_id] = self._text(self._json("GET", f"/schemas/ids/{schema_id}"), f"schema {schema_id}")
        return self._kept[schema_id]

    def protobuf_files(self, schema_id: int) -> tuple[bytes, ...]:
        """The descriptors of a schema with this id, what it imports first. Raises as `latest`, and ValueError."""
        if schema_id not in self._files:
            if len(self._files) >= KEPT_MAX:
                self._files.clear()
            found = self._json("GET", f"/schemas/ids/{schema_id}{_FORMS[PROTOBUF]}")
            schema = self._with_imports(schema_id, found, PROTOBUF, f"schema {schema_id}")
            texts = (*dict(schema.imports).values(), schema.text)
            self._files[schema_id] = tuple(parse_file_text(text) for text in texts)
        return self._files[schema_id]

    def register(self, subject: str, text: str, kind: str = AVRO) -> int:
        """The id of the schema, which becomes a version of the subject unless it is one. Raises as `latest`."""
        return self._id_of(f"/subjects/{quote(subject, safe='')}/versions", text, kind)

    def find(self, subject: str, text: str, kind: str = AVRO) -> int:
        """The id of a schema that is a version of the subject. Raises as `latest`."""
        return self._id_of(f"/subjects/{quote(subject, safe='')}", text, kind)

    def _id_of(self, path: str, text: str, kind: str) -> int:
        body = {"schema": text} if kind == AVRO else {"schema": text, "schemaType": kind}
        return _number(self._json("POST", path, json.dumps(body).encode()), "id")

    def _text(self, found: Mapping[str, Any], what: str) -> str:
        text = _own_text(found, AVRO, what)
        imported: dict[str, str] = {}
        self._gather(found, imported)
        return inlined(text, imported) if imported else text

    def _with_imports(self, schema_id: int, found: Mapping[str, Any], kind: str, what: str) -> RegisteredSchema:
        text = _own_text(found, kind, what)
        imported: dict[str, str] = {}
        self._gather(found, imported, _FORMS.get(kind, ""))
        return RegisteredSchema(schema_id, text, tuple(imported.items()))

    def _gather(self, found: Mapping[str, Any], imported: dict[str, str], form: str = "") -> None:
        """The texts of what a schema refers to, by name, and of what those refer to, which come first."""
        references = found.get("references") or []
        for reference in references if isinstance(references, list) else []:
            name, subject, version = (reference.get(each) for each in ("name", "subject", "version"))
            if name in imported:
                continue
            if len(imported) >= IMPORTS_MAX:
                raise Refused(NOT_FOUND, f"a schema in the registry imports more than {IMPORTS_MAX} others")
            place = f"/subjects/{quote(str(subject), safe='')}/versions/{quote(str(version))}{form}"
            other = self._json("GET", place)
            imported[str(name)] = ""  # so that a reference back to it ends here
            self._gather(other, imported, form)
            del imported[str(name)]
            imported[str(name)] = str(other.get("schema", ""))

    def _json(self, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        status, content = self._ask(self._settings, method, path, body)
        try:
            found = json.loads(content)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ProtocolError(f"the schema registry answered {path} with status {status} and no JSON object")
        if status in DENIED:
            raise AccessDenied(
                f"the schema registry refused {path}: {found.get('message', status)}; check "
                "schema.registry.basic.auth.user.info and the user's rights"
            )
        if status >= 300:
            code = found.get("error_code")
            raise Refused(
                code if isinstance(code, int) else status,
                f"the schema registry refused {path}: {found.get('message', status)}",
            )
        return found


_registries: dict[RegistrySettings, RemoteRegistry] = {}


def shared_registry(settings: RegistrySettings) -> RemoteRegistry:
    """The registry with these settings, kept from one Spark task to the next for the schemas that it holds."""
    registry = _registries.pop(settings, None) or RemoteRegistry(settings)
    _registries[settings] = registry
    if len(_registries) > REGISTRIES_MAX:
        del _registries[next(iter(_registries))]
    return registry


def is_missing(error: Refused) -> bool:
    """Return True if what was asked for is not there: codes are the status, or begin with it."""
    return error.code == NOT_FOUND or error.code // 100 == NOT_FOUND


def _own_text(found: Mapping[str, Any], kind: str, what: str) -> str:
    named, text = found.get("schemaType", AVRO), found.get("schema")
    if named != kind:
        raise Refused(NOT_FOUND, f"{what} is of type {named} in the registry, and not {NAMES[kind]}")
    if not isinstance(text, str):
        raise ProtocolError(f"the schema registry's answer for {what} has no schema")
    return text


def _number(found: Mapping[str, Any], name: str) -> int:
    number = found.get(name)
    if not isinstance(number, int):
        raise ProtocolError(f"the schema registry's answer has no {name}")
    return number
