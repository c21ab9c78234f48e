"""Clusters and brokers of the v3 API.

Decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.rest.limits import CALL_S_MAX
from hutong.rest.resources import Resource, link, listed, related, resource
from hutong.web.answers import WebAnswer, WebRefusal, json
from hutong.web.routes import WebRoute

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from hutong.rest.accounts import Account
    from hutong.rest.gateway import Gateway
    from hutong.web.requests import WebRequest


class ClustersV3:
    """The routes to the one cluster that the gateway knows, and to its brokers."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def routes(self) -> list[WebRoute]:
        one = "/v3/clusters/{cluster}"
        return [
            WebRoute("GET", "/v3/clusters", self.list_clusters),
            WebRoute("GET", one, self.show_cluster),
            WebRoute("GET", f"{one}/brokers", self.list_brokers),
            WebRoute("GET", f"{one}/brokers/{{broker:int}}", self.show_broker),
        ]

    async def list_clusters(self, request: WebRequest) -> WebAnswer:
        account = await self._gateway.account(request)
        return json(listed("Cluster", "/v3/clusters", [await self._cluster(account)]))

    async def show_cluster(self, request: WebRequest) -> WebAnswer:
        return json(await self._cluster(await self._gateway.checked(request)))

    async def list_brokers(self, request: WebRequest) -> WebAnswer:
        account, cluster = await self._gateway.checked(request), request.text("cluster")
        brokers = [_broker(cluster, node) for node in (await self._described(account)).nodes]
        return json(listed("Broker", link(cluster, "brokers"), brokers))

    async def show_broker(self, request: WebRequest) -> WebAnswer:
        account, wanted = await self._gateway.checked(request), request.number("broker")
        nodes: Iterable[Any] = (await self._described(account)).nodes
        found = next((node for node in nodes if node.id == wanted), None)
        if found is None:
            raise WebRefusal(404, f"Broker {wanted} cannot be found.", 40403)
        return json(_broker(request.text("cluster"), found))

    async def _described(self, account: Account) -> Any:
        return await self._gateway.blocking(lambda: account.admin.describe_cluster().result(CALL_S_MAX))

    async def _cluster(self, account: Account) -> Resource:
        found = await self._described(account)
        id, controller = str(found.cluster_id), found.controller
        return resource(
            "Cluster",
            link(id),
            f"kafka={id}",
            cluster_id=id,
            controller=None if controller is None else related(link(id, "brokers", controller.id)),
            brokers=related(link(id, "brokers")),
            topics=related(link(id, "topics")),
            consumer_groups=related(link(id, "consumer-groups")),
        )


def _broker(cluster: str, node: Any) -> Resource:
    return resource(
        "Broker",
        link(cluster, "brokers", node.id),
        f"kafka={cluster}/broker={node.id}",
        cluster_id=cluster,
        broker_id=node.id,
        host=node.host,
        port=node.port,
        rack=node.rack,
    )
