"""Server reflection: which services there are, and what their messages are, for clients without a `.proto`.

Strategy: the package that gRPC's authors publish answers; it is given the descriptors of all services at once, anew for
each client that asks, since services come and go. The messages of the protocol's first version and of its draft are the
same, so one answers both.

Knows no calls.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from google.protobuf import descriptor_pool
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from hutong.rpc.grpc.offers import Offers

NAME: Final = reflection.SERVICE_NAME
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


def reflection_handler(offers: Offers) -> Any:
    """The handler of the one method, as things are now."""
    servicer = reflection.aio.ReflectionServicer([*offers.names, NAME], Pools(offers.pools))
    collector = _Collector()
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, collector)
    return collector.handlers[_METHOD]
