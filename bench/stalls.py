"""The longest time in which the loop does not turn, under full load: `python -m bench stalls`.

Strategy: a producer that sends all it can, a consumer at the end and one that reads old data again and again, all
librdkafka; next to them an empty loop in a process of its own, because on a busy machine part of every stall is the
machine's. The node's own monitor tells how late it served a timer that is due every few milliseconds. The same without
freezing and without regions shows what these are for. Alternating turns, each with a fresh node; medians of the turns.
"""

import argparse
import json
import pathlib
import signal
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack

from bench.processes import ReadyProcess
from bench.steady import Load, Topics
from bench.targets import scratch_folder

VARIANTS = {"as it is": "", "without freeze": "freeze", "without regions": "regions", "without both": "freeze,regions"}
MACHINE = "the machine alone"
WARM_UP_S = 3.0
REPORT_S_MAX = 10.0


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench stalls", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of one turn, after a warm-up")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--topics", type=int, default=1)
    parser.add_argument("--partitions", type=int, default=1, help="of each topic")
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--no-cold", action="store_true", help="nobody reads old data")
    parser.add_argument("--only", help="one of the variants")
    parser.add_argument("--dir", help="where the data goes (default: the temporary folder)")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    options = arguments(words)
    figures: dict[str, dict[str, list[float]]] = {}
    for turn in range(options.turns):
        for name, without in VARIANTS.items():
            if options.only in (None, name):
                with scratch_folder(options.dir) as folder:
                    for who, told in _turn(pathlib.Path(folder), without, options).items():
                        into = figures.setdefault(MACHINE if who == "idle" else name, {})
                        for figure, value in told.items():
                            into.setdefault(figure, []).append(value)
                print(f"turn {turn + 1}: {name}", file=sys.stderr, flush=True)
    for name, by_figure in figures.items():
        median = {figure: statistics.median(values) for figure, values in by_figure.items()}
        print(
            f"{name}: late p50 {median['late_us_p50'] / 1e3:.1f}, p99 {median['late_us_p99'] / 1e3:.1f}, p99.9 "
            f"{median['late_us_p999'] / 1e3:.1f}, longest {median['late_us_longest'] / 1e3:.1f} ms; by its own work "
            f"p99 {median['held_us_p99'] / 1e3:.1f}, p99.9 {median['held_us_p999'] / 1e3:.1f}, longest "
            f"{median['held_us_longest'] / 1e3:.1f} ms of {median['checks']:.0f} checks",
            end="",
        )
        if "collections" in median:
            print(
                f"; {median['collections']:.0f} collections took {median['collecting_us_sum'] / 1e3:.0f} ms, the "
                f"longest {median['collecting_us_longest'] / 1e3:.1f} ms; peak {median['peak_mb']:.0f} MB; "
                f"{median['records_per_s'] / 1e3:.0f} k records/s",
                end="",
            )
        print()
    return 0


def _turn(folder: pathlib.Path, without: str, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Figures of the node and of the empty loop for the same seconds."""
    topics = Topics("stalls", options.topics, options.partitions)
    with ExitStack() as stack:
        node = stack.enter_context(_start(folder, "node", without))
        idle = stack.enter_context(_start(folder, "idle", ""))
        address = node.fields["kafka"]
        topics.create(address)
        producer = stack.enter_context(Load("produce", address, topics, value_bytes=options.value_bytes))
        stack.enter_context(Load("consume", address, topics, group="tail"))
        time.sleep(WARM_UP_S)
        if not options.no_cold:
            stack.enter_context(Load("consume", address, topics, group="cold", cold=1))
        _report(folder, "node", node)
        _report(folder, "idle", idle)
        time.sleep(options.seconds)
        told = {"node": _report(folder, "node", node), "idle": _report(folder, "idle", idle)}
        sent = producer.stop()
        told["node"]["records_per_s"] = sent["records"] / sent["seconds"]
        return told


def _start(folder: pathlib.Path, name: str, without: str) -> ReadyProcess:
    data = "idle" if name == "idle" else str(folder / "data")
    command = [sys.executable, "-m", "bench.ablated_node", data, str(folder / f"{name}.json")]
    environment = {"HUTONG_BENCH_WITHOUT": without}
    return ReadyProcess(command, log_path=str(folder / f"{name}.log"), environment=environment).start()


def _report(folder: pathlib.Path, name: str, process: ReadyProcess) -> dict[str, float]:
    """Ask for a report, which begins a new measurement."""
    path = folder / f"{name}.json"
    path.unlink(missing_ok=True)
    process.send_signal(signal.SIGUSR1)
    give_up = time.monotonic() + REPORT_S_MAX
    while not path.exists():
        if time.monotonic() > give_up:
            raise TimeoutError(process.log_tail())
        time.sleep(0.01)
    told: dict[str, float] = json.loads(path.read_text())
    return told
