"""Remoting between two processes over loopback: `python -m bench remoting`.

Strategy: a server with an inline processor is a process of its own; the client here keeps a window of invocations
outstanding, each answer begins the next. Three ways to ask take short turns one after the other: `begin`, the way of
protocols on top; `invoke_then`, a callback; `invoke`, awaited by one coroutine for each place of the window. Medians of
the turns are shown, and what a call costs each process in processor time, which a busy machine does not distort.
"""

import argparse
import asyncio
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Final

import uvloop
from rich.console import Console
from rich.table import Table

from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import HutongError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.numbered import NumberedWait
from hutong.remoting.channels.answers import Answer
from hutong.remoting.channels.channel import Channel
from hutong.remoting.client import RemotingClient
from hutong.remoting.server import RemotingServer
from hutong.runtime.loops.timers import LoopTimers
from hutong.wire.rocketmq.command import IS_RESPONSE, Command, encode_binary

WINDOWS: Final = (1, 64)
ECHO: Final = 10
USED: Final = 11  # answers with the processor time of the server, in microseconds
TIMEOUT_MS: Final = 3_000
READY: Final = "ready "
Turn = dict[str, float]


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench remoting", description=__doc__)
    parser.add_argument("--turns", type=int, default=5, help="of each way after a warm-up (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a turn (default %(default)s)")
    parser.add_argument("--bytes", type=int, default=64, help="size of the body (default %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="also write every turn as JSON")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    options = arguments(words)
    with _served() as address:
        turns = uvloop.run(_measure(options, address))
    _print(turns)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(turns, indent=1) + "\n")
    return 0


async def _measure(options: argparse.Namespace, address: str) -> dict[str, list[Turn]]:
    turns: dict[str, list[Turn]] = {}
    async with _client() as client:
        channel = await client.connect(address)
        body = bytes(options.bytes)
        ways: dict[str, Callable[[int, float], _Run]] = {
            "begin": lambda window, seconds: _Begun(channel, body, window, seconds),
            "invoke_then": lambda window, seconds: _Told(channel, body, window, seconds),
            "invoke": lambda window, seconds: _Awaited(channel, body, window, seconds),
        }
        for turn in range(options.turns + 1):
            for window in WINDOWS:
                for name, make in ways.items():
                    measured = await _turn(make(window, options.seconds), channel)
                    if turn:
                        turns.setdefault(f"{name}, window {window}", []).append(measured)
    return turns


async def _turn(run: "_Run", channel: Channel) -> Turn:
    there_us = await _used_there(channel)
    begun_s, here_s = time.perf_counter(), time.process_time()
    calls = await run.run()
    elapsed_s, here_s = time.perf_counter() - begun_s, time.process_time() - here_s
    there_us = await _used_there(channel) - there_us
    return {"calls_per_s": calls / elapsed_s, "client_us": here_s * 1e6 / calls, "server_us": there_us / calls}


async def _used_there(channel: Channel) -> float:
    return float(bytes((await channel.invoke(Command(USED), TIMEOUT_MS)).body))


class _Run:
    """A window of calls for some seconds."""

    def __init__(self, channel: Channel, body: bytes, window: int, seconds: float) -> None:
        self.channel, self.body, self.window = channel, body, window
        self.calls = 0
        self.open = 0
        self.is_over = False
        self.done: asyncio.Future[None] = channel._endpoint.loop.create_future()
        channel._endpoint.loop.call_later(seconds, self._stop)

    async def run(self) -> int:
        self.open = self.window
        for _ in range(self.window):
            self.ask()
        await self.done
        return self.calls

    def ask(self) -> None:
        raise NotImplementedError

    def answered(self, outcome: Command | HutongError) -> None:
        if isinstance(outcome, HutongError):
            self.done.set_exception(outcome)
            return
        self.calls += 1
        if not self.is_over:
            self.ask()
            return
        self.open -= 1
        if not self.open:
            self.done.set_result(None)

    def _stop(self) -> None:
        self.is_over = True


class _Answered(NumberedWait[Command]):
    __slots__ = ("_told",)

    def __init__(self, told: Callable[[Command | HutongError], None]) -> None:
        self._told = told

    def end(self, outcome: Command | HutongError) -> None:
        self._told(outcome)


class _Begun(_Run):
    def ask(self) -> None:
        self.channel.begin(ECHO, b"", self.body, TIMEOUT_MS, _Answered(self.answered))


class _Told(_Run):
    def ask(self) -> None:
        self.channel.invoke_then(Command(ECHO, body=self.body), TIMEOUT_MS, self.answered)


class _Awaited(_Run):
    async def run(self) -> int:
        await asyncio.gather(*(self._ask_on() for _ in range(self.window)))
        return self.calls

    async def _ask_on(self) -> None:
        while not self.is_over:
            await self.channel.invoke(Command(ECHO, body=self.body), TIMEOUT_MS)
            self.calls += 1


def _print(turns: dict[str, list[Turn]]) -> None:
    table = Table("way to ask", title="Invocations between two processes, medians")
    for title in ("calls/s", "client us/call", "server us/call"):
        table.add_column(title, justify="right")
    for name, measured in turns.items():
        middle = {key: statistics.median([turn[key] for turn in measured]) for key in measured[0]}
        table.add_row(name, f"{middle['calls_per_s']:,.0f}", f"{middle['client_us']:.2f}", f"{middle['server_us']:.2f}")
    Console().print(table)


@contextlib.contextmanager
def _served() -> Iterator[str]:
    """The address of a server in a process of its own, which ends when its input does."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.remoting"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        try:
            yield server.stdout.readline().removeprefix(READY).strip()
        finally:
            server.stdin.close()


@contextlib.asynccontextmanager
async def _timers() -> AsyncIterator[tuple[SystemClock, TimerWheel]]:
    clock = SystemClock()
    wheel = TimerWheel(clock.monotonic_ms())
    timers = LoopTimers(asyncio.get_running_loop(), wheel, clock)
    try:
        yield clock, wheel
    finally:
        timers.close()


@contextlib.asynccontextmanager
async def _client() -> AsyncIterator[RemotingClient]:
    async with _timers() as (clock, wheel):
        client = RemotingClient(asyncio.get_running_loop(), clock=clock, wheel=wheel)
        try:
            yield client
        finally:
            await client.close()


def _echo(command: Command, _: Channel) -> Answer:
    return [encode_binary(0, command.opaque, IS_RESPONSE, b"", command.body)]


def _used(command: Command, _: Channel) -> Answer:
    return Command(0, body=b"%f" % (time.process_time() * 1e6))


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    async with _timers() as (clock, wheel):
        server = RemotingServer(loop, clock=clock, wheel=wheel)
        server.register(ECHO, _echo)
        server.register(USED, _used)
        host, port = await server.listen("127.0.0.1", 0)
        print(f"{READY}{host}:{port}", flush=True)
        await loop.run_in_executor(None, sys.stdin.read)
        await server.close(0)


if __name__ == "__main__":
    uvloop.run(_serve())
