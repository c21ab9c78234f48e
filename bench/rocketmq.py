"""A node next to RocketMQ by RocketMQ's clients: `python -m bench rocketmq`.

Strategy: each turn starts a contender anew, measures it by RocketMQ's own producer benchmark (Java, synchronous sends)
and the Go client (asynchronous sends, then a push consumer of the backlog), by raw readers of the newest messages and
of a backlog (`rocketmq_readers`), and then idle. Turns alternate. Medians
of the turns are shown, and how many times RocketMQ's they are. Each turn of a job is a fresh Java machine, so its
warm-up is in every figure alike. A failed send ends the run.

The clients need most of two processors: compare rates within one run alone.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from rich.console import Console
from rich.table import Table

from bench.figures import cpu_seconds, memory, running_seconds
from bench.processes import ReadyProcess
from bench.raw_client import BrokerError
from bench.rocketmq_readers import Backlog, TailReader
from bench.targets import free_port, hutong_command

DEFAULT_SCRIPT: Final = pathlib.Path(__file__).resolve().parents[2] / "shared" / "peers" / "rocketmq" / "rocketmq"
JOB_S_MAX: Final = 300.0
SETTLE_S: Final = 10.0
IDLE_S: Final = 5.0
OURS: Final = "hutong"
GOALS: Final = (("rocketmq async", 1.0), ("rocketmq sync", 3.0))
"""How many times as fast as each the node means to be, which flushes before it acknowledges."""
Row = tuple[str, str]
"""A job and the name of a figure."""


@dataclass(frozen=True, slots=True)
class Job:
    """Words for the peer's script, and the figures that their output has, by patterns with one group."""

    name: str
    words: Sequence[str]
    figures: Mapping[str, str]
    success: str  # a pattern that the output has unless sends have failed

    def run(self, script: pathlib.Path, address: str, topic: str) -> dict[Row, float]:
        words = [word.format(address=address, topic=topic) for word in self.words]
        done = subprocess.run([str(script), *words], capture_output=True, text=True, timeout=JOB_S_MAX, check=False)
        if done.returncode or not re.search(self.success, done.stdout):
            raise BrokerError(f"{self.name} failed at {address}: {done.stdout[-1_000:]}{done.stderr[-1_000:]}")
        return {(self.name, name): float(re.findall(found, done.stdout)[-1]) for name, found in self.figures.items()}


def _java(name: str, threads: int, size: int, messages: int) -> Job:
    words = ("tool", "producer-bench", "-n", "{address}", "-t", "{topic}", "-w", str(threads), "-s", str(size), "-q")
    return Job(
        name,
        (*words, str(messages)),
        {"messages/s": r"\[Complete\].*Send TPS: (\d+)"},
        r"\[Complete\].*Send Failed: 0 \| Response Failed: 0",
    )


class AnyJob(Protocol):
    """A job, by which clients ever."""

    @property
    def name(self) -> str: ...

    def run(self, script: pathlib.Path, address: str, topic: str) -> Mapping[Row, float]:
        """The figures of one turn. Raises BrokerError where anything was refused or lost."""


def _jobs(scale: float) -> list[AnyJob]:
    count = partial(max, 1_000)
    go = ("go", "-n", "{address}", "-topic", "{topic}", "-sync", "1000", "-async", str(count(int(60_000 * scale))))
    rate = r".*rate=(\d+)/s"
    return [
        _java("Java, 1 thread, 128 B", 1, 128, count(int(12_000 * scale))),
        _java("Java, 64 threads, 128 B", 64, 128, count(int(200_000 * scale))),
        _java("Java, 64 threads, 1 KB", 64, 1024, count(int(150_000 * scale))),
        Job(
            "Go, 128 B",
            go,
            {
                "async, window 64": f"(?m)^async{rate}",
                "push consumer": f"(?m)^consume{rate}",
                "sync, 1 worker": f"(?m)^sync{rate}",
            },
            "lost=0",
        ),
        TailReader(count(int(4_000 * scale))),
        Backlog(count(int(60_000 * scale)), 1),
        Backlog(count(int(60_000 * scale)), 4),
    ]


