"""The cost of reads from a journal's files: processor time for each MB, without the network.

    python -m bench.journal_reads [--directory DIR]

Strategy: journals of four shapes are written, then read as a consumer reads them, in turns of a few MB; the medians of
all turns are shown, for reads on the loop (what the page cache holds) and on a worker. Only the processor time of the
read counts: it changes less than its duration while the machine does other work.

Knows nothing of brokers.
"""

import asyncio
import random
import statistics
import time
from pathlib import Path
from typing import Final, NamedTuple

from bench.journal_append import Pace, run_in_folder
from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import HutongError
from hutong.foundation.timers import TimerWheel
from hutong.journal.append.qos import Qos
from hutong.journal.files.disk import RealDisk
from hutong.journal.journal import Journal
from hutong.journal.log import DiskRead, PartitionLog
from hutong.runtime.loops.timers import LoopTimers
from hutong.runtime.threads.offload import ThreadOffload
from hutong.wire.kafka.batch.records import Record, build_batch, iterate_batches, parse_batch_header

VALUE_BYTES: Final = 1000
JOURNAL_BYTES: Final = 200_000_000
READ_SHARE: Final = 0.7  # of each log: what was written last is in memory, and needs no read
TURNS: Final = 30
TURN_BYTES: Final = 10_000_000


class Shape(NamedTuple):
    """The content of a journal's chunks, and the bytes that a consumer asks for."""

    name: str
    logs: int
    batches_per_run: int
    records_per_batch: int
    fetch_bytes: int


SHAPES: Final = (
    Shape("one partition, batches of 1 MB", 1, 1, 970, 1 << 20),
    Shape("one partition, batches of 16 KB", 1, 1, 15, 1 << 20),
    Shape("four partitions, runs of 260 KB", 4, 17, 15, 2 << 20),
    Shape("four partitions, runs of 45 KB", 4, 3, 15, 2 << 20),
)


async def fill(pace: Pace, logs: list[PartitionLog], shape: Shape) -> None:
    value = random.Random(1).randbytes(VALUE_BYTES)
    batch = memoryview(build_batch([Record(0, 1_700_000_000_000, None, value)] * shape.records_per_batch))
    header, written = parse_batch_header(batch), 0
    while written < JOURNAL_BYTES:
        for log in logs:
            for _ in range(shape.batches_per_run):
                appended = log.append([(batch, header)], Qos.PERSISTENCE)
                if isinstance(appended, HutongError):
                    raise appended
                log.when_safe(Qos.PERSISTENCE, lambda _error: None)
                written += len(batch)
        await asyncio.sleep(0)  # the end of the loop iteration: the chunk is sealed
        await pace.room()
    await pace.drained()


class Reader:
    """A consumer of some logs, one after the other, again from the beginning when it came far enough."""

    def __init__(self, logs: list[PartitionLog], fetch_bytes: int, on_worker: bool) -> None:
        self._offsets = dict.fromkeys(logs, 0)
        self._fetch_bytes = fetch_bytes
        self._on_worker = on_worker

    async def turn(self) -> float:
        """Microseconds of processor time for each MB."""
        size, spent_ns = 0, 0
        while size < TURN_BYTES:
            for log, offset in self._offsets.items():
                begun_ns = time.process_time_ns()
                views = await self._read(log, offset)
                spent_ns += time.process_time_ns() - begun_ns
                size += sum(map(len, views))
                *_, (header, _) = iterate_batches(views[-1])
                end_offset = header.base_offset + header.last_offset_delta + 1
                self._offsets[log] = end_offset if end_offset < log.end_offset * READ_SHARE else 0
        return spent_ns / 1e3 / (size / 1e6)

    async def _read(self, log: PartitionLog, offset: int) -> list[memoryview]:
        found = log.read(offset, self._fetch_bytes)
        if not isinstance(found, DiskRead):
            return found.buffers
        views = None if self._on_worker else log.read_from_page_cache(found)
        if views is not None:
            return views
        ended: asyncio.Future[list[memoryview] | HutongError] = asyncio.get_running_loop().create_future()
        log.read_from_disk(found, ended.set_result)
        outcome = await ended
        if isinstance(outcome, HutongError):
            raise outcome
        return outcome


async def measure(folder: Path) -> None:
    loop = asyncio.get_running_loop()
    clock = SystemClock()
    wheel = TimerWheel(clock.monotonic_ms())
    timers, offload = LoopTimers(loop, wheel, clock), ThreadOffload(loop, 2, "bench")
    for number, shape in enumerate(SHAPES):
        journal = await Journal.open(folder / str(number), disk=RealDisk(), offload=offload, clock=clock, timers=wheel)
        logs = [journal.log(partition_id) for partition_id in range(1, shape.logs + 1)]
        await fill(Pace(journal), logs, shape)
        for on_worker, where in ((False, "page cache"), (True, "worker")):
            reader = Reader(logs, shape.fetch_bytes, on_worker)
            spent_us = statistics.median([await reader.turn() for _ in range(TURNS)])
            print(f"{shape.name}, {where:10s} {spent_us:6.0f} us per MB", flush=True)
        await journal.close()
    timers.close()
    offload.close()


def main() -> None:
    run_in_folder(__doc__.partition("\n")[0], measure)


if __name__ == "__main__":
    main()
