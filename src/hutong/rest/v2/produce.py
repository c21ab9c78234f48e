"""Producing and topics of the v2 API.

Decides nothing about bytes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from hutong.bus.durable.outcomes import Stored
from hutong.bus.durable.records import OutgoingRecord
from hutong.rest.limits import CALL_S_MAX, RECORDS_OF_REQUEST_MAX
from hutong.rest.records.encoding import RecordEncoder, written
from hutong.rest.records.publishing import Outcome, publish
from hutong.rest.records.schemas import ChosenSchema, SchemaChoice, ValueWriter
from hutong.rest.v2.forms import BODY_TYPES, OF_SCHEMAS, V2_JSON, encode, form_of
from hutong.web.answers import WebAnswer, WebRefusal, json
from hutong.web.routes import WebRoute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hutong.rest.gateway import Gateway
    from hutong.web.requests import WebRequest

_RETRIABLE, _FATAL = 2, 1  # codes of the v2 API for a record that was not stored


class RecordV2(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    value: Any = None
    key: Any = None
    partition: int | None = None


class RecordsV2(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The schemas are those of all records, for the forms that have some: the text, or the id."""

    records: list[RecordV2]
    key_schema: str | None = None
    key_schema_id: int | None = None
    value_schema: str | None = None
    value_schema_id: int | None = None


class ProduceV2:
    """The routes to topics."""

    def __init__(self, gateway: Gateway, encoder: RecordEncoder) -> None:
        self._gateway = gateway
        self._encoder = encoder

    def routes(self) -> list[WebRoute]:
        return [
            WebRoute("GET", "/topics", self.list_topics),
            WebRoute("GET", "/topics/{topic}", self.show_topic),
            WebRoute("GET", "/topics/{topic}/partitions", self.list_partitions),
            WebRoute("GET", "/brokers", self.list_brokers),
            WebRoute("POST", "/topics/{topic}", self.produce, takes=BODY_TYPES),
            WebRoute("POST", "/topics/{topic}/partitions/{partition:int}", self.produce, takes=BODY_TYPES),
        ]

    async def list_topics(self, request: WebRequest) -> WebAnswer:
        account = await self._gateway.account(request)
        found = await self._gateway.blocking(lambda: account.admin.list_topics(timeout=CALL_S_MAX))
        return json(sorted(found.topics), content_type=V2_JSON)

    async def show_topic(self, request: WebRequest) -> WebAnswer:
        name = request.text("topic")
        topic = await self._gateway.described_topic(await self._gateway.account(request), name)
        return json({"name": name, "configs": {}, "partitions": _partitions(topic)}, content_type=V2_JSON)

    async def list_partitions(self, request: WebRequest) -> WebAnswer:
        topic = await self._gateway.described_topic(await self._gateway.account(request), request.text("topic"))
        return json(_partitions(topic), content_type=V2_JSON)

    async def list_brokers(self, request: WebRequest) -> WebAnswer:
        account = await self._gateway.account(request)
        found = await self._gateway.blocking(lambda: account.admin.list_topics(timeout=CALL_S_MAX))
        return json({"brokers": sorted(found.brokers)}, content_type=V2_JSON)

    async def produce(self, request: WebRequest) -> WebAnswer:
        account = await self._gateway.account(request)
        body, form = request.json(RecordsV2), form_of(request.headers.get("content-type", ""))
        bodies = body.records
        if not 1 <= len(bodies) <= RECORDS_OF_REQUEST_MAX:
            raise WebRefusal(422, f"a request has 1 to {RECORDS_OF_REQUEST_MAX} records", 42206)
        topic, of_path = request.text("topic"), request.parameters.get("partition")
        choices = _choices(topic, body, form) if form in OF_SCHEMAS else (None, None)
        key, value = await self._encoders(request, form, *choices)
        make = partial(_payloads, bodies, of_path, key, value)
        payloads = make() if form not in OF_SCHEMAS else await self._gateway.blocking(make)
        # All values are of their schemas, so that a request with a wrong one has registered none.
        key_schema, value_schema = await self._registered(key.schema), await self._registered(value.schema)
        records = [
            OutgoingRecord(topic, _framed(of_key, key_schema), _framed(of_value, value_schema), [], partition)
            for of_key, of_value, partition in payloads
        ]
        outcomes = await publish(account.publisher, records)
        # Nobody may write here, or nothing is here: that is of the request, not of one record.
        if isinstance(outcomes[0], WebRefusal) and outcomes[0].status in (403, 404):
            raise outcomes[0]
        answer = {
            "offsets": [*map(_offset, outcomes)],
            "key_schema_id": None if key_schema is None else key_schema.id,
            "value_schema_id": None if value_schema is None else value_schema.id,
        }
        return json(answer, content_type=V2_JSON)

    async def _encoders(
        self, request: WebRequest, form: str, of_key: SchemaChoice | None, of_value: SchemaChoice | None
    ) -> tuple[_Encoder, _Encoder]:
        """The encoders of keys and of values. Raises WebRefusal where a schema cannot be used."""
        choices = [choice for choice in (of_key, of_value) if choice is not None]
        if not choices:
            return _Encoder(form), _Encoder(form)
        found, writer = await self._encoder.chosen(request, choices)
        schemas = [None if choice is None else found[choice] for choice in (of_key, of_value)]
        for schema in schemas:
            if isinstance(schema, WebRefusal):
                raise schema
        of_key_found, of_value_found = (schema for schema in schemas if not isinstance(schema, WebRefusal))
        return _Encoder(form, of_key_found, writer), _Encoder(form, of_value_found, writer)

    async def _registered(self, schema: ChosenSchema | None) -> ChosenSchema | None:
        """The schema with its id. Raises WebRefusal."""
        if schema is None:
            return None
        known = (await self._encoder.registered([schema]))[schema]
        if isinstance(known, WebRefusal):
            raise known
        return known


