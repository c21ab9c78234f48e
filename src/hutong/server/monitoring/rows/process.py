"""The process: what waits, the event loop, the collector, processor time and memory.

Knows nothing of messaging.
"""

import mmap
import os
import time
from pathlib import Path
from typing import Final

from hutong.reactor.accept.listening_socket import descriptors_max
from hutong.server.monitoring.exposition import Samples, Spread
from hutong.server.monitoring.metric import COUNTER, GAUGE, HISTOGRAM, SECONDS, Labelled, Read, metric
from hutong.server.monitoring.sources import Sources

_STATM: Final = Path("/proc/self/statm")
_FILES: Final = "/proc/self/fd"
_PAGE_BYTES: Final = mmap.PAGESIZE


def _waits(sources: Sources) -> Labelled:
    for name, table in sources.waits.items():
        yield (name,), len(table)


def _memory(column: int) -> Read:
    """Of the process, in pages as the kernel counts them; nothing on systems that do not."""

    def samples(_sources: Sources) -> Samples:
        try:
            return [((), int(_STATM.read_bytes().split()[column]) * _PAGE_BYTES)]
        except OSError:
            return []

    return samples


def _open_files(_sources: Sources) -> Samples:
    try:
        return [((), os.stat(_FILES).st_size or len(os.listdir(_FILES)))]  # since Linux 6.2 the size is their number
    except OSError:
        return []


def _started_at(sources: Sources) -> Samples:
    return [((), sources.started_at_ms / 1000)]


METRICS: Final = (
    metric(
        "hutong_waits",
        GAUGE,
        "What is parked elsewhere: fetches for data, disk reads for a slot, held producers for the end of congestion.",
        _waits,
        "lot",
    ),
    metric(
        "hutong_loop_lateness_seconds",
        HISTOGRAM,
        "How late the event loop served a timer: what any event would have waited.",
        lambda sources: [((), Spread(sources.stalls.lateness_us, SECONDS))],
    ),
    metric(
        "hutong_loop_work_seconds",
        HISTOGRAM,
        "Processor time of the event loop between two measurements, which are 5 ms apart while nothing holds it up.",
        lambda sources: [((), Spread(sources.stalls.work_us, SECONDS))],
    ),
    metric(
        "hutong_blocked_thread_warnings_total",
        COUNTER,
        "Warnings that a handler blocks an event loop or a worker; the log names it.",
        lambda sources: [] if sources.blocked is None else [((), sources.blocked.warnings_total)],
    ),
    metric(
        "hutong_garbage_collection_seconds",
        HISTOGRAM,
        "Pauses of Python's collector, except sweeps while the node is idle.",
        lambda sources: [((), Spread(sources.collector.collecting_us, SECONDS))],
    ),
    metric(
        "process_cpu_seconds_total",
        COUNTER,
        "Processor time of the process.",
        lambda _sources: [((), time.process_time())],
    ),
    metric("process_resident_memory_bytes", GAUGE, "Memory of the process that is in RAM.", _memory(1)),
    metric("process_virtual_memory_bytes", GAUGE, "Address space of the process.", _memory(0)),
    metric("process_open_fds", GAUGE, "Open files and sockets of the process.", _open_files),
    metric(
        "process_max_fds",
        GAUGE,
        "How many it may have.",
        lambda _sources: [((), descriptors_max())],
    ),
    metric("process_start_time_seconds", GAUGE, "When the node was started, in Unix time.", _started_at),
)
