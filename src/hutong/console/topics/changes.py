"""Routes that change topics: create, alter settings, add partitions, delete.

Strategy: what was there before is asked for first, so that the audit has it. The brokers check rights and values.
Decides nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from hutong.console.limits import PARTITIONS_ADDED_MAX
from hutong.console.routes import ConsoleRoute
from hutong.web.answers import WebAnswer, WebRefusal, json

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.rest.accounts import Account
    from hutong.web.requests import WebRequest

_BY_BROKER = -1
_DONE = WebAnswer(204)


class WantedTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """None: as the broker's default has it."""

    name: str
    partitions: int | None = None
    replication: int | None = None
    settings: dict[str, str] = {}


class WantedSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    set: dict[str, str] = {}
    reset: list[str] = []


class WantedPartitions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`count` is that of all partitions, as Kafka's request has it."""

    count: int


class TopicChanges:
    """The routes that change topics."""

    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk

    def routes(self) -> list[ConsoleRoute]:
        one = "/api/topics/{topic}"
        return [
            ConsoleRoute("POST", "/api/topics", self.create, changes="topic.create"),
            ConsoleRoute("DELETE", one, self.delete, changes="topic.delete"),
            ConsoleRoute("PATCH", f"{one}/settings", self.alter, changes="topic.settings"),
            ConsoleRoute("POST", f"{one}/partitions", self.add_partitions, changes="topic.partitions"),
        ]

    async def create(self, request: WebRequest) -> WebAnswer:
        account, body = await self._desk.account(request), request.json(WantedTopic)
        wanted = (body.partitions, body.replication)
        for count in wanted:
            _check_count(count)
        partitions, replication = (_BY_BROKER if count is None else count for count in wanted)

        def create() -> Any:
            # Here, where the library's refusal of a name is translated.
            return account.admin.create_topics([NewTopic(body.name, partitions, replication, config=body.settings)])

        await self._desk.gateway.one(create)
        await self._desk.record(request, "topic.create", body.name, after=msgspec.to_builtins(body))
        return json({"name": body.name}, 201)

    async def delete(self, request: WebRequest) -> WebAnswer:
        account, topic = await self._desk.account(request), request.text("topic")
        before = {
            "partitions": await self._partition_count(account, topic),
            "settings": await self._own(account, topic),
        }
        await self._desk.gateway.one(partial(account.admin.delete_topics, [topic]))
        await self._desk.record(request, "topic.delete", topic, before=before)
        return _DONE

    async def alter(self, request: WebRequest) -> WebAnswer:
        account, topic, body = await self._desk.account(request), request.text("topic"), request.json(WantedSettings)
        if not body.set and not body.reset:
            raise WebRefusal(400, "Name a setting to set or to reset.", 40002)
        entries = [
            *(
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                for name, value in body.set.items()
            ),
            *(ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in body.reset),
        ]
        before = await self._own(account, topic)
        altered = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        await self._desk.gateway.one(partial(account.admin.incremental_alter_configs, [altered]))
        after = {**body.set, **dict.fromkeys(body.reset)}
        changed = {name: before.get(name) for name in after}
        await self._desk.record(request, "topic.settings", topic, before=changed, after=after)
        return _DONE

    async def add_partitions(self, request: WebRequest) -> WebAnswer:
        account, topic, body = await self._desk.account(request), request.text("topic"), request.json(WantedPartitions)
        _check_count(body.count)
        before = await self._partition_count(account, topic)
        if body.count <= before:
            raise WebRefusal(400, f"The topic has {before} partitions; a topic only gains partitions.", 40002)
        await self._desk.gateway.one(partial(account.admin.create_partitions, [NewPartitions(topic, body.count)]))
        await self._desk.record(request, "topic.partitions", topic, before=before, after=body.count)
        return _DONE

    async def _partition_count(self, account: Account, topic: str) -> int:
        return len((await self._desk.gateway.described_topic(account, topic)).partitions)

    async def _own(self, account: Account, topic: str) -> dict[str, Any]:
        """The settings that the topic has of its own, without secrets."""
        wanted = ConfigResource(ResourceType.TOPIC, topic)
        entries: Any = await self._desk.gateway.one(partial(account.admin.describe_configs, [wanted]))
        return {name: each.value for name, each in entries.items() if not each.is_default and not each.is_sensitive}


def _check_count(count: int | None) -> None:
    if count is not None and not 1 <= count <= PARTITIONS_ADDED_MAX:
        raise WebRefusal(400, f"A count is from 1 to {PARTITIONS_ADDED_MAX}.", 40002)
