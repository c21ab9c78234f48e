"""Routes of settings: each broker's, and those of the node that serves the console.

Decides nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import ConfigResource, ResourceType

from hutong.console.rights import READ_NODE, check_right
from hutong.console.routes import ConsoleRoute
from hutong.console.topics.settings import setting_rows
from hutong.rest.limits import CALL_S_MAX
from hutong.web.answers import WebAnswer, WebRefusal, json

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.rest.accounts import Account
    from hutong.web.requests import WebRequest


class SettingsPages:
    """The routes of settings."""

    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk

    def routes(self) -> list[ConsoleRoute]:
        brokers = "/api/settings/brokers"
        return [
            ConsoleRoute("GET", "/api/settings/node", self.of_node),
            ConsoleRoute("GET", brokers, self.list_brokers),
            ConsoleRoute("GET", f"{brokers}/{{broker:int}}", self.of_broker),
        ]

    async def of_node(self, request: WebRequest) -> WebAnswer:
        if self._desk.node is None:
            raise WebRefusal(404, "This console has no node of its own.", 40403)
        await check_right(self._desk, request, READ_NODE)
        return json({"settings": self._desk.node.settings()})

    async def list_brokers(self, request: WebRequest) -> WebAnswer:
        found = await self._cluster(await self._desk.account(request))
        controller = None if found.controller is None else found.controller.id
        brokers = [
            {"id": node.id, "host": node.host, "port": node.port, "is_controller": node.id == controller}
            for node in sorted(found.nodes, key=lambda each: each.id)
        ]
        return json({"brokers": brokers})

    async def of_broker(self, request: WebRequest) -> WebAnswer:
        account, broker = await self._desk.account(request), request.number("broker")
        # The library would wait for a broker that may come.
        if broker not in {node.id for node in (await self._cluster(account)).nodes}:
            raise WebRefusal(404, f"The cluster has no broker {broker}.", 40403)
        wanted = ConfigResource(ResourceType.BROKER, str(broker))
        entries = await self._desk.gateway.one(partial(account.admin.describe_configs, [wanted]))
        return json({"settings": setting_rows(entries)})

    async def _cluster(self, account: Account) -> Any:
        def ask() -> Any:
            return account.admin.describe_cluster(request_timeout=CALL_S_MAX).result(CALL_S_MAX)

        return await self._desk.blocking(ask)
