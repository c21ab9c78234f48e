"""The routes that write records: produce, send again, copy a range, and what such a copy would copy.

Decides nothing. The audit has where records went and how large they are, never what is in them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hutong.bus.durable.outcomes import Stored
from hutong.bus.durable.records import OutgoingRecord
from hutong.console.limits import COPY_RECORDS_MAX
from hutong.console.records.changing.bodies import CopyBody, ProduceBody, ResendBody, checked_spans, record_of
from hutong.console.records.changing.copying import Copying, count_of, spans_there
from hutong.console.records.paging.reading import read_one
from hutong.console.records.reading.part_reader import PartReader
from hutong.console.records.record_pages import ONE
from hutong.console.routes import ConsoleRoute
from hutong.rest.records.publishing import publish
from hutong.web.answers import WebAnswer, WebRefusal, json

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.console.records.budget import ReadBudget
    from hutong.rest.accounts import Account
    from hutong.web.requests import WebRequest

PRODUCE, RESEND, COPY = "record.produce", "record.resend", "record.copy"


class RecordChanges:
    """Writes by the user's own producer, with the user's rights."""

    def __init__(self, desk: ConsoleDesk, budget: ReadBudget) -> None:
        self._desk = desk
        self._budget = budget

    def routes(self) -> list[ConsoleRoute]:
        copy = "/api/topics/{topic}/messages/copy"
        return [
            ConsoleRoute("POST", "/api/topics/{topic}/messages", self.produce, changes=PRODUCE),
            ConsoleRoute("POST", f"{ONE}/resend", self.resend, changes=RESEND),
            ConsoleRoute("POST", f"{copy}/preview", self.preview),
            ConsoleRoute("POST", copy, self.copy, changes=COPY),
        ]

    async def produce(self, request: WebRequest) -> WebAnswer:
        """Produce one record; the answer has its place."""
        topic, body = request.text("topic"), request.json(ProduceBody)
        record = record_of(topic, body)
        account = await self._desk.account(request)
        # Metadata would make a topic that is not there; this question does not.
        await self._desk.gateway.described_topic(account, topic)
        stored = await self._stored(account, record)
        await self._desk.record(request, PRODUCE, topic, after=_written(stored, record))
        return json(_written(stored, record), 201)

    async def resend(self, request: WebRequest) -> WebAnswer:
        """Send a record again, byte by byte as it is."""
        topic = request.text("topic")
        target = request.json(ResendBody).target or topic
        place = request.number("partition"), request.number("offset")
        account = await self._desk.account(request)
        await self._desk.gateway.described_topic(account, target)
        await self._budget.wait()
        self._desk.gateway.take_reader(account)
        try:
            found = await self._desk.blocking(partial(read_one, account, topic, place, self._desk.clock))
        finally:
            self._desk.gateway.give_reader_back(account)
        if found is None:
            raise WebRefusal(404, f"Partition {place[0]} has no record {place[1]}.", 40403)
        record = OutgoingRecord(target, found.key, found.value, list(found.headers))
        stored = await self._stored(account, record)
        source = {"topic": topic, "partition": place[0], "offset": place[1]}
        await self._desk.record(request, RESEND, target, source, _written(stored, record))
        return json(_written(stored, record), 201)

    async def preview(self, request: WebRequest) -> WebAnswer:
        """Count what a copy would copy."""
        topic, body = request.text("topic"), request.json(CopyBody)
        account = await self._desk.account(request)
        spans = await self._spans(account, topic, body)
        return json(
            {
                "records": count_of(spans),
                "records_max": COPY_RECORDS_MAX,
                "partitions": [
                    {"partition": place, "begin": begin, "end": end} for place, (begin, end) in spans.items()
                ],
            }
        )

    async def copy(self, request: WebRequest) -> WebAnswer:
        """Copy; the answer says how far it came."""
        topic, body = request.text("topic"), request.json(CopyBody)
        account = await self._desk.account(request)
        spans = await self._spans(account, topic, body)
        if count_of(spans) > COPY_RECORDS_MAX:
            raise WebRefusal(422, f"These are {count_of(spans):,} records; one copy takes {COPY_RECORDS_MAX:,}.", 42202)
        # First, since a browser that goes ends the copy where it is.
        await self._desk.record(request, COPY, body.target, {"topic": topic, "spans": spans}, "begun")
        self._desk.gateway.take_reader(account)
        try:
            reader = await self._desk.blocking(partial(PartReader, account.properties))
        except BaseException:  # the browser may have gone meanwhile, which cancels
            self._desk.gateway.give_reader_back(account)
            raise
        try:
            outcome = await Copying(self._desk, self._budget, account, reader, body).run(topic, spans)
        finally:
            self._desk.gateway.close_soon(account, reader)
        done = {
            "copied": outcome.copied,
            "copied_bytes": outcome.copied_bytes,
            "failed": outcome.failed,
            "next_offsets": outcome.next_offsets,
        }
        await self._desk.record(request, COPY, body.target, {"topic": topic, "spans": spans}, done)
        return json(done)

    async def _spans(self, account: Account, topic: str, body: CopyBody) -> dict[int, tuple[int, int]]:
        if body.target == topic:
            raise WebRefusal(400, "A topic is copied to another one.")
        spans = checked_spans(body)
        await self._desk.gateway.described_topic(account, body.target)
        return await self._desk.blocking(partial(spans_there, account, topic, spans))

    async def _stored(self, account: Account, record: OutgoingRecord) -> Stored:
        (outcome,) = await publish(account.publisher, [record])
        if isinstance(outcome, WebRefusal):
            raise outcome
        return outcome


def _written(stored: Stored, record: OutgoingRecord) -> dict[str, Any]:
    """The place of a record that was written."""
    return {
        "topic": record.topic,
        "partition": stored.partition,
        "offset": stored.offset,
        "key_bytes": None if record.key is None else len(record.key),
        "value_bytes": None if record.value is None else len(record.value),
    }
