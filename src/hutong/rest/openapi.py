"""The description of the API (OpenAPI 3.1), made of its routes: what is served is what is described.

Knows nothing of clients.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from hutong.rest.records.v3_bodies import BatchBody, RecordBody
from hutong.rest.topics import ConfigChangesBody, ConfigValueBody, NewTopicBody, PartitionsBody
from hutong.rest.v2.consume import OffsetsBody, PlacesBody, SubscriptionBody
from hutong.rest.v2.instances import InstanceBody
from hutong.rest.v2.produce import RecordsV2
from hutong.web.routes import WebRoute

BODIES: Final[dict[str, type[msgspec.Struct]]] = {
    "POST /v3/clusters/{cluster}/topics": NewTopicBody,
    "PATCH /v3/clusters/{cluster}/topics/{topic}": PartitionsBody,
    "POST /v3/clusters/{cluster}/topics/{topic}/configs:alter": ConfigChangesBody,
    "PUT /v3/clusters/{cluster}/topics/{topic}/configs/{name}": ConfigValueBody,
    "POST /v3/clusters/{cluster}/topics/{topic}/records": RecordBody,
    "POST /v3/clusters/{cluster}/topics/{topic}/records:batch": BatchBody,
    "POST /topics/{topic}": RecordsV2,
    "POST /topics/{topic}/partitions/{partition}": RecordsV2,
    "POST /consumers/{group}": InstanceBody,
    "POST /consumers/{group}/instances/{instance}/subscription": SubscriptionBody,
    "POST /consumers/{group}/instances/{instance}/assignments": PlacesBody,
    "POST /consumers/{group}/instances/{instance}/positions": OffsetsBody,
    "POST /consumers/{group}/instances/{instance}/positions/beginning": PlacesBody,
    "POST /consumers/{group}/instances/{instance}/positions/end": PlacesBody,
    "POST /consumers/{group}/instances/{instance}/offsets": OffsetsBody,
    "GET /consumers/{group}/instances/{instance}/offsets": PlacesBody,
}
QUERIES: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "GET /v3/clusters/{cluster}/topics/{topic}/records": {
        "from": {"enum": ["latest", "earliest"], "default": "latest"},
        "format": {"enum": ["auto", "binary", "string", "json"], "default": "auto"},
    },
    "GET /v3/clusters/{cluster}/topics/{topic}/partitions/{partition}/records": {
        "offset": {"type": "string", "pattern": "^(earliest|latest|[0-9]+)$", "default": "earliest"},
        "max_records": {"type": "integer", "minimum": 1, "default": 100},
        "wait_ms": {"type": "integer", "minimum": 0, "default": 1000},
        "format": {"enum": ["auto", "binary", "string", "json"], "default": "auto"},
    },
    "GET /consumers/{group}/instances/{instance}/records": {
        "timeout": {"type": "integer", "minimum": 0},
        "max_bytes": {"type": "integer"},
    },
}
_REFUSED: Final = {
    "description": "Refused.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}},
}
_REFUSAL: Final = {
    "type": "object",
    "required": ["error_code", "message"],
    "properties": {"error_code": {"type": "integer"}, "message": {"type": "string"}},
}


def described(routes: Sequence[WebRoute]) -> dict[str, Any]:
    """The whole description, for JSON."""
    _, schemas = msgspec.json.schema_components(set(BODIES.values()), ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = route.pattern.replace(":int}", "}")
        paths.setdefault(path, {})[route.method.lower()] = _operation(f"{route.method} {path}", path, route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Records, topics and groups over HTTP",
            "description": "The v3 and v2 APIs of Confluent's REST proxy, as far as they are listed here.",
            "version": "1",
        },
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Refusal": _REFUSAL},
            "securitySchemes": {"user": {"type": "http", "scheme": "basic"}},
        },
        "security": [{"user": []}, {}],
    }


def _operation(key: str, path: str, route: WebRoute) -> dict[str, Any]:
    name = getattr(route.handler, "__name__", "")
    operation: dict[str, Any] = {
        "operationId": f"{name}_{path.strip('/').replace('/', '_').translate(_PLAIN)}",
        "summary": name.replace("_", " ").capitalize(),
        "parameters": [
            *_parameters("path", {part: {"type": _kind(route, part)} for part in _names(path)}, is_required=True),
            *_parameters("query", QUERIES.get(key, {})),
        ],
        "responses": {"2XX": {"description": "Done."}, "4XX": _REFUSED, "5XX": _REFUSED},
    }
    body = BODIES.get(key)
    if body is not None:
        schema = {"$ref": f"#/components/schemas/{body.__name__}"}
        content = {kind: {"schema": schema} for kind in route.takes}
        operation["requestBody"] = {"content": content}
    return operation


_PLAIN: Final = str.maketrans("", "", "{}:-.")


def _names(path: str) -> list[str]:
    return [segment[1:-1] for segment in path.split("/") if segment.startswith("{")]


def _kind(route: WebRoute, name: str) -> str:
    return "integer" if f"{{{name}:int}}" in route.pattern else "string"


def _parameters(place: str, schemas: dict[str, dict[str, Any]], *, is_required: bool = False) -> list[dict[str, Any]]:
    return [{"name": name, "in": place, "required": is_required, "schema": each} for name, each in schemas.items()]
