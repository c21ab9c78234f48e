"""Confluent's REST API of a schema registry: paths, bodies, answers and error codes.

Strategy: a handler asks the service and shapes its answer. What is refused becomes `{"error_code", "message"}` with the
status that the code begins with. A path may begin with `/contexts/NAME`, which names the context of its subjects. What
a read does not find may have been recorded by another node a moment ago: it looks there before it says so. Rights to
a subject, or to all, are checked before the handler; lists are filtered, and an id needs a subject that may be seen.

Decides nothing.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, TypeAlias

import msgspec

from hutong.foundation.errors import Refused
from hutong.registry import names
from hutong.registry.changes import (
    Change,
    ChangeAnswer,
    DeleteSubject,
    DeleteVersion,
    RegisterSchema,
    SetLevel,
    SetMode,
)
from hutong.registry.checks import SCHEMA_TYPES
from hutong.registry.figures import OK
from hutong.registry.machine import RegistryMachine, no_level, no_mode
from hutong.registry.records import AVRO, decode_extra, encode_extra
from hutong.registry.rights import SubjectRights
from hutong.registry.service import RegistryService
from hutong.registry.values import (
    ID_MAX,
    RegistryCode,
    SchemaReference,
    SchemaText,
    SchemaVersion,
    level_of,
    mode_of,
    version_of,
)
from hutong.security.acls import Operation
from hutong.web.answers import WebAnswer, WebRefusal, json
from hutong.web.requests import WebRequest
from hutong.web.routes import WebRoute

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_TAKES: Final = (
    CONTENT_TYPE,
    "application/vnd.schemaregistry+json",
    "application/json",
    "application/octet-stream",
)
REFERENCES_MAX: Final = 256
Work: TypeAlias = Callable[[WebRequest], Awaitable[Any]]
CarryOut: TypeAlias = Callable[[Change], Awaitable[ChangeAnswer]]


class _ReferenceBody(msgspec.Struct):
    name: str
    subject: str
    version: int


class _SchemaBody(msgspec.Struct):
    """A schema as clients send it; members that are not known are ignored."""

    schema: str
    schemaType: str | None = None
    references: list[_ReferenceBody] | None = None
    metadata: dict[str, Any] | None = None
    ruleSet: dict[str, Any] | None = None
    id: int | None = None
    version: int | None = None


class _LevelBody(msgspec.Struct):
    compatibility: str | None = None


class _ModeBody(msgspec.Struct):
    mode: str


def refused(refusal: WebRefusal) -> WebAnswer:
    """The form of every refusal, those of HTTP among them."""
    answer = {"error_code": refusal.code, "message": refusal.message}
    return json(answer, refusal.status, CONTENT_TYPE, refusal.headers)


class RegistryRoutes:
    """All routes of one registry. `carry_out` makes changes; `cluster_id` is that of the node's cluster."""

    def __init__(
        self, service: RegistryService, carry_out: CarryOut, rights: SubjectRights, cluster_id: str, version: str
    ) -> None:
        self._service = service
        self._rights = rights
        self._carry_out = carry_out
        self._cluster_id = cluster_id
        self._version = version

    @property
    def routes(self) -> list[WebRoute]:
        filtered: list[tuple[str, str, Work]] = [
            ("GET", "/subjects", self.subjects),
            ("GET", "/schemas", self.schemas),
            ("GET", "/schemas/ids/{id:int}", self.by_id),
            ("GET", "/schemas/ids/{id:int}/schema", self.text_by_id),
            ("GET", "/schemas/ids/{id:int}/subjects", self.subjects_of_id),
            ("GET", "/schemas/ids/{id:int}/versions", self.versions_of_id),
        ]
        reads: list[tuple[str, str, Work]] = [
            ("POST", "/subjects/{subject}", self.look_up),
            ("GET", "/subjects/{subject}/versions", self.versions),
            ("GET", "/subjects/{subject}/versions/{version}", self.version),
            ("GET", "/subjects/{subject}/versions/{version}/schema", self.version_text),
            ("GET", "/subjects/{subject}/versions/{version}/referencedby", self.referenced_by),
            ("POST", "/compatibility/subjects/{subject}/versions", self.compare_all),
            ("POST", "/compatibility/subjects/{subject}/versions/{version}", self.compare),
            ("GET", "/config", self.level),
            ("GET", "/config/{subject}", self.level),
            ("GET", "/mode", self.mode),
            ("GET", "/mode/{subject}", self.mode),
        ]
        alterations: list[tuple[str, str, Work]] = [
            ("DELETE", "/subjects/{subject}", self.delete_subject),
            ("DELETE", "/subjects/{subject}/versions/{version}", self.delete_version),
            ("PUT", "/config", self.set_level),
            ("DELETE", "/config", self.remove_level),
            ("PUT", "/config/{subject}", self.set_level),
            ("DELETE", "/config/{subject}", self.remove_level),
            ("PUT", "/mode", self.set_mode),
            ("DELETE", "/mode", self.remove_mode),
            ("PUT", "/mode/{subject}", self.set_mode),
            ("DELETE", "/mode/{subject}", self.remove_mode),
        ]
        everywhere: list[tuple[str, str, Work]] = [
            ("GET", "/", _nothing),
            ("GET", "/schemas/types", _types),
            ("GET", "/contexts", self._permitted(self.contexts, Operation.DESCRIBE)),
            ("GET", "/v1/metadata/id", self.cluster),
            ("GET", "/v1/metadata/version", self.own_version),
        ]
        paths: list[tuple[str, str, Work]] = [
            *((method, path, self._reading(work)) for method, path, work in filtered),
            *((method, path, self._permitted(self._reading(work), Operation.DESCRIBE)) for method, path, work in reads),
            ("POST", "/subjects/{subject}/versions", self._permitted(self.register, Operation.WRITE)),
            *((method, path, self._permitted(work, Operation.ALTER)) for method, path, work in alterations),
        ]
        own = [self._route(method, path, work, path) for method, path, work in (*paths, *everywhere)]
        return own + [self._route(method, f"/contexts/{{context}}{path}", work, path) for method, path, work in paths]

    def _route(self, method: str, path: str, work: Work, name: str) -> WebRoute:
        """A route that is counted by its name: contexts are as many as clients make."""
        requests_total = self._service.figures.requests_total

        async def handle(request: WebRequest) -> WebAnswer:
            try:
                result = await work(request)
            except Refused as error:
                requests_total[method, name, str(error.code)] += 1
                # Codes of five digits begin with their status.
                status = error.code if error.code < 1_000 else error.code // 100
                raise WebRefusal(status, error.message, error.code) from error
            except WebRefusal as refusal:
                requests_total[method, name, str(refusal.code)] += 1
                raise
            requests_total[method, name, OK] += 1
            return result if isinstance(result, WebAnswer) else json(result, 200, CONTENT_TYPE)

        return WebRoute(method, path, handle, _TAKES)

    def _permitted(self, work: Work, operation: Operation) -> Work:
        async def checked(request: WebRequest) -> Any:
            self._rights.check(request, operation, _scope(request))
            return await work(request)

        return checked

    def _reading(self, work: Work) -> Work:
        async def reading(request: WebRequest) -> Any:
            try:
                return await work(request)
            except Refused as refused:
                # Also a schema is invalid where what it imports is not found.
                is_missing = refused.code // 100 == 404 or refused.code == RegistryCode.INVALID_SCHEMA
                if not is_missing or not await self._service.refreshed():
                    raise
            return await work(request)

        return reading

    def _given(self, request: WebRequest, body: _SchemaBody) -> SchemaText:
        """The schema of a request, whose client may see what it imports. Raises Refused."""
        text = _text(body)
        for reference in text.references:
            self._rights.check(request, Operation.DESCRIBE, names.qualified(reference.subject, _context(request)))
        return text

    # Subjects and versions.

    async def subjects(self, request: WebRequest) -> list[str]:
        machine = await self._service.state()
        prefix = request.query.get("subjectPrefix", ":*:" if "context" not in request.parameters else "")
        found = machine.subjects(with_deleted=request.flag("deleted"), only_deleted=request.flag("deletedOnly"))
        return [each for each in _within(found, _context(request), prefix) if self._rights.may_see(request, each)]

    async def look_up(self, request: WebRequest) -> dict[str, Any]:
        found = await self._service.find(
            _subject(request),
            self._given(request, request.json(_SchemaBody)),
            normalize=request.flag("normalize"),
            with_deleted=request.flag("deleted"),
        )
        return shown(found)

    async def register(self, request: WebRequest) -> dict[str, Any]:
        body = request.json(_SchemaBody)
        # Clients that always send these mean none by numbers that are none.
        schema_id = body.id if body.id is not None and body.id > 0 else None
        number = body.version if body.version is not None and body.version > 0 else None
        asked = RegisterSchema(
            _subject(request), self._given(request, body), request.flag("normalize"), schema_id, number
        )
        # Most registrations are those of producers that start again.
        made = await self._service.registered(asked) or await self._carry_out(asked)
        return {"id": made.id, "version": made.version}

    async def delete_subject(self, request: WebRequest) -> list[int]:
        change = DeleteSubject(_subject(request), request.flag("permanent"))
        return [*(await self._carry_out(change)).versions]

    async def versions(self, request: WebRequest) -> list[int]:
        machine = await self._service.state()
        found = machine.versions(
            _subject(request), with_deleted=request.flag("deleted"), only_deleted=request.flag("deletedOnly")
        )
        return _page([each.version for each in found], request)

    async def version(self, request: WebRequest) -> dict[str, Any]:
        found = await self._version_of(request)
        return shown(replace(found, text=await self._formatted(found.text, names.split(found.subject)[0], request)))

    async def version_text(self, request: WebRequest) -> WebAnswer:
        return _raw((await self._version_of(request)).text)

    async def delete_version(self, request: WebRequest) -> int:
        number = version_of(request.text("version"))
        change = DeleteVersion(_subject(request), number, request.flag("permanent"))
        return (await self._carry_out(change)).version

    async def referenced_by(self, request: WebRequest) -> list[int]:
        machine = await self._service.state()
        return sorted({each.id for each in machine.referenced_by(await self._version_of(request))})

    async def _version_of(self, request: WebRequest) -> SchemaVersion:
        machine = await self._service.state()
        number = version_of(request.text("version"))
        return machine.version(_subject(request), number, with_deleted=request.flag("deleted"))

    # Schemas by their ids.

    async def schemas(self, request: WebRequest) -> list[dict[str, Any]]:
        machine = await self._service.state()
        found = list(machine.every(with_deleted=request.flag("deleted")))
        if request.flag("latestOnly"):
            found = list({each.subject: each for each in found}.values())
        prefix = request.query.get("subjectPrefix", "")
        within = set(_within([each.subject for each in found], _context(request), prefix))
        within = {each for each in within if self._rights.may_see(request, each)}
        return [shown(each) for each in _page([each for each in found if each.subject in within], request)]

    async def by_id(self, request: WebRequest) -> dict[str, Any]:
        machine = await self._service.state()
        context, text = self._text_of_id(machine, request)
        answer = shown_text(await self._formatted(text, context, request))
        if request.flag("fetchMaxId"):
            answer["maxId"] = machine.last_id(context)
        return answer

    async def _formatted(self, text: SchemaText, context: str, request: WebRequest) -> SchemaText:
        """The text in the form that the client asks for; forms that are not known change nothing."""
        is_serialized = request.query.get("format") == "serialized"
        return await self._service.serialized(text, context) if is_serialized else text

    async def text_by_id(self, request: WebRequest) -> WebAnswer:
        machine = await self._service.state()
        return _raw(self._text_of_id(machine, request)[1])

    async def subjects_of_id(self, request: WebRequest) -> list[str]:
        return sorted({each.subject for each in await self._users(request)})

    async def versions_of_id(self, request: WebRequest) -> list[dict[str, Any]]:
        return [{"subject": each.subject, "version": each.version} for each in await self._users(request)]

    async def _users(self, request: WebRequest) -> list[SchemaVersion]:
        machine = await self._service.state()
        context = self._context_of_id(machine, request)
        found = machine.users(context, request.number("id"), with_deleted=request.flag("deleted"))
        return [each for each in found if self._rights.may_see(request, each.subject)]

    def _text_of_id(self, machine: RegistryMachine, request: WebRequest) -> tuple[str, SchemaText]:
        """A schema and its context. Raises Refused."""
        context, number = self._context_of_id(machine, request), request.number("id")
        text = machine.text(context, number)
        if not self._rights.may_see_one(request, machine.subjects_of(context, number)):
            raise Refused(
                RegistryCode.FORBIDDEN, f"{request.principal} needs DESCRIBE on a topic with schema {number}."
            )
        return context, text

    def _context_of_id(self, machine: RegistryMachine, request: WebRequest) -> str:
        """The context in which an id is looked up: that of the subject that the client names, if it names one."""
        subject = request.query.get("subject", "")
        context = _context(request)
        if subject:
            own = names.split(subject)[0]
            return own if subject.startswith(":.") else context
        return context

    # Compatibility.

    async def compare(self, request: WebRequest) -> dict[str, Any]:
        number = version_of(request.text("version"))
        return await self._compared(request, number, is_all=False)

    async def compare_all(self, request: WebRequest) -> dict[str, Any]:
        return await self._compared(request, None, is_all=True)

    async def _compared(self, request: WebRequest, number: int | None, *, is_all: bool) -> dict[str, Any]:
        body = request.json(_SchemaBody)
        troubles = await self._service.compare(
            _subject(request), self._given(request, body), number, is_all=is_all, normalize=request.flag("normalize")
        )
        answer: dict[str, Any] = {"is_compatible": not troubles}
        return answer | ({"messages": troubles} if request.flag("verbose") else {})

    # Levels and modes.

    async def level(self, request: WebRequest) -> dict[str, Any]:
        machine, scope = await self._service.state(), _scope(request)
        own = machine.own_level(scope)
        if own is None and scope is not None and not request.flag("defaultToGlobal"):
            raise no_level(scope)
        return {"compatibilityLevel": (own or machine.level(scope)).value}

    async def set_level(self, request: WebRequest) -> dict[str, Any]:
        level = level_of(request.json(_LevelBody).compatibility or "")
        return {"compatibility": (await self._carry_out(SetLevel(_scope(request), level))).setting}

    async def remove_level(self, request: WebRequest) -> dict[str, Any]:
        return {"compatibilityLevel": (await self._carry_out(SetLevel(_scope(request), None))).setting}

    async def mode(self, request: WebRequest) -> dict[str, Any]:
        machine, scope = await self._service.state(), _scope(request)
        own = machine.own_mode(scope)
        if own is None and scope is not None and not request.flag("defaultToGlobal"):
            raise no_mode(scope)
        return {"mode": (own or machine.mode(scope)).value}

    async def set_mode(self, request: WebRequest) -> dict[str, Any]:
        mode = mode_of(request.json(_ModeBody).mode)
        change = SetMode(_scope(request), mode, request.flag("force"))
        return {"mode": (await self._carry_out(change)).setting}

    async def remove_mode(self, request: WebRequest) -> dict[str, Any]:
        return {"mode": (await self._carry_out(SetMode(_scope(request), None))).setting}

    # About the registry.

    async def contexts(self, _request: WebRequest) -> list[str]:
        return (await self._service.state()).contexts

    async def cluster(self, _request: WebRequest) -> dict[str, Any]:
        clusters = {"kafka-cluster": self._cluster_id, "schema-registry-cluster": "schema-registry"}
        return {"id": "", "scope": {"path": [], "clusters": clusters}}

    async def own_version(self, _request: WebRequest) -> dict[str, Any]:
        return {"version": self._version, "commitId": ""}


