"""`hutong.rpc.connect`: services elsewhere, called without a node.

Knows how a client is put together: one connection, its timers, and a caller over it.
"""

import asyncio
import ssl
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Self

from hutong.foundation.clock import Clock, SystemClock
from hutong.foundation.errors import UsageError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import Owner
from hutong.reactor.front.addresses import split_address
from hutong.remoting.channels.channel import Channel
from hutong.remoting.client import RemotingClient
from hutong.rpc.call import IncomingCall
from hutong.rpc.calling.caller import Caller
from hutong.rpc.delivery.caller.retry import Pace, Reliability
from hutong.rpc.errors import CallFailed
from hutong.rpc.idle_time import idle_ms_of
from hutong.rpc.remote.calling_back import calling_back
from hutong.rpc.remote.connections import CONNECTION_LIMITS
from hutong.rpc.remote.dialled import DialledTransport
from hutong.rpc.remote.incoming import CallLimits, IncomingCalls, RemoteCall
from hutong.rpc.remote.passing import PassedObjects
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
        reference_idle_time: float | None = None,
        clock: Clock | None = None,
        pace: Pace | None = None,
        random: Random | None = None,
    ) -> None:
        """`random`, by default the machine's, is for pauses, names of sessions, and addresses of objects."""
        random = random or SystemRandom()
        idle_ms, limits = idle_ms_of(reference_idle_time), limits or CallLimits()
        loop, clock = asyncio.get_running_loop(), clock or SystemClock()
        self.address = _checked(address)
        wheel = TimerWheel(clock.monotonic_ms())
        self._timers = LoopTimers(loop, wheel, clock)
        self.passed = PassedObjects(
            self,
            services,
            clock,
            wheel,
            connection=self._connection,
            first_passed=self._take_calls,
            references_max=limits.references_per_connection_max,
            idle_ms=idle_ms,
            random_bits=random.getrandbits,
        )
        caller_over = calling_back(loop, self.passed.surroundings, limits.references_per_connection_max)
        self.incoming = IncomingCalls(self.passed, loop, clock, limits, caller_over=caller_over)
        self.remoting = RemotingClient(
            loop, clock=clock, wheel=wheel, limits=CONNECTION_LIMITS, tls=tls, chance=random.random
        )
        if services is not None:
            self._take_calls()
        self.transport = DialledTransport(self._dial, loop, clock, wheel)
        self._reliability = Reliability(clock, wheel, pace=pace, chance=random.random, random_bits=random.getrandbits)
        super().__init__(self.transport, make_reliable=self._reliability, exporter=self.passed)

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
        # Behind the connection: a call that was under way is in doubt, and says so.
        self._reliability.close(CallFailed("the client is closed"))
        await self.passed.end()
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

    def _connection(self) -> Owner | None:
        channel = self.transport.channel
        return None if channel is None else channel.owner

    def _take_calls(self) -> None:
        # Not before there is anything to call: a client that offers nothing refuses calls in the remoting itself.
        self.remoting.register(CALL, self.incoming.receive)

    async def _dial(self) -> Channel:
        return await self.remoting.connect(self.address)


def connect(
    address: str,
    *,
    tls: ssl.SSLContext | None = None,
    services: "Rpc | None" = None,
    limits: CallLimits | None = None,
    reference_idle_time: float | None = None,
    clock: Clock | None = None,
    pace: Pace | None = None,
) -> Client:
    """A client of the node that listens at `address` ("HOST:PORT", an IPv6 host in brackets), as `Node(rpc=...)` does.

    With `tls` the connection is encrypted and the node's certificate checked against the host, by the context's rules.
    With `services`, an `Rpc`, the other side may call services bound there; `limits` are for such calls. Objects
    that are passed to services are released at the end of the connection, and with `reference_idle_time` also when
    nobody has called them for as many seconds. `pace` is for calls whose delivery retries. Raises UsageError for an
    invalid address.
    """
    return Client(
        address,
        tls=tls,
        services=services,
        limits=limits,
        reference_idle_time=reference_idle_time,
        clock=clock,
        pace=pace,
    )


def caller_of(call: IncomingCall) -> Caller:
    """Return a caller for calls back to the peer that made `call`, while its connection lasts.

    Calls fail with NoService if that side offers no services. Raises UsageError for a call of another transport. From
    any context.
    """
    if not isinstance(call, RemoteCall):
        raise UsageError("caller_of() is for calls that came over a connection; this one did not.")
    return call.caller()


def _checked(address: str) -> str:
    try:
        split_address(address)
    # The error of this package, in the words of every other address.
    except ValueError as error:
        raise UsageError(f"{error}.") from None
    return address
