"""Bodies to records: schemas are found first, each once, then values are encoded on another thread.

Strategy: a record whose schema or data are wrong is refused by itself, and the others of its request are stored. What
needs no schema stays on the loop. A new schema is registered once a value is of it, so that a wrong first value leaves
nothing in the subject. (Confluent's proxy registers first.)

Knows no format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from hutong.bus.durable.records import OutgoingRecord
from hutong.foundation.errors import PeerError
from hutong.rest.limits import SCHEMAS_OF_REQUEST_MAX
from hutong.rest.records.schemas import (
    NO_REGISTRY,
    ChosenSchema,
    SchemaChoice,
    SchemasNow,
    ValueWriter,
    choice_of,
)
from hutong.rest.records.v3_bodies import Payload, RecordBody, bytes_of, record_of
from hutong.web.answers import WebRefusal

if TYPE_CHECKING:
    from hutong.rest.gateway import Gateway
    from hutong.web.requests import WebRequest

Found: TypeAlias = Mapping[SchemaChoice, ChosenSchema | WebRefusal]
Registered: TypeAlias = Mapping[ChosenSchema, ChosenSchema | WebRefusal]


@dataclass(frozen=True, slots=True)
class EncodedRecord:
    """A record, and the schemas of its key and value where they have one."""

    record: OutgoingRecord
    key_schema: ChosenSchema | None = None
    value_schema: ChosenSchema | None = None


@dataclass(frozen=True, slots=True)
class _Payload:
    """The bytes of a key or a value, without the id of its schema if it has one."""

    data: bytes | None
    schema: ChosenSchema | None = None


class RecordEncoder:
    """Encodes the records of requests."""

    def __init__(self, gateway: Gateway, schemas: SchemasNow) -> None:
        self._gateway = gateway
        self._schemas = schemas

    async def records(self, request: WebRequest, bodies: Sequence[RecordBody]) -> list[EncodedRecord | WebRefusal]:
        """The records in order, a refusal in the place of each that is none."""
        topic = request.text("topic")
        choices = _choices(topic, bodies)
        if not choices:
            return [_record(topic, body, _payloads(topic, body, {}, None), {}) for body in bodies]
        found, writer = await self.chosen(request, choices)
        payloads = await self._gateway.blocking(lambda: [_payloads(topic, body, found, writer) for body in bodies])
        used = [payload.schema for each in payloads if not isinstance(each, WebRefusal) for payload in each]
        registered = await self.registered(used)
        return [_record(topic, *each, registered) for each in zip(bodies, payloads, strict=True)]

    async def chosen(self, request: WebRequest, choices: Sequence[SchemaChoice]) -> tuple[Found, ValueWriter | None]:
        """The schemas of one request's choices, or their refusals. Raises WebRefusal for too many choices."""
        schemas = self._schemas()
        if schemas is None:
            return dict.fromkeys(choices, no_registry()), None
        if len(choices) > SCHEMAS_OF_REQUEST_MAX:
            raise WebRefusal(413, f"a request names at most {SCHEMAS_OF_REQUEST_MAX} schemas", 41301)
        found: dict[SchemaChoice, ChosenSchema | WebRefusal] = {}
        for choice in choices:
            try:
                found[choice] = await schemas.choose(choice, request)
            except WebRefusal as refusal:
                found[choice] = refusal
        return found, schemas.writer()

    async def registered(self, used: Iterable[ChosenSchema | None]) -> Registered:
        """The schemas that values are of, or refusals: those that are new, with their ids."""
        schemas = self._schemas()
        found: dict[ChosenSchema, ChosenSchema | WebRefusal] = {}
        for schema in used:
            if schema is None or schema in found:
                continue
            assert schemas is not None, "a schema was found, so there is a registry"
            try:
                found[schema] = schema if schema.new is None else await schemas.register(schema)
            except WebRefusal as refusal:
                found[schema] = refusal
        return found


def _choices(topic: str, bodies: Sequence[RecordBody]) -> list[SchemaChoice]:
    """The different choices of all records. What is wrong is found again when its record is encoded."""
    found: dict[SchemaChoice, None] = {}
    for body in bodies:
        for payload, is_key in ((body.key, True), (body.value, False)):
            if payload is None or payload.data is None:
                continue
            try:
                choice = choice_of(payload, topic, is_key=is_key)
            except WebRefusal:
                continue
            if choice is not None:
                found[choice] = None
    return [*found]


def _payloads(
    topic: str, body: RecordBody, found: Found, writer: ValueWriter | None
) -> tuple[_Payload, _Payload] | WebRefusal:
    """The key and the value."""
    try:
        encode = partial(_encoded, topic, found=found, writer=writer)
        return encode(body.key, is_key=True), encode(body.value, is_key=False)
    # Others of the same request are stored all the same.
    except WebRefusal as refusal:
        return refusal


def _record(
    topic: str, body: RecordBody, payloads: tuple[_Payload, _Payload] | WebRefusal, registered: Registered
) -> EncodedRecord | WebRefusal:
    if isinstance(payloads, WebRefusal):
        return payloads
    try:
        (key, key_schema), (value, value_schema) = (framed(each.data, each.schema, registered) for each in payloads)
        return EncodedRecord(record_of(topic, body, key, value), key_schema, value_schema)
    except WebRefusal as refusal:
        return refusal


def framed(
    data: bytes | None, schema: ChosenSchema | None, registered: Registered
) -> tuple[bytes | None, ChosenSchema | None]:
    """The bytes with the id of their schema, and that schema as it is registered. Raises WebRefusal."""
    if data is None or schema is None:
        return data, None
    known = registered[schema]
    if isinstance(known, WebRefusal):
        raise known
    return known.framed(data), known


def _encoded(
    topic: str, payload: Payload | None, *, is_key: bool, found: Found, writer: ValueWriter | None
) -> _Payload:
    if payload is None or payload.data is None:
        return _Payload(None)
    what = "the key" if is_key else "the value"
    choice = choice_of(payload, topic, is_key=is_key)
    if choice is None:
        return _Payload(bytes_of(payload, what))
    schema = found[choice]
    if isinstance(schema, WebRefusal):
        raise schema
    return _Payload(written(writer, schema, payload.data, what), schema)


def written(writer: ValueWriter | None, schema: ChosenSchema, data: object, what: str) -> bytes:
    """The bytes of a value by its schema, without the id. Raises WebRefusal(400)."""
    assert writer is not None, "a schema was found, so there is a registry"
    try:
        return writer.write(schema, data)
    except PeerError as error:
        named = f"{schema.subject} {schema.version}" if schema.new is None else f"for {schema.subject}"
        raise WebRefusal(400, f"{what} is not of its schema {named}: {error}") from None


def no_registry() -> WebRefusal:
    return WebRefusal(
        422,
        "Payload error. Schema Registry must be configured when using schemas: give the node schema_registry.listen.",
        NO_REGISTRY,
    )