async def _nothing(_request: WebRequest) -> dict[str, Any]:
    return {}


async def _types(_request: WebRequest) -> list[str]:
    return list(SCHEMA_TYPES)


def shown(version: SchemaVersion) -> dict[str, Any]:
    """A version as the API shows it."""
    answer: dict[str, Any] = {"subject": version.subject, "version": version.version, "id": version.id}
    return answer | shown_text(version.text)


def shown_text(text: SchemaText) -> dict[str, Any]:
    """A schema as the API shows it. Avro is not named: readers of old versions know nothing else."""
    answer: dict[str, Any] = {} if text.schema_type == AVRO else {"schemaType": text.schema_type}
    if text.references:
        answer["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version} for each in text.references
        ]
    return answer | decode_extra(text) | {"schema": text.schema}


def _raw(text: SchemaText) -> WebAnswer:
    return WebAnswer(200, text.schema.encode(), CONTENT_TYPE)


def _text(body: _SchemaBody) -> SchemaText:
    """Raises Refused."""
    references = body.references or []
    if len(references) > REFERENCES_MAX:
        raise Refused(RegistryCode.INVALID_SCHEMA, f"Invalid schema: it has more than {REFERENCES_MAX} references")
    found = tuple(SchemaReference(each.name, each.subject, each.version) for each in references)
    kind = (body.schemaType or AVRO).upper()
    return SchemaText(kind, body.schema, found, encode_extra(body.metadata, body.ruleSet))


