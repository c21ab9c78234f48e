"""A process to be killed: appends numbered records to a journal and prints each offset once it is acknowledged.

python -m tests.fault.journal_writer DIRECTORY [KEPT]

With KEPT it gives up all but so many of the newest records, again and again, so that segments get recycled files.
"""

import asyncio
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import HutongError
from hutong.foundation.timers import TimerWheel
from hutong.journal.append.qos import Qos
from hutong.journal.files.disk import RealDisk
from hutong.journal.journal import Journal
from hutong.journal.settings import JournalSettings
from hutong.runtime.threads.durable_writes import ring_offload
from hutong.runtime.threads.offload import ThreadOffload
from hutong.wire.kafka.batch.records import Record, build_batch, parse_batch_header

PARTITION = 1
PER_TURN = 20
SETTINGS = JournalSettings(
    segment_bytes=1 << 20,
    preallocate_bytes=1 << 17,
    checkpoint_interval_bytes=1 << 19,
    filling_flush_bytes_max=1 << 20,
    filling_piece_bytes=1 << 15,
)
RECYCLING = replace(
    SETTINGS,
    segment_bytes=1 << 17,
    preallocate_bytes=1 << 15,
    checkpoint_interval_bytes=1 << 16,
    recycled_bytes_max=1 << 19,
    filling_flush_bytes_max=1 << 20,
    filling_piece_bytes=1 << 14,
)


def value_of(offset: int) -> bytes:
    return b"record %d " % offset + b"." * (offset % 300)


async def write(directory: Path, kept: int | None) -> None:
    loop, clock = asyncio.get_running_loop(), SystemClock()
    offload = ThreadOffload(loop, 2, "writer")
    wheel = TimerWheel(clock.monotonic_ms())
    journal = await Journal.open(
        directory,
        disk=RealDisk(),
        offload=offload,
        clock=clock,
        timers=wheel,
        flush_offload=ring_offload(loop, ThreadOffload(loop, 1, "flusher")),  # as a node has it
        settings=SETTINGS if kept is None else RECYCLING,
    )
    log = journal.log(PARTITION)
    room = asyncio.Event()
    room.set()
    journal.watch_congestion(lambda is_congested: room.clear() if is_congested else room.set())

    def acknowledged(offset: int, error: HutongError | None) -> None:
        if error is not None:
            raise error
        print(offset, flush=True)

    while True:
        for _ in range(PER_TURN):
            batch = build_batch([Record(value=value_of(log.end_offset))])
            appended = log.append([(memoryview(batch), parse_batch_header(batch))], Qos.ALL)
            if isinstance(appended, HutongError):
                raise appended
            log.when_safe(Qos.ALL, partial(acknowledged, appended.base_offset))
        if kept is not None:
            # Small flushes: those of several segments at once would leave files no time to die before new ones are due.
            flushed: asyncio.Future[object] = loop.create_future()
            log.when_safe(Qos.ALL, flushed.set_result)
            await flushed
            if log.high_watermark - log.start_offset > 2 * kept:
                log.delete_before(log.high_watermark - kept)
        await asyncio.sleep(0)
        await room.wait()


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None))
