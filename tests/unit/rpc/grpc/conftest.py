"""A server for the services of an `Rpc`, and a client that speaks to it without generated code."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("grpc")

import grpc

from hutong.foundation.clock import SystemClock
from hutong.rpc import Rpc
from hutong.rpc.descriptions.description import ServiceDescription
from hutong.rpc.grpc import GrpcLimits, open_server
from hutong.rpc.grpc.proto.conversion import ServiceConversion
from hutong.rpc.grpc.proto.descriptors import message_class
from hutong.rpc.grpc.proto.shapes import builtins_of
from hutong.rpc.grpc.serving.server import GrpcServer

LIMITS = GrpcLimits(message_bytes_max=100_000, calls_max=50, item_taken_ms=60_000, close_grace_ms=0)
CLOCK = SystemClock()


class Client:
    """Calls by the methods' names, with arguments by theirs."""

    def __init__(self, channel: Any, service: ServiceDescription, package: str | None = None) -> None:
        self.channel = channel
        self._conversion = ServiceConversion(service, package)

    def call(self, method: str, /, *, request: bytes | None = None, **arguments: Any) -> Any:
        """The call, not awaited: options go to `options`, all else is an argument."""
        path = f"/{self._conversion.schema.full_name}/{method}"
        conversion = self._conversion.methods[path]
        options = arguments.pop("options", {})
        if request is None:
            request = conversion.mapping.request.write(builtins_of(arguments)).SerializeToString()
        response = message_class(self._conversion.pool, self._conversion.schema, conversion.mapping.response.type.name)
        make = (
            self.channel.unary_stream if conversion.mapping.method.kind.value == "stream" else self.channel.unary_unary
        )
        return make(path, response_deserializer=response.FromString)(request, **options)

    async def status(self, method: str, /, **arguments: Any) -> tuple[str, str, dict[str, Any]]:
        """Of a call that fails: code, message and trailers."""
        try:
            await self.call(method, **arguments)
        except grpc.aio.AioRpcError as error:
            return error.code().name, error.details() or "", dict(error.trailing_metadata() or ())
        raise AssertionError(f"{method} did not fail")


@pytest.fixture
async def server(rpc: Rpc) -> AsyncIterator[GrpcServer]:
    server = await open_server(rpc, "127.0.0.1:0", limits=LIMITS)
    yield server
    await server.close()
    assert not len(server.waits)
    server.waits.check_invariants()


@pytest.fixture
async def channel(server: GrpcServer) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield channel
