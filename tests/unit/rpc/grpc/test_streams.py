"""Streams over gRPC: in order, no further ahead than the reader takes them, closed with their reader."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Protocol

import pytest

pytest.importorskip("grpc")

import grpc
from tests.unit.rpc.grpc.conftest import LIMITS, Client

from hutong.rpc import Rpc, ServiceError, current_call, service
from hutong.rpc.descriptions.description import describe
from hutong.rpc.grpc import GrpcLimits, open_server
from hutong.rpc.grpc.serving.server import GrpcServer
from hutong.runtime.contexts.contexts import ContextKind
from hutong.runtime.runtime import Runtime


class Enough(ServiceError):
    code = 40


@service("numbers", errors=[Enough])
class Numbers(Protocol):
    def count(self, stop: int) -> AsyncIterator[int]: ...
    def fill(self, size: int) -> AsyncIterator[bytes]: ...
    async def refuse(self) -> AsyncIterator[int]: ...
    def wait(self) -> AsyncIterator[int]: ...
    def fault(self) -> AsyncIterator[int]: ...


class Implementation:
    def __init__(self) -> None:
        self.produced = 0
        self.waits = asyncio.Event()
        self.is_closed = asyncio.Event()

    async def count(self, stop: int) -> AsyncIterator[int]:
        for number in range(stop):
            yield number
        if stop == 13:
            raise Enough(current_call().action)

    async def fill(self, size: int) -> AsyncIterator[bytes]:
        try:
            while True:
                self.produced += 1
                yield bytes(size)
        finally:
            self.is_closed.set()

    async def refuse(self) -> AsyncIterator[int]:
        raise Enough("not at all")

    async def wait(self) -> AsyncIterator[int]:
        try:
            yield 1
            self.waits.set()
            await asyncio.Event().wait()
            yield 2
        finally:
            self.is_closed.set()

    async def fault(self) -> AsyncIterator[int]:
        yield 1
        raise ZeroDivisionError


@pytest.fixture
async def numbers(rpc: Rpc) -> Implementation:
    numbers = Implementation()
    await rpc.bind(Numbers, numbers)
    return numbers


@pytest.fixture
def client(channel: Any, numbers: Implementation) -> Client:
    return Client(channel, describe(Numbers))


async def read(call: Any) -> tuple[list[Any], str]:
    """The items, and the status behind them."""
    items = []
    try:
        async for response in call:
            items.append(response.result)  # noqa: PERF401
    except grpc.aio.AioRpcError as error:
        return items, error.code().name
    return items, "OK"


async def test_items_in_order(client: Client, server: GrpcServer) -> None:
    assert await read(client.call("Count", stop=200)) == (list(range(200)), "OK")
    assert await read(client.call("Count", stop=0)) == ([], "OK")
    assert not len(server.waits)


async def test_failures_before_and_behind_the_items(client: Client, failures: list[BaseException]) -> None:
    assert await read(client.call("Refuse")) == ([], "FAILED_PRECONDITION")
    assert await read(client.call("Count", stop=13)) == (list(range(13)), "FAILED_PRECONDITION")
    assert await read(client.call("Fault")) == ([1], "UNKNOWN")
    assert [type(failure) for failure in failures] == [ZeroDivisionError]


async def test_wrong_arguments_of_a_stream(client: Client) -> None:
    assert await read(client.call("Count", request=b"\xff")) == ([], "INVALID_ARGUMENT")


async def test_a_reader_that_cancels_closes_the_stream_where_it_waits(client: Client, numbers: Implementation) -> None:
    call = client.call("Wait")
    assert (await call.read()).result == 1
    await numbers.waits.wait()
    call.cancel()
    await numbers.is_closed.wait()


async def test_a_deadline_closes_the_stream(client: Client, numbers: Implementation) -> None:
    assert await read(client.call("Wait", options={"timeout": 0.2})) == ([1], "DEADLINE_EXCEEDED")
    await numbers.is_closed.wait()


async def test_a_reader_that_does_not_read_holds_the_stream_up_and_then_loses_it(
    rpc: Rpc, numbers: Implementation
) -> None:
    limits = GrpcLimits(item_taken_ms=100, close_grace_ms=0)
    server = await open_server(rpc, "127.0.0.1:0", limits=limits)
    async with grpc.aio.insecure_channel(server.address) as channel:
        client = Client(channel, describe(Numbers))
        call = client.call("Fill", size=50_000)
        await numbers.is_closed.wait()
        assert numbers.produced < 1_000, "not made ahead, but for what the network holds"
        assert await read(client.call("Count", stop=3)) == ([0, 1, 2], "OK"), "others are unhurt"
        call.cancel()
    await server.close()


async def test_an_item_that_is_too_large(client: Client, numbers: Implementation) -> None:
    assert await read(client.call("Fill", size=LIMITS.message_bytes_max + 1)) == ([], "RESOURCE_EXHAUSTED")
    await numbers.is_closed.wait()


@pytest.mark.parametrize("kind", [ContextKind.WORKER, ContextKind.EVENT_LOOP])
async def test_streams_of_services_in_other_threads(rpc: Rpc, runtime: Runtime, kind: ContextKind) -> None:
    context = runtime.context(kind, name="elsewhere")
    await rpc.bind(Numbers, Implementation(), address="elsewhere", context=context)
    server = await open_server(rpc, "127.0.0.1:0", limits=LIMITS)
    async with grpc.aio.insecure_channel(server.address) as channel:
        client = Client(channel, describe(Numbers), package="elsewhere")
        assert await read(client.call("Count", stop=20)) == (list(range(20)), "OK")
        assert await read(client.call("Count", stop=13)) == (list(range(13)), "FAILED_PRECONDITION")
    await server.close()


async def test_a_service_that_is_closed_ends_its_streams(
    rpc: Rpc, runtime: Runtime, numbers: Implementation, channel: Any
) -> None:
    context = runtime.context(name="closing")
    await rpc.bind(Numbers, numbers, address="closing", context=context)
    call = Client(channel, describe(Numbers), package="closing").call("Wait")
    assert (await call.read()).result == 1
    await numbers.waits.wait()
    await context.close()
    assert await call.code() is grpc.StatusCode.ABORTED
    assert numbers.is_closed.is_set()
