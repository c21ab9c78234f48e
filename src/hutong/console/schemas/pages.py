"""The routes of schemas: subjects with their latest versions and levels, one subject, differences of versions.

Decides nothing about schemas: the registry does.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hutong.console.routes import ConsoleRoute
from hutong.console.schemas.difference import difference, formatted
from hutong.console.schemas.registry_api import LevelAnswer, VersionAnswer
from hutong.web.answers import WebAnswer, WebRefusal, json

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.console.schemas.registry_api import RegistryApi
    from hutong.web.requests import WebRequest

SUBJECTS_SHOWN_MAX: Final = 2_000
VERSIONS_SHOWN_MAX: Final = 1_000
NO_SUBJECT_LEVEL: Final = 40408
AVRO: Final = "AVRO"
SUBJECT: Final = "/api/schemas/{subject}"


def found_registry(desk: ConsoleDesk) -> RegistryApi | None:
    """The registry that the settings name, else that of the node."""
    if desk.named_registry is not None:
        return desk.named_registry
    return None if desk.node is None else desk.node.registry()


def registry_of(desk: ConsoleDesk) -> RegistryApi:
    """The same. Raises WebRefusal(404) where there is none."""
    registry = found_registry(desk)
    if registry is None:
        raise WebRefusal(404, "This console has no schema registry: see --schema-registry of serve and console.")
    return registry


async def own_level(registry: RegistryApi, request: WebRequest, subject: str) -> str | None:
    """The level that the subject has of its own; None where that of all holds. Raises WebRefusal."""
    try:
        named = {"subject": subject}
        return (await registry.ask(LevelAnswer, request, "GET", "/config/{subject}", named)).compatibilityLevel
    except WebRefusal as refusal:
        if refusal.code != NO_SUBJECT_LEVEL:
            raise
        return None


async def common_level(registry: RegistryApi, request: WebRequest) -> str | None:
    """The level of all subjects that have none of their own; None for a user that may not see it."""
    try:
        return (await registry.ask(LevelAnswer, request, "GET", "/config", {})).compatibilityLevel
    except WebRefusal as refusal:
        if refusal.status != 403:
            raise
        return None


class SchemaPages:
    """The routes that read."""

    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk

    def routes(self) -> list[ConsoleRoute]:
        return [
            ConsoleRoute("GET", "/api/schemas", self.list_subjects),
            ConsoleRoute("GET", SUBJECT, self.show),
            ConsoleRoute("GET", f"{SUBJECT}/versions/{{version}}", self.version),
            ConsoleRoute("GET", f"{SUBJECT}/difference", self.difference),
        ]

    async def list_subjects(self, request: WebRequest) -> WebAnswer:
        """The subjects that the user may see, each with its latest version."""
        registry = found_registry(self._desk)
        if registry is None:
            return json({"has_registry": False, "subjects": [], "truncated": False})
        query = {"latestOnly": "true", "subjectPrefix": ":*:", "limit": str(SUBJECTS_SHOWN_MAX + 1)}
        found = await registry.ask(list[VersionAnswer], request, "GET", "/schemas", {}, query=query)
        rows = [
            {**_brief(latest), "level": await _level(registry, request, latest.subject)}
            for latest in found[:SUBJECTS_SHOWN_MAX]
        ]
        return json({"has_registry": True, "subjects": rows, "truncated": len(found) > len(rows)})

    async def show(self, request: WebRequest) -> WebAnswer:
        """A subject: its versions, its level, and its latest schema. Raises WebRefusal: 403, 404."""
        registry, subject = registry_of(self._desk), request.text("subject")
        named = {"subject": subject}
        versions = await registry.ask(list[int], request, "GET", "/subjects/{subject}/versions", named)
        latest = await self._version(request, "latest")
        shown = {
            "subject": subject,
            "versions": versions[-VERSIONS_SHOWN_MAX:],
            "truncated": len(versions) > VERSIONS_SHOWN_MAX,
            "own_level": await own_level(registry, request, subject),
            "level": await common_level(registry, request),
            "latest": _whole(latest),
        }
        return json(shown)

    async def version(self, request: WebRequest) -> WebAnswer:
        """One version of a subject. Raises WebRefusal: 403, 404, 422."""
        return json(_whole(await self._version(request, request.text("version"))))

    async def difference(self, request: WebRequest) -> WebAnswer:
        """The lines of two versions, `?from=1&to=2`. Raises WebRefusal: 403, 404, 422."""
        before = await self._version(request, request.query.get("from", ""))
        after = await self._version(request, request.query.get("to", "latest"))
        texts = [formatted(each.schema, _kind(each)) for each in (before, after)]
        # On another thread: two thousand lines that are all different take a while.
        told = await self._desk.blocking(partial(difference, texts[0][0], texts[1][0]))
        is_cut = told["is_cut"] or not all(is_whole for _, is_whole in texts)
        return json({**told, "is_cut": is_cut, "from": before.version, "to": after.version})

    async def _version(self, request: WebRequest, version: str) -> VersionAnswer:
        named = {"subject": request.text("subject"), "version": version}
        pattern = "/subjects/{subject}/versions/{version}"
        return await registry_of(self._desk).ask(VersionAnswer, request, "GET", pattern, named)


async def _level(registry: RegistryApi, request: WebRequest, subject: str) -> str | None:
    """The level that holds, also one of all: a question for the own one is refused where there is none, and counted.

    None where the registry is far away: the subject's own page asks it.
    """
    if not registry.is_near:
        return None
    named, query = {"subject": subject}, {"defaultToGlobal": "true"}
    answer = await registry.ask(LevelAnswer, request, "GET", "/config/{subject}", named, query=query)
    return answer.compatibilityLevel


def _kind(version: VersionAnswer) -> str:
    return version.schemaType or AVRO


def _brief(version: VersionAnswer) -> dict[str, Any]:
    return {"subject": version.subject, "version": version.version, "id": version.id, "type": _kind(version)}


def _whole(version: VersionAnswer) -> dict[str, Any]:
    text, is_whole = formatted(version.schema, _kind(version))
    extra = {"metadata": version.metadata, "ruleSet": version.ruleSet}
    given = {name: value for name, value in extra.items() if value is not None}
    references = version.references or []
    return {**_brief(version), "schema": text, "is_cut": not is_whole, "references": references, "extra": given or None}
