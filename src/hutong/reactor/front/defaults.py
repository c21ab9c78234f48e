"""The parts of a front that a program need not choose: clock, timers, limits, and a handler made of a function.

Knows nothing of addresses.
"""

import asyncio
import inspect
import ssl
from collections.abc import Callable
from typing import Final, TypeAlias, cast

from hutong.foundation.clock import Clock, SystemClock
from hutong.foundation.timers import TimerWheel
from hutong.reactor.connections.channel import HELD, PendingResponse, Response
from hutong.reactor.connections.handler import Handler, Peer
from hutong.reactor.frames.framing import Framing
from hutong.reactor.limits import KIBIBYTE, MEBIBYTE, ReactorLimits
from hutong.runtime.loops.timers import LoopTimers
from hutong.wire.buffer import Buffer

FRONT_LIMITS: Final = ReactorLimits(
    frame_bytes_max=MEBIBYTE,
    receiving_bytes_max=64 * MEBIBYTE,
    receiving_bytes_per_ip_max=16 * MEBIBYTE,
    memory_bytes_max=128 * MEBIBYTE,
    unsent_bytes_max=256 * KIBIBYTE,
    idle_ms_max=600_000,
)
"""Narrower than Kafka's, which must take records of 100 MiB: a small program stays small under any load."""

Received: TypeAlias = Callable[[bytes, Peer], Response | Buffer]
"""Answers one frame: with bytes, a list of them, a `PendingResponse`, HELD, or None for no answer."""


def checked_ms(seconds: float, name: str = "timeout") -> int:
    """Milliseconds of a time in seconds. Raises TypeError for what is no number: text would be repeated, not read."""
    if not isinstance(seconds, int | float):
        raise TypeError(f"{name} is a number of seconds, such as 3 or 0.5, not {seconds!r}")
    return int(seconds * 1000)


def checked_framing(framing: Callable[[int], Framing]) -> Callable[[int], Framing]:
    """The maker of framings itself. Raises TypeError for a framing: each connection needs its own."""
    if not callable(framing):
        raise TypeError(f"framing makes the framing of one connection: give the class, not {framing!r}")
    return framing


def check_options(tls: object, limits: object, kind: type) -> None:
    """Raise TypeError for options that would fail at the first connection only. `kind` is that of the limits."""
    # The usual slip is the certificate's file.
    if tls is not None and not isinstance(tls, ssl.SSLContext):
        hint = (
            "reactor.server_context(certificate, key) makes one for a server, ssl.create_default_context() for a client"
        )
        raise TypeError(f"tls is an ssl.SSLContext, not {tls!r}: {hint}")
    # Limits of remoting have those of the reactor within them, so the two are easily mistaken for each other.
    if not isinstance(limits, kind):
        raise TypeError(f"limits are {kind.__name__}(...), not {_shown(limits)}")


def _shown(value: object) -> str:
    # Limits of the other kind would fill the screen.
    return f"{type(value).__name__}(...)" if hasattr(value, "__slots__") else repr(value)


class LoopTime:
    """The clock and the driven timers of one front, on one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.clock: Clock = SystemClock()
        # Its own wheel: its timers end with the front, and those of other fronts on this loop do not.
        self.wheel = TimerWheel(self.clock.monotonic_ms())
        self._timers = LoopTimers(loop, self.wheel, self.clock)

    def close(self) -> None:
        self._timers.close()


class FunctionHandler:
    """A handler whose requests one function answers."""

    def __init__(self, received: Received) -> None:
        self._received = received

    def connection_opened(self, peer: Peer) -> None:
        """Do nothing: a function keeps no state of a connection."""

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        # A large frame may come as a view of its own buffer, and functions expect the methods of bytes.
        response = self._received(frame if isinstance(frame, bytes) else bytes(frame), peer)
        if response is None or isinstance(response, list | PendingResponse):
            return response
        if isinstance(response, bytes | bytearray | memoryview):
            return [response]
        if response is HELD:
            return response
        # The usual mistake of a first program; without this the error would come from deep within the channel.
        if isinstance(response, str):
            raise TypeError(f"a handler answers with bytes, not with str: encode {response[:40]!r}")
        # A function that returns a coroutine, too: closed, or Python warns that it was never awaited.
        if inspect.iscoroutine(response):
            response.close()
        hint = "bytes, a list of them, a PendingResponse, HELD, or None for no answer"
        raise TypeError(f"a handler answers with {hint}, not with {type(response).__name__}")

    def connection_closed(self, peer: Peer) -> None:
        """Do nothing, for the same reason."""


def handler_of(handler: Handler | Received) -> Handler:
    """The handler, or one that calls the function. Raises TypeError for anything else."""
    # First: a class of handlers has `request_received` as well.
    if isinstance(handler, type):
        raise TypeError(f"{handler.__name__} is a class: give an object of it, {handler.__name__}()")
    # An object with that method may also be callable: the object was meant.
    if hasattr(handler, "request_received"):
        return cast(Handler, handler)
    # Its coroutine would be taken for an answer, and never be awaited.
    if inspect.iscoroutinefunction(handler):
        hint = "write a function that returns a PendingResponse, and complete that later"
        raise TypeError(f"{handler.__name__} is a coroutine function: {hint}")
    if not callable(handler):
        raise TypeError(f"a handler is a function (frame, peer) or has request_received, unlike {handler!r}")
    return FunctionHandler(handler)
