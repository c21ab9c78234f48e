"""POST records of the v3 API: streamed, one answer for each record, or as a batch with ids.

Decides nothing about bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hutong.bus.durable.outcomes import Stored
from hutong.rest.limits import RECORDS_OF_REQUEST_MAX
from hutong.rest.reading.shown import time_shown
from hutong.rest.records.encoding import EncodedRecord, RecordEncoder
from hutong.rest.records.publishing import Outcome, publish
from hutong.rest.records.v3_bodies import BINARY, BatchBody, Payload, RecordBody, decode_objects
from hutong.web.answers import JSON, WebAnswer, WebRefusal, json
from hutong.web.routes import WebRoute

if TYPE_CHECKING:
    from hutong.rest.accounts import Account
    from hutong.rest.gateway import Gateway
    from hutong.rest.records.schemas import ChosenSchema
    from hutong.web.requests import WebRequest

_TAKES = (JSON,)


class RecordsV3:
    """The routes that produce."""

    def __init__(self, gateway: Gateway, encoder: RecordEncoder) -> None:
        self._gateway = gateway
        self._encoder = encoder

    def routes(self) -> list[WebRoute]:
        base = "/v3/clusters/{cluster}/topics/{topic}"
        return [
            WebRoute("POST", f"{base}/records", self.produce, takes=_TAKES),
            WebRoute("POST", f"{base}/records:batch", self.produce_batch, takes=_TAKES),
        ]

    async def produce(self, request: WebRequest) -> WebAnswer:
        """Store records, and answer each one; a single one that is refused has that status."""
        account = await self._gateway.checked(request)
        bodies = decode_objects(request.body, RecordBody)
        records = await self._encoder.records(request, bodies)
        outcomes = await _publish(account, records)
        if len(outcomes) == 1 and isinstance(outcomes[0], WebRefusal):
            raise outcomes[0]
        cluster = request.text("cluster")
        answers = [_answer(cluster, *each) for each in zip(bodies, records, outcomes, strict=True)]
        return WebAnswer(200, b"".join([msgspec.json.encode(answer) + b"\n" for answer in answers]), JSON)

    async def produce_batch(self, request: WebRequest) -> WebAnswer:
        """Store records, and answer once: 207 with those that were stored, and those that were not."""
        account = await self._gateway.checked(request)
        bodies = request.json(BatchBody).entries
        if not 1 <= len(bodies) <= RECORDS_OF_REQUEST_MAX or len({body.id for body in bodies}) < len(bodies):
            raise WebRefusal(
                422, f"a batch has 1 to {RECORDS_OF_REQUEST_MAX} entries, each with an id of its own", 42208
            )
        records = await self._encoder.records(request, bodies)
        outcomes = await _publish(account, records)
        stored: list[dict[str, Any]] = []
        failed: list[dict[str, Any]] = []
        for body, record, outcome in zip(bodies, records, outcomes, strict=True):
            answer = {"id": body.id, **_answer(request.text("cluster"), body, record, outcome)}
            (failed if isinstance(outcome, WebRefusal) else stored).append(answer)
        return json({"successes": stored, "failures": failed}, 207)


async def _publish(account: Account, records: list[EncodedRecord | WebRefusal]) -> list[Outcome]:
    return await publish(account.publisher, [each if isinstance(each, WebRefusal) else each.record for each in records])


def _answer(cluster: str, body: RecordBody, encoded: EncodedRecord | WebRefusal, outcome: Outcome) -> dict[str, Any]:
    if not isinstance(outcome, Stored):
        return {"error_code": outcome.code, "message": outcome.message}
    assert not isinstance(encoded, WebRefusal), "it is stored"
    return {
        "error_code": 200,
        "cluster_id": cluster,
        "topic_name": outcome.topic,
        "partition_id": outcome.partition,
        "offset": outcome.offset,
        "timestamp": time_shown(outcome.timestamp_ms),
        "key": _shown(body.key, encoded.record.key, encoded.key_schema),
        "value": _shown(body.value, encoded.record.value, encoded.value_schema),
    }


def _shown(payload: Payload | None, data: bytes | None, schema: ChosenSchema | None) -> dict[str, Any] | None:
    if payload is None or data is None:
        return None
    if schema is None:
        return {"type": payload.type or BINARY, "size": len(data)}
    named = {"subject": schema.subject, "schema_id": schema.id, "schema_version": schema.version}
    return {"type": schema.type, **named, "size": len(data)}
