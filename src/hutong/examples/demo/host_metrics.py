"""Live samples of the machine's load, taken with psutil while the demo runs.

Strategy: one thread with a fixed rhythm hands each sample to a callback; it is owned by a `with` block that stops it.

Knows nothing of topics or windows.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psutil

PERIOD_SECONDS = 0.1
KIBIBYTE = 1024

Sample = tuple[str, float]


class Sampler:
    """Samples of this machine; rates are since the sample before, so the first one has none."""

    def __init__(self) -> None:
        psutil.cpu_percent()
        self._counted = self._counters()

    def sample(self) -> list[Sample]:
        """(metric, value) of this moment."""
        before, self._counted = self._counted, self._counters()
        seconds = self._counted[0] - before[0]
        rates = [
            (metric, (now - then) / seconds / KIBIBYTE)
            for (metric, now), (_, then) in zip(self._counted[1], before[1], strict=True)
        ]
        return [
            ("cpu_percent", psutil.cpu_percent()),
            ("memory_percent", psutil.virtual_memory().percent),
            ("load", psutil.getloadavg()[0]),
            ("processes", float(len(psutil.pids()))),
            *rates,
        ]

    def _counters(self) -> tuple[float, list[Sample]]:
        network, disk = psutil.net_io_counters(), psutil.disk_io_counters()
        counters: list[Sample] = []
        if network is not None:  # a container may have neither interfaces nor disks of its own
            counters.append(("network_kib_s", float(network.bytes_sent + network.bytes_recv)))
        if disk is not None:
            counters.append(("disk_kib_s", float(disk.write_bytes)))
        return time.perf_counter(), counters


@contextmanager
def sampling(handle: Callable[[int, list[Sample]], None]) -> Iterator[None]:
    """Calls `handle(time in ms, samples)` on a thread of its own until the block ends, which raises what it raised."""
    stopped = threading.Event()

    def run() -> None:
        sampler = Sampler()
        while not stopped.wait(PERIOD_SECONDS):
            handle(time.time_ns() // 1_000_000, sampler.sample())

    with ThreadPoolExecutor(1, "demo-host-metrics") as pool:
        running = pool.submit(run)
        try:
            yield
        finally:
            stopped.set()
        running.result()
