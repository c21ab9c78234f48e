"""Memory with and without the regions of the journal's cache: `python -m bench regions [--minutes 60]`.

Strategy: three nodes side by side under the same slow load: as it is, without regions (a bytes object for each chunk)
and without their re-use. Records of 10 B to 256 KiB, every size as often as any other, so that pieces of all sizes are
allocated and freed; a consumer at the end and one that reads old data; every few minutes a burst of small records, as
fast as possible. Retention is short. Memory is read from /proc, the allocator's own account from glibc. What counts is
how the medians of the last minutes differ, and the processor time, which other work on the machine changes little.
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

from bench.figures import cpu_seconds, memory
from bench.processes import ReadyProcess
from bench.steady import Load, Topics
from bench.targets import scratch_folder

VARIANTS = {"as it is": "", "without regions": "regions", "without re-use": "reuse"}
LOG = {"segment_bytes": 16 << 20, "retention_ms": 60_000, "retention_check_interval_ms": 5_000}
SAMPLE_S = 10
BURST_RECORDS = 100_000
BURST_VALUE_BYTES = 1_000


class Node:
    """One variant with its load, and what was seen of it."""

    def __init__(self, name: str, without: str, folder: pathlib.Path, rate: int, stack: ExitStack) -> None:
        self.name = name
        self.samples: list[dict[str, float]] = []
        self._report_path = folder / "report.json"
        folder.mkdir()
        command = [sys.executable, "-m", "bench.ablated_node", str(folder / "data"), str(self._report_path)]
        environment = {"HUTONG_BENCH_WITHOUT": without, "HUTONG_BENCH_LOG": json.dumps(LOG)}
        self._process = stack.enter_context(
            ReadyProcess(command, log_path=str(folder / "node.log"), environment=environment).start()
        )
        self._address = self._process.fields["kafka"]
        self._bursts = Topics("bursts", 1, 4)
        self._bursts.create(self._address)
        mixed = Topics("mixed", 2, 4)
        mixed.create(self._address)
        stack.enter_context(Load("produce", self._address, mixed, mixed=1, rate=rate, burst=10))
        stack.enter_context(Load("consume", self._address, mixed, group="tail", commit=1))
        stack.enter_context(Load("consume", self._address, mixed, group="old", cold=1, rate=rate))

    def burst(self) -> None:
        """Send many small records as fast as the node takes them."""
        load = Load("produce", self._address, self._bursts, value_bytes=BURST_VALUE_BYTES, records=BURST_RECORDS)
        load.start().wait()

    def sample(self) -> None:
        pid = int(self._process.fields["pid"])
        seen = memory(pid)
        shares = {"rss_mb": seen.rss_mb, "pss_mb": seen.pss_mb, "peak_mb": seen.peak_rss_mb, "cpu_s": cpu_seconds(pid)}
        self.samples.append(shares | self._malloc())

    def show(self, when: str, count: int) -> None:
        """Print medians of the last samples."""
        median = {name: statistics.median(each[name] for each in self.samples[-count:]) for name in self.samples[-1]}
        print(
            f"{when}, {self.name}: resident {median['rss_mb']:.1f} MB (peak {median['peak_mb']:.1f}), proportional "
            f"{median['pss_mb']:.1f}; malloc holds {median['malloc_mb']:.1f}, of it free "
            f"{median['malloc_free_mb']:.1f}; processor {self.samples[-1]['cpu_s']:.1f} s",
            flush=True,
        )

    def _malloc(self) -> dict[str, float]:
        """Figures that the process itself must give; the last ones while it is busy."""
        try:
            report = json.loads(self._report_path.read_text())
        except FileNotFoundError:
            report = {"malloc_mb": 0.0, "malloc_free_mb": 0.0}
        self._process.send_signal(signal.SIGUSR1)
        return {name: report[name] for name in ("malloc_mb", "malloc_free_mb")}


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench regions", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=int, default=100, help="records a second to each node; a mean of 26 kB each")
    parser.add_argument("--burst-every", type=float, default=5.0, metavar="MINUTES")
    parser.add_argument("--dir", help="where the data goes (default: the temporary folder)")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    options = arguments(words)
    with ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(scratch_folder(options.dir)))
        nodes = [
            Node(name, without, folder / str(number), options.rate, stack)
            for number, (name, without) in enumerate(VARIANTS.items())
        ]
        begun_s = time.monotonic()
        per_burst = int(options.burst_every * 60 / SAMPLE_S)
        count = int(options.minutes * 60 / SAMPLE_S)
        for number in range(1, count + 1):
            time.sleep(max(0.0, begun_s + number * SAMPLE_S - time.monotonic()))
            for node in nodes:
                node.sample()
            if number % per_burst == 0:
                for node in nodes:
                    node.show(f"minute {number * SAMPLE_S / 60:.0f}", per_burst)
                    node.burst()
        for node in nodes:
            node.show("at the end", min(count, per_burst))
    return 0
