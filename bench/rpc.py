"""RPC over TCP next to gRPC and next to what plain asyncio streams can do at most: `python -m bench rpc`.

Strategy: each contender is a script that starts a server and a client process, measures windows of 1 and 64 unanswered
calls of 100 bytes and prints JSON; they take short turns in alternating order, and medians of the turns are shown.
One call at a time is measured a second time with the CPUs kept awake: asleep, a virtual CPU costs more than the call.
Other ways to call (by name, streams of items) and Vert.x's clustered bus follow, for report.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.machine_state import AWAKE, QUIET, machine_state

PEERS: Final = pathlib.Path(__file__).resolve().parents[2] / "shared" / "peers"
OURS: Final = (sys.executable, "-m", "bench.rpc_echo")
GOALS: Final = (("grpc", 1, 5.0), ("grpc", 64, 12.0), ("streams", 64, 0.5))
"""Of whom, at which window, how many times as fast RPC means to be."""
Line = dict[str, Any]
Rows = dict[tuple[str, int], list[Line]]
"""By contender and window, what each turn printed."""


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench rpc", description=__doc__)
    parser.add_argument("--turns", type=int, default=3, help="of each contender (default %(default)s)")
    parser.add_argument("--seconds", type=int, default=3, help="length of a turn (default %(default)s)")
    parser.add_argument("--grpc-peer", type=pathlib.Path, default=PEERS / "grpc" / "grpc-bench", metavar="SCRIPT",
                        help="measures grpc.aio and plain streams; skipped if absent")  # fmt: skip
    parser.add_argument("--vertx-peer", type=pathlib.Path, default=PEERS / "vertx" / "vertx", metavar="SCRIPT",
                        help="`SCRIPT bench-cluster` measures Vert.x's clustered bus; skipped if absent")  # fmt: skip
    parser.add_argument("--no-vertx", action="store_true", help="do not measure Vert.x")
    parser.add_argument("--json", metavar="FILE", help="also write every turn as JSON")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    options = arguments(words)
    turn = ("--seconds", str(options.seconds), "--warm", "1")
    contenders = {"proxy": (*OURS, *turn, "--only", "proxy")}
    if options.grpc_peer.exists():
        for kind in ("grpc", "streams"):
            contenders[kind] = (sys.executable, str(options.grpc_peer), *turn, "--only", kind)
    rows: Rows = {}
    for state, windows in ((QUIET, "1,64"), (AWAKE, "1")):
        with machine_state(state):
            for number in range(options.turns):
                for name in reversed(contenders) if number % 2 else contenders:
                    _add(rows, _lines((*contenders[name], "--windows", windows)), state)
    _add(rows, _lines((*OURS, *turn, "--only", "call", "--only", "stream")))
    _add(rows, _lines((*OURS, *turn, "--only", "deduplicated")))
    if not options.no_vertx and options.vertx_peer.exists():
        _add(rows, _vertx(options.vertx_peer))
    _print(rows)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps([line for lines in rows.values() for line in lines]) + "\n")
    return 0


def _lines(command: Sequence[str]) -> Iterator[Line]:
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout
    return map(json.loads, printed.splitlines())


def _vertx(script: pathlib.Path) -> Iterator[Line]:
    """Requests with short text, of its clustered bus between two processes."""
    for line in _lines((str(script), "bench-cluster")):
        if line.get("case") == "request" and line.get("body") == "String":
            yield {"kind": "vertx (JVM)", **line}


def _add(rows: Rows, lines: Iterator[Line], state: str = QUIET) -> None:
    for line in lines:
        rows.setdefault((_row(line["kind"], state), line["window"]), []).append(line)


def _row(kind: str, state: str) -> str:
    return kind if state == QUIET else f"{kind}, {state}"


def _median(rows: Rows, kind: str, window: int, figure: str) -> float | None:
    found = [line[figure] for line in rows.get((kind, window), ()) if line.get(figure) is not None]
    return statistics.median(found) if found else None


def _print(rows: Rows) -> None:
    table = Table(title="Calls a second over TCP between two processes, medians (least to most)", title_justify="left")
    for heading in ("who", "window", "a second", "p50 us", "p99 us", "CPU us client", "CPU us server"):
        table.add_column(heading, justify="left" if heading == "who" else "right")
    for kind, window in rows:
        rates = [line["per_second"] for line in rows[kind, window]]
        figures = [_median(rows, kind, window, name) for name in ("p50_us", "p99_us", "client_cpu_us", "server_cpu_us")]
        told = ["-" if figure is None else f"{figure:,.1f}" for figure in figures]
        spread = f"{statistics.median(rates):,.0f} ({min(rates):,.0f}-{max(rates):,.0f})"
        table.add_row(kind, str(window), spread, *told)
    console = Console(width=None if Console().is_terminal else 140)
    console.print(table)
    for other, window, goal in GOALS:
        for state in (QUIET, AWAKE):
            ours, theirs = (_median(rows, _row(kind, state), window, "per_second") for kind in ("proxy", other))
            if ours and theirs:
                console.print(f"window {window}, {state}: {ours / theirs:.2f}x {other} (wanted: {goal:g}x)")
