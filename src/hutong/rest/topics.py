"""Topics, their partitions and their settings, of the v3 API.

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
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from hutong.rest.limits import CALL_S_MAX
from hutong.rest.resources import Resource, link, listed, related, resource
from hutong.web.answers import JSON, WebAnswer, WebRefusal, json
from hutong.web.routes import WebRoute

if TYPE_CHECKING:
    from hutong.rest.accounts import Account
    from hutong.rest.gateway import Gateway
    from hutong.web.requests import WebRequest

_TAKES = (JSON,)
_DEFAULT = -1  # the broker's own number of partitions or replicas
_DONE = WebAnswer(204)
_OPERATIONS = {"SET": AlterConfigOpType.SET, "DELETE": AlterConfigOpType.DELETE}


class ConfigBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    value: str | None = None


class NewTopicBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topic_name: str
    partitions_count: int = _DEFAULT
    replication_factor: int = _DEFAULT
    configs: list[ConfigBody] = []
    validate_only: bool = False


class PartitionsBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    partitions_count: int


class ConfigValueBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    value: str


class ConfigChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    value: str | None = None
    operation: str = "SET"


class ConfigChangesBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    data: list[ConfigChange]
    validate_only: bool = False


class TopicsV3:
    """The routes to topics."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def routes(self) -> list[WebRoute]:
        all_topics = "/v3/clusters/{cluster}/topics"
        one = f"{all_topics}/{{topic}}"
        return [
            WebRoute("GET", all_topics, self.list_topics),
            WebRoute("POST", all_topics, self.create, takes=_TAKES),
            WebRoute("GET", one, self.show),
            WebRoute("DELETE", one, self.delete),
            WebRoute("PATCH", one, self.add_partitions, takes=_TAKES),
            WebRoute("GET", f"{one}/partitions", self.list_partitions),
            WebRoute("GET", f"{one}/partitions/{{partition:int}}", self.show_partition),
            WebRoute("GET", f"{one}/configs", self.list_configs),
            WebRoute("POST", f"{one}/configs:alter", self.alter_configs, takes=_TAKES),
            WebRoute("GET", f"{one}/configs/{{name}}", self.show_config),
            WebRoute("PUT", f"{one}/configs/{{name}}", self.set_config, takes=_TAKES),
            WebRoute("DELETE", f"{one}/configs/{{name}}", self.reset_config),
        ]

    async def list_topics(self, request: WebRequest) -> WebAnswer:
        account, cluster = await self._gateway.checked(request), request.text("cluster")
        found = await self._gateway.blocking(lambda: account.admin.list_topics(timeout=CALL_S_MAX))
        topics = [_topic(cluster, name, topic.partitions.values()) for name, topic in sorted(found.topics.items())]
        return json(listed("Topic", link(cluster, "topics"), topics))

    async def create(self, request: WebRequest) -> WebAnswer:
        account, cluster = await self._gateway.checked(request), request.text("cluster")
        body = request.json(NewTopicBody)
        configs = {config.name: config.value for config in body.configs if config.value is not None}
        topic = NewTopic(body.topic_name, body.partitions_count, body.replication_factor, config=configs)
        create = partial(account.admin.create_topics, [topic], validate_only=body.validate_only)
        await self._gateway.one(create)
        # A node hears of a new topic a little later than its creator.
        path = link(cluster, "topics", body.topic_name)
        facts = {"partitions_count": body.partitions_count, "replication_factor": body.replication_factor}
        return json(_topic_resource(cluster, body.topic_name, **facts), 201, headers=[("Location", path)])

    async def show(self, request: WebRequest) -> WebAnswer:
        account, topic = await self._gateway.checked(request), request.text("topic")
        found = await self._gateway.described_topic(account, topic)
        return json(_topic(request.text("cluster"), topic, found.partitions, is_internal=found.is_internal))

    async def delete(self, request: WebRequest) -> WebAnswer:
        account = await self._gateway.checked(request)
        await self._gateway.one(partial(account.admin.delete_topics, [request.text("topic")]))
        return _DONE

    async def add_partitions(self, request: WebRequest) -> WebAnswer:
        account, wanted = await self._gateway.checked(request), request.json(PartitionsBody)
        partitions = NewPartitions(request.text("topic"), wanted.partitions_count)
        await self._gateway.one(partial(account.admin.create_partitions, [partitions]))
        return await self.show(request)

    async def list_partitions(self, request: WebRequest) -> WebAnswer:
        account, cluster, topic = await self._gateway.checked(request), request.text("cluster"), request.text("topic")
        found = await self._gateway.described_topic(account, topic)
        partitions = [_partition(cluster, topic, each) for each in found.partitions]
        return json(listed("Partition", link(cluster, "topics", topic, "partitions"), partitions))

    async def show_partition(self, request: WebRequest) -> WebAnswer:
        account, cluster, topic = await self._gateway.checked(request), request.text("cluster"), request.text("topic")
        wanted = request.number("partition")
        partitions = (await self._gateway.described_topic(account, topic)).partitions
        found = next((each for each in partitions if each.id == wanted), None)
        if found is None:
            raise WebRefusal(404, "This server does not host this topic-partition.", 40403)
        return json(_partition(cluster, topic, found))

    async def list_configs(self, request: WebRequest) -> WebAnswer:
        account, cluster, topic = await self._gateway.checked(request), request.text("cluster"), request.text("topic")
        entries = await self._configs(account, topic)
        configs = [_config(cluster, topic, entry) for _, entry in sorted(entries.items())]
        return json(listed("TopicConfig", link(cluster, "topics", topic, "configs"), configs))

    async def show_config(self, request: WebRequest) -> WebAnswer:
        account, topic = await self._gateway.checked(request), request.text("topic")
        name = request.text("name")
        entry = (await self._configs(account, topic)).get(name)
        if entry is None:
            raise WebRefusal(404, f"Config {name[:200]} cannot be found.", 40403)
        return json(_config(request.text("cluster"), topic, entry))

    async def set_config(self, request: WebRequest) -> WebAnswer:
        value = request.json(ConfigValueBody).value
        return await self._alter(request, [ConfigChange(request.text("name"), value)])

    async def reset_config(self, request: WebRequest) -> WebAnswer:
        return await self._alter(request, [ConfigChange(request.text("name"), operation="DELETE")])

    async def alter_configs(self, request: WebRequest) -> WebAnswer:
        body = request.json(ConfigChangesBody)
        return await self._alter(request, body.data, validate_only=body.validate_only)

    async def _alter(
        self, request: WebRequest, changes: list[ConfigChange], *, validate_only: bool = False
    ) -> WebAnswer:
        account = await self._gateway.checked(request)
        altered = ConfigResource(
            ResourceType.TOPIC, request.text("topic"), incremental_configs=[_entry_of(change) for change in changes]
        )
        alter = partial(account.admin.incremental_alter_configs, [altered], validate_only=validate_only)
        await self._gateway.one(alter)
        return _DONE

    async def _configs(self, account: Account, topic: str) -> dict[str, Any]:
        wanted = ConfigResource(ResourceType.TOPIC, topic)
        return await self._gateway.one(partial(account.admin.describe_configs, [wanted]))


