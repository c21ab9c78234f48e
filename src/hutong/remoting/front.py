"""Remoting in a few lines: `serve` for a server, `connect` for one connection of a client.

Strategy: a `RemotingServer` or a `RemotingClient` beneath, with a clock, timers and limits of its own. Times are in
seconds, as asyncio's.

Knows no more of commands than they do.
"""

import asyncio
import inspect
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Self

from hutong.reactor.front.addresses import join_address, split_address
from hutong.reactor.front.defaults import LoopTime, check_options, checked_ms
from hutong.reactor.front.piped import MakePipeline, checked_make
from hutong.reactor.front.server import FrontServer
from hutong.remoting.channels.channel import INVOKE_MS, Channel
from hutong.remoting.client import RemotingClient
from hutong.remoting.errors import RemotingConnectFailed
from hutong.remoting.limits import CLIENT_LIMITS, SERVER_LIMITS, RemotingLimits
from hutong.remoting.server import RemotingServer, TlsMode
from hutong.remoting.work.driver import QUEUE_MAX, Executor, Place
from hutong.remoting.work.processors import Process
from hutong.runtime.threads.offload import Offload
from hutong.wire.rocketmq.command import Command

Processors = Mapping[int, Process]
"""Request code → function of a command and its channel, which runs inline: it neither blocks nor takes long."""


class ServingRemoting(FrontServer):
    """The server of `serve`. Inside the block `remoting` is the server beneath: `register`, hooks, events, figures."""

    remoting: RemotingServer

    def __init__(
        self,
        address: str,
        processors: Processors,
        tls: ssl.SSLContext | None,
        mode: TlsMode | None,
        limits: RemotingLimits,
        pipeline: MakePipeline | None,
    ) -> None:
        super().__init__(address)
        _check_processors(processors)
        check_options(tls, limits, RemotingLimits)
        # Text such as "permissive" names a mode in RocketMQ's settings.
        if mode is not None and not isinstance(mode, TlsMode):
            raise TypeError(f"mode is a TlsMode, such as TlsMode.PERMISSIVE, not {mode!r}")
        self._pipeline = None if pipeline is None else checked_make(pipeline)
        self._processors = processors
        self._tls = tls
        self._mode = mode
        self._limits = limits

    def register(
        self,
        code: int | None,
        process: Process,
        executor: Executor | None = None,
        *,
        rejects: Callable[[], bool] | None = None,
    ) -> None:
        """As `Endpoint.register`, inside the block: for processors that run on an executor, and the default (None)."""
        # With an executor it may be a coroutine function, as long as that is in a context.
        if executor is None and code is not None:
            _check_processors({code: process})
        self.remoting.register(code, process, executor, rejects=rejects)

    def executor(
        self,
        name: str,
        place: Offload | Place,
        *,
        workers: int = 1,
        queue_max: int = QUEUE_MAX,
        wait: float | None = None,
    ) -> Executor:
        """An executor at `place`, inside the block: requests that waited for over `wait` seconds are refused."""
        # None switches queue ageing off: requests wait until a worker is free.
        wait_ms_max = None if wait is None else int(wait * 1000)
        side = self.remoting
        return Executor(
            name,
            place,
            clock=side.clock,
            wheel=side.wheel,
            workers=workers,
            queue_max=queue_max,
            wait_ms_max=wait_ms_max,
        )

    async def _listen(self, time: LoopTime, host: str, port: int) -> tuple[str, int]:
        self.remoting = RemotingServer(
            time.loop, clock=time.clock, wheel=time.wheel, limits=self._limits, pipeline=self._pipeline
        )
        # Before it listens: the first request may come in the same iteration of the loop.
        for code, process in self._processors.items():
            self.remoting.register(code, process)
        return await self.remoting.listen(host, port, tls=self._tls, mode=self._mode)

    async def _close(self, grace_ms: int | None) -> None:
        await self.remoting.close(grace_ms)


