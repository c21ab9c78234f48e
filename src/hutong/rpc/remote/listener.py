"""Where a node's services are called over connections: `Node(rpc="HOST:PORT")`.

Knows how a listener is put together, and nothing of services.
"""

import asyncio
import ssl

from hutong.foundation.clock import Clock
from hutong.foundation.timers import TimerWheel
from hutong.reactor.figures import ReactorFigures
from hutong.rpc.remote.incoming import CallLimits, IncomingCalls
from hutong.rpc.remote.link import Links
from hutong.rpc.rpc import Rpc


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
    ) -> None:
        self.incoming = IncomingCalls(rpc, loop, clock, limits)
        self.links = Links(loop, clock, wheel, self.incoming)

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> tuple[str, int]:
        """Accept connections, encrypted ones with `tls`; returns the address and port. Raises OSError."""
        return await self.links.acceptor.listen(host, port, tls)

    async def close(self) -> None:
        """Accept and read no more, let calls under way be answered, within bounds; then end the connections."""
        await self.links.close()

    @property
    def figures(self) -> ReactorFigures:
        """Of its connections."""
        return self.links.acceptor.figures

    def cut(self) -> int:
        """End every connection at once, with what is unsent; returns how many."""
        return self.links.acceptor.cut(lambda peer: True)
