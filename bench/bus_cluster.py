"""The bus over two nodes next to Vert.x's and to gRPC: `python -m bench bus-cluster`.

Strategy: each contender is a script that starts two processes, measures, and prints JSON; they take short turns in
alternating order, and medians of the turns are shown. All nodes of a bus meet in one ZooKeeper. Requests carry 100
characters, and 1 or 64 are unanswered. Vert.x's script has no sends between processes, so `bench/vertx/BusSends.java`
does what `bench/bus_cluster_echo.py` does: bursts of which the last message is answered. "no bus" is what two processes
on the same loop do with as many bytes: no bus in Python can be faster.

A Java machine gets faster for some seconds, so its turns begin with a longer warm-up.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper

PEERS: Final = pathlib.Path(__file__).resolve().parents[2] / "shared" / "peers"
SENDS: Final = pathlib.Path(__file__).resolve().parent / "vertx" / "BusSends.java"
GOALS: Final = (("vertx", "request", 1, 1.0), ("vertx", "request", 64, 1.0), ("grpc", "request", 64, 12.0))
"""Of whom, in which job and window, how many times as fast the bus means to be."""
Line = dict[str, Any]
Rows = dict[tuple[str, str, int], list[Line]]
"""By job, contender and window, what each turn printed."""
Turn = Callable[[], Iterator[Line]]


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench bus-cluster", description=__doc__)
    parser.add_argument("--turns", type=int, default=3, help="of each contender (default %(default)s)")
    parser.add_argument("--seconds", type=int, default=3, help="length of a turn (default %(default)s)")
    parser.add_argument(
        "--java-warm", type=int, default=6, help="seconds before each figure of Vert.x (default %(default)s)"
    )
    parser.add_argument("--vertx-peer", type=pathlib.Path, default=PEERS / "vertx" / "vertx", metavar="SCRIPT",
                        help="`SCRIPT bench-cluster` measures Vert.x's requests; skipped if absent")  # fmt: skip
    parser.add_argument("--vertx-jars", type=pathlib.Path, metavar="FOLDER",
                        default=pathlib.Path.home() / ".cache" / "hutong-peers" / "vertx" / "jars",
                        help="the jars that it has fetched, for its sends; skipped if absent")  # fmt: skip
    parser.add_argument("--grpc-peer", type=pathlib.Path, default=PEERS / "grpc" / "grpc-bench", metavar="SCRIPT",
                        help="measures grpc.aio; skipped if absent")  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="also write every turn as JSON")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    options = arguments(words)
    rows: Rows = {}
    with tempfile.TemporaryDirectory() as folder, _zookeeper(pathlib.Path(folder)) as address:
        turns = _turns(options, address)
        for number in range(options.turns):
            for name in reversed(turns) if number % 2 else turns:
                for line in turns[name]():
                    rows.setdefault((line["case"], name, line["window"]), []).append(line)
    _print(rows)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps([line for lines in rows.values() for line in lines]) + "\n")
    return 0


@contextlib.contextmanager
def _zookeeper(folder: pathlib.Path) -> Iterator[str]:
    server = DevelopmentZooKeeper(folder, os.environ)
    server.start()
    try:
        yield server.address
    finally:
        server.stop()


def _turns(options: argparse.Namespace, zookeeper: str) -> dict[str, Turn]:
    """One turn of each contender that is there."""
    length = ("--seconds", str(options.seconds))
    ours = (sys.executable, "-m", "bench.bus_cluster_echo", f"zk://{zookeeper}/hutong", *length, "--warm", "1")
    floor = (sys.executable, "-m", "bench.bus_cluster_floor", *length, "--warm", "1")
    turns: dict[str, Turn] = {"hutong": lambda: _lines(ours), "no bus": lambda: _lines(floor)}
    if options.vertx_peer.exists():
        turns["vertx"] = lambda: _vertx(options, zookeeper, length)
    if options.grpc_peer.exists():
        grpc = (sys.executable, str(options.grpc_peer), *length, "--warm", "1", "--only", "grpc")
        turns["grpc"] = lambda: ({**line, "case": "request"} for line in _lines(grpc))
    return turns


def _vertx(options: argparse.Namespace, zookeeper: str, length: tuple[str, str]) -> Iterator[Line]:
    """Requests with short text by the peer's script, sends by the program here."""
    timing = (*length, "--warm", str(options.java_warm))
    for line in _lines((str(options.vertx_peer), "bench-cluster", "--zookeeper", zookeeper, *timing)):
        if line.get("body") == "String":
            yield line
    if options.vertx_jars.exists():
        command = (
            "java",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
            "-cp",
            f"{options.vertx_jars}/*",
            str(SENDS),
        )
        words = (zookeeper, str(options.java_warm), str(options.seconds))
        with subprocess.Popen(
            (*command, "take", *words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as taker:
            assert taker.stdout is not None
            taker.stdout.readline()
            yield from _lines((*command, "send", *words))
            taker.communicate()


def _lines(command: Sequence[str]) -> Iterator[Line]:
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    return map(json.loads, printed.splitlines())


def _median(rows: Rows, case: str, name: str, window: int) -> float | None:
    found = [line["per_second"] for line in rows.get((case, name, window), ())]
    return statistics.median(found) if found else None


def _print(rows: Rows) -> None:
    table = Table(title="Messages a second between two processes, medians (least to most)", title_justify="left")
    for heading in ("job", "who", "window", "a second", "CPU us here", "CPU us there", "hutong is"):
        table.add_column(heading, justify="left" if heading in ("job", "who") else "right")
    for case, name, window in sorted(rows, key=lambda key: (key[0], key[2])):
        lines = rows[case, name, window]
        rates = [line["per_second"] for line in lines]
        costs = [
            f"{statistics.median([line[figure] for line in lines]):.1f}" if figure in lines[0] else "-"
            for figure in ("client_cpu_us", "server_cpu_us")
        ]
        ours = _median(rows, case, "hutong", window)
        median = statistics.median(rates)
        ratio = "" if ours is None or name == "hutong" else f"{ours / median:.2f}x"
        spread = f"{median:,.0f} ({min(rates):,.0f}-{max(rates):,.0f})"
        table.add_row(case, name, str(window), spread, *costs, ratio)
    console = Console(width=None if Console().is_terminal else 140)
    console.print(table)
    for other, case, window, goal in GOALS:
        ours, theirs = (_median(rows, case, name, window) for name in ("hutong", other))
        if ours and theirs:
            console.print(f"{case}, window {window}: {ours / theirs:.2f}x {other} (wanted: {goal:g}x)")
