"""GET records of one partition, from a position on. The answer links to the records that follow.

Decides nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException, TopicPartition

from hutong.bus.durable.records import StoredRecord
from hutong.rest.limits import READ_RECORDS_DEFAULT, READ_RECORDS_MAX, READ_WAIT_MS_DEFAULT, READ_WAIT_MS_MAX
from hutong.rest.reading.reader import RecordReader
from hutong.rest.resources import link
from hutong.web.answers import WebAnswer, WebRefusal, json
from hutong.web.routes import WebRoute

if TYPE_CHECKING:
    from hutong.rest.gateway import Gateway
    from hutong.rest.reading.showing import RecordViews
    from hutong.web.requests import WebRequest

_PLACES: Final = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}
_OFFSET_DIGITS_MAX: Final = 18


class RecordsByPosition:
    """The route that reads. Each read has a consumer of its own, which costs a connection."""

    def __init__(self, gateway: Gateway, views: RecordViews) -> None:
        self._gateway = gateway
        self._views = views

    def routes(self) -> list[WebRoute]:
        return [
            WebRoute("GET", "/v3/clusters/{cluster}/topics/{topic}/partitions/{partition:int}/records", self.read),
        ]

    async def read(self, request: WebRequest) -> WebAnswer:
        """Answer what is at `offset` and after it, waiting up to `wait_ms` for the first record."""
        account = await self._gateway.checked(request)
        request.check_query("offset", "max_records", "wait_ms", "format")
        offset = offset_of(request.query.get("offset", "earliest"))
        form = self._views.form_of(request)
        records_max = request.integer("max_records", READ_RECORDS_DEFAULT, 1, READ_RECORDS_MAX)
        wait_ms = request.integer("wait_ms", READ_WAIT_MS_DEFAULT, 0, READ_WAIT_MS_MAX)
        place = TopicPartition(request.text("topic"), request.number("partition"), offset)
        self._gateway.take_reader(account)
        try:
            work = partial(_read_once, account.properties, place, records_max, wait_ms / 1_000)
            found = await self._gateway.blocking(work)
        finally:
            self._gateway.give_reader_back(account)
        path = link(request.text("cluster"), "topics", place.topic, "partitions", place.partition, "records")
        # Nothing came: the same position again, by its name where it has no number yet.
        following = found[-1].offset + 1 if found else request.query.get("offset", "earliest")
        answer = {
            "kind": "KafkaRecordList",
            "metadata": {"self": path, "next": f"{path}?offset={following}&format={form}"},
            "data": await self._views.shown(found, form, request),
        }
        return json(answer)


def offset_of(text: str) -> int:
    """A position by name or number. Raises WebRefusal(400)."""
    if text in _PLACES:
        return _PLACES[text]
    if not (text.isascii() and text.isdigit()) or len(text) > _OFFSET_DIGITS_MAX:
        raise WebRefusal(400, "offset is earliest, latest, or a number")
    return int(text)


def _read_once(properties: object, place: TopicPartition, records_max: int, wait_s: float) -> list[StoredRecord]:
    reader = RecordReader(properties)  # type: ignore[arg-type]
    try:
        if place.partition not in reader.partitions(place.topic):
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        reader.assign([place])
        return reader.read(records_max, wait_s)
    finally:
        reader.close()
