"""Calls as spans, over each server: the caller's is the parent of the service's, and what that does is their child."""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

import pytest
from opentelemetry.trace import SpanKind, StatusCode
from tests.unit.tracing.scenes import Recording, is_child, until

from hutong.bus import EventBus
from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import UsageError
from hutong.rpc import Delivery, NoService, Rpc, ServiceError, connect, service
from hutong.rpc.remote.listener import RpcListener
from hutong.runtime.runtime import Runtime


@service("part")
class Part(Protocol):
    async def weight(self) -> int: ...


@service("shop")
class Shop(Protocol):
    async def buy(self, item: str) -> str: ...
    async def refuse(self) -> None: ...
    async def wait(self) -> None: ...
    async def part(self) -> Part: ...
    def count(self, upto: int) -> AsyncIterator[int]: ...


@service("till")
class Till(Protocol):
    async def pay(self, item: str) -> str: ...


class Drawer:
    async def pay(self, item: str) -> str:
        return item


class Weights:
    async def weight(self) -> int:
        return 5


class Goods:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.gate = asyncio.Event()

    async def buy(self, item: str) -> str:
        await asyncio.sleep(0)
        with self._recording.own.start_as_current_span("stock"):
            return f"{item}!"

    async def refuse(self) -> None:
        raise ServiceError("sold out", code=17)

    async def wait(self) -> None:
        await self.gate.wait()

    async def part(self) -> Weights:
        return Weights()

    async def count(self, upto: int) -> AsyncIterator[int]:
        for number in range(upto):
            with self._recording.own.start_as_current_span("item"):
                yield number


@pytest.fixture
async def bound(rpc: Rpc, recording: Recording) -> Rpc:
    await rpc.bind(Shop, Goods(recording))
    return rpc


async def test_a_call_over_the_bus_is_two_spans(bound: Rpc, recording: Recording) -> None:
    with recording.own.start_as_current_span("mine"):
        assert await bound.proxy(Shop).buy("pear") == "pear!"
    await until(lambda: len(recording.spans) == 4)
    client, server = (
        next(span for span in recording.spans if span.kind is kind and span.name == "shop/buy")
        for kind in (SpanKind.CLIENT, SpanKind.SERVER)
    )
    assert is_child(client, recording.span("mine"))
    assert is_child(server, client)
    assert is_child(recording.span("stock"), server)
    assert dict(server.attributes or {}) == {"rpc.system.name": "hutong", "rpc.method": "shop/buy"}
    assert [count for _, count in recording.points("rpc.client.call.duration")] == [1]
    assert [count for _, count in recording.points("rpc.server.call.duration")] == [1]


async def test_failures_of_a_service_say_their_code(bound: Rpc, recording: Recording) -> None:
    with pytest.raises(ServiceError):
        await bound.proxy(Shop).refuse()
    assert len(recording.spans) == 2
    for span in recording.spans:
        assert span.status.status_code is StatusCode.ERROR
        assert (span.attributes or {})["rpc.response.status_code"] == "17"
        assert (span.attributes or {})["error.type"] == "17"


async def test_a_call_that_reaches_nobody_fails_its_span(bound: Rpc, recording: Recording) -> None:
    with pytest.raises(NoService):
        await bound.call("nowhere", "act")
    span = recording.span("nowhere/act")
    assert (span.attributes or {})["error.type"] == "NoService"


async def test_an_abandoned_call_ends_its_span(rpc: Rpc, recording: Recording) -> None:
    goods = Goods(recording)
    await rpc.bind(Shop, goods)
    calling = asyncio.ensure_future(rpc.proxy(Shop).wait())
    await asyncio.sleep(0)
    calling.cancel()
    await until(lambda: recording.spans)
    assert (recording.span("shop/wait").attributes or {})["error.type"] == "cancelled"
    goods.gate.set()


async def test_an_unknown_method_is_one_name(bound: Rpc, recording: Recording) -> None:
    with pytest.raises(ServiceError):
        await bound.call("shop", "invented")
    assert (recording.span("shop/_OTHER").kind) is SpanKind.SERVER


