"""The parts of a front that a program need not choose: clock, timers, limits, and a handler made of a function.

Knows nothing of addresses.
"""

import asyncio
import inspect
from collections.abc import Callable
from typing import Final, TypeAlias, cast

from hutong.foundation.clock import Clock, SystemClock
from hutong.foundation.timers import TimerWheel
from hutong.reactor.connections.channel import PendingResponse, Response
from hutong.reactor.connections.handler import Handler, Peer
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
        # The usual mistake of a first program; without this the error would come from deep within the channel.
        if isinstance(response, str):
            raise TypeError(f"a handler answers with bytes, not with str: encode {response[:40]!r}")
        return response

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
