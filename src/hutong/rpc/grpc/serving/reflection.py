"""Server reflection: which services there are, and what their messages are, for clients without a `.proto`.

Strategy: the package that gRPC's authors publish answers; it is given the descriptors of all services at once, anew for
each client that asks, since services come and go. The messages of the protocol's first version and of its draft are the
same, so one answers both.

Knows no calls.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pool
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from hutong.rpc.grpc.serving.offers import Offers

NAME: Final = reflection.SERVICE_NAME
QUESTION_BYTES_MAX: Final = 4_096  # names of files and symbols
_METHOD: Final = "ServerReflectionInfo"
PATHS: Final = (f"/{NAME}/{_METHOD}", f"/grpc.reflection.v1.ServerReflection/{_METHOD}")


class Pools:
    """Several descriptor pools as one: what is asked for is in the first that has it."""

    def __init__(self, pools: Iterable[Any]) -> None:
        self._pools = (*pools, descriptor_pool.Default())

    def _first(self, find: Callable[[Any], Any]) -> Any:
        for pool in self._pools:
            try:
                return find(pool)
            except KeyError:
                continue
        raise KeyError

    # By these names the reflection service asks a pool. All raise KeyError.
    def FindFileByName(self, name: str) -> Any:
        return self._first(lambda pool: pool.FindFileByName(name))

    def FindFileContainingSymbol(self, symbol: str) -> Any:
        return self._first(lambda pool: pool.FindFileContainingSymbol(symbol))

    def FindMessageTypeByName(self, name: str) -> Any:
        return self._first(lambda pool: pool.FindMessageTypeByName(name))

    def FindExtensionByNumber(self, message: Any, number: int) -> Any:
        return message.file.pool.FindExtensionByNumber(message, number)

    def FindAllExtensions(self, message: Any) -> Any:
        return message.file.pool.FindAllExtensions(message)


class _Collector:
    """Stand-in for a server, to which the package's code gives its handlers."""

    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}

    def add_generic_rpc_handlers(self, handlers: Iterable[Any]) -> None: ...

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        self.handlers.update(handlers)


class ReflectionTooLarge(Exception):
    """A question of more than QUESTION_BYTES_MAX."""


def reflection_codec() -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    """Reading of the requests and writing of the answers."""
    collector = _Collector()
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(reflection.aio.ReflectionServicer([]), collector)
    handler = collector.handlers[_METHOD]
    return handler.request_deserializer, handler.response_serializer


async def reflect(offers: Offers, context: Any, request_ms: int, taken_ms: int) -> None:
    """Answer one stream of questions, as things are now.

    Raises TimeoutError where the client is silent for `request_ms` or takes no answer for `taken_ms`: an open stream is
    a call in progress, and their number is bounded. Raises ReflectionTooLarge.
    """
    servicer = reflection.aio.ReflectionServicer([*offers.names, NAME], Pools(offers.pools))

    async def questions() -> AsyncIterator[Any]:
        while True:
            async with asyncio.timeout(request_ms / 1_000):
                question = await context.read()
            if question is grpc.aio.EOF:
                return
            if question.ByteSize() > QUESTION_BYTES_MAX:  # an answer repeats its question
                raise ReflectionTooLarge
            yield question

    async for answer in servicer.ServerReflectionInfo(questions(), context):
        async with asyncio.timeout(taken_ms / 1_000):
            await context.write(answer)
