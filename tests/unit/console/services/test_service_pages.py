"""Services of the node: their methods, figures, and calls from the page."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.http_json import JsonClient
from tests.support.shop_service import Shelf, Stock
from tests.unit.console.scene import ConsoleClient

from hutong import Node
from hutong.testing import EmbeddedNode


@pytest.fixture
async def client(tmp_path: Any) -> AsyncIterator[ConsoleClient]:
    async with Node(tmp_path, settings={"console.listen": "127.0.0.1:0"}) as node:
        await node.rpc.bind(Stock, Shelf())
        client = ConsoleClient.__new__(ConsoleClient)
        JsonClient.__init__(client, node.console or "")
        await asyncio.to_thread(client.begin)
        yield client


async def test_methods_with_types_and_figures(client: ConsoleClient) -> None:
    (found,) = (await asyncio.to_thread(client.value, "GET", "/api/services"))["services"]
    assert (found["address"], found["instances"], found["methods"][0]["requests_total"]) == ("shop.stock", 1, 0)
    shown = await asyncio.to_thread(client.value, "GET", "/api/services/shop.stock")
    (method,) = shown["details"]["methods"]
    assert method["documentation"] == "Count the things of this name."
    assert method["arguments_schema"]["$defs"] or method["arguments_schema"]["properties"]
    assert shown["details"]["errors"] == [{"code": 17, "name": "SoldOut", "documentation": "There is none left."}]


async def test_calls_are_answered_or_fail(client: ConsoleClient) -> None:
    def call(arguments: object, method: str = "count") -> Any:
        return client.value("POST", f"/api/services/shop.stock/methods/{method}", {"arguments": arguments})

    assert (await asyncio.to_thread(call, {"name": "milk", "more": 2}))["result"] == 6
    failure = (await asyncio.to_thread(call, {"name": "tea"}))["failure"]
    assert failure == {"type": "ServiceError", "code": 17, "message": "no tea"}
    assert (await asyncio.to_thread(call, {"nam": "x"}))["failure"]["code"] == 500
    assert (await asyncio.to_thread(call, {}, "nothing"))["failure"]["code"] == 500
    shown = await asyncio.to_thread(client.value, "GET", "/api/services/shop.stock")
    (method,) = shown["statistics"]["methods"]
    assert (method["requests_total"], method["errors_total"]) == (3, 2)


async def test_unknown_services(client: ConsoleClient) -> None:
    answer = await asyncio.to_thread(client.ask, "GET", "/api/services/nothing.here")
    assert answer.status == 404
    path = "/api/services/nothing.here/methods/x"
    failed = await asyncio.to_thread(client.value, "POST", path, {"arguments": {}})
    assert failed["failure"]["type"] == "NoService"


def test_a_node_without_services_says_so(node: EmbeddedNode) -> None:
    client = ConsoleClient(node).begin()
    assert client.value("GET", "/api/services")["has_services"] is False
    assert client.ask("GET", "/api/services/a").status == 404
