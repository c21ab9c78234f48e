"""A journal on a simulated disk where nothing happens by itself: turns, blocking work and time move on request."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from hutong.foundation.clock import ManualClock
from hutong.foundation.deletion_clock import DeletionClock
from hutong.foundation.errors import HutongError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import NEVER
from hutong.journal.append.log_appends import Appended
from hutong.journal.append.qos import Qos
from hutong.journal.append.replicator import Replicator
from hutong.journal.journal import Journal
from hutong.journal.log import DiskRead, PartitionLog
from hutong.journal.parts import JournalHost
from hutong.journal.recover.inspect import Inspector
from hutong.journal.recover.recovery import recover
from hutong.journal.settings import JournalSettings
from hutong.testing.disks.simulated import SimDisk
from hutong.wire.kafka.batch.records import Record, build_batch, iterate_batches, iterate_records, parse_batch_header

DIRECTORY = Path("/data/group")
SMALL = JournalSettings(
    segment_bytes=4096,
    preallocate_bytes=1024,
    region_bytes=2048,
    cached_bytes_max=2048,
    dirty_bytes_max=4096,
    chunk_bytes_max=512,
    batch_bytes_max=2048,
    index_interval_bytes=256,
    index_distance_bytes=1024,
    checkpoint_interval_bytes=1 << 40,
    indexes_loaded_max=2,
    segments_open_max=2,
)


class Steps:
    """An offload whose work is done, and told, one step at a time."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self.done: deque[tuple[Callable[[Any], None], Any]] = deque()

    def submit(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        self.waiting.append((work, then))

    def work(self) -> bool:
        """Do the oldest piece of work, without telling the loop."""
        if not self.waiting:
            return False
        work, then = self.waiting.popleft()
        try:
            outcome: Any = work()
        except HutongError as error:
            outcome = error
        self.done.append((then, outcome))
        return True

    def tell(self) -> bool:
        """Bring the oldest result to the loop."""
        if not self.done:
            return False
        then, outcome = self.done.popleft()
        then(outcome)
        return True


@dataclass
class Append:
    """One append and what became of it."""

    values: list[bytes]
    outcomes: list[Appended | HutongError] = field(default_factory=list)

    @property
    def outcome(self) -> Appended | HutongError | None:
        assert len(self.outcomes) <= 1, "told more than once"
        return self.outcomes[0] if self.outcomes else None

    @property
    def is_open(self) -> bool:
        return not self.outcomes

    @property
    def base_offset(self) -> int:
        assert isinstance(self.outcome, Appended), self.outcome
        return self.outcome.base_offset


def append_batch(
    log: PartitionLog,
    content: bytes | memoryview,
    qos: Qos,
    then: Callable[[Appended | HutongError], None],
    timeout_ms: int = NEVER,
) -> None:
    """Append one batch; `then` gets the result once the batch is safe at `qos`, or an error."""
    outcome = log.append([(memoryview(content), parse_batch_header(content))], qos)
    if isinstance(outcome, HutongError) or outcome.is_safe:
        then(outcome)
    else:
        log.when_safe(qos, lambda error: then(outcome if error is None else error), timeout_ms)


class Stage:
    """One journal, opened again and again over the same disk."""

    def __init__(
        self,
        settings: JournalSettings = SMALL,
        disk: SimDisk | None = None,
        replicator: Replicator | None = None,
        refusal: HutongError | None = None,
        node: int | None = None,
    ) -> None:
        self.settings = settings
        self.replicator = replicator
        self.refusal = refusal
        self.node = node
        self.disk = disk or SimDisk()
        self.clock = ManualClock()
        self.deletion_clock = DeletionClock(self.clock, hold_ms=3_600_000)
        self.wheel = TimerWheel(self.clock.monotonic_ms())
        self.turns: deque[Callable[[], None]] = deque()
        self.steps = Steps()
        self.journal = self.open()

    def open(self) -> Journal:
        """Recover and start; what is left of an earlier journal is forgotten."""
        self.turns.clear()
        self.steps = Steps()
        recovered = recover(self.disk, DIRECTORY, self.settings, self.node)
        self.journal = Journal(
            recovered,
            DIRECTORY,
            JournalHost(
                self.disk,
                self.steps,
                self.clock,
                self.wheel,
                self.turns.append,
                replicator=self.replicator,
                deletion_ms=self.deletion_clock.now_ms,
                refusal=self.refusal,
            ),
            self.settings,
        )
        return self.journal

    def crash(self, random: Random) -> None:
        """The power goes; nothing is opened yet."""
        self.journal.abort()
        self.disk.crash(random)

    def close(self) -> None:
        """A clean stop."""

        async def close() -> None:
            closing = asyncio.get_running_loop().create_task(self.journal.close())
            while not closing.done():
                await asyncio.sleep(0)
                self.settle()
            await closing

        asyncio.run(close())

    def turn(self) -> None:
        """End the turn of the loop."""
        for _ in range(len(self.turns)):
            self.turns.popleft()()

    def settle(self) -> None:
        """Let everything happen that can without time."""
        while self.turns or self.steps.waiting or self.steps.done:
            self.turn()
            self.steps.work()
            self.steps.tell()
        self.journal.check_invariants()

    def advance(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.wheel.advance(self.clock.monotonic_ms())

    def append(self, log: PartitionLog | int, *values: bytes, qos: Qos = Qos.PERSISTENCE, **batch: Any) -> Append:
        """Append one batch with these values; `batch` are further arguments of `build_batch`."""
        records = [Record(timestamp_ms=self.clock.wall_ms(), value=value) for value in values]
        return self.append_records(log, records, qos, **batch)

    def append_records(
        self, log: PartitionLog | int, records: list[Record], qos: Qos = Qos.PERSISTENCE, **batch: Any
    ) -> Append:
        append = Append([record.value or b"" for record in records])
        content = build_batch(records, **batch)
        if isinstance(log, int):
            log = self.journal.log(log)
        append_batch(log, content, qos, append.outcomes.append)
        return append

    def read(self, log: PartitionLog | int, offset: int, max_bytes: int = 1 << 20, **how: Any) -> list[memoryview]:
        """Read once, from the disk if need be."""
        if isinstance(log, int):
            log = self.journal.log(log)
        found = log.read(offset, max_bytes, **how)
        if not isinstance(found, DiskRead):
            assert found.size == sum(map(len, found.buffers))
            return found.buffers
        cached = log.read_from_page_cache(found)
        if cached is not None:
            return cached
        outcomes: list[list[memoryview] | HutongError] = []
        log.read_from_disk(found, outcomes.append)
        self.settle()
        (outcome,) = outcomes
        if isinstance(outcome, HutongError):
            raise outcome
        return outcome

    def read_all(self, log: PartitionLog | int, max_bytes: int = 1 << 20) -> list[tuple[int, bytes]]:
        """Every visible record as (offset, value), read as a consumer does."""
        if isinstance(log, int):
            log = self.journal.log(log)
        found: list[tuple[int, bytes]] = []
        offset = log.start_offset
        while offset < log.high_watermark:
            buffers = self.read(log, offset, max_bytes)
            assert buffers, f"nothing at offset {offset} below the high watermark {log.high_watermark}"
            for record_offset, value in records_of(buffers):
                if record_offset >= offset:
                    assert record_offset == offset, f"{record_offset} came where {offset} was next"
                    found.append((record_offset, value))
                    offset += 1
        return found

    def problems(self) -> list[str]:
        """The faults that the inspector finds in the files."""
        return [str(problem) for problem in Inspector(self.disk, DIRECTORY, self.settings).problems()]


def records_of(buffers: list[memoryview]) -> list[tuple[int, bytes]]:
    """The records of fetched views as (offset, value); every view must hold whole batches."""
    found = []
    for view in buffers:
        size = 0
        for header, batch in iterate_batches(view):
            size += header.size
            found += [(record.offset, record.value or b"") for record in iterate_records(batch)]
        assert size == len(view)
    return found


def values(first: int, last: int) -> list[bytes]:
    return [b"value-%d" % number for number in range(first, last)]
