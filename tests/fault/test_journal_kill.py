"""`kill -9` of a process that writes a real journal, again and again over the same directory.

TEST_JOURNAL_KILLS says how often (4 by default).
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fault.journal_writer import PARTITION, RECYCLING, SETTINGS, value_of

from hutong.foundation.clock import SystemClock
from hutong.foundation.timers import TimerWheel
from hutong.journal.files.disk import RealDisk
from hutong.journal.journal import Journal
from hutong.journal.log import Views
from hutong.journal.recover.inspect import Inspector
from hutong.journal.settings import JournalSettings
from hutong.runtime.threads.offload import InlineOffload
from hutong.wire.kafka.batch.records import iterate_batches, iterate_records

ROUNDS = int(os.environ.get("TEST_JOURNAL_KILLS", "4"))
KEPT = 700  # records, about a segment of them
ACKNOWLEDGED_PER_ROUND = 3_000
REPOSITORY = Path(__file__).parents[2]


def write_and_kill(directory: Path, *words: object, acknowledged: int = ACKNOWLEDGED_PER_ROUND) -> int:
    """Let the writer run until enough was acknowledged, kill it; returns the last acknowledged offset."""
    command = [sys.executable, "-m", "tests.fault.journal_writer", str(directory), *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY) as writer:
        assert writer.stdout is not None
        last = -1
        for count, line in enumerate(writer.stdout):
            last = int(line)
            if count == acknowledged:
                writer.kill()
                break
        rest = writer.stdout.read().split(b"\n")[:-1]  # a last line without its end was cut off by the kill
    return int(rest[-1]) if rest else last


async def contents(directory: Path, settings: JournalSettings = SETTINGS) -> tuple[int, list[bytes], Journal]:
    """The first offset, all values from there on, and the journal, closed again."""
    clock = SystemClock()
    wheel = TimerWheel(clock.monotonic_ms())
    journal = await Journal.open(
        directory, disk=RealDisk(), offload=InlineOffload(), clock=clock, timers=wheel, settings=settings
    )
    log, values = journal.log(PARTITION), list[bytes]()
    start = log.start_offset
    while start + len(values) < log.high_watermark:
        outcomes: list[list[memoryview]] = []
        found = log.read(start + len(values), 1 << 20)
        if isinstance(found, Views):
            outcomes.append(found.buffers)
        else:
            log.read_from_disk(found, outcomes.append)  # type: ignore[arg-type]
        for view in outcomes[0]:
            for _, batch in iterate_batches(view):
                for record in iterate_records(batch):
                    if record.offset >= start:  # the first batch may begin before it
                        assert record.offset == start + len(values)
                        values.append(record.value or b"")
    await journal.close()
    return start, values, journal


@pytest.mark.fault
async def test_every_acknowledged_record_survives_kill_9(tmp_path: Path) -> None:
    for _ in range(ROUNDS):
        last = write_and_kill(tmp_path)
        _, values, _ = await contents(tmp_path)
        assert len(values) > last, "an acknowledged record is lost"
        assert values == [value_of(offset) for offset in range(len(values))]
    assert len(Inspector(RealDisk(), tmp_path, SETTINGS).segments()) > 2
    assert Inspector(RealDisk(), tmp_path, SETTINGS).problems() == []


@pytest.mark.fault
async def test_every_acknowledged_record_survives_kill_9_in_recycled_files(tmp_path: Path) -> None:
    over_stale = 0
    for number in range(ROUNDS):
        last = write_and_kill(tmp_path, KEPT, acknowledged=ACKNOWLEDGED_PER_ROUND + 97 * number)
        newest = Inspector(RealDisk(), tmp_path, RECYCLING).segments()[-1]
        content = newest.path.read_bytes()
        start, values, journal = await contents(tmp_path, RECYCLING)
        assert start + len(values) > last, "an acknowledged record is lost"
        assert len(values) >= KEPT
        assert values == [value_of(offset) for offset in range(start, start + len(values))]
        torn = [sentence for sentence in journal.recovery.repairs if ".journal" in sentence]
        assert len(torn) <= 1, "only what was in flight may be torn"
        assert Inspector(RealDisk(), tmp_path, RECYCLING).problems() == []
        over_stale += any(content[journal.recovery.position - newest.base_position :])
    assert over_stale >= ROUNDS // 2, "hardly any kill left stale bytes behind the end"
