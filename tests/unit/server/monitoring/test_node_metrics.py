"""Metrics of a node inside a program: of its bus, its contexts and its services, with and without a broker."""

import asyncio
from typing import Protocol

import pytest
from tests.support.exposition import ParsedFamily, parse
from tests.support.monitored import FULL, get

import hutong
from hutong.bus.envelope.message import Message
from hutong.bus.errors import ReplyError
from hutong.foundation.errors import UsageError
from hutong.rpc import ServiceError, service
from hutong.server.configuration.settings import Address

ANY_PORT = "127.0.0.1:0"


@service("tea")
class TeaHouse(Protocol):
    async def pour(self, cups: int) -> int: ...


class OneTeaHouse:
    async def pour(self, cups: int) -> int:
        if cups > 3:
            raise ValueError("that is a lot of tea")
        return cups


async def scraped(node: hutong.Node) -> dict[str, ParsedFamily]:
    assert node.metrics is not None
    host, _, port = node.metrics.rpartition(":")
    status, body = await get(Address(host, int(port)), FULL)
    assert status == 200
    return parse(body)


async def test_a_node_without_a_broker_shows_its_bus_and_contexts() -> None:
    async with hutong.Node(metrics=ANY_PORT) as node:
        kept: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        for _ in range(2):
            node.bus.consumer("slow", kept.set_result)
        reply = node.bus.request("slow", "?")
        families = await scraped(node)
        assert families["hutong_bus_addresses"].value() == 1
        assert families["hutong_bus_consumers"].value() == 2
        assert families["hutong_bus_replies_awaited"].value() == 1
        assert families["hutong_contexts"].value() >= 2
        (await kept).reply("!")
        await reply
        assert (await scraped(node))["hutong_bus_replies_awaited"].value() == 0
        assert "hutong_service_requests_total" not in {name for name, found in families.items() if found.samples}


async def test_a_request_that_its_handler_leaves_unanswered_is_counted() -> None:
    async with hutong.Node(metrics=ANY_PORT) as node:
        node.bus.consumer("forgetful", lambda message: None)
        assert (await scraped(node))["hutong_bus_unanswered_total"].value() == 0
        with pytest.raises(ReplyError):
            await node.bus.request("forgetful", timeout=0.001)
        assert (await scraped(node))["hutong_bus_unanswered_total"].value() == 1


async def test_work_that_waits_in_a_context_is_shown() -> None:
    async with hutong.Node(metrics=ANY_PORT) as node:
        # The page is read on the same loop, so what is sent in the step before is still waiting when it counts.
        node.bus.consumer("a", lambda message: None)
        for _ in range(5):
            node.bus.send("a")
        assert node.runtime.figures.queued == 5
        assert node.runtime.figures.queued_longest == 5
        await asyncio.sleep(0)
        assert node.runtime.figures.queued == 0


async def test_calls_are_counted_by_service_and_method_and_never_forgotten() -> None:
    async with hutong.Node(metrics=ANY_PORT) as node:
        binding = await node.rpc.bind(TeaHouse, OneTeaHouse())
        other = await node.rpc.bind(TeaHouse, OneTeaHouse(), address="tea.upstairs")
        assert await node.rpc.proxy(TeaHouse).pour(2) == 2
        assert await node.rpc.proxy(TeaHouse, address="tea.upstairs").pour(1) == 1
        with pytest.raises(ServiceError):
            await node.rpc.proxy(TeaHouse).pour(9)
        before = await scraped(node)
        await binding.unbind()
        await other.unbind()
        after = await scraped(node)
    for families in (before, after):
        assert families["hutong_service_requests_total"].value(service="TeaHouse", method="pour") == 3
        assert families["hutong_service_errors_total"].value(service="TeaHouse", method="pour") == 1
        assert families["hutong_service_requests_in_flight"].value(service="TeaHouse", method="pour") == 0
    spent = "hutong_service_processing_seconds_total"
    assert after[spent].value(service="TeaHouse", method="pour") == before[spent].value(
        service="TeaHouse", method="pour"
    )


async def test_a_node_with_a_broker_shows_both_on_one_page() -> None:
    async with hutong.Node(kafka=ANY_PORT, metrics=ANY_PORT, tcp_bridge=ANY_PORT, permit_in=["a"]) as node:
        node.bus.consumer("a", lambda message: None)
        families = await scraped(node)
    assert families["hutong_bus_consumers"].value() == 1
    assert families["hutong_bridge_clients"].value(bridge="tcp") == 0
    assert families["hutong_connections_open"].value() == 0


async def test_a_bridge_of_a_node_without_a_broker_is_shown() -> None:
    async with hutong.Node(metrics=ANY_PORT, tcp_bridge=ANY_PORT, permit_in=["a"]) as node:
        families = await scraped(node)
    assert families["hutong_bridge_clients"].value(bridge="tcp") == 0


async def test_a_node_without_metrics_has_no_page() -> None:
    async with hutong.Node() as node:
        assert node.metrics is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"metrics": "nowhere"}, "metrics.listen"),
        ({"metrics": "0.0.0.0:0"}, "metrics at 0.0.0.0:0"),
    ],
)
async def test_an_address_for_metrics_that_cannot_be_is_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        await hutong.Node(**options).__aenter__()  # type: ignore[arg-type]