def _context(request: WebRequest) -> str:
    return names.context_of_path(request.text("context")) if "context" in request.parameters else names.DEFAULT_CONTEXT


def _subject(request: WebRequest) -> str:
    """Raises Refused."""
    return names.qualified(request.text("subject"), _context(request))


def _scope(request: WebRequest) -> str | None:
    """The subject or context whose settings are meant; None for those of all."""
    if "subject" in request.parameters:
        return _subject(request)
    return None if "context" not in request.parameters else names.scope_of(_context(request))


def _within(subjects: list[str], context: str, prefix: str) -> list[str]:
    """Those with the prefix. `:*:` means all contexts, a prefix without a context for the one of the path."""
    if prefix.startswith(":*:"):
        name = prefix.removeprefix(":*:")
        return [each for each in subjects if names.split(each)[1].startswith(name)]
    if prefix.startswith(":."):
        own, name = names.split(prefix)
        return [each for each in subjects if names.split(each)[0] == own and names.split(each)[1].startswith(name)]
    return [each for each in subjects if names.split(each)[0] == context and names.split(each)[1].startswith(prefix)]


def _page(found: list[Any], request: WebRequest) -> list[Any]:
    offset = request.integer("offset", 0, 0, ID_MAX)
    limit = request.integer("limit", -1, -1, ID_MAX)
    return found[offset : None if limit < 0 else offset + limit]
