"""`hutong.rpc.connect`: services elsewhere, called without a node.

Knows how a client is put together: one connection, its timers, and a caller over it.
"""

import asyncio
import ssl
from typing import TYPE_CHECKING, Self

from hutong.foundation.clock import Clock, SystemClock
from hutong.foundation.errors import UsageError
from hutong.foundation.timers import TimerWheel
from hutong.remoting.channels.channel import Channel
from hutong.remoting.client import RemotingClient
from hutong.rpc.call import IncomingCall
from hutong.rpc.calling.caller import Caller
from hutong.rpc.delivery.caller.retry import Pace, Reliability
from hutong.rpc.remote.connections import CONNECTION_LIMITS
from hutong.rpc.remote.dialled import DialledTransport
from hutong.rpc.remote.incoming import CallLimits, IncomingCalls, RemoteCall
from hutong.rpc.remote.outgoing import ChannelTransport
from hutong.rpc.remote.wire import CALL
from hutong.runtime.loops.timers import LoopTimers

if TYPE_CHECKING:
    from hutong.rpc.rpc import Rpc


class Client(Caller):
    """Calls services over one connection: `proxy`, `call`, `go`. Made by `connect`.

    `async with` connects, and raises NotConnected if the address is unreachable. A call on a lost connection connects
    again. Everything is for the event loop on which it was made.
    """

    transport: DialledTransport

    def __init__(
        self,
        address: str,
        *,
        tls: ssl.SSLContext | None = None,
        services: "Rpc | None" = None,
        limits: CallLimits | None = None,
        clock: Clock | None = None,
        pace: Pace | None = None,
    ) -> None:
        loop, clock = asyncio.get_running_loop(), clock or SystemClock()
        self.address = _checked(address)
        wheel = TimerWheel(clock.monotonic_ms())
        self._timers = LoopTimers(loop, wheel, clock)
        self.incoming = None if services is None else IncomingCalls(services, loop, clock, limits)
        self.remoting = RemotingClient(loop, clock=clock, wheel=wheel, limits=CONNECTION_LIMITS, tls=tls)
        if self.incoming is not None:
            self.remoting.register(CALL, self.incoming.receive)
        self.transport = DialledTransport(self._dial, loop, clock, wheel)
        super().__init__(self.transport, make_reliable=Reliability(clock, wheel, pace=pace))

    @property
    def is_connected(self) -> bool:
        return self.transport.channel is not None

    @property
    def calls_awaited(self) -> int:
        """The number of calls that wait: for their answers, or for the connection."""
        return self.remoting.awaited + len(self.transport.waiting)

    async def connect(self) -> None:
        """Make the connection now, if there is none. Raises NotConnected."""
        await self.transport.connect()

    async def close(self) -> None:
        """Fail the calls under way and end the connection. A second call does nothing."""
        await self.transport.close()
        await self.remoting.close(0)
        await asyncio.sleep(0)  # tables have their timers stopped on this loop
        self._timers.close()

    async def __aenter__(self) -> Self:
        try:
            await self.connect()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<client of {self.address}{'' if self.is_connected else ', not connected'}>"

    async def _dial(self) -> Channel:
        return await self.remoting.connect(self.address)


def connect(
    address: str,
    *,
    tls: ssl.SSLContext | None = None,
    services: "Rpc | None" = None,
    limits: CallLimits | None = None,
    clock: Clock | None = None,
    pace: Pace | None = None,
) -> Client:
    """A client of the node that listens at `address` ("HOST:PORT", an IPv6 host in brackets), as `Node(rpc=...)` does.

    With `tls` the connection is encrypted and the node's certificate checked against the host, by the context's rules.
    With `services`, an `Rpc`, the other side may call services bound there; `limits` are for such calls. `pace` is for
    calls whose delivery retries. Raises UsageError for an invalid address.
    """
    return Client(address, tls=tls, services=services, limits=limits, clock=clock, pace=pace)


def caller_of(call: IncomingCall) -> Caller:
    """Return a caller for calls back to the peer that made `call`, while its connection lasts.

    Calls fail with NoService if that side offers no services. Raises UsageError for a call of another transport. For
    the loop of the connection, which is the node's first.
    """
    if not isinstance(call, RemoteCall):
        raise UsageError("caller_of() is for calls that came over a connection; this one did not.")
    return Caller(ChannelTransport(call.peer))


def _checked(address: str) -> str:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65_536:
        raise UsageError(f"{address!r} is no address; write HOST:PORT.")
    return address
