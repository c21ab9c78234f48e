"""A node that can do without what keeps its loop turning, for `bench stalls` alone: the product has no such switch.

    HUTONG_BENCH_WITHOUT=freeze,regions python -m bench.ablated_node DATA_DIR REPORT_FILE

Strategy: parts are replaced before the node is made. Without `freeze` Python's collector works as the interpreter is
delivered; without `regions` each chunk has a bytes object of its own; without `reuse` each region is mapped anew.
`HUTONG_BENCH_LOG` has settings of the log as JSON. On SIGUSR1 the report is written as JSON and measuring begins anew.
With `idle` as data folder there is no node, only an empty loop: what the machine alone does. Besides the lateness of a
timer it shows the part of it that the loop's own work explains: the processor time that its thread spent since the
timer was set, beyond the interval. That part does not depend on who else uses the machine.
"""

import asyncio
import ctypes
import gc
import json
import os
import pathlib
import signal
import sys
import time
from collections.abc import Sequence
from typing import cast

import uvloop

from bench.figures import memory
from hutong.foundation.clock import SystemClock
from hutong.foundation.histograms import Histogram
from hutong.foundation.regions import Buffer, Region, RegionCache
from hutong.journal import parts
from hutong.runtime.loops.collector import Collector
from hutong.runtime.watch.stalls import INTERVAL_MS, StallMonitor
from hutong.server.broker.broker_part import BrokerPart
from hutong.server.composition import ComposedNode
from hutong.server.configuration.sections.log import LogSettings
from hutong.server.configuration.sections.network import KafkaSettings
from hutong.server.configuration.sections.node import NodeSettings
from hutong.server.configuration.settings import Address, Settings
from hutong.server.serving import node_of


class MallocFigures(ctypes.Structure):
    """`struct mallinfo2` of glibc, for all its arenas: mallinfo(3)."""

    _fields_ = (
        ("arena", ctypes.c_size_t),
        ("ordblks", ctypes.c_size_t),
        ("smblks", ctypes.c_size_t),
        ("hblks", ctypes.c_size_t),
        ("hblkhd", ctypes.c_size_t),
        ("usmblks", ctypes.c_size_t),
        ("fsmblks", ctypes.c_size_t),
        ("uordblks", ctypes.c_size_t),
        ("fordblks", ctypes.c_size_t),
        ("keepcost", ctypes.c_size_t),
    )


class WorkMonitor(StallMonitor):
    """Tells also how much of the lateness is the loop's own work: `work_us` has all work of an interval instead."""

    def start(self) -> None:
        self.held_us = Histogram()
        self.longest_held_us = 0
        self._spent_ns = time.thread_time_ns()
        super().start()

    def forget(self) -> None:
        super().forget()
        self.held_us = Histogram()
        self.longest_held_us = 0

    def _served(self) -> None:
        spent_ns = time.thread_time_ns()
        held_us = max(0, (spent_ns - self._spent_ns) // 1_000 - INTERVAL_MS * 1_000)
        self._spent_ns = spent_ns
        self.held_us.record(held_us)
        self.longest_held_us = max(self.longest_held_us, held_us)
        super()._served()


class PieceCache(RegionCache):
    """The same stream in a bytes object for each append, freed one by one."""

    def append(self, buffers: Sequence[Buffer], total: int) -> int:
        piece = Region(self.end_position, cast("object", b"".join(buffers)))  # type: ignore[arg-type]
        piece.used = total
        self._regions.append(piece)
        self.end_position += total
        self._drop_unneeded(self._cached_bytes_max, kept=1)
        return piece.start

    def _drop_oldest(self) -> None:
        self.oldest_position = self._regions.popleft().end


class FreshCache(RegionCache):
    """Each region in fresh memory."""

    def _drop_oldest(self) -> None:
        memory = super()._drop_oldest()
        if memory is not None:
            memory.close()


class IdleCollector(Collector):
    """Looks on: thresholds stay, nothing is frozen."""

    def start(self) -> None:
        gc.callbacks.append(self._watching)

    def _watching(self, phase: str, info: dict[str, int]) -> None:
        self._collecting(phase, info | {"generation": 0})  # of which nothing is frozen


def malloc_figures() -> dict[str, float]:
    """Megabytes that glibc took from the system, and what of them nobody uses."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = MallocFigures
    figures = mallinfo2()
    return {"malloc_mb": (figures.arena + figures.hblkhd) / 1e6, "malloc_free_mb": figures.fordblks / 1e6}


def report(stalls: WorkMonitor, collector: Collector | None) -> dict[str, float]:
    told: dict[str, float] = {
        f"late_us_{name}": stalls.lateness_us.quantile(quantile)
        for name, quantile in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999))
    }
    told |= {"late_us_longest": stalls.longest_us, "peak_mb": memory(os.getpid()).peak_rss_mb}
    told |= {
        f"held_us_{name}": stalls.held_us.quantile(quantile) for name, quantile in (("p99", 0.99), ("p999", 0.999))
    }
    told |= {"held_us_longest": stalls.longest_held_us, "checks": stalls.held_us.count}
    told |= malloc_figures()
    if collector is not None:
        told |= {
            "collections": collector.collecting_us.count,
            "collecting_us_sum": collector.collecting_us.sum,
            "collecting_us_longest": collector.longest_us,
        }
    return told


async def serve(folder: str, report_path: pathlib.Path) -> None:
    loop = asyncio.get_running_loop()
    node: ComposedNode | None = None
    if folder == "idle":
        stalls, collector, address = WorkMonitor(loop, SystemClock()), None, ""
        stalls.start()
    else:
        settings = Settings(
            node=NodeSettings(data_dir=pathlib.Path(folder)),
            kafka=KafkaSettings(listen=Address("127.0.0.1", 0)),
            log=LogSettings(**json.loads(os.environ.get("HUTONG_BENCH_LOG", "{}"))),
        )
        broker = BrokerPart(settings)
        node = node_of(broker)
        address = str((await node.start()).kafka)
        stalls, collector = cast("WorkMonitor", broker.monitor.stalls), broker.monitor.collector

    def tell() -> None:
        partial = report_path.with_suffix(".tmp")
        partial.write_text(json.dumps(report(stalls, collector)))
        partial.rename(report_path)
        stalls.forget()

    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGUSR1, tell)
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    print(f"ready kafka={address} pid={os.getpid()}", flush=True)
    await stop.wait()
    if node is not None:
        await node.stop()


def main() -> None:
    sys.modules["hutong.server.monitoring.monitor_part"].StallMonitor = WorkMonitor  # type: ignore[attr-defined]
    without = set(os.environ.get("HUTONG_BENCH_WITHOUT", "").split(","))
    if "regions" in without:
        parts.RegionCache = PieceCache  # type: ignore[misc]
    if "reuse" in without:
        parts.RegionCache = FreshCache  # type: ignore[misc]
    if "freeze" in without:
        sys.modules["hutong.server.monitoring.monitor_part"].Collector = IdleCollector  # type: ignore[attr-defined]
    uvloop.run(serve(sys.argv[1], pathlib.Path(sys.argv[2])))


if __name__ == "__main__":
    main()
