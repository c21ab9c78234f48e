"""This machine's load, sampled live with psutil while the demo runs.

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

Sample = tuple[str, float]


def sample() -> list[Sample]:
    """(metric, value) of this moment; processor use is since the call before."""
    memory = psutil.virtual_memory()
    network, disk = psutil.net_io_counters(), psutil.disk_io_counters()
    samples = [
        ("cpu_percent", psutil.cpu_percent()),
        ("memory_percent", memory.percent),
        ("load_1min", psutil.getloadavg()[0]),
        ("processes", float(len(psutil.pids()))),
    ]
    if network is not None:  # a container may have neither interfaces nor disks of its own
        samples.append(("network_bytes", float(network.bytes_sent + network.bytes_recv)))
    if disk is not None:
        samples.append(("disk_bytes_written", float(disk.write_bytes)))
    return samples


@contextmanager
def sampling(handle: Callable[[int, list[Sample]], None]) -> Iterator[None]:
    """Calls `handle(time in ms, samples)` on a thread of its own until the block ends, which raises what it raised."""
    stopped = threading.Event()

    def run() -> None:
        psutil.cpu_percent()  # the first call has nothing to compare with
        while not stopped.wait(PERIOD_SECONDS):
            handle(time.time_ns() // 1_000_000, sample())

    with ThreadPoolExecutor(1, "demo-host-metrics") as pool:
        running = pool.submit(run)
        try:
            yield
        finally:
            stopped.set()
        running.result()
