"""The same handler here and in FastStream: `python -m bench handlers --faststream PYTHON`.

Strategy: one node, one topic of orders in JSON that is there before; each contender is a process of its own, which
reads it from the start in a group of its own. The first tenth warms up; the clock and the processor time of the whole
process (threads of the client library included) run for the rest. Contenders take turns in alternating order, medians
are shown.

FastStream is no dependency of ours: `--faststream` names the Python of an environment that has
`faststream[kafka,confluent]`. Without it only ours is measured.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Final

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from bench.raw_client import create_topic
from bench.targets import start_hutong

FOLDER: Final = pathlib.Path(__file__).parent
JOBS: Final = ("handle", "publish", "exactly once")
OURS: Final = ("one at a time", "16 at a time", "pydantic")
THEIRS: Final = ("confluent", "aiokafka")
TURN_S_MAX: Final = 240
OURS_FACTOR: Final = 10  # ours would be over before the clock can tell
Turns = dict[tuple[str, str], list[dict[str, float]]]
"""Figures of each turn, by job and contender."""


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench handlers", description=__doc__)
    parser.add_argument(
        "--messages",
        type=int,
        default=10_000,
        help="of a turn of FastStream, ours are 10 times as many (default %(default)s)",
    )
    parser.add_argument("--turns", type=int, default=3, help="of each contender (default %(default)s)")
    parser.add_argument("--faststream", metavar="PYTHON", help="a Python that has faststream[kafka,confluent]")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="measure against this Kafka instead of a node")
    parser.add_argument("--json", metavar="FILE", help="also write every turn as JSON")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    options = arguments(words)
    turns: Turns = {}
    with tempfile.TemporaryDirectory(prefix="hutong-bench-") as folder:
        if options.bootstrap:
            _measure(options, options.bootstrap, turns)
        else:
            node = start_hutong(pathlib.Path(folder))
            assert node.process is not None
            with node.process:
                _measure(options, node.bootstrap, turns)
    _print(turns)
    if options.json:
        rows = [{"job": job, "contender": name, "turns": found} for (job, name), found in turns.items()]
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def _measure(options: argparse.Namespace, bootstrap: str, turns: Turns) -> None:
    contenders = [(sys.executable, "handlers_hutong.py", name, JOBS) for name in OURS]
    if options.faststream:
        contenders += [(options.faststream, "handlers_faststream.py", name, JOBS[:2]) for name in THEIRS]
    for turn in range(options.turns):
        topic = f"orders-{turn}"
        _fill(bootstrap, topic, OURS_FACTOR * options.messages)
        for python, program, name, jobs in reversed(contenders) if turn % 2 else contenders:
            for job in jobs:
                is_ours = program == "handlers_hutong.py"
                count = options.messages * (OURS_FACTOR if is_ours else 1)
                figures = _turn([python, str(FOLDER / program), name, job, bootstrap, topic], count)
                label = f"{'hutong' if is_ours else 'FastStream'}, {name}"
                turns.setdefault((job, label), []).append(figures)


def _fill(bootstrap: str, topic: str, count: int) -> None:
    create_topic(bootstrap, topic, records=0)
    for job in JOBS:
        create_topic(bootstrap, f"{topic}-{job.replace(' ', '-')}", records=0)
    create_topic(bootstrap, f"{topic}-out", records=0)
    sender = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for job in JOBS:
        for number in range(count):
            value = b'{"number": %d, "customer": "customer-%d", "cents": %d}' % (number, number % 100, number)
            sender.produce(f"{topic}-{job.replace(' ', '-')}", value, b"customer-%d" % (number % 100))
            if not number % 1_000:
                sender.poll(0)
        sender.flush()


def _turn(command: list[str], count: int) -> dict[str, float]:
    job = command[3]
    command[-1] = f"{command[-1]}-{job.replace(' ', '-')}"
    done = subprocess.run([*command, str(count)], capture_output=True, text=True, timeout=TURN_S_MAX, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    measured = count - count // 10
    return {"messages_s": measured / figures["seconds"], "processor_us": figures["processor_s"] / measured * 1e6}


def _print(turns: Turns) -> None:
    for job in JOBS:
        table = Table(
            "contender", "messages a second", "processor time a message", title=job, title_justify="left", box=None
        )
        for (found, name), figures in turns.items():
            if found == job:
                rate = statistics.median(each["messages_s"] for each in figures)
                processor_us = statistics.median(each["processor_us"] for each in figures)
                table.add_row(name, f"{rate:,.0f}", f"{processor_us:,.1f} us")
        Console().print(table)
