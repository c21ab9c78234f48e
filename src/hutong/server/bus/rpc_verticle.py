"""The listener for calls over connections as a verticle, deployed after the bus.

Decides nothing: `hutong.rpc.remote` answers.
"""

import socket
import ssl
from typing import TYPE_CHECKING

from hutong.foundation.clock import Clock
from hutong.reactor.accept.acceptor import OpenSocket
from hutong.rpc.remote.listener import RpcListener
from hutong.runtime.verticles import Verticle
from hutong.server.configuration.settings import Address
from hutong.server.listeners.binding import bound

if TYPE_CHECKING:
    from hutong.rpc.remote.incoming import CallLimits
    from hutong.rpc.rpc import Rpc


class RpcVerticle(Verticle):
    """Listens at `address`; `listens_at` has the port that was bound, once it has started.

    Its start raises UsageError for an address that cannot be used.
    """

    listens_at: Address
    listener: RpcListener

    def __init__(
        self,
        rpc: "Rpc",
        address: Address,
        clock: Clock,
        tls: ssl.SSLContext | None,
        limits: "CallLimits | None",
        open_socket: OpenSocket = socket.socket,
    ) -> None:
        self._rpc = rpc
        self._address = address
        self._clock = clock
        self._tls = tls
        self._limits = limits
        self._open_socket = open_socket

    async def start(self) -> None:
        home, address = self.context.home, self._address
        self.listener = RpcListener(
            self._rpc,
            home.loop,
            clock=self._clock,
            wheel=home.wheel,
            limits=self._limits,
            open_socket=self._open_socket,
        )
        binding = self.listener.listen(address.host, address.port, self._tls)
        self.listens_at = await bound(address, binding, "with --listen")

    async def stop(self) -> None:
        await self.listener.close()
