"""The listener for calls to a node's services: `Node(rpc="HOST:PORT")`.

Assembles a listener, and knows nothing of services.
"""

import asyncio
import socket
import ssl
from functools import partial
from typing import Final

from hutong.foundation.clock import Clock
from hutong.foundation.timers import TimerWheel
from hutong.reactor.accept.acceptor import OpenSocket
from hutong.reactor.figures import ReactorFigures
from hutong.remoting.server import RemotingServer, TlsMode
from hutong.rpc.over_bus.exports import ReferenceContexts
from hutong.rpc.over_bus.temporary import Surroundings
from hutong.rpc.remote.calling_back import calling_back
from hutong.rpc.remote.connections import CONNECTION_LIMITS
from hutong.rpc.remote.incoming import CallLimits, IncomingCalls
from hutong.rpc.remote.wire import CALL
from hutong.rpc.rpc import Rpc

GRACE_MS: Final = 5_000
"""For calls under way when the node stops."""


class RpcListener:
    """Answers calls of what is bound in `rpc`. On the loop of that; the wheel must be driven."""

    def __init__(
        self,
        rpc: Rpc,
        loop: asyncio.AbstractEventLoop,
        *,
        clock: Clock,
        wheel: TimerWheel,
        limits: CallLimits | None = None,
        open_socket: OpenSocket = socket.socket,
    ) -> None:
        self._wheel = wheel
        limits = limits or CallLimits()
        around = partial(_surroundings_of, rpc)
        caller_over = calling_back(loop, around, limits.references_per_connection_max)
        self.incoming = IncomingCalls(rpc, loop, clock, limits, caller_over=caller_over)
        self.remoting = RemotingServer(
            loop, clock=clock, wheel=wheel, limits=CONNECTION_LIMITS, open_socket=open_socket
        )
        self.remoting.register(CALL, self.incoming.receive)

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> tuple[str, int]:
        """Accept connections, encrypted ones with `tls`; returns the address and port. Raises OSError."""
        mode = TlsMode.DISABLED if tls is None else TlsMode.ENFORCING
        return await self.remoting.listen(host, port, tls=tls, mode=mode)

    async def close(self) -> None:
        """Accept and read no more, let calls under way be answered, within bounds; then end the connections."""
        await self.incoming.drain(self._wheel, GRACE_MS)
        await self.remoting.close()

    @property
    def figures(self) -> ReactorFigures:
        """Of its connections."""
        return self.remoting.reactor_figures


def _surroundings_of(rpc: Rpc) -> tuple[Surroundings, ReferenceContexts]:
    return rpc.temporaries, rpc.reference_contexts
