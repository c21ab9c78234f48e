"""The event bus next to other ways to pass a message within one process: `python -m bench bus`.

Strategy: a burst of a thousand sends, and the next one from the loop once the last message of it was handled, as in the
benchmark of Vert.x next to which it stands: an unbounded flood would measure a queue. Requests keep a window of them
outstanding, each answer begins the next. The contenders take short turns in alternating order on one event loop
(uvloop's) and medians are shown. Vert.x runs by its own script, alone, before them.
"""

import argparse
import asyncio
import json
import pathlib
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Final

import uvloop
from rich.console import Console
from rich.table import Table

from bench.bus_contenders import Aiopubsub, Blinker, Contender, Pyee, Send
from bench.bus_hutong import Hutong

BURST: Final = 1_000
WINDOWS: Final = (1, 64)
DEFAULT_VERTX_SCRIPT: Final = pathlib.Path(__file__).resolve().parents[2] / "shared" / "peers" / "vertx" / "vertx"
Rates = dict[str, dict[str, list[float]]]
"""By job and contender, messages a second of each turn."""


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench bus", description=__doc__)
    parser.add_argument("--turns", type=int, default=5, help="of each contender after a warm-up (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a turn (default %(default)s)")
    parser.add_argument(
        "--vertx-peer", type=pathlib.Path, default=DEFAULT_VERTX_SCRIPT, metavar="SCRIPT",
        help="`SCRIPT bench-local` measures Vert.x on the JVM; skipped if absent",
    )  # fmt: skip
    parser.add_argument("--no-vertx", action="store_true", help="do not measure Vert.x")
    parser.add_argument("--json", metavar="FILE", help="also write every turn as JSON")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    options = arguments(words)
    rates: Rates = {}
    if not options.no_vertx and options.vertx_peer.exists():
        _measure_vertx(options.vertx_peer, rates)
    uvloop.run(_measure(options, rates))
    _print(rates)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rates, indent=1) + "\n")
    return 0


async def _measure(options: argparse.Namespace, rates: Rates) -> None:
    async with Hutong() as hutong:
        contenders: list[Contender] = [hutong, Pyee(), Blinker(), Aiopubsub()]
        for turn in range(options.turns + 1):
            for contender in reversed(contenders) if turn % 2 else contenders:
                turns = {
                    "send": await _sends(contender.plain, options.seconds),
                    "send, with headers, codec and interceptors": await _sends(contender.whole, options.seconds),
                    "send to a coroutine": await _sends_to_coroutine(contender, options.seconds),
                }
                await contender.rest()
                if isinstance(contender, Hutong):
                    for window in WINDOWS:
                        turns[f"request, {window} at a time"] = await _requests(hutong.request, window, options.seconds)
                        turns[f"request awaited, {window} at a time"] = await hutong.awaited(window, options.seconds)
                for job, rate in turns.items():
                    if turn and rate is not None:
                        rates.setdefault(job, {}).setdefault(contender.name, []).append(rate)


async def _sends(prepare: Callable[[Callable[[object], None]], Send], seconds: float) -> float:
    """Messages a second, one handler."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[float] = loop.create_future()
    left = handled_total = 0

    def handle(message: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            loop.call_soon(burst)

    def burst() -> None:
        nonlocal left, handled_total
        now_s = time.perf_counter()
        if now_s - begun_s >= seconds:
            done.set_result(handled_total / (now_s - begun_s))
            return
        left = BURST
        handled_total += BURST
        for _ in range(BURST):
            send()

    send = prepare(handle)
    begun_s = time.perf_counter()
    burst()
    return await done


async def _sends_to_coroutine(contender: Contender, seconds: float) -> float | None:
    """The same with a handler that is a coroutine and suspends nowhere."""
    can_be_sent = True

    def prepare(handle: Callable[[object], None]) -> Send:
        nonlocal can_be_sent

        async def handle_later(message: object) -> None:
            handle(message)

        send = contender.coroutines(handle_later)
        can_be_sent = send is not None
        return send or (lambda: handle(None))

    rate = await _sends(prepare, seconds)
    return rate if can_be_sent else None


async def _requests(request: Callable[[Callable[[object], None]], None], window: int, seconds: float) -> float:
    """Answers a second, `window` requests outstanding, each answer beginning the next."""
    done: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    answered_total = 0

    def answered(message: object) -> None:
        nonlocal answered_total
        answered_total += 1
        if answered_total % BURST == 0:
            now_s = time.perf_counter()
            if now_s - begun_s >= seconds and not done.done():
                done.set_result(answered_total / (now_s - begun_s))
        if not done.done():
            request(answered)

    begun_s = time.perf_counter()
    for _ in range(window):
        request(answered)
    return await done


def _measure_vertx(script: pathlib.Path, rates: Rates) -> None:
    command = [str(script), "bench-local", "--loops", "1"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    for line in map(json.loads, printed.splitlines()):
        if line["body"] == "String":
            job = "send" if line["case"] == "send" else f"request, {line['window']} at a time"
            rates.setdefault(job, {})["vertx (JVM)"] = [float(sample) for sample in line["samples"]]


def _print(rates: Rates) -> None:
    names = list(dict.fromkeys(name for job in rates.values() for name in job))
    names.sort(key=lambda name: name != "hutong")
    table = Table(title="Messages a second within one process, medians (least to most)", title_justify="left")
    for heading in ("job", *names):
        table.add_column(heading, justify="left" if heading == "job" else "right")
    for job, by_name in sorted(rates.items()):
        table.add_row(job, *(_cell(by_name.get(name), by_name.get("hutong"), name) for name in names))
    console = Console(width=None if Console().is_terminal else 160)
    console.print(table)
    console.print("In brackets: how many times faster hutong is.")


def _cell(turns: list[float] | None, ours: list[float] | None, name: str) -> str:
    if not turns:
        return "-"
    median = statistics.median(turns)
    spread = f"{median / 1e3:,.0f}k ({min(turns) / 1e3:,.0f}-{max(turns) / 1e3:,.0f})"
    return spread if name == "hutong" or not ours else f"{spread} [{statistics.median(ours) / median:.2f}x]"
