"""Routes to topics that only read: the list, one topic with its partitions, its settings.

Strategy: the list asks the brokers three things, however many topics there are: metadata, first and end offsets.
Decides nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import AclOperation, ConfigResource, ResourceType

from hutong.console.limits import OFFSETS_LISTED_MAX, TOPICS_LISTED_MAX
from hutong.console.rights import check_right
from hutong.console.routes import ConsoleRoute
from hutong.console.topics.changes import TopicChanges
from hutong.console.topics.listing import PartitionBytes, ends_of, size_of, topic_row
from hutong.console.topics.offsets import KeptOffsets, spans
from hutong.console.topics.rates import EndRates
from hutong.console.topics.settings import setting_rows
from hutong.rest.limits import CALL_S_MAX
from hutong.web.answers import WebAnswer, WebRefusal, json

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.web.requests import WebRequest


class TopicsPages:
    """The routes of all topics."""

    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk
        self._rates = EndRates()
        self._changes = TopicChanges(desk)

    def routes(self) -> list[ConsoleRoute]:
        one = "/api/topics/{topic}"
        return [
            ConsoleRoute("GET", "/api/topics", self.list_topics),
            ConsoleRoute("GET", one, self.show),
            ConsoleRoute("GET", f"{one}/settings", self.settings),
            *self._changes.routes(),
        ]

    async def list_topics(self, request: WebRequest) -> WebAnswer:
        account = await self._desk.account(request)
        found = await self._desk.blocking(lambda: account.admin.list_topics(timeout=CALL_S_MAX))
        names = sorted(found.topics)
        listed = names[:TOPICS_LISTED_MAX]
        partitions = {name: list(found.topics[name].partitions.values()) for name in listed}
        places = [(name, each.id) for name in listed for each in partitions[name] if each.leader >= 0]
        is_told = len(places) <= OFFSETS_LISTED_MAX
        offsets = await self._desk.blocking(partial(spans, account.admin, places if is_told else ()))
        rates = self._rates.look(ends_of(offsets), self._desk.clock.monotonic_ms())
        sizes = await self._sizes(request) if request.flag("with_sizes", default=True) else {}
        rows = [topic_row(name, partitions[name], offsets, rates.get(name), sizes) for name in listed]
        return json({"topics": rows, "truncated": len(names) > len(listed)})

    async def show(self, request: WebRequest) -> WebAnswer:
        account, topic = await self._desk.account(request), request.text("topic")
        found = await self._desk.gateway.described_topic(account, topic)
        places = [(topic, each.id) for each in found.partitions if each.leader is not None]
        offsets = await self._desk.blocking(partial(spans, account.admin, places[:OFFSETS_LISTED_MAX]))
        sizes = await self._sizes(request)
        partitions = [_partition(topic, each, offsets.get((topic, each.id)), sizes) for each in found.partitions]
        records = [each["records"] for each in partitions]
        answer = {
            "name": topic,
            "is_internal": found.is_internal,
            "replication": max((len(each.replicas) for each in found.partitions), default=0),
            "size_bytes": size_of(topic, [each.id for each in found.partitions], sizes),
            "records": None if None in records else sum(records),
            "partitions": partitions,
        }
        return json(answer)

    async def settings(self, request: WebRequest) -> WebAnswer:
        account, wanted = await self._desk.account(request), ConfigResource(ResourceType.TOPIC, request.text("topic"))
        entries = await self._desk.gateway.one(partial(account.admin.describe_configs, [wanted]))
        return json({"settings": setting_rows(entries)})

    async def _sizes(self, request: WebRequest) -> PartitionBytes:
        """Bytes of the partitions that this node holds; none for users who may not ask for log directories."""
        if self._desk.node is None:
            return {}
        try:
            await check_right(self._desk, request, AclOperation.DESCRIBE)
        except WebRefusal:
            return {}
        return self._desk.node.partition_bytes()


def _partition(topic: str, found: Any, span: KeptOffsets | None, sizes: PartitionBytes) -> dict[str, Any]:
    return {
        "id": found.id,
        "leader": None if found.leader is None else found.leader.id,
        "replicas": [node.id for node in found.replicas],
        "in_sync": [node.id for node in found.isr],
        "first_offset": None if span is None else span.first,
        "end_offset": None if span is None else span.end,
        "records": None if span is None else span.records,
        "size_bytes": sizes.get((topic, found.id)),
    }
