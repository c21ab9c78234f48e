"""Bulk throughput by Kafka's own tools: kafka-producer-perf-test and kafka-consumer-perf-test, as everybody runs them.

Strategy: the tools run from the peer's start script (`SCRIPT tool NAME ...`) against every target in turn, each turn a
fresh Java machine, so its warm-up is in every figure alike. Figures are what the tools print; a record that was not
acknowledged makes the producer's tool say so, and fails the turn. The consumer's rate leaves out joining the group, as
the tool's own column does.

The bare server cannot be a ceiling here: the tools need more of a broker than it is.
"""

import pathlib
import re
import subprocess
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from bench.compare import Figure, Measurement
from bench.figures import cpu_seconds
from bench.raw_client import BrokerError
from bench.targets import Target
from bench.throughput import CONSUME_CPU, CONSUMED, PRODUCE_CPU, PRODUCED

P99: Final = Figure("produce p99", "ms", False, 0)
TOOL_S_MAX: Final = 300.0
_SENT: Final = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec .* ([\d]+) ms 99th", re.MULTILINE)


def measurements(targets: Sequence[Target], *, script: pathlib.Path, records: int, turns: int) -> list[Measurement]:
    """100 B and 1 KiB with acks=1; at 1 KiB a fifth of the records."""
    brokers = [target for target in targets if not target.is_ceiling]
    return [
        Measurement(f"Java tools, {size} B, acks=1", partial(measure, script, size, count), brokers, turns)
        for size, count in ((100, records), (1024, max(records // 5, 1)))
    ]


def measure(script: pathlib.Path, size: int, records: int, target: Target, turn: int) -> dict[Figure, float]:
    """One turn: a fresh topic, `records` in, all of them out."""
    topic = f"java-{size}-{turn}-{time.time_ns()}"
    target.create_topic(topic)
    cpu_begun = _cpu(target)
    rate, p99_ms = produce(script, target.bootstrap, topic, size, records)
    cpu_between = _cpu(target)
    figures = {PRODUCED: rate / 1e3, P99: p99_ms, CONSUMED: consume(script, target.bootstrap, topic, records) / 1e3}
    if target.pid:
        figures[PRODUCE_CPU] = (cpu_between - cpu_begun) / records * 1e6
        figures[CONSUME_CPU] = (_cpu(target) - cpu_between) / records * 1e6
    return figures


def produce(script: pathlib.Path, bootstrap: str, topic: str, size: int, records: int) -> tuple[float, float]:
    """Records per second, and the 99th percentile of what one waited, in ms. Raises BrokerError."""
    words = ["--topic", topic, "--num-records", str(records), "--record-size", str(size), "--throughput", "-1"]
    printed = _run(script, "producer-perf", [*words, "--command-property", f"bootstrap.servers={bootstrap}", "acks=1"])
    totals = _SENT.findall(printed)
    if not totals or int(totals[-1][0]) != records or "Exception" in printed:
        raise BrokerError(f"kafka-producer-perf-test did not send {records} records:\n{printed[-2000:]}")
    return float(totals[-1][1]), float(totals[-1][2])


def consume(script: pathlib.Path, bootstrap: str, topic: str, records: int) -> float:
    """Records per second of fetching. Raises BrokerError."""
    printed = _run(
        script, "consumer-perf", ["--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records)]
    )
    rows = [line.split(", ") for line in printed.splitlines() if line.count(", ") == 9 and line[0].isdigit()]
    if not rows or int(rows[-1][4]) < records:
        raise BrokerError(f"kafka-consumer-perf-test did not read {records} records:\n{printed[-2000:]}")
    return float(rows[-1][9])


def _run(script: pathlib.Path, tool: str, words: list[str]) -> str:
    done = subprocess.run(
        [str(script), "tool", tool, *words], capture_output=True, text=True, timeout=TOOL_S_MAX, check=False
    )
    if done.returncode:
        raise BrokerError(f"{tool} ended with code {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def _cpu(target: Target) -> float:
    return cpu_seconds(target.pid) if target.pid else 0.0
