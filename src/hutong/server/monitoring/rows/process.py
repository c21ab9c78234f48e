"""The process: what waits, the event loop, the collector, processor time and memory.

Knows nothing of messaging.
"""

import time
from pathlib import Path
from typing import Final

from hutong.server.monitoring.exposition import Samples, Spread
from hutong.server.monitoring.metric import COUNTER, GAUGE, HISTOGRAM, SECONDS, Labelled, metric
from hutong.server.monitoring.sources import Sources

_STATM: Final = Path("/proc/self/statm")
_PAGE_BYTES: Final = 4096


def _waits(sources: Sources) -> Labelled:
    for name, lot in sources.waits.items():
        yield (name,), len(lot)


def _resident_bytes(_sources: Sources) -> Samples:
    try:
        return [((), int(_STATM.read_bytes().split()[1]) * _PAGE_BYTES)]
    except OSError:  # not on this system
        return []


METRICS: Final = (
    metric(
        "hutong_waits",
        GAUGE,
        "What is parked elsewhere: fetches for data, cold reads for a turn, held producers for the end of congestion.",
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
        "Processor time of the event loop between two looks at it, which are 5 ms apart while nothing holds it up.",
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
        "Pauses of Python's collector, but for sweeps while the node is idle.",
        lambda sources: [((), Spread(sources.collector.collecting_us, SECONDS))],
    ),
    metric(
        "process_cpu_seconds_total",
        COUNTER,
        "Processor time of the process.",
        lambda _sources: [((), time.process_time())],
    ),
    metric("process_resident_memory_bytes", GAUGE, "Memory of the process that is in RAM.", _resident_bytes),
)
