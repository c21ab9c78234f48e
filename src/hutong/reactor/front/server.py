"""A server in a few lines: `async with serve(address, handler) as server`.

Strategy: an `Acceptor` beneath, with a clock, timers and limits of its own. Leaving the block accepts no more, lets
requests in flight be answered, and closes. Servers of other protocols share `FrontServer`.

Knows nothing of frames.
"""

import asyncio
import signal
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self

from hutong.reactor.accept.acceptor import Acceptor
from hutong.reactor.connections.handler import Handler
from hutong.reactor.frames.framing import Framing
from hutong.reactor.frames.lines import LineFraming
from hutong.reactor.front.addresses import bind_error, join_address, split_address
from hutong.reactor.front.defaults import (
    FRONT_LIMITS,
    LoopTime,
    Received,
    check_options,
    checked_framing,
    checked_ms,
    handler_of,
)
from hutong.reactor.front.piped import MakePipeline, PipelineConnections, checked_make
from hutong.reactor.limits import ReactorLimits


class FrontServer(ABC):
    """Listens at one address inside an `async with` block."""

    def __init__(self, address: str) -> None:
        """Raises ValueError for what is no address."""
        self._host, self._port = split_address(address, is_listening=True)
        self._time: LoopTime | None = None
        self._is_open = False

    async def __aenter__(self) -> Self:
        # An acceptor that was drained cannot listen again.
        if self._time is not None:
            raise RuntimeError("a server is used in one `async with` block; make another one")
        self._time = LoopTime(asyncio.get_running_loop())
        try:
            self._host, self._port = await self._listen(self._time, self._host, self._port)
            self._is_open = True
        # Only this error has a remedy to name.
        except OSError as error:
            await self._end(0)
            raise bind_error(error, self.address) from error
        # A cancelled start, too, must leave no socket that listens.
        except BaseException:
            await self._end(0)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def address(self) -> str:
        """HOST:PORT, with the port that was bound."""
        return join_address(self._host, self._port)

    async def close(self, grace: float | None = None) -> None:
        """Accept and read no more, let requests in flight be answered for `grace` seconds, close.

        The limits' `drain_ms_max` by default. A second call does nothing.
        """
        grace_ms = None if grace is None else checked_ms(grace, "grace")
        if self._is_open:
            # Before the wait: leaving the block may overlap with a `close` of the program.
            self._is_open = False
            await self._end(grace_ms)

    async def serve_until_signal(self) -> None:
        """Return at SIGINT or SIGTERM. Outside of the main thread it serves until it is cancelled."""
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        caught: list[signal.Signals] = []
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                # Python delivers signals to the main thread alone, and Windows's loop takes none.
                try:
                    loop.add_signal_handler(number, stopped.set)
                except (NotImplementedError, RuntimeError, ValueError):
                    break
                caught.append(number)
            await stopped.wait()
        finally:
            # Ctrl-C must work while the server drains, and after it.
            for number in caught:
                loop.remove_signal_handler(number)

    @abstractmethod
    async def _listen(self, time: LoopTime, host: str, port: int) -> tuple[str, int]:
        """Begin to serve; return the address and the port that were bound."""

    @abstractmethod
    async def _close(self, grace_ms: int | None) -> None:
        """End all connections, also after a failed or a partial `_listen`."""

    async def _end(self, grace_ms: int | None) -> None:
        try:
            # Also after a failure: of a name with two addresses, the first may listen already.
            await self._close(grace_ms)
        # The timers last: the grace is one of them.
        finally:
            if self._time is not None:
                self._time.close()


class ReactorServer(FrontServer):
    """The server of `serve`. Inside the block `acceptor` has the figures, and `cut`."""

    acceptor: Acceptor

    def __init__(
        self,
        address: str,
        handler: Handler | None,
        framing: Callable[[int], Framing],
        pipeline: MakePipeline | None,
        tls: ssl.SSLContext | None,
        limits: ReactorLimits,
    ) -> None:
        super().__init__(address)
        check_options(tls, limits, ReactorLimits)
        self._handler = handler
        self._framing = checked_framing(framing)
        self._pipeline = None if pipeline is None else checked_make(pipeline)
        self._tls = tls
        self._limits = limits

    async def _listen(self, time: LoopTime, host: str, port: int) -> tuple[str, int]:
        handler, framing = self._handler, self._framing
        if self._pipeline is not None:
            connections = PipelineConnections(self._pipeline, time)
            handler, framing = connections, connections.framing
        assert handler is not None
        self.acceptor = Acceptor(time.loop, handler, framing, clock=time.clock, wheel=time.wheel, limits=self._limits)
        return await self.acceptor.listen(host, port, self._tls)

    async def _close(self, grace_ms: int | None) -> None:
        await self.acceptor.drain(grace_ms)


def serve(
    address: str,
    handler: Handler | Received | None = None,
    *,
    framing: Callable[[int], Framing] = LineFraming,
    pipeline: MakePipeline | None = None,
    tls: ssl.SSLContext | None = None,
    limits: ReactorLimits = FRONT_LIMITS,
) -> ReactorServer:
    """A server at HOST:PORT (port 0 takes a free one), which serves inside `async with`.

    `handler` is a function of a frame and its peer, or a `Handler`. `framing` makes the framing of one connection from
    its frame limit in bytes: lines by default. In place of both, `pipeline` makes the list of handlers of a connection.
    Entering the block raises OSError where the address cannot be bound.
    """
    if (handler is None) is (pipeline is None):
        raise TypeError("a server has a handler (with a framing) or a pipeline: give one of them")
    return ReactorServer(address, None if handler is None else handler_of(handler), framing, pipeline, tls, limits)
