"""Processors: the table that maps request codes to functions and to the executors they run on.

A processor is a function `process(command, channel) -> Answer` (see `answers`). Registered alone it runs inline, on the
loop's thread, in the middle of reading: this is the cheapest way and must neither block nor take long. With an executor
(`work.driver.Executor`) it runs in a context or on worker threads, behind a queue with a bound of its own and ageing;
there it may block or be a coroutine function, and must not touch the channel but return its answer.

`rejects`, if given, is asked on the loop before each request: while it says true, requests are answered SYSTEM_BUSY.
Codes that nobody registered go to the default processor, else they are answered NOT_SUPPORTED.

A processor that raises is answered for with SYSTEM_ERROR and the error's text, and the loop's exception handler hears
of it; ProtocolError (from `Command.ext`, for one) closes the connection. Knows no connections.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from hutong.remoting.channels.answers import NOT_SUPPORTED, Answer, refusal
from hutong.wire.rocketmq.command import Command

if TYPE_CHECKING:
    from hutong.remoting.channels.channel import Channel
    from hutong.remoting.work.driver import Executor

Process: TypeAlias = "Callable[[Command, Channel], Answer | Awaitable[Answer]]"


class Registration:
    """One processor with its executor. `is_plain`: it runs inline and rejects nothing."""

    __slots__ = ("executor", "is_plain", "process", "rejects")

    def __init__(
        self, process: Process, executor: "Executor | None" = None, rejects: Callable[[], bool] | None = None
    ) -> None:
        self.process = process
        self.executor = executor
        self.rejects = rejects
        self.is_plain = executor is None and rejects is None


class ProcessorTable:
    """Processors by code; changed on the loop's thread only."""

    def __init__(self) -> None:
        self.default = Registration(_not_supported)
        self.by_code: dict[int, Registration] = {}

    def register(self, code: int, registration: Registration) -> None:
        self.by_code[code] = registration


def _not_supported(command: Command, _: "Channel") -> Answer:
    return refusal(NOT_SUPPORTED, f"request type {command.code} not supported")
