"""The cost of the journal alone: loop time per append, throughput of large batches, acknowledged appends per second.

    python -m bench.journal_append [--directory DIR]

Strategy: batches as the broker hands them over (validated, header parsed), straight into a log on a uvloop loop.
`append + seal + acknowledge` is the loop's own time: turns are driven back to back and the process's time on the loop
thread is what counts. The fsync figures are closed loops: a fixed number of appends in flight, one more for each
acknowledged.

Knows nothing of brokers; the network's share is measured by `bench.compare`.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Final

import uvloop

from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import HutongError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.journal.append.qos import Qos
from hutong.journal.files.disk import RealDisk
from hutong.journal.journal import Journal
from hutong.journal.log import PartitionLog
from hutong.runtime.loops.timers import LoopTimers
from hutong.runtime.threads.offload import ThreadOffload
from hutong.wire.kafka.batch.records import BatchHeader, Record, build_batch, parse_batch_header, validate_batch_set

SMALL_VALUE_BYTES: Final = 100  # a one-record batch of 170 bytes
BULK_RECORDS: Final = 9_500
DEPTH: Final = 64
TURNS: Final = 3_000
ROUNDS: Final = 7
CLOSED_LOOP_S: Final = 2.0
IN_FLIGHT: Final = (1, 64, 100)


def batch_of(count: int) -> tuple[memoryview, BatchHeader]:
    value = bytes(range(SMALL_VALUE_BYTES))
    batch = memoryview(build_batch([Record(0, 1_700_000_000_000, None, value) for _ in range(count)]))
    return batch, parse_batch_header(batch)


class Counter:
    """An acknowledgement handler that refuses to count refusals."""

    def __init__(self) -> None:
        self.acknowledged = 0

    def __call__(self, error: HutongError | None) -> None:
        if error is not None:
            raise error
        self.acknowledged += 1


def append(log: PartitionLog, batch: memoryview, header: BatchHeader, qos: Qos, then: Continuation[None]) -> None:
    """Append as a produce request does; `then` is called once the batch is safe at `qos`."""
    appended = log.append([(batch, header)], qos)
    if isinstance(appended, HutongError):
        raise appended
    if appended.is_safe:
        then(None)
    else:
        log.when_safe(qos, then)


class Pace:
    """Waits for a journal: until it is not congested any more, until everything is flushed."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._flushed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        journal._parts.events.flushed.append(self._flushed.set)
        journal.watch_congestion(lambda is_congested: self._room.clear() if is_congested else self._room.set())

    async def room(self) -> None:
        await self._room.wait()

    async def drained(self) -> None:
        while self._journal.flushed_position < self._journal.position:
            self._flushed.clear()
            await self._flushed.wait()


async def loop_time_per_append(pace: Pace, logs: list[PartitionLog], qos: Qos) -> float:
    """Microseconds of loop time for one one-record append, DEPTH of them in a turn."""
    batch, header = batch_of(1)
    samples = []
    for _ in range(ROUNDS):
        counter = Counter()
        spent_ns = 0
        for turn in range(TURNS // ROUNDS):
            started_ns = time.thread_time_ns()
            for number in range(DEPTH):
                append(logs[(turn + number) % len(logs)], batch, header, qos, counter)
            await asyncio.sleep(0)  # the end of the turn: the chunk is sealed
            spent_ns += time.thread_time_ns() - started_ns
            await pace.room()
        await pace.drained()
        assert counter.acknowledged == TURNS // ROUNDS * DEPTH
        samples.append(spent_ns / 1000 / counter.acknowledged)
    return statistics.median(samples)


async def bulk(pace: Pace, log: PartitionLog) -> tuple[float, float]:
    """Loop microseconds per MB with validation, and flushed MB/s, of batches of about 1 MB."""
    batch, _ = batch_of(BULK_RECORDS)
    counter, loop_ns, total = Counter(), 0, 0
    started_s = time.perf_counter()
    while time.perf_counter() - started_s < CLOSED_LOOP_S:
        before_ns = time.thread_time_ns()
        append(log, batch, validate_batch_set(batch), Qos.PERSISTENCE, counter)
        await asyncio.sleep(0)
        loop_ns += time.thread_time_ns() - before_ns
        total += len(batch)
        await pace.room()
    await pace.drained()
    elapsed_s = time.perf_counter() - started_s
    return loop_ns / 1000 / (total / 1e6), total / 1e6 / elapsed_s


async def closed_loop(log: PartitionLog, in_flight: int) -> tuple[float, float, float]:
    """Acknowledged one-record appends per second, and p50 and p99 in microseconds, `in_flight` at a time."""
    batch, header = batch_of(1)
    latencies_us: list[float] = []
    finished = asyncio.get_running_loop().create_future()
    started_s = time.perf_counter()
    open_appends = 0

    def begin() -> None:
        nonlocal open_appends
        open_appends += 1
        append(log, batch, header, Qos.PERSISTENCE, ended(time.perf_counter()))

    def ended(begun_s: float) -> Continuation[None]:
        def then(error: HutongError | None) -> None:
            nonlocal open_appends
            if error is not None:
                raise error
            now_s = time.perf_counter()
            latencies_us.append((now_s - begun_s) * 1e6)
            open_appends -= 1
            if now_s - started_s < CLOSED_LOOP_S:
                begin()
            elif not open_appends:
                finished.set_result(None)

        return then

    for _ in range(in_flight):
        begin()
    await finished
    elapsed_s = time.perf_counter() - started_s
    quantiles = statistics.quantiles(latencies_us, n=100)
    return len(latencies_us) / elapsed_s, quantiles[49], quantiles[98]


async def measure(directory: Path) -> None:
    loop = asyncio.get_running_loop()
    clock = SystemClock()
    wheel = TimerWheel(clock.monotonic_ms())
    timers, offload = LoopTimers(loop, wheel, clock), ThreadOffload(loop, 2, "bench")
    journal = await Journal.open(directory / "journal", disk=RealDisk(), offload=offload, clock=clock, timers=wheel)
    pace = Pace(journal)
    logs = [journal.log(number) for number in range(1, 101)]
    for log in logs:
        log.configure(receive_qos=True, log_append_time=False)
    for count in (1, 8, len(logs)):
        for qos in (Qos.RECEIVE, Qos.PERSISTENCE):
            spent_us = await loop_time_per_append(pace, logs[:count], qos)
            print(f"append + seal + acknowledge, {DEPTH} a turn, {count:3d} logs, {qos.name:11s} {spent_us:7.2f} us")
    per_mb_us, rate_mb = await bulk(pace, logs[0])
    print(f"1 MB batches, CRC + copy on the loop {per_mb_us:25.0f} us per MB")
    print(f"1 MB batches, flushed {rate_mb:40.0f} MB/s")
    for in_flight in IN_FLIGHT:
        rate, p50_us, p99_us = await closed_loop(logs[0], in_flight)
        print(
            f"flushed and acknowledged, {in_flight:3d} in flight {rate:15.0f} /s, p50 {p50_us:.0f} p99 {p99_us:.0f} us"
        )
    await journal.close()
    timers.close()
    offload.close()


def run_in_folder(description: str, measure: Callable[[Path], Coroutine[object, object, None]]) -> None:
    """Run a measurement of journals in a folder of its own, where the command line says."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--directory", type=Path, help="where to write (a temporary folder by default)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        uvloop.run(measure(Path(directory)))


def main() -> None:
    run_in_folder(__doc__.partition("\n")[0], measure)


if __name__ == "__main__":
    main()
