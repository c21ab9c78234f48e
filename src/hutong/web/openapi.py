"""A description of routes (OpenAPI 3.1): what is served is what is described.

Knows no application: titles, bodies and queries are given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from hutong.web.routes import WebRoute

_PLAIN: Final = str.maketrans("", "", "{}:-.")
Schemas = Mapping[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ApiDescription:
    """The parts of a description that routes do not show. The keys of `bodies` and `queries` are `METHOD /path`.

    `refusal` is the schema of every refusal; `schemes` are ways to log in, any of which will do, `{}` for none.
    """

    title: str
    about: str
    bodies: Mapping[str, type[msgspec.Struct]]
    queries: Mapping[str, Schemas]
    refusal: dict[str, Any]
    schemes: Schemas = field(default_factory=dict)


def described(routes: Sequence[WebRoute], api: ApiDescription) -> dict[str, Any]:
    """The whole description, for JSON."""
    _, schemas = msgspec.json.schema_components(set(api.bodies.values()), ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = route.pattern.replace(":int}", "}")
        paths.setdefault(path, {})[route.method.lower()] = _operation(f"{route.method} {path}", path, route, api)
    return {
        "openapi": "3.1.0",
        "info": {"title": api.title, "description": api.about, "version": "1"},
        "paths": paths,
        "components": {"schemas": {**schemas, "Refusal": api.refusal}, "securitySchemes": dict(api.schemes)},
        "security": [*({name: []} for name in api.schemes), {}],
    }


def _operation(key: str, path: str, route: WebRoute, api: ApiDescription) -> dict[str, Any]:
    name = getattr(route.handler, "__name__", "")
    refused = {
        "description": "Refused.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}},
    }
    operation: dict[str, Any] = {
        "operationId": f"{name}_{path.strip('/').replace('/', '_').translate(_PLAIN)}",
        "summary": name.replace("_", " ").capitalize(),
        "parameters": [
            *_parameters("path", {part: {"type": _kind(route, part)} for part in _names(path)}, is_required=True),
            *_parameters("query", api.queries.get(key, {})),
        ],
        "responses": {"2XX": {"description": "Done."}, "4XX": refused, "5XX": refused},
    }
    body = api.bodies.get(key)
    if body is not None:
        schema = {"$ref": f"#/components/schemas/{body.__name__}"}
        operation["requestBody"] = {"content": {kind: {"schema": schema} for kind in route.takes}}
    return operation


def _names(path: str) -> list[str]:
    return [segment[1:-1] for segment in path.split("/") if segment.startswith("{")]


def _kind(route: WebRoute, name: str) -> str:
    return "integer" if f"{{{name}:int}}" in route.pattern else "string"


def _parameters(place: str, schemas: Schemas, *, is_required: bool = False) -> list[dict[str, Any]]:
    return [{"name": name, "in": place, "required": is_required, "schema": each} for name, each in schemas.items()]
