"""The gRPC server as a verticle, deployed after the bus.

Decides nothing.
"""

from typing import TYPE_CHECKING

from hutong.rpc.grpc.opening import GrpcTls, open_server
from hutong.runtime.verticles import Verticle

if TYPE_CHECKING:
    from hutong.rpc.grpc.serving.server import GrpcServer
    from hutong.rpc.rpc import Rpc


class GrpcVerticle(Verticle):
    """Listens at `listen`. Its start raises UsageError for an address or a file that cannot be used."""

    server: "GrpcServer"

    def __init__(self, rpc: "Rpc", listen: str, tls: GrpcTls | None = None, *, allow_plain: bool = False) -> None:
        self._rpc = rpc
        self._listen = listen
        self._tls = tls
        self._allow_plain = allow_plain

    async def start(self) -> None:
        self.server = await open_server(self._rpc, self._listen, tls=self._tls, allow_plain=self._allow_plain)

    async def stop(self) -> None:
        await self.server.close()
