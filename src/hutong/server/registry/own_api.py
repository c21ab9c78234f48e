"""The registry's API for the console of the same node, without a connection.

Decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from hutong.web.answers import WebAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hutong.web.requests import WebRequest
    from hutong.web.routes import WebRoute


T = TypeVar("T")
_NOTHING: Mapping[str, str] = {}


class OwnRegistryApi:
    """Implements `hutong.console.schemas.registry_api.RegistryApi`."""

    is_near = True

    def __init__(self, routes: Iterable[WebRoute]) -> None:
        self._handlers = {(route.method, route.pattern): route.handler for route in routes}

    async def ask(
        self,
        kind: type[T],
        request: WebRequest,
        method: str,
        pattern: str,
        parameters: Mapping[str, str],
        *,
        query: Mapping[str, str] = _NOTHING,
        body: Any = None,
    ) -> T:
        """The answer of the route with this pattern, as for the user of `request`. Raises WebRefusal."""
        encoded = b"" if body is None else msgspec.json.encode(body)
        asked = replace(request, method=method, path=pattern, parameters=parameters, query=query, body=encoded)
        answer = self._handlers[method, pattern](asked)
        made = await answer if isawaitable(answer) else answer
        assert isinstance(made, WebAnswer), "the registry streams nothing"
        return msgspec.json.decode(made.body, type=kind)