class RemotingConnection:
    """The connection of `connect`: one address inside an `async with` block, connected again after a loss.

    `remoting` is the client beneath, for other addresses, hooks and events.
    """

    remoting: RemotingClient

    def __init__(
        self,
        address: str,
        processors: Processors,
        tls: ssl.SSLContext | None,
        limits: RemotingLimits,
        pipeline: MakePipeline | None,
    ) -> None:
        # Here rather than at the first call, in the words that `serve` uses for the same mistake.
        self.address = join_address(*split_address(address))
        _check_processors(processors)
        check_options(tls, limits, RemotingLimits)
        self._pipeline = None if pipeline is None else checked_make(pipeline)
        self._processors = processors
        self._tls = tls
        self._limits = limits
        self._time: LoopTime | None = None

    async def __aenter__(self) -> Self:
        # A client that was closed connects no more.
        if self._time is not None:
            raise RuntimeError("a connection is used in one `async with` block; make another one")
        time = self._time = LoopTime(asyncio.get_running_loop())
        self.remoting = RemotingClient(
            time.loop,
            clock=time.clock,
            wheel=time.wheel,
            limits=self._limits,
            tls=self._tls,
            pipeline=self._pipeline,
        )
        # Before it connects: a server may ask as soon as the connection is open.
        for code, process in self._processors.items():
            self.remoting.register(code, process)
        # Now rather than at the first call: a program with a wrong address ends here, and its error names it.
        try:
            await self.remoting.connect(self.address)
        # No connection was made, but its timers run.
        except BaseException:
            await self._end(0)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end(None)

    def invoke(self, command: Command, timeout: float = INVOKE_MS / 1000) -> Awaitable[Command]:
        """Ask, and await the answer for `timeout` seconds at most. Raises any RemotingError."""
        _check_command(command)
        # RocketMQ's interfaces count milliseconds, and so does everything beneath.
        return self._client().invoke(self.address, command, checked_ms(timeout))

    async def oneway(self, command: Command) -> None:
        """Ask for no answer. Returns when it is on its way. Raises any RemotingError."""
        _check_command(command)
        # Lost with its connection: nobody awaits an answer that would show it.
        await self._client().oneway(self.address, command)

    async def channel(self) -> Channel:
        """The open channel, or a new one. Raises any RemotingError."""
        return await self._client().connect(self.address)

    def _client(self) -> RemotingClient:
        # Else the first call would fail with an AttributeError, which names neither address nor remedy.
        if self._time is None:
            raise RemotingConnectFailed(f"the connection to {self.address} is not open: use `async with`")
        return self.remoting

    async def _end(self, grace_ms: int | None) -> None:
        try:
            # The grace is a timer: the timers end after it, also when the wait is cancelled.
            await self.remoting.close(grace_ms)
        finally:
            if self._time is not None:
                self._time.close()


def serve(
    address: str,
    processors: Processors,
    *,
    tls: ssl.SSLContext | None = None,
    mode: TlsMode | None = None,
    limits: RemotingLimits = SERVER_LIMITS,
    pipeline: MakePipeline | None = None,
) -> ServingRemoting:
    """A server at HOST:PORT (port 0 takes a free one), which serves inside `async with`.

    `pipeline` makes the list of handlers of a connection, such as `[LengthFrames(), CommandCodec()]` and your own.
    Entering the block raises OSError where the address cannot be bound.
    """
    return ServingRemoting(address, processors, tls, mode, limits, pipeline)


def connect(
    address: str,
    processors: Processors | None = None,
    *,
    tls: ssl.SSLContext | None = None,
    limits: RemotingLimits = CLIENT_LIMITS,
    pipeline: MakePipeline | None = None,
) -> RemotingConnection:
    """A connection to HOST:PORT, open inside `async with`. `processors` answer what the server asks.

    `pipeline` makes the list of handlers of each connection, also of one that is made again. Entering the block raises
    RemotingConnectFailed or RemotingTimeout.
    """
    return RemotingConnection(address, processors or {}, tls, limits, pipeline)


def _check_command(command: Command) -> None:
    """Raise TypeError for values that the encoder would fail at, far from the program's line."""
    if not isinstance(command, Command):
        raise TypeError(f"a Command is sent, such as Command(10, body=b'...'), not {command!r}")
    if not isinstance(command.body, bytes | bytearray | memoryview):
        raise TypeError(f"the body of a command is bytes, not {type(command.body).__name__}: encode {command.body!r}")
    for name, value in (command.fields or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"ext fields are text by name, unlike {name!r}: {value!r}")


def _check_processors(processors: Processors) -> None:
    if not isinstance(processors, Mapping):
        hint = "a dict of functions by request code, such as {10: echo}"
        raise TypeError(f"processors are {hint}, not {processors!r}")
    for code, process in processors.items():
        # No request would ever match it.
        if not isinstance(code, int):
            raise TypeError(f"a request code is a number, not {code!r}")
        # Its coroutine would be taken for an answer; every request would be answered with an error.
        if inspect.iscoroutinefunction(process):
            hint = "register it inside the block with an executor in a context"
            raise TypeError(f"the processor of code {code} is a coroutine function: {hint} (docs/remoting.md)")
        # Found at the first request otherwise, which would be answered with SYSTEM_ERROR.
        if not callable(process):
            raise TypeError(f"the processor of code {code} is a function (command, channel), unlike {process!r}")
