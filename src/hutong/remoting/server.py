"""A remoting server: processors by code, and channels by which it asks its clients.

    server = RemotingServer(loop, clock=clock, wheel=wheel)
    server.register(10, process)                      # process(command, channel) -> Answer, inline
    server.register(11, slow, Executor("pulls", ThreadOffload(loop, 4, "pulls"), clock=clock, wheel=wheel, workers=4))
    host, port = await server.listen("0.0.0.0", 9876)

TLS is RocketMQ's three modes: disabled, permissive (each connection's first byte says whether it is TLS), enforcing.
Everything is on the loop's thread. See `endpoint` for what clients and servers share.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from enum import Enum

from hutong.foundation.clock import Clock
from hutong.foundation.timers import TimerWheel
from hutong.reactor.accept.acceptor import Acceptor, OpenSocket
from hutong.reactor.figures import ReactorFigures
from hutong.reactor.front.piped import MakePipeline
from hutong.reactor.tls.protocol import TlsSource
from hutong.remoting.endpoint import Endpoint
from hutong.remoting.limits import SERVER_LIMITS, RemotingLimits
from hutong.remoting.piped import handler_of


class TlsMode(Enum):
    DISABLED = "disabled"
    PERMISSIVE = "permissive"  # as each connection begins
    ENFORCING = "enforcing"


class RemotingServer(Endpoint):
    """Listens on any number of addresses."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        clock: Clock,
        wheel: TimerWheel,
        limits: RemotingLimits = SERVER_LIMITS,
        pipeline: MakePipeline | None = None,
        open_socket: OpenSocket = socket.socket,
    ) -> None:
        """`pipeline` makes the handlers of a connection, whose last one passes commands on.

        `open_socket` makes the sockets that listen.
        """
        super().__init__(loop, clock=clock, wheel=wheel, limits=limits)
        handler, framing = handler_of(self, pipeline)
        self._acceptor = Acceptor(
            loop, handler, framing, clock=clock, wheel=wheel, limits=limits.reactor, open_socket=open_socket
        )

    @property
    def reactor_figures(self) -> ReactorFigures:
        """Of its connections."""
        return self._acceptor.figures

    def call_at_traffic(self, callback: Callable[[], None]) -> None:
        """Call it once, with the next bytes that any connection reads."""
        self._acceptor.memory.call_at_traffic(callback)

    async def listen(
        self, host: str, port: int, *, tls: ssl.SSLContext | TlsSource | None = None, mode: TlsMode | None = None
    ) -> tuple[str, int]:
        """Accept connections; port 0 takes a free one. Returns address and port.

        `tls` is a context, or a function that is asked for one with each connection.
        `mode` is by default PERMISSIVE with a context and DISABLED without. Raises OSError where it cannot be bound,
        ValueError for a mode that needs a context and has none.
        """
        mode = mode or (TlsMode.DISABLED if tls is None else TlsMode.PERMISSIVE)
        if mode is TlsMode.DISABLED:
            tls = None
        elif tls is None:
            raise ValueError(f"TLS is {mode.value}, but there is no context for it")
        return await self._acceptor.listen(host, port, tls, is_tls_optional=mode is TlsMode.PERMISSIVE)

    async def close(self, grace_ms: int | None = None) -> None:
        """Accept and read no more, send what is ready, close. What was asked of clients fails."""
        await self._acceptor.drain(grace_ms)
