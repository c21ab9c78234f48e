"""Schemas for records that come by HTTP: the registry as the gateway sees it (`rest/records/schemas.py`).

Strategy: rights are those of the registry's own API. A schema that a subject has already is found by those who may see
the subject; only a new one needs the right to register. What is not here may have been registered at another node a
moment ago, so the registry looks there before it says so.

Decides nothing: `machine` and `checks` do.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeAlias, TypeVar

from hutong.foundation.errors import Refused
from hutong.registry import names
from hutong.registry.changes import Change, ChangeAnswer, RegisterSchema
from hutong.registry.formats.writing.steps import WriteSteps
from hutong.registry.reading import WrittenBySchema
from hutong.registry.rights import SubjectRights
from hutong.registry.service import RegistryService
from hutong.registry.values import RegistryCode, SchemaText, SchemaVersion
from hutong.rest.records.schemas import (
    INVALID_SCHEMA,
    JSONSCHEMA,
    NOT_SERIALIZED,
    TOPIC_NAME,
    ChosenSchema,
    SchemaChoice,
)
from hutong.security.acls import Operation
from hutong.web.answers import WebRefusal
from hutong.web.requests import WebRequest

CarryOut: TypeAlias = Callable[[Change], Awaitable[ChangeAnswer]]
T = TypeVar("T")


class RegistryWriterOfValues:
    """Writes the values of one request, whose steps have a bound together."""

    def __init__(self) -> None:
        self._steps = WriteSteps()

    def write(self, schema: ChosenSchema, value: Any) -> bytes:
        """Raises ProtocolError."""
        known: WrittenBySchema = schema.schema
        return known.write(value, self._steps)


class RegistryReader:
    """Reads the values of one schema."""

    def __init__(self, schema: WrittenBySchema) -> None:
        self.type = _kind(schema.type)
        self.read = schema.read_json


class RegistrySchemas:
    """Finds schemas, and registers those that are new once a value is of them."""

    def __init__(self, service: RegistryService, carry_out: CarryOut, rights: SubjectRights) -> None:
        self._service = service
        self._carry_out = carry_out
        self._rights = rights

    def writer(self) -> RegistryWriterOfValues:
        return RegistryWriterOfValues()

    async def choose(self, choice: SchemaChoice, request: WebRequest) -> ChosenSchema:
        """Raises WebRefusal."""
        try:
            return await self._seen(lambda: self._choose(choice, request))
        except Refused as refused:
            raise _refusal(refused) from None

    async def register(self, schema: ChosenSchema) -> ChosenSchema:
        """Raises WebRefusal."""
        asked: RegisterSchema = schema.new
        try:
            made = await self._carry_out(asked)
        except Refused as refused:
            raise _refusal(refused) from None
        return ChosenSchema(schema.type, asked.subject, made.version, made.id, schema.schema)

    async def readers(self, ids: Collection[int], request: WebRequest) -> dict[int, RegistryReader]:
        """The schemas of these ids that are there, and that the client may see. Raises WebRefusal(503)."""
        try:
            found = await self._service.writers(ids)
            if len(found) < len(ids) and await self._service.refreshed():
                found = await self._service.writers(ids)
            machine = await self._service.state()
        except Refused as refused:
            raise _refusal(refused) from None
        seen = [
            schema_id
            for schema_id in found
            if self._rights.may_see_one(request, machine.subjects_of(names.DEFAULT_CONTEXT, schema_id))
        ]
        return {schema_id: RegistryReader(found[schema_id]) for schema_id in seen}

    async def _seen(self, find: Callable[[], Awaitable[T]]) -> T:
        """The outcome here, or with what only the node that writes may have as yet. Raises Refused."""
        try:
            return await find()
        except Refused as refused:
            is_missing = refused.code // 100 == 404 or refused.code == RegistryCode.INVALID_SCHEMA
            if not is_missing or not await self._service.refreshed():
                raise
        return await find()

    async def _choose(self, choice: SchemaChoice, request: WebRequest) -> ChosenSchema:
        if choice.schema is not None:
            return await self._by_text(choice, choice.schema, request)
        if choice.schema_id is not None:
            return await self._by_id(choice, choice.schema_id, request)
        # By version, or the latest: no schema is known that could name the subject.
        subject = names.qualified(choice.subject_for(""))
        self._rights.check(request, Operation.DESCRIBE, subject)
        machine = await self._service.state()
        found = machine.version(subject, choice.schema_version)
        return await self._chosen(choice, found)

    async def _by_text(self, choice: SchemaChoice, schema: str, request: WebRequest) -> ChosenSchema:
        text = SchemaText("JSON" if choice.type == JSONSCHEMA else str(choice.type), schema)
        # What others have registered has no part in it: references are given to the registry's own API.
        needs_name = choice.subject is None and choice.strategy != TOPIC_NAME
        name = (await self._service.written_by(text, names.DEFAULT_CONTEXT)).record_name if needs_name else ""
        subject = names.qualified(choice.subject_for(name))
        self._rights.check(request, Operation.DESCRIBE, subject)
        asked = RegisterSchema(subject, text)
        found = await self._service.registered(asked)
        if found is not None:
            return await self._chosen(choice, found)
        self._rights.check(request, Operation.WRITE, subject)
        known = await self._service.written_by(text, names.split(subject)[0])
        return ChosenSchema(_kind(text.schema_type), subject, 0, 0, known, asked)

    async def _by_id(self, choice: SchemaChoice, schema_id: int, request: WebRequest) -> ChosenSchema:
        context = names.DEFAULT_CONTEXT if choice.subject is None else names.split(choice.subject)[0]
        machine = await self._service.state()
        text = machine.text(context, schema_id)
        if not self._rights.may_see_one(request, machine.subjects_of(context, schema_id)):
            why = f"{request.principal} needs DESCRIBE on a topic with schema {schema_id}."
            raise Refused(RegistryCode.FORBIDDEN, why)
        name = (await self._service.written_by(text, context)).record_name
        subject = names.qualified(choice.subject_for(name))
        found = machine.find(subject, text)
        if found is None:
            raise Refused(RegistryCode.SCHEMA_NOT_FOUND, f"Schema {schema_id} is no version of subject {subject}.")
        return await self._chosen(choice, found)

    async def _chosen(self, choice: SchemaChoice, found: SchemaVersion) -> ChosenSchema:
        kind = _kind(found.text.schema_type)
        if choice.type not in (None, kind):
            raise WebRefusal(400, f"schema {found.id} of subject {found.subject} has the type {kind}")
        schema = await self._service.written_by(found.text, names.split(found.subject)[0])
        return ChosenSchema(kind, found.subject, found.version, found.id, schema)


def _kind(schema_type: str) -> str:
    """The word of the proxy's API for a type of the registry."""
    return JSONSCHEMA if schema_type == "JSON" else schema_type


def _refusal(refused: Refused) -> WebRefusal:
    """The refusal with the code that Confluent's proxy has for it."""
    match refused.code:
        case RegistryCode.FORBIDDEN:
            return WebRefusal(403, refused.message, 40301)
        case RegistryCode.INVALID_SCHEMA:
            return WebRefusal(422, refused.message, INVALID_SCHEMA)
        case RegistryCode.VERSION_NOT_FOUND:
            return WebRefusal(400, refused.message)
        case code if code // 10_000 == 5:
            return WebRefusal(503, refused.message, 50301)
        case _:
            return WebRefusal(422, f"Error serializing message. {refused.message}", NOT_SERIALIZED)
