"""The facts of this node for its console.

Decides nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from msgspec import to_builtins

from hutong.foundation.errors import Refused, StorageError
from hutong.server.composition import ComposedNode
from hutong.server.configuration.loader import shown_value
from hutong.server.configuration.settings import Settings, all_settings
from hutong.server.http.own_batches import own_batches
from hutong.server.http.own_group import other_group
from hutong.server.http.own_groups import other_groups
from hutong.server.monitoring.monitor_part import MonitorPart
from hutong.server.spans.other_nodes import OtherNodes
from hutong.server.spans.own_spans import own_spans

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hutong.bus.bus import EventBus
    from hutong.bus.clustered.figures import OtherNodeFigures
    from hutong.console.groups.others import OtherGroup
    from hutong.console.node_facts import ToldSpans
    from hutong.console.records.batches import SeenBatches
    from hutong.console.records.decoding.shown import ValueSchema
    from hutong.console.schemas.registry_api import RegistryApi
    from hutong.rpc.rpc import Rpc
    from hutong.server.spans.messages import SpansAnswer

_LISTENERS: Final = (
    "metrics",
    "tcp_bridge",
    "sockjs",
    "rpc",
    "grpc",
    "rocketmq",
    "http",
    "schema_registry",
    "console",
    "cluster",
)


class OwnFacts:
    """`hutong.console.node_facts.NodeFacts` of the node that serves it."""

    def __init__(self, settings: Settings, node: ComposedNode, monitor: MonitorPart) -> None:
        self._settings = settings
        self._node = node
        self._monitor = monitor.monitor
        self._sources = monitor.sources
        assert self._sources.broker is not None, "the broker is open"
        self._others = OtherNodes(self._sources.broker, node.addresses.listeners)
        self._brief, self._full = self._monitor.page(is_brief=True), self._monitor.page(is_brief=False)

    def listeners(self) -> dict[str, str]:
        addresses = self._node.addresses
        found = {f"kafka {listener.name}": str(listener.bound) for listener in addresses.listeners}
        return found | {
            name.replace("_", "-"): str(address)
            for name in _LISTENERS
            if (address := getattr(addresses, name)) is not None
        }

    def health_reasons(self) -> list[str]:
        return self._monitor.health.reasons()

    def settings(self) -> list[dict[str, Any]]:
        return [
            {
                "name": setting.name,
                "value": shown_value(setting, value),
                "is_default": value == setting.default,
                "default": shown_value(setting, setting.default),
                "meaning": setting.facts.meaning,
                "kafka_name": setting.facts.kafka_name,
            }
            for setting in all_settings()
            for value in (getattr(getattr(self._settings, setting.section), setting.key),)
        ]

    def bus(self) -> EventBus | None:
        return self._sources.bus

    def bus_nodes(self) -> Sequence[OtherNodeFigures]:
        return self._sources.bus_nodes()

    def rpc(self) -> Rpc | None:
        return self._node.rpc_if_used

    def refusals(self) -> list[dict[str, Any]]:
        broker = self._sources.broker
        if broker is None:
            return []
        return [
            {
                "principal": refused.principal,
                "host": refused.host,
                "operation": refused.operation.name.lower(),
                "resource": refused.kind.name.lower(),
                "name": refused.name,
                "count": times.count,
                "first_ms": times.first_ms,
                "last_ms": times.last_ms,
            }
            for refused, times in broker.authorizer.refusals.newest_first()
        ]

    def number(self) -> int:
        return self._others.own

    def other_nodes(self) -> list[int]:
        return self._others.numbers()

    async def other_groups(self) -> tuple[list[dict[str, Any]], list[str]]:
        assert self._sources.broker is not None, "the broker is open"
        return await other_groups(self._sources.broker, sorted({self._others.own, *self._others.numbers()}))

    async def other_group(self, name: str) -> OtherGroup | None:
        assert self._sources.broker is not None, "the broker is open"
        return await other_group(self._sources.broker, name)

    def spans(self, traces: Sequence[str]) -> ToldSpans | None:
        return _told(own_spans(self._node.kept_spans, traces))

    async def spans_of(self, node: int, traces: Sequence[str]) -> ToldSpans | None:
        return _told(await self._others.spans(node, traces))

    def partition_bytes(self) -> dict[tuple[str, int], int]:
        broker = self._sources.broker
        if broker is None:
            return {}
        return {
            (topic.name, partition.index): partition.log.held_bytes
            for topic in broker.topics.all()
            for partition in topic.partitions
        }

    async def batches(self, topic: str, offsets: Mapping[int, Sequence[int]]) -> SeenBatches:
        assert self._sources.broker is not None, "the broker is open"
        return await own_batches(self._sources.broker, topic, offsets)

    async def schemas(self, ids: Collection[int]) -> Mapping[int, ValueSchema] | None:
        registry = self._sources.schemas
        try:
            return None if registry is None else await registry.writers(ids)
        # The topic of schemas cannot be read just now.
        except Refused:
            return {}

    def registry(self) -> RegistryApi | None:
        return self._node.registry_api

    async def metrics(self, *, is_full: bool = False) -> str:
        made: asyncio.Future[list[bytes] | None] = asyncio.get_running_loop().create_future()
        (self._full if is_full else self._brief).ask(lambda pieces: None if made.done() else made.set_result(pieces))
        pieces = await made
        if pieces is None:
            raise StorageError("the metrics could not be made; the log says why")
        return b"".join(pieces).decode()


def _told(answer: SpansAnswer) -> ToldSpans | None:
    return ([to_builtins(span) for span in answer.spans], answer.is_cut) if answer.is_traced else None