def main(words: Sequence[str]) -> int:
    options = _arguments(words)
    if not options.rocketmq_peer.exists():
        print(f"{options.rocketmq_peer} is not there: it starts RocketMQ and its clients.", file=sys.stderr)
        return 1
    jobs = [job for job in _jobs(0.1 if options.quick else 1) if options.only in job.name]
    rows: dict[str, dict[Row, list[float]]] = {}
    with tempfile.TemporaryDirectory(prefix="hutong-bench-") as folder:
        contenders = _contenders(options.rocketmq_peer, pathlib.Path(folder))
        for turn in range(1 if options.quick else options.turns):
            for name in reversed(contenders) if turn % 2 else contenders:
                for row, figure in _turn(contenders[name], options.rocketmq_peer, jobs, turn).items():
                    rows.setdefault(name, {}).setdefault(row, []).append(figure)
    _print(rows)
    if options.json:
        lines = [
            {"who": name, "job": job, "figure": figure, "turns": found}
            for name, figures in rows.items()
            for (job, figure), found in figures.items()
        ]
        pathlib.Path(options.json).write_text(json.dumps(lines) + "\n")
    return 0


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench rocketmq", description=__doc__)
    parser.add_argument("--turns", type=int, default=3, help="of each contender (default %(default)s)")
    parser.add_argument("--only", default="", metavar="WORDS", help="only jobs whose name contains WORDS")
    parser.add_argument("--quick", action="store_true", help="one short turn of everything, to see that it works")
    parser.add_argument("--rocketmq-peer", type=pathlib.Path, default=DEFAULT_SCRIPT, metavar="SCRIPT",
                        help="`SCRIPT start` starts RocketMQ, `SCRIPT tool` and `SCRIPT go` its clients")  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="also write every turn as JSON")
    return parser.parse_args(words)


@dataclass(frozen=True, slots=True)
class Contender:
    """A broker that runs. `pids` are its processes, `start_s` the time until it was ready."""

    process: ReadyProcess
    address: str
    pids: Sequence[int]
    start_s: float


def _contenders(script: pathlib.Path, folder: pathlib.Path) -> dict[str, Callable[[int], Contender]]:
    """By name, what starts one for a turn."""

    def ours(qos: str, turn: int) -> Contender:
        settings = ["--set", f"log.qos={qos}"] if qos else []
        command = [*hutong_command(folder / f"hutong-{qos}-{turn}"), "--rocketmq", "127.0.0.1:0", *settings]
        process = ReadyProcess(command, log_path=str(folder / "hutong.log")).start()
        start_s = process.ready_at_s - process.started_at_s
        return Contender(process, process.fields["rocketmq"], [int(process.fields["pid"])], start_s)

    def theirs(flush: str, _turn: int) -> Contender:
        # The broker also takes the ports around its own.
        ports = ("--port", str(free_port()), "--broker-port", str(free_port()))
        process = ReadyProcess(
            [str(script), "start", *ports, "--flush", flush], log_path=str(folder / "rocketmq.log")
        ).start()
        pids = [int(pid) for pid in process.fields["pid"].split(",")]
        return Contender(process, process.fields["0"], pids, float(process.fields["seconds"]))

    return {
        OURS: partial(ours, ""),
        "hutong receive": partial(ours, "receive"),
        "rocketmq async": partial(theirs, "async"),
        "rocketmq sync": partial(theirs, "sync"),
    }


def _turn(
    start: Callable[[int], Contender], script: pathlib.Path, jobs: Sequence[AnyJob], turn: int
) -> dict[Row, float]:
    contender = start(turn)
    figures: dict[Row, float] = {("start", "s"): contender.start_s}
    try:
        for number, job in enumerate(jobs):
            before_s = sum(map(cpu_seconds, contender.pids))
            figures |= job.run(script, contender.address, f"Bench-{number}")
            figures[job.name, "processor seconds"] = sum(map(cpu_seconds, contender.pids)) - before_s
        time.sleep(SETTLE_S)
        ran_s, begun_s = sum(map(running_seconds, contender.pids)), time.monotonic()
        time.sleep(IDLE_S)
        share = (sum(map(running_seconds, contender.pids)) - ran_s) / (time.monotonic() - begun_s)
        figures["idle", "% of a processor"] = 100 * share
        figures["all jobs", "resident MB"] = sum(memory(pid).rss_mb for pid in contender.pids)
    finally:
        contender.process.__exit__(None, None, None)
    return figures


def _print(rows: Mapping[str, Mapping[Row, Sequence[float]]]) -> None:
    table = Table(title="RocketMQ's clients, medians of the turns (hutong's share of it)", title_justify="left")
    for heading in ("job", "figure", *rows):
        table.add_column(heading, justify="left" if heading in ("job", "figure") else "right")
    for row in rows[OURS]:
        medians = {name: statistics.median(figures[row]) for name, figures in rows.items()}
        cells = [
            f"{median:,.{0 if median >= 100 else 2}f}"
            + ("" if name.startswith(OURS) or not median else f" ({medians[OURS] / median:.2f})")
            for name, median in medians.items()
        ]
        table.add_row(*row, *cells)
    console = Console(width=None if Console().is_terminal else 150)
    console.print(table)
    for name, goal in GOALS:
        console.print(f"wanted of the rates: {goal:g} times {name}")