class _Encoder:
    """Encodes the keys, or the values, of one request."""

    def __init__(self, form: str, schema: ChosenSchema | None = None, writer: ValueWriter | None = None) -> None:
        self.schema = schema
        self._form = form
        self._writer = writer

    def encode(self, value: Any) -> bytes | None:
        """The bytes without the id of the schema. Raises WebRefusal(422)."""
        # Null is none at all; by v2 also where its schema has null.
        if value is None or self._form not in OF_SCHEMAS:
            return encode(value, self._form)
        assert self.schema is not None, "a request with values names their schema"
        try:
            return written(self._writer, self.schema, value, "a key or a value")
        except WebRefusal as refusal:
            raise WebRefusal(422, f"Conversion of JSON failed: {refusal.message}", 42203) from None


def _choices(topic: str, body: RecordsV2, form: str) -> tuple[SchemaChoice | None, SchemaChoice | None]:
    """The schemas that a request asks for. Raises WebRefusal(422) where keys or values have none."""
    of_key = _choice(topic, form, body.key_schema, body.key_schema_id, is_key=True)
    of_value = _choice(topic, form, body.value_schema, body.value_schema_id, is_key=False)
    if of_key is None and any(record.key is not None for record in body.records):
        raise WebRefusal(422, "Request includes keys but does not include key schema", 42201)
    if of_value is None and any(record.value is not None for record in body.records):
        raise WebRefusal(422, "Request includes values but does not include value schema", 42202)
    return of_key, of_value


def _choice(topic: str, form: str, schema: str | None, schema_id: int | None, *, is_key: bool) -> SchemaChoice | None:
    if schema is None and schema_id is None:
        return None
    # By the API's rule the id comes first: clients send both when they have learnt it.
    text = schema if schema_id is None else None
    return SchemaChoice(topic, is_key, OF_SCHEMAS[form], schema_id=schema_id, schema=text)


def _payloads(
    bodies: Sequence[RecordV2], of_path: str | int | None, key: _Encoder, value: _Encoder
) -> list[tuple[bytes | None, bytes | None, int | None]]:
    """Key, value and partition of each record."""
    return [(key.encode(body.key), value.encode(body.value), _partition(body, of_path)) for body in bodies]


def _framed(payload: bytes | None, schema: ChosenSchema | None) -> bytes | None:
    return payload if payload is None or schema is None else schema.framed(payload)


def _partition(body: RecordV2, of_path: str | int | None) -> int | None:
    """Raises WebRefusal(422)."""
    partition = body.partition if of_path is None else int(of_path)
    if partition is not None and not 0 <= partition < 2**31:
        raise WebRefusal(422, f"{partition} is no number of a partition", 42206)
    return partition


def _offset(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Stored):
        return {"partition": outcome.partition, "offset": outcome.offset, "error_code": None, "error": None}
    code = _RETRIABLE if outcome.status in (429, 503) else _FATAL
    return {"partition": None, "offset": None, "error_code": code, "error": outcome.message}


def _partitions(topic: Any) -> list[dict[str, Any]]:
    return [
        {
            "partition": partition.id,
            "leader": None if partition.leader is None else partition.leader.id,
            "replicas": [
                {"broker": node.id, "leader": node == partition.leader, "in_sync": node in partition.isr}
                for node in partition.replicas
            ],
        }
        for partition in topic.partitions
    ]
