"""`kill -9` of a process that writes a real journal, again and again over the same directory."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.fault.journal_writer import PARTITION, SETTINGS, value_of

from hutong.foundation.clock import SystemClock
from hutong.foundation.timers import TimerWheel
from hutong.journal.files.disk import RealDisk
from hutong.journal.journal import Journal
from hutong.journal.log import Views
from hutong.journal.recover.inspect import Inspector
from hutong.runtime.threads.offload import InlineOffload
from hutong.wire.kafka.batch.records import iterate_batches, iterate_records

ROUNDS = 4
ACKNOWLEDGED_PER_ROUND = 3_000
REPOSITORY = Path(__file__).parents[2]


def write_and_kill(directory: Path) -> int:
    """Let the writer run until enough was acknowledged, kill it; returns the last acknowledged offset."""
    command = [sys.executable, "-m", "tests.fault.journal_writer", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY) as writer:
        assert writer.stdout is not None
        last = -1
        for count, line in enumerate(writer.stdout):
            last = int(line)
            if count == ACKNOWLEDGED_PER_ROUND:
                writer.kill()
                break
        rest = writer.stdout.read().split(b"\n")[:-1]  # a last line without its end was cut off by the kill
    return int(rest[-1]) if rest else last


async def contents(directory: Path) -> list[bytes]:
    clock = SystemClock()
    wheel = TimerWheel(clock.monotonic_ms())
    journal = await Journal.open(
        directory, disk=RealDisk(), offload=InlineOffload(), clock=clock, timers=wheel, settings=SETTINGS
    )
    log, values = journal.log(PARTITION), list[bytes]()
    while len(values) < log.high_watermark:
        outcomes: list[list[memoryview]] = []
        found = log.read(len(values), 1 << 20)
        if isinstance(found, Views):
            outcomes.append(found.buffers)
        else:
            log.read_from_disk(found, outcomes.append)  # type: ignore[arg-type]
        for view in outcomes[0]:
            for _, batch in iterate_batches(view):
                for record in iterate_records(batch):
                    assert record.offset == len(values)
                    values.append(record.value or b"")
    await journal.close()
    return values


@pytest.mark.fault
async def test_every_acknowledged_record_survives_kill_9(tmp_path: Path) -> None:
    for _ in range(ROUNDS):
        last = write_and_kill(tmp_path)
        values = await contents(tmp_path)
        assert len(values) > last, "an acknowledged record is lost"
        assert values == [value_of(offset) for offset in range(len(values))]
    assert len(Inspector(RealDisk(), tmp_path, SETTINGS).segments()) > 2
    assert Inspector(RealDisk(), tmp_path, SETTINGS).problems() == []
