"""The spans of a trace: requests, handlers and calls of the node, as the console lists them."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from tests.support.http_json import JsonClient
from tests.support.shop_service import Shelf, Stock
from tests.unit.console.scene import ConsoleClient

import hutong
from hutong.bus import HandlerRaised
from hutong.bus.envelope.message import Message
from hutong.testing import EmbeddedNode

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
NOT_SAMPLED = "00-11111111111111111111111111111111-00f067aa0ba902b7-00"
HOSTILE = "<img src=x onerror=alert(1)>\u202e"


class Session(JsonClient):
    def spans(self, trace: str) -> Any:
        cookie = self.call("GET", "/api/session").headers["set-cookie"].partition(";")[0]
        return self.call("GET", f"/api/trail/spans?trace={trace}", Cookie=cookie)


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A node that has answered a request of a trace, whose handler called a service."""
    ready: list[str] = []
    is_ready, is_over = threading.Event(), threading.Event()

    async def run() -> None:
        settings = {"console.listen": "127.0.0.1:0", "console.tracing": "true"}
        async with hutong.Node(tmp_path_factory.mktemp("node"), settings=settings) as node:
            await _use(node)
            ready.append(node.console or "")
            is_ready.set()
            await asyncio.to_thread(is_over.wait)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    assert is_ready.wait(60)
    yield Session(ready[0])
    is_over.set()
    thread.join()


async def _use(node: hutong.Node) -> None:
    await node.rpc.bind(Stock, Shelf())
    stock = node.rpc.proxy(Stock)

    async def price(message: Message) -> None:
        message.reply(await stock.count("milk"))

    async def fail(message: Message) -> None:
        raise ValueError(HOSTILE)

    node.bus.consumer("shop.price", price)
    node.bus.consumer(HOSTILE, fail)
    await node.bus.request("shop.price", {}, headers={"traceparent": PARENT})
    await node.bus.request("shop.price", {}, headers={"traceparent": NOT_SAMPLED})
    with pytest.raises(HandlerRaised):
        await node.bus.request(HOSTILE, {}, headers={"traceparent": PARENT})


def test_requests_handlers_and_calls_of_a_trace(traced: Session) -> None:
    told = traced.spans(TRACE).value
    assert (told["node"], told["others"], told["is_traced"], told["truncated"]) == (1, [], True, False)
    spans = {(each["kind"], each["name"]): each for each in told["spans"]}
    request, handler = spans["producer", "request shop.price"], spans["consumer", "process shop.price"]
    calls = [each for each in told["spans"] if each["kind"] in ("client", "server")]
    assert handler["parent"] == request["id"]
    assert [each["parent"] for each in calls] == [handler["id"], calls[0]["id"]]
    assert [each["begin_ms"] for each in told["spans"]] == sorted(each["begin_ms"] for each in told["spans"])
    assert all(each["duration_ms"] >= 0 for each in told["spans"])
    assert ["messaging.destination.name", "shop.price"] in request["attributes"]


def test_failures_and_names_are_told_as_they_are(traced: Session) -> None:
    spans = [each for each in traced.spans(TRACE).value["spans"] if HOSTILE in each["name"]]
    assert len(spans) == 2
    assert all(each["error"] for each in spans)


def test_a_trace_that_is_not_sampled_has_none(traced: Session) -> None:
    assert traced.spans("1" * 32).value["spans"] == []


@pytest.mark.parametrize("trace", ["", "x" * 32, "1" * 31, "1" * 33, "%00", "A" * 32, "%D9%A3" * 32])
def test_odd_traces_are_refused(traced: Session, trace: str) -> None:
    assert traced.spans(trace).status == 400


def test_a_node_that_traces_nothing_says_so(node: EmbeddedNode) -> None:
    client = ConsoleClient(node).begin()
    assert client.value("GET", f"/api/trail/spans?trace={TRACE}") == {
        "node": 1,
        "others": [],
        "is_traced": False,
        "spans": [],
        "truncated": False,
    }
