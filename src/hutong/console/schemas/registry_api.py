"""The port to the node's schema registry: its own API, asked as the user of a request.

`server/registry` implements it. Rights are those of the registry. Knows no schemas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hutong.web.requests import WebRequest


class RegistryApi(Protocol):
    """The registry."""

    async def ask(
        self,
        request: WebRequest,
        method: str,
        pattern: str,
        parameters: Mapping[str, str] = ...,
        *,
        query: Mapping[str, str] = ...,
        body: Any = None,
    ) -> Any:
        """The answer of the route with this pattern, as for the user of `request`. Raises WebRefusal."""
        ...
