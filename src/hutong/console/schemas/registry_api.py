"""The port to a schema registry: Confluent's API, asked as the user of a request.

`server/registry` implements it for the node's own registry, `server/http` for one at a URL. Rights are those of the
registry. Knows no connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hutong.web.requests import WebRequest

T = TypeVar("T")


class RegistryApi(Protocol):
    """The registry. `is_near`: in this process, so that hundreds of questions cost little."""

    is_near: bool

    async def ask(
        self,
        kind: type[T],
        request: WebRequest,
        method: str,
        pattern: str,
        parameters: Mapping[str, str],
        *,
        query: Mapping[str, str] = ...,
        body: Any = None,
    ) -> T:
        """The answer of the route with this pattern, as for the user of `request`. Raises WebRefusal."""
        ...


class ReferenceAnswer(msgspec.Struct, frozen=True):
    """The name by which a schema imports another one, and the place of that."""

    name: str
    subject: str
    version: int


class VersionAnswer(msgspec.Struct, frozen=True):
    """A version of a subject. Avro is not named: readers of old versions know nothing else."""

    subject: str
    version: int
    id: int
    schema: str
    schemaType: str | None = None
    references: list[ReferenceAnswer] | None = None
    metadata: dict[str, Any] | None = None
    ruleSet: dict[str, Any] | None = None


class LevelAnswer(msgspec.Struct, frozen=True):
    compatibilityLevel: str


class CheckAnswer(msgspec.Struct, frozen=True):
    """The troubles of a schema, where there are some."""

    is_compatible: bool
    messages: list[str] = []


class RegisteredAnswer(msgspec.Struct, frozen=True):
    """Registries of older versions do not tell the version."""

    id: int
    version: int | None = None
