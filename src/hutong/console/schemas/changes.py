"""The routes that change schemas: a check before, registration, levels, and soft deletion.

Strategy: the registry checks rights, names, schemas and compatibility. What it refuses changes nothing.

Decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from hutong.console.routes import ConsoleRoute
from hutong.console.schemas.pages import SUBJECT, own_level, registry_of
from hutong.console.schemas.registry_api import CheckAnswer, RegisteredAnswer, VersionAnswer
from hutong.web.answers import WebAnswer, WebRefusal, json

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.web.requests import WebRequest

_DONE: Final = WebAnswer(204)


class SchemaReferenceBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The name by which a schema imports another one, and the place of that."""

    name: str
    subject: str
    version: int


class SchemaBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`type` is AVRO, JSON or PROTOBUF."""

    schema: str
    type: str = "AVRO"
    references: list[SchemaReferenceBody] = []

    def asked(self) -> dict[str, Any]:
        """The body as the registry has it."""
        references = msgspec.to_builtins(self.references)
        return {"schema": self.schema, "schemaType": self.type, "references": references}


class LevelBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """None: that of all subjects."""

    level: str | None = None


class SchemaChanges:
    """The routes that change, and the question before a registration."""

    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk

    def routes(self) -> list[ConsoleRoute]:
        versions = f"{SUBJECT}/versions"
        return [
            ConsoleRoute("POST", f"{versions}/preview", self.preview),
            ConsoleRoute("POST", versions, self.register, changes="schema.register"),
            ConsoleRoute("PUT", f"{SUBJECT}/level", self.set_level, changes="schema.level"),
            ConsoleRoute("DELETE", SUBJECT, self.delete_subject, changes="schema.delete"),
            ConsoleRoute("DELETE", f"{versions}/{{version}}", self.delete_version, changes="schema.delete"),
        ]

    async def preview(self, request: WebRequest) -> WebAnswer:
        """The troubles that the subject's level would have with a schema. Raises WebRefusal: 403, 422."""
        named, body = {"subject": request.text("subject")}, request.json(SchemaBody).asked()
        pattern, query = "/compatibility/subjects/{subject}/versions", {"verbose": "true"}
        registry = registry_of(self._desk)
        return json(await registry.ask(CheckAnswer, request, "POST", pattern, named, query=query, body=body))

    async def register(self, request: WebRequest) -> WebAnswer:
        """Give the subject a version more. Raises WebRefusal: 403, 409 with the troubles, 422."""
        subject, body = request.text("subject"), request.json(SchemaBody)
        pattern, named = "/subjects/{subject}/versions", {"subject": subject}
        registry, asked = registry_of(self._desk), body.asked()
        made = await registry.ask(RegisteredAnswer, request, "POST", pattern, named, body=asked)
        version = made.version
        if version is None:
            version = (
                await registry.ask(VersionAnswer, request, "POST", "/subjects/{subject}", named, body=asked)
            ).version
        shown = {"version": version, "id": made.id, "type": body.type}
        await self._desk.record(request, "schema.register", subject, after={**shown, "schema": body.schema})
        return json(shown, 201)

    async def set_level(self, request: WebRequest) -> WebAnswer:
        """Set the subject's level, or let that of all hold. Raises WebRefusal: 403, 404, 422."""
        registry, subject, level = registry_of(self._desk), request.text("subject"), request.json(LevelBody).level
        before, named = await own_level(registry, request, subject), {"subject": subject}
        if level is not None:
            await registry.ask(dict, request, "PUT", "/config/{subject}", named, body={"compatibility": level})
        elif before is not None:
            await registry.ask(dict, request, "DELETE", "/config/{subject}", named)
        await self._desk.record(request, "schema.level", subject, before, level)
        return _DONE

    async def delete_subject(self, request: WebRequest) -> WebAnswer:
        """Delete all versions softly: they are still found by their ids. Raises WebRefusal: 403, 404, 422."""
        subject = request.text("subject")
        registry, named = registry_of(self._desk), {"subject": subject}
        gone = await registry.ask(list[int], request, "DELETE", "/subjects/{subject}", named)
        await self._desk.record(request, "schema.delete", subject, before={"versions": gone})
        return json({"versions": gone})

    async def delete_version(self, request: WebRequest) -> WebAnswer:
        """Delete one version softly. Raises WebRefusal: 403, 404, 422."""
        named = {"subject": request.text("subject"), "version": request.text("version")}
        if not named["version"].isdecimal():
            raise WebRefusal(400, "Name a version by its number.", 40002)
        pattern = "/subjects/{subject}/versions/{version}"
        gone = await registry_of(self._desk).ask(int, request, "DELETE", pattern, named)
        await self._desk.record(request, "schema.delete", named["subject"], before={"versions": [gone]})
        return json({"versions": [gone]})
