"""`hutong bench`: measurements that a user can run without anything but Hutong.

Strategy: what is measured lives in its own folder; here are the words of the command line and what is printed. Figures
go to standard output as `name=value` words, one line for the whole and one for each process's memory.
"""

import asyncio
import enum
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hutong.cli.output import remark
from hutong.foundation.errors import ExitCode, Expired, PeerError, UsageError

if TYPE_CHECKING:
    from hutong.cli.meet.driver import Told
    from hutong.cli.meet.machine import Side
    from hutong.reactor.limits import ReactorLimits

EXIT_WRONG: Final = 1  # a line was missing or wrong

app = typer.Typer(name="bench", help="Measure this machine with Hutong alone.", no_args_is_help=True)


@app.callback()
def _bench() -> None:
    """Measure this machine with Hutong alone."""


class Way(enum.StrEnum):
    RUNS = "runs"
    LINES = "lines"
    REMOTING = "remoting"


class Role(enum.StrEnum):
    LISTEN = "listen"
    DIAL = "dial"


@app.command()
def meet(
    role: Annotated[
        Role | None, typer.Argument(metavar="[listen|dial]", help="Zhang's side alone, or Li's.", show_default=False)
    ] = None,
    address: Annotated[str | None, typer.Argument(metavar="[HOST:PORT]", show_default=False)] = None,
    meetings: Annotated[int, typer.Option("--meetings", "-n", min=0, max=(1 << 32) - 1)] = 100_000,
    way: Annotated[
        Way, typer.Option("--way", help="runs: many lines at a time; lines: each alone; remoting: each a command.")
    ] = Way.RUNS,
    kernel_buffer_bytes: Annotated[int | None, typer.Option("--kernel-buffer", min=1, max=1 << 30, hidden=True)] = None,
) -> int:
    """Two neighbours, one connection, six lines a meeting, both speaking and listening at once; in two processes."""
    if (role is None) != (address is None):
        raise UsageError("Write `hutong bench meet listen HOST:PORT`, `... dial HOST:PORT`, or neither for both sides.")
    exercise = _Exercise(meetings, way, kernel_buffer_bytes)
    if role is None:
        return _run(exercise.both())
    host, port = _address(str(address))
    return _run(exercise.listen(host, port) if role is Role.LISTEN else exercise.dial(host, port))


class _Exercise:
    """The ways to run it, and what each prints. Loops and connections are imported late: `--help` needs none."""

    def __init__(self, meetings: int, way: Way, kernel_buffer_bytes: int | None) -> None:
        self.meetings = meetings
        self.way = way
        self.kernel_buffer_bytes = kernel_buffer_bytes

    async def both(self) -> list[str]:
        from hutong.cli.meet.pair import both

        words = ["--meetings", str(self.meetings), "--way", self.way.value]
        if self.kernel_buffer_bytes is not None:
            words += ["--kernel-buffer", str(self.kernel_buffer_bytes)]
        lines, printed = await both(self._zhang, words)
        return lines + [line for line in printed.splitlines() if line.startswith("side=")]

    async def listen(self, host: str, port: int) -> list[str]:
        return await self._zhang(host, port, lambda bound: remark(f"listening at {bound[0]}:{bound[1]}"))

    async def dial(self, host: str, port: int) -> list[str]:
        from hutong.cli.meet import driver
        from hutong.cli.meet.machine import LI, Side

        side = Side(LI, self.meetings, line_by_line=self.way is not Way.RUNS)
        if self.way is Way.REMOTING:
            from hutong.cli.meet import remote

            return self._told(side, await remote.dial(host, port, side))
        return self._told(side, await driver.dial(host, port, side, limits=self._limits()))

    async def _zhang(self, host: str, port: int, ready: Callable[[tuple[str, int]], None]) -> list[str]:
        from hutong.cli.meet import driver
        from hutong.cli.meet.machine import ZHANG, Side

        side = Side(ZHANG, self.meetings, line_by_line=self.way is not Way.RUNS)
        if self.way is Way.REMOTING:
            from hutong.cli.meet import remote

            return self._told(side, await remote.listen(host, port, side, ready=ready))
        return self._told(side, await driver.listen(host, port, side, ready=ready, limits=self._limits()))

    def _limits(self) -> "ReactorLimits":
        from hutong.cli.meet.driver import limits_of

        return limits_of() if self.kernel_buffer_bytes is None else limits_of(self.kernel_buffer_bytes)

    def _told(self, side: "Side", told: "Told") -> list[str]:
        from hutong.cli.meet.driver import peak_bytes

        rate = self.meetings / told.seconds if told.seconds else 0.0
        memory = {"begin": told.memory_begin, "tenth": told.memory_tenth, "end": told.memory_end, "peak": peak_bytes()}
        words = " ".join(f"{name}_mb={size / 1e6:.1f}" for name, size in memory.items())
        return [
            f"way={self.way.value} meetings={self.meetings} seconds={told.seconds:.3f} per_second={rate:.0f}",
            f"side={side.part.name} {words} pauses={told.pauses} holds={told.holds}",
        ]


def _run(work: Coroutine[Any, Any, list[str]]) -> int:
    from hutong.remoting.errors import RemotingConnectFailed, RemotingError
    from hutong.runtime.loops import new_event_loop

    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            lines = runner.run(work)
    except (OSError, RemotingConnectFailed) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"There is no connection: {reason}.", ExitCode.UNAVAILABLE) from None
    except (PeerError, RemotingError) as error:
        remark(f"hutong: {error}")
        return EXIT_WRONG
    except Expired as error:
        raise UsageError(f"There is no connection: {error}.", ExitCode.UNAVAILABLE) from None
    for line in lines:
        typer.echo(line)
    return 0


def _address(text: str) -> tuple[str, int]:
    from hutong.server.config import parse_address

    try:
        address = parse_address(text)
    except ValueError as error:
        raise UsageError(f"The address {error}.") from None
    return address.host, address.port
