"""The cost of many partitions: `python -m bench partitions [--topics 100] [--partitions 10]`.

Strategy: the same producer sends the same number of records, once to one partition and once to all partitions of many
topics, in alternating turns to the same node; each topic gets its first record before the clock starts. The client has
a cost for each partition too, so the same is sent to the bare server of `bench.null_broker`: a node cannot be faster
than that. The broker's CPU time says what is the node's own.
"""

import argparse
import pathlib
import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from bench.figures import cpu_seconds, memory
from bench.steady import Load, Topics
from bench.targets import Target, scratch_folder, start_ceiling, start_hutong

ONE: Final = "one partition"
MANY: Final = "many partitions"


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench partitions", description=__doc__)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=10, help="of each topic")
    parser.add_argument("--records", type=int, default=4_000_000, help="of one turn, over all producers")
    parser.add_argument("--producers", type=int, default=1, help="each sends to all partitions")
    parser.add_argument("--burst", type=int, default=100, help="records to one topic before the next one")
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--acks", default="all")
    parser.add_argument("--turns", type=int, default=3, help="of each, after a warm-up")
    parser.add_argument("--dir", help="where the data goes (default: the temporary folder)")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    options = arguments(words)
    shapes = {ONE: Topics("one"), MANY: Topics("many", options.topics, options.partitions)}
    rates: dict[tuple[str, str], list[float]] = {}
    cpu: dict[tuple[str, str], list[float]] = {}
    with ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(scratch_folder(options.dir)))
        node = start_hutong(folder)
        stack.callback(node.stop)
        for turn in range(options.turns + 1):
            for name, topics in shapes.items():
                ceiling = start_ceiling(folder, topics.partitions)
                try:
                    for target in (node, ceiling):
                        rate, cpu_s = _turn(target, topics, options)
                        if turn:
                            rates.setdefault((target.name, name), []).append(rate)
                            cpu.setdefault((target.name, name), []).append(cpu_s)
                finally:
                    ceiling.stop()
        assert node.pid
        held = memory(node.pid)
    for target_name in ("hutong", "ceiling"):
        one, many = (statistics.median(rates[target_name, shape]) for shape in shapes)
        one_cpu, many_cpu = (statistics.median(cpu[target_name, shape]) for shape in shapes)
        print(
            f"{target_name}: {one / 1e3:.0f} k records/s to one partition, {many / 1e3:.0f} k to "
            f"{options.topics * options.partitions} in {options.topics} topics: {many / one:.2f} of it; "
            f"CPU seconds per million records {one_cpu:.2f} and {many_cpu:.2f}"
        )
    print(f"memory of the node: {held.rss_mb:.0f} MB, at most {held.peak_rss_mb:.0f} MB")
    return 0


def _turn(target: Target, topics: Topics, options: argparse.Namespace) -> tuple[float, float]:
    """Records a second, and the target's CPU seconds per million records."""
    if not target.is_ceiling:
        topics.create(target.bootstrap)
    told = {"value_bytes": options.value_bytes, "acks": options.acks, "records": options.records // options.producers}
    told["burst"] = options.burst
    assert target.pid
    with ExitStack() as stack:
        cpu_begun_s = cpu_seconds(target.pid)
        loads = [
            stack.enter_context(Load("produce", target.bootstrap, topics, **told)) for _ in range(options.producers)
        ]
        done = [load.wait() for load in loads]
        cpu_s = cpu_seconds(target.pid) - cpu_begun_s
    records = sum(each["records"] for each in done)
    if not target.is_ceiling:
        topics.delete(target.bootstrap)
    return sum(each["records"] / each["seconds"] for each in done), cpu_s / records * 1e6
