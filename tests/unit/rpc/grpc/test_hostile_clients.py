"""Hostile gRPC clients: each is answered or refused, and the calls of others are answered meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

import pytest

pytest.importorskip("grpc")

import grpc
from grpc_reflection.v1alpha import reflection_pb2
from tests.unit.rpc.grpc.conftest import Client

from hutong.rpc import Rpc, service
from hutong.rpc.descriptions.description import describe
from hutong.rpc.grpc import GrpcLimits, open_server
from hutong.rpc.grpc.serving.server import GrpcServer

REFLECTION: Final = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
ANY_METADATA: Final = [("grpc.max_metadata_size", 1 << 26), ("grpc.absolute_max_metadata_size", 1 << 26)]


@service("pinged")
class Pinged(Protocol):
    async def ping(self) -> int: ...
    async def wait(self) -> None: ...
    def fill(self, size: int) -> AsyncIterator[bytes]: ...


class Implementation:
    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.produced = 0
        self.closed = 0

    async def ping(self) -> int:
        return 1

    async def wait(self) -> None:
        await self.go_on.wait()

    async def fill(self, size: int) -> AsyncIterator[bytes]:
        try:
            while True:
                self.produced += 1
                yield bytes(size)
        finally:
            self.closed += 1


class Scene:
    def __init__(self, server: GrpcServer, pinged: Implementation, attacker: Any, neighbour: Any) -> None:
        self.server = server
        self.pinged = pinged
        self.attacker = attacker
        self.client = Client(attacker, describe(Pinged))
        self._neighbour = Client(neighbour, describe(Pinged))

    async def must_go_on(self) -> None:
        """Another client, on a connection of its own, is answered."""
        assert (await self._neighbour.call("Ping")).result == 1

    def reflection(self) -> Any:
        return self.attacker.stream_stream(
            REFLECTION,
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )()


@asynccontextmanager
async def scene_of(rpc: Rpc, **limits: int) -> AsyncIterator[Scene]:
    pinged = Implementation()
    await rpc.bind(Pinged, pinged)
    server = await open_server(rpc, "127.0.0.1:0", limits=GrpcLimits(close_grace_ms=0, **limits))
    private = [("grpc.use_local_subchannel_pool", 1)]  # else both share a connection
    async with (
        grpc.aio.insecure_channel(server.address, options=private + ANY_METADATA) as attacker,
        grpc.aio.insecure_channel(server.address, options=private) as neighbour,
    ):
        yield Scene(server, pinged, attacker, neighbour)
    await server.close()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # the network has no event for that
        await asyncio.sleep(0.001)


async def status_of(call: Any) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call
    return str(failed.value.code().name)


FLOODS = {
    "one of 8 MB": [("much", "x" * 8_000_000)],
    "one just above the bound": [("much", "x" * 16_400)],
    "ten thousand pairs": [(f"name-{number}", "v") for number in range(10_000)],
    "the same name again and again": [("again", "v")] * 2_000,
    "bytes": [("much-bin", bytes(100_000))],
}


@pytest.mark.parametrize("metadata", FLOODS.values(), ids=FLOODS)
async def test_metadata_beyond_the_bound_are_refused(rpc: Rpc, metadata: list[tuple[str, str | bytes]]) -> None:
    async with scene_of(rpc) as scene:
        calls = [scene.client.call("Ping", options={"metadata": metadata}) for _ in range(5)]
        for call in calls:
            assert await status_of(call) in ("RESOURCE_EXHAUSTED", "UNAVAILABLE", "INTERNAL")
            await scene.must_go_on()
        assert not len(scene.server.waits)


async def test_metadata_within_the_bound_are_accepted(rpc: Rpc) -> None:
    async with scene_of(rpc) as scene:
        pairs = [(f"name-{number}", "v") for number in range(300)]
        assert (await scene.client.call("Ping", options={"metadata": pairs})).result == 1


async def test_a_reflection_stream_that_is_silent_is_ended(rpc: Rpc) -> None:
    async with scene_of(rpc, request_ms=100, calls_max=20) as scene:
        streams = [scene.reflection() for _ in range(20)]
        for stream in streams:
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await stream.read()
            assert failed.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await scene.must_go_on()


async def test_a_flood_of_reflection_whose_answers_nobody_reads(rpc: Rpc) -> None:
    async with scene_of(rpc, item_taken_ms=100, request_ms=60_000) as scene:
        stream = scene.reflection()
        question = reflection_pb2.ServerReflectionRequest(file_containing_symbol="pinged.Pinged", host="h" * 3_000)

        async def flood() -> None:
            while True:
                await stream.write(question)

        flooding = asyncio.ensure_future(flood())
        await until(lambda: scene.server._calls.total() > 0)
        await scene.must_go_on()
        flooding.cancel()
        stream.cancel()
        await until(lambda: not scene.server._calls)
        await scene.must_go_on()


async def test_calls_that_nobody_reads_count_until_their_connection_ends(rpc: Rpc) -> None:
    async with scene_of(rpc, item_taken_ms=100, calls_max=5, calls_per_address_max=3) as scene:
        unread = [scene.client.call("Fill", size=100_000) for _ in range(3)]
        await until(lambda: scene.pinged.closed == 3)
        assert scene.server._calls.total() == 3, "gRPC waits with their status"
        assert await status_of(scene.client.call("Ping")) == "RESOURCE_EXHAUSTED"
        async with from_address("127.0.0.2", scene.server.address) as other:
            assert (await Client(other, describe(Pinged)).call("Ping")).result == 1
        await scene.attacker.close()
        await until(lambda: not scene.server._calls)
        assert len(unread) == 3
        await scene.must_go_on()


async def test_a_question_is_not_repeated_by_the_megabyte(rpc: Rpc) -> None:
    async with scene_of(rpc) as scene:
        stream = scene.reflection()
        await stream.write(reflection_pb2.ServerReflectionRequest(list_services="x" * 1_000_000))
        assert await stream.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await scene.must_go_on()


async def test_one_address_leaves_calls_for_others(rpc: Rpc) -> None:
    async with scene_of(rpc, calls_max=8, calls_per_address_max=5) as scene:
        held = [scene.client.call("Wait") for _ in range(4)]
        held.append(scene.reflection())
        await until(lambda: scene.server._calls.total() == 5)
        assert await status_of(scene.client.call("Wait")) == "RESOURCE_EXHAUSTED"
        async with from_address("127.0.0.2", scene.server.address) as other:
            assert (await Client(other, describe(Pinged)).call("Ping")).result == 1
        for call in held:
            call.cancel()
        await until(lambda: not scene.server._calls)
        await scene.must_go_on()
        scene.pinged.go_on.set()  # the service goes on without its callers: unbinding would wait for it


@asynccontextmanager
async def from_address(local: str, address: str) -> AsyncIterator[Any]:
    """A channel whose connections come from another address of this machine: gRPC cannot choose, a proxy can."""
    host, _, port = address.rpartition(":")

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, onward = await asyncio.open_connection(host, int(port), local_addr=(local, 0))
        await asyncio.gather(copy(reader, onward), copy(there, writer), return_exceptions=True)

    proxy = await asyncio.start_server(accepted, "127.0.0.1", 0)
    async with proxy, grpc.aio.insecure_channel(f"127.0.0.1:{proxy.sockets[0].getsockname()[1]}") as channel:
        yield channel


async def test_a_hundred_streams_that_nobody_reads(rpc: Rpc) -> None:
    async with scene_of(rpc, streams_per_connection_max=1_000) as scene:
        streams = [scene.client.call("Fill", size=60_000) for _ in range(100)]
        await until(lambda: scene.pinged.produced >= 100)
        await scene.must_go_on()
        produced = -1
        while produced != scene.pinged.produced:  # as much as the windows hold
            produced = scene.pinged.produced
            await scene.must_go_on()
        for stream in streams:
            stream.cancel()
        await until(lambda: not scene.server._calls)