async def test_items_of_a_stream_belong_to_the_call(bound: Rpc, recording: Recording) -> None:
    assert [item async for item in bound.proxy(Shop).count(3)] == [0, 1, 2]
    server = next(span for span in recording.spans if span.name == "shop/count" and span.kind is SpanKind.SERVER)
    items = [span for span in recording.spans if span.name == "item"]
    assert len(items) == 3
    assert all(is_child(item, server) for item in items)
    assert len(recording.spans) == 5


async def test_references_are_traced_by_the_name_of_their_service(bound: Rpc, recording: Recording) -> None:
    part = await bound.proxy(Shop).part()
    assert await part.weight() == 5
    spans = [span for span in recording.spans if span.name == "part/weight"]
    assert sorted(span.kind.name for span in spans) == ["CLIENT", "SERVER"]


async def test_a_call_that_is_tried_again_is_one_span_at_its_caller(bound: Rpc, recording: Recording) -> None:
    assert await bound.proxy(Shop, delivery=Delivery.AT_LEAST_ONCE).buy("fig") == "fig!"
    assert sum(span.kind is SpanKind.CLIENT for span in recording.spans) == 1


async def test_a_call_that_is_begun_is_traced(bound: Rpc, recording: Recording) -> None:
    shop = bound.proxy(Shop)
    assert await bound.go(shop.buy, "fig") == "fig!"
    assert await bound.go("shop", "buy", {"item": "fig"}) == "fig!"
    assert sum(span.kind is SpanKind.SERVER for span in recording.spans) == 2


async def test_a_call_over_a_connection_is_one_trace(bound: Rpc, runtime: Runtime, recording: Recording) -> None:
    clock = SystemClock()
    home = runtime.context(loop=0).home
    listener = RpcListener(bound, home.loop, clock=clock, wheel=home.wheel)
    _, port = await listener.listen("127.0.0.1", 0, None)
    async with connect(f"127.0.0.1:{port}") as client:
        recording.tracing.trace(client)
        for item in ("a", "b"):
            with recording.own.start_as_current_span(item):
                assert await client.proxy(Shop).buy(item) == f"{item}!"
    await listener.close()
    traces = [span.get_span_context().trace_id for span in recording.spans]  # type: ignore[union-attr]
    assert len(traces) == 8
    assert len(set(traces)) == 2
    assert all(traces.count(trace) == 4 for trace in traces)


async def test_a_call_over_grpc_goes_on_with_the_trace_of_its_metadata(rpc: Rpc, recording: Recording) -> None:
    grpc = pytest.importorskip("grpc")
    await rpc.bind(Till, Drawer())
    from hutong.rpc.descriptions.description import describe
    from hutong.rpc.grpc import open_server
    from hutong.rpc.grpc.proto.conversion import ServiceConversion
    from hutong.rpc.grpc.proto.shapes import builtins_of

    server = await open_server(rpc, "127.0.0.1:0")
    conversion = ServiceConversion(describe(Till), None)
    path = next(path for path in conversion.methods if path.lower().endswith("/pay"))
    request = conversion.methods[path].mapping.request.write(builtins_of({"item": "fig"})).SerializeToString()
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    async with grpc.aio.insecure_channel(server.address) as channel:
        await channel.unary_unary(path)(request, metadata=(("traceparent", parent), ("tracestate", "a=1")))
    await server.close()
    span = recording.span("till/pay")
    assert span.parent is not None
    assert span.parent.span_id == 0x00F067AA0BA902B7
    assert span.parent.trace_state.get("a") == "1"


async def test_rpc_is_traced_from_the_start_or_not_at_all(
    bus: EventBus, runtime: Runtime, recording: Recording
) -> None:
    async with Rpc(bus, runtime) as late:
        await late.bind(Shop, Goods(recording))
        with pytest.raises(UsageError, match="from the start"):
            recording.tracing.trace(late)
