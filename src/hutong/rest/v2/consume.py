"""Requests to consumers of groups, of the v2 API.

Decides nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

from hutong.rest.limits import (
    CALL_S_MAX,
    READ_BYTES_MAX,
    READ_RECORDS_MAX,
    READ_WAIT_MS_DEFAULT,
    READ_WAIT_MS_MAX,
    TOPICS_OF_INSTANCE_MAX,
)
from hutong.rest.v2.forms import OF_SCHEMAS, V2_JSON, decode, type_of
from hutong.rest.v2.instances import Instance, InstanceBody, Instances
from hutong.web.answers import JSON, WebAnswer, WebRefusal, json
from hutong.web.routes import WebRoute

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hutong.bus.durable.records import StoredRecord
    from hutong.rest.gateway import Gateway
    from hutong.rest.records.decoding import RecordDecoder
    from hutong.rest.records.schemas import ValueReader
    from hutong.web.requests import WebRequest

_TAKES = (V2_JSON, JSON)
_DONE = WebAnswer(204)
_PATTERN_CHARACTERS_MAX = 1_000


class SubscriptionBody(msgspec.Struct, frozen=True):
    topics: list[str] = []
    topic_pattern: str | None = None


class PlaceBody(msgspec.Struct, frozen=True):
    topic: str
    partition: int


class PlacesBody(msgspec.Struct, frozen=True):
    partitions: list[PlaceBody] = []


class OffsetBody(PlaceBody, frozen=True):
    offset: int


class OffsetsBody(msgspec.Struct, frozen=True):
    offsets: list[OffsetBody] = []


class ConsumeV2:
    """The routes to consumers."""

    def __init__(self, gateway: Gateway, instances: Instances, decoder: RecordDecoder, scheme: str) -> None:
        self._scheme = scheme
        self._decoder = decoder
        self._gateway = gateway
        self._instances = instances

    def routes(self) -> list[WebRoute]:
        one = "/consumers/{group}/instances/{instance}"
        return [
            WebRoute("POST", "/consumers/{group}", self.create, takes=_TAKES),
            WebRoute("DELETE", one, self.delete),
            WebRoute("POST", f"{one}/subscription", self.subscribe, takes=_TAKES),
            WebRoute("GET", f"{one}/subscription", self.show_subscription),
            WebRoute("DELETE", f"{one}/subscription", self.unsubscribe),
            WebRoute("POST", f"{one}/assignments", self.assign, takes=_TAKES),
            WebRoute("GET", f"{one}/assignments", self.show_assignments),
            WebRoute("POST", f"{one}/positions", self.seek, takes=_TAKES),
            WebRoute("POST", f"{one}/positions/beginning", self.seek_to_beginning, takes=_TAKES),
            WebRoute("POST", f"{one}/positions/end", self.seek_to_end, takes=_TAKES),
            WebRoute("GET", f"{one}/records", self.read),
            WebRoute("POST", f"{one}/offsets", self.commit, takes=_TAKES),
            WebRoute("GET", f"{one}/offsets", self.show_offsets, takes=_TAKES),
        ]

    async def create(self, request: WebRequest) -> WebAnswer:
        account, group = await self._gateway.account(request), request.text("group")
        instance = self._instances.create(account, group, request.json(InstanceBody))
        host = request.headers.get("host", "")
        address = f"{self._scheme}://{host}{request.path.rstrip('/')}/instances/{instance.name}"
        return json({"instance_id": instance.name, "base_uri": address}, content_type=V2_JSON)

    async def delete(self, request: WebRequest) -> WebAnswer:
        instance = await self._instance(request)
        if instance.commits:
            await self._commit(instance, instance.read_offsets)
        self._instances.remove(instance)
        return _DONE

    async def subscribe(self, request: WebRequest) -> WebAnswer:
        instance, body = await self._instance(request), request.json(SubscriptionBody)
        if (body.topic_pattern is None) == (not body.topics):
            raise WebRefusal(422, "a subscription has topics or a topic_pattern", 42206)
        topics = body.topics if body.topic_pattern is None else [_pattern(body.topic_pattern)]
        if len(topics) > TOPICS_OF_INSTANCE_MAX:
            raise WebRefusal(422, f"a subscription has at most {TOPICS_OF_INSTANCE_MAX} topics", 42206)
        await self._gateway.blocking(partial(instance.reader.consumer.subscribe, topics))
        instance.topics = topics
        return _DONE

    async def show_subscription(self, request: WebRequest) -> WebAnswer:
        return json({"topics": (await self._instance(request)).topics}, content_type=V2_JSON)

    async def unsubscribe(self, request: WebRequest) -> WebAnswer:
        instance = await self._instance(request)
        await self._gateway.blocking(instance.reader.consumer.unsubscribe)
        instance.topics = []
        return _DONE

    async def assign(self, request: WebRequest) -> WebAnswer:
        instance, body = await self._instance(request), request.json(PlacesBody)
        places = [TopicPartition(each.topic, each.partition) for each in body.partitions]
        await self._gateway.blocking(partial(instance.reader.assign, places))
        return _DONE

    async def show_assignments(self, request: WebRequest) -> WebAnswer:
        instance = await self._instance(request)
        found = await self._gateway.blocking(instance.reader.consumer.assignment)
        places = [{"topic": each.topic, "partition": each.partition} for each in found]
        return json({"partitions": places}, content_type=V2_JSON)

    async def seek(self, request: WebRequest) -> WebAnswer:
        places = [(each, each.offset) for each in request.json(OffsetsBody).offsets]
        return await self._seek(request, places)

    async def seek_to_beginning(self, request: WebRequest) -> WebAnswer:
        return await self._seek(request, [(each, OFFSET_BEGINNING) for each in request.json(PlacesBody).partitions])

    async def seek_to_end(self, request: WebRequest) -> WebAnswer:
        return await self._seek(request, [(each, OFFSET_END) for each in request.json(PlacesBody).partitions])

    async def read(self, request: WebRequest) -> WebAnswer:
        """Answer what has come for the instance, or comes first within `timeout` milliseconds."""
        instance = await self._instance(request)
        wait_ms = request.integer("timeout", READ_WAIT_MS_DEFAULT, 0, READ_WAIT_MS_MAX)
        # The proxy's clients send -1 for its own bound.
        asked = request.integer("max_bytes", -1, -1, 2**31 - 1)
        bytes_max = READ_BYTES_MAX if asked < 0 else min(asked, READ_BYTES_MAX)
        if instance.is_reading:
            raise WebRefusal(409, "another read of this consumer is under way", 40901)
        instance.is_reading = True
        try:
            if instance.commits:
                await self._commit(instance, instance.read_offsets)
            read = partial(instance.reader.read, READ_RECORDS_MAX, wait_ms / 1_000, bytes_max, to_confirm=True)
            # A client that closes its connection ends this here, while the thread reads on: what it finds comes again.
            found = await self._gateway.blocking(read)
            answer = await self._shown(request, found, instance.form)
            instance.take(found)
            return json(answer, content_type=type_of(instance.form))
        finally:
            instance.is_reading = False

    async def _shown(self, request: WebRequest, records: list[StoredRecord], form: str) -> list[dict[str, Any]]:
        if form not in OF_SCHEMAS:
            return [_shown(record, form, {}) for record in records]
        readers = await self._decoder.readers(records, request)
        return await self._gateway.blocking(lambda: [_shown(record, form, readers) for record in records])

    async def commit(self, request: WebRequest) -> WebAnswer:
        """Commit the named offsets, of the records that are done, or all that was read."""
        instance = await self._instance(request)
        named = request.json(OffsetsBody).offsets if request.body.strip() else []
        # By the API's rule the offset is the last record's; Kafka's is the next one's.
        offsets = [TopicPartition(each.topic, each.partition, each.offset + 1) for each in named]
        await self._commit(instance, offsets or instance.read_offsets)
        return WebAnswer(200, b"", V2_JSON)

    async def show_offsets(self, request: WebRequest) -> WebAnswer:
        instance, body = await self._instance(request), request.json(PlacesBody)
        places = [TopicPartition(each.topic, each.partition) for each in body.partitions]
        ask = partial(instance.reader.consumer.committed, places, CALL_S_MAX)
        found: list[Any] = await self._gateway.blocking(ask)
        offsets = [
            {"topic": each.topic, "partition": each.partition, "offset": each.offset, "metadata": each.metadata or ""}
            for each in found
            if each.offset >= 0
        ]
        return json({"offsets": offsets}, content_type=V2_JSON)

    async def _seek(self, request: WebRequest, places: Sequence[tuple[PlaceBody, int]]) -> WebAnswer:
        instance = await self._instance(request)
        for place, offset in places:
            wanted = TopicPartition(place.topic, place.partition, offset)
            await self._gateway.blocking(partial(instance.reader.seek, wanted))
            instance.positions.pop((place.topic, place.partition), None)
        return _DONE

    async def _commit(self, instance: Instance, offsets: list[TopicPartition]) -> None:
        await self._gateway.blocking(partial(instance.commit, offsets))

    async def _instance(self, request: WebRequest) -> Instance:
        account = await self._gateway.account(request)
        return self._instances.find(account, request.text("group"), request.text("instance"))


def _pattern(text: str) -> str:
    if len(text) > _PATTERN_CHARACTERS_MAX:
        raise WebRefusal(422, f"a pattern has at most {_PATTERN_CHARACTERS_MAX} characters", 42206)
    # The library takes what begins so for a pattern, and everything else for a name.
    return text if text.startswith("^") else f"^{text}"


def _shown(record: StoredRecord, form: str, readers: Mapping[int, ValueReader]) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "key": decode(record.key, form, readers),
        "value": decode(record.value, form, readers),
        "partition": record.partition,
        "offset": record.offset,
    }
