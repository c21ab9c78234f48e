"""Producing and topics of the v2 API.

Decides nothing about bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hutong.bus.durable.outcomes import Stored
from hutong.bus.durable.records import OutgoingRecord
from hutong.rest.limits import CALL_S_MAX, RECORDS_OF_REQUEST_MAX
from hutong.rest.records.publishing import Outcome, publish
from hutong.rest.v2.forms import BODY_TYPES, V2_JSON, encode, form_of
from hutong.web.answers import WebAnswer, WebRefusal, json
from hutong.web.routes import WebRoute

if TYPE_CHECKING:
    from hutong.rest.gateway import Gateway
    from hutong.web.requests import WebRequest

_RETRIABLE, _FATAL = 2, 1  # codes of the v2 API for a record that was not stored


class RecordV2(msgspec.Struct, frozen=True):
    value: Any = None
    key: Any = None
    partition: int | None = None


class RecordsV2(msgspec.Struct, frozen=True):
    records: list[RecordV2]


class ProduceV2:
    """The routes to topics."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

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
        bodies, form = request.json(RecordsV2).records, form_of(request.headers.get("content-type", ""))
        if not 1 <= len(bodies) <= RECORDS_OF_REQUEST_MAX:
            raise WebRefusal(422, f"a request has 1 to {RECORDS_OF_REQUEST_MAX} records", 42206)
        of_path = request.parameters.get("partition")
        records = [_record(request.text("topic"), body, form, of_path) for body in bodies]
        outcomes = await publish(account.publisher, records)
        # Nobody may write here, or nothing is here: that is of the request, not of one record.
        if isinstance(outcomes[0], WebRefusal) and outcomes[0].status in (403, 404):
            raise outcomes[0]
        answer = {"offsets": [_offset(each) for each in outcomes], "key_schema_id": None, "value_schema_id": None}
        return json(answer, content_type=V2_JSON)


def _record(topic: str, body: RecordV2, form: str, of_path: str | int | None) -> OutgoingRecord:
    partition = body.partition if of_path is None else int(of_path)
    if partition is not None and not 0 <= partition < 2**31:
        raise WebRefusal(422, f"{partition} is no number of a partition", 42206)
    return OutgoingRecord(topic, encode(body.key, form), encode(body.value, form), [], partition)


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