def _entry_of(change: ConfigChange) -> ConfigEntry:
    operation = _OPERATIONS.get(change.operation)
    if operation is None:
        raise WebRefusal(400, f"{change.operation[:50]!r} is no operation; there are SET and DELETE", 40002)
    return ConfigEntry(change.name, change.value, incremental_operation=operation)


def _topic(cluster: str, name: str, partitions: Any, *, is_internal: bool | None = None) -> Resource:
    replicas = max((len(partition.replicas) for partition in partitions), default=0)
    # Metadata of all topics does not say it; Kafka's own internal topics begin so.
    internal = name.startswith("__") if is_internal is None else is_internal
    return _topic_resource(
        cluster, name, is_internal=internal, partitions_count=len(partitions), replication_factor=replicas
    )


def _topic_resource(cluster: str, name: str, **facts: object) -> Resource:
    path = link(cluster, "topics", name)
    links = {"partitions": related(f"{path}/partitions"), "configs": related(f"{path}/configs")}
    crn = f"kafka={cluster}/topic={name}"
    return resource("Topic", path, crn, cluster_id=cluster, topic_name=name, **facts, **links)


def _partition(cluster: str, topic: str, found: Any) -> Resource:
    path = link(cluster, "topics", topic, "partitions", found.id)
    return resource(
        "Partition",
        path,
        f"kafka={cluster}/topic={topic}/partition={found.id}",
        cluster_id=cluster,
        topic_name=topic,
        partition_id=found.id,
        leader_id=None if found.leader is None else found.leader.id,
        replica_ids=[node.id for node in found.replicas],
        in_sync_replica_ids=[node.id for node in found.isr],
    )


def _config(cluster: str, topic: str, entry: Any) -> Resource:
    return resource(
        "TopicConfig",
        link(cluster, "topics", topic, "configs", entry.name),
        f"kafka={cluster}/topic={topic}/config={entry.name}",
        cluster_id=cluster,
        topic_name=topic,
        name=entry.name,
        value=entry.value,
        is_default=entry.is_default,
        is_read_only=entry.is_read_only,
        is_sensitive=entry.is_sensitive,
        source=ConfigSource(entry.source).name,
    )
