"""Segments in recycled files: what is left of a former life is never taken for a chunk, whatever ends the process."""

import errno
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tests.unit.journal.stage import DIRECTORY, SMALL, Stage

from hutong.foundation.errors import StorageError
from hutong.journal.append.flusher import FlushStep
from hutong.journal.files.disk import RealDisk
from hutong.journal.files.recycled import RECYCLED_SUFFIX, blank_bytes
from hutong.journal.files.segment import PREPARED_NAME, Segment, segment_name
from hutong.journal.format import chunk
from hutong.journal.log import DiskRead
from hutong.journal.recover.inspect import Inspector
from hutong.testing.disks.simulated import SimDisk

FILES_MAX = 3
RECYCLING = replace(SMALL, recycled_bytes_max=FILES_MAX * SMALL.segment_bytes, block_bytes=64)
OLD = b"old-" * 325  # two batches of it fill most of a segment
NEW = b"new-" * 325


def waiting(stage: Stage) -> list[str]:
    return [name for name in stage.disk.list(DIRECTORY) if name.endswith(RECYCLED_SUFFIX)]


def write(stage: Stage, count: int, value: bytes, partition_id: int = 1) -> None:
    for _ in range(count):
        append = stage.append(partition_id, value)
        stage.settle()
        assert isinstance(append.base_offset, int), "not acknowledged"


def give_up_all(stage: Stage) -> None:
    log = stage.journal.log(1)
    log.delete_before(log.high_watermark)
    stage.settle()
    stage.journal.checkpointer.begin_checkpoint()
    stage.settle()


def old(segments: int = FILES_MAX, disk: SimDisk | None = None) -> Stage:
    """A journal with so many files that wait; the active segment holds one batch."""
    stage = Stage(RECYCLING, disk)
    write(stage, 2 * segments + 1, OLD)
    give_up_all(stage)
    return stage


def active(stage: Stage) -> Segment:
    segment = stage.journal._parts.segments.active
    assert segment is not None
    return segment


def in_recycled() -> Stage:
    """A journal that writes to a recycled file and has just begun it, with a batch of log 2."""
    stage = old()
    write(stage, 1, NEW)  # the active segment is half full now, and the next one's file is prepared
    write(stage, 1, NEW, partition_id=2)
    assert active(stage).stale_bytes > 0
    return stage


def content_of(stage: Stage, segment: Segment) -> bytes:
    file = stage.disk.open(segment.path)
    return bytes(file.read(file.size(), 0))


def test_a_dead_file_waits_and_becomes_a_segment() -> None:
    stage = old()
    assert len(waiting(stage)) == len(stage.journal._parts.recycled) == FILES_MAX
    used_bytes = stage.disk.used_bytes
    write(stage, 8, NEW)
    assert stage.journal._parts.recycled.reused_total == FILES_MAX
    assert waiting(stage) == []
    assert stage.disk.used_bytes <= used_bytes + 2 * SMALL.segment_bytes
    first = stage.journal.log(1).start_offset
    assert stage.read_all(1) == [(offset, NEW) for offset in range(first, first + 8)]
    assert stage.problems() == []


def test_no_more_files_wait_than_the_bound() -> None:
    stage = old(FILES_MAX + 4)
    assert len(waiting(stage)) == FILES_MAX
    assert Stage(SMALL).journal._parts.recycled.room == 0, "none, unless it is asked for"


def test_a_segment_that_was_closed_early_does_not_wait() -> None:
    stage = Stage(RECYCLING)
    write(stage, 1, b"short")
    stage.journal.writer.roll()
    write(stage, 1, b"short")
    give_up_all(stage)
    assert len(stage.journal._parts.segments) == 1
    assert waiting(stage) == []


def test_a_closed_recycled_segment_is_cut_to_its_size() -> None:
    stage = in_recycled()
    write(stage, 2, NEW)
    closed = stage.journal._parts.segments.all()[-2]
    assert closed.stale_bytes > 0
    assert closed.end_position is not None
    assert stage.disk.open(closed.path).size() == closed.end_position - closed.base_position


def test_a_stop_and_a_start_leave_no_file_that_waits() -> None:
    stage = old()
    stage.close()
    assert waiting(stage) == []
    stage = in_recycled()
    assert waiting(stage)
    stage.journal.abort()
    kinds = {row.kind for row in Inspector(stage.disk, DIRECTORY, RECYCLING).files()}
    assert "recycled, for a new segment" in kinds
    stage.open()
    assert waiting(stage) == []
    assert stage.journal.recovery.repairs == []


def test_a_read_that_begins_after_its_segment_died_never_opens_the_file() -> None:
    """It may be renamed, and overwritten, at any moment from then on."""
    stage = Stage(RECYCLING)
    write(stage, 7, OLD)
    log = stage.journal.log(1)
    found = log.read(0, 1 << 20)
    assert isinstance(found, DiskRead)
    stage.journal.checkpointer.begin_checkpoint()
    stage.settle()
    log.delete_before(log.high_watermark)
    stage.turn()
    stage.steps.work()
    stage.steps.tell()
    dead = found.segment
    assert dead.is_doomed
    assert dead.path.name in stage.disk.list(DIRECTORY), "not renamed yet"
    outcomes: list[object] = []
    log.read_from_disk(found, outcomes.append)
    stage.settle()
    (outcome,) = outcomes
    assert isinstance(outcome, StorageError)
    assert "was removed" in str(outcome)


# -- the end of the journal, with stale bytes behind it


def test_a_killed_process_leaves_a_journal_without_a_problem() -> None:
    """The end is blank after every flush, so neither a start nor an inspection takes stale bytes for damage."""
    for count in range(1, 6):
        stage = old()
        write(stage, count, NEW)
        position, found = stage.journal.position, stage.read_all(1)
        stage.journal.abort()
        assert stage.problems() == []
        stage.open()
        assert stage.journal.recovery.repairs == []
        assert (stage.journal.position, stage.read_all(1)) == (position, found)


def test_stale_bytes_do_not_outlive_a_start() -> None:
    stage = in_recycled()
    segment = active(stage)
    assert OLD in content_of(stage, segment)
    stage.journal.abort()
    stage.open()
    assert OLD not in content_of(stage, segment)
    assert active(stage).stale_bytes == 0
    write(stage, 3, NEW)
    assert stage.problems() == []


def test_a_crash_between_the_renaming_and_the_first_write_leaves_an_empty_segment() -> None:
    stage = old()
    write(stage, 1, NEW)
    assert PREPARED_NAME in stage.disk.list(DIRECTORY)
    append = stage.append(2, NEW)
    stage.turn()
    stage.disk.plan.add("write", errno.EIO, pattern=f"*{PREPARED_NAME}", times=1)  # it was opened by that name
    stage.settle()
    assert append.outcomes, "refused: the journal has failed"
    stage.journal.abort()
    newest = max(name for name in stage.disk.list(DIRECTORY) if name.endswith(".journal"))
    assert OLD in bytes(stage.disk.open(DIRECTORY / newest).read(SMALL.segment_bytes, 0))
    assert all("Remedy: rebuild the index" in problem for problem in stage.problems())
    stage.open()
    assert stage.journal.recovery.repairs == []
    assert stage.journal.log(2).end_offset == 0


@pytest.mark.parametrize("seed", range(40))
def test_power_loss_in_a_flush_over_stale_bytes_costs_only_that_flush(seed: int) -> None:
    stage = in_recycled()
    safe = stage.read_all(2)
    for number in range(3):
        stage.append(2, b"%d" % number * 400)
    stage.turn()
    stage.disk.changes_until_power_loss = seed % 2  # before the write, in the middle of it, or before its flush
    stage.steps.work()
    stage.crash(Random(seed))
    stage.open()
    found = stage.read_all(2)
    assert found[: len(safe)] == safe
    assert found[len(safe) :] == [
        (len(safe) + number, b"%d" % number * 400) for number in range(len(found) - len(safe))
    ]
    stage.close()
    assert stage.problems() == []


def test_a_torn_write_in_front_of_a_stale_batch_with_the_same_offsets_is_noticed() -> None:
    """The header of the new chunk is on disk, and its batch is not: what is there is sound and of another log."""
    stage = in_recycled()
    write(stage, 1, NEW, partition_id=3)  # not in the checkpoint yet
    stage.journal.abort()
    new = Stage(RECYCLING)
    write(new, 1, OLD)
    at = new.journal.position + chunk.header_bytes_for(1)
    write(new, 1, OLD, partition_id=2)  # offset 0 too, the same size, the same place
    batch = content_of(new, active(new))[at : new.journal.position]
    assert new.journal.position == stage.journal.position - active(stage).base_position
    stage.disk.open(active(stage).path).write([batch], at)
    stage.open()
    assert stage.read_all(3) == [], "another log's record is shown"
    (sentence,) = stage.journal.recovery.repairs
    assert "were not written with its header" in sentence


# -- a disk that fails


def test_a_full_disk_gets_the_space_of_waiting_files_back() -> None:
    stage = old()
    stage.disk.capacity_bytes = stage.disk.used_bytes
    while stage.journal.shortage is None:
        stage.append(1, NEW)
        stage.settle()
    assert waiting(stage) == []
    assert stage.journal.is_disk_full
    stage.advance(SMALL.shortage_retry_ms + 20)
    stage.settle()
    assert not stage.journal.is_disk_full, "what waited was enough"


def test_nothing_waits_while_the_disk_is_nearly_full() -> None:
    disk = SimDisk(capacity_bytes=RECYCLING.recycled_bytes_max * 4)
    assert waiting(old(disk=disk)) == []


def test_files_are_removed_once_others_have_filled_the_disk() -> None:
    stage = old()
    stage.journal.enforce_retention({})
    stage.settle()
    assert len(waiting(stage)) == FILES_MAX
    stage.disk.capacity_bytes = stage.disk.used_bytes + SMALL.segment_bytes
    stage.journal.enforce_retention({})
    stage.settle()
    assert waiting(stage) == []


def test_a_file_that_cannot_be_renamed_is_removed() -> None:
    disk = SimDisk()
    disk.plan.add("rename", errno.EIO, pattern="*.journal")
    stage = old(disk=disk)
    assert waiting(stage) == []
    assert stage.journal.failure is None
    assert len(stage.journal._parts.segments) == 1
    assert len([name for name in disk.list(DIRECTORY) if name.endswith(".journal")]) == 1


def test_names_that_cannot_be_flushed_are_not_overwritten() -> None:
    disk = SimDisk()
    stage = Stage(RECYCLING, disk)
    write(stage, 7, OLD)
    stage.journal.checkpointer.begin_checkpoint()
    stage.settle()
    disk.plan.add("sync_directory", errno.EIO, times=1)
    log = stage.journal.log(1)
    log.delete_before(log.high_watermark)
    stage.settle()
    assert stage.journal.failure is not None
    assert waiting(stage) == []


@pytest.mark.parametrize("operation", ["rename", "open", "size", "flush", "write"])
def test_a_waiting_file_that_cannot_be_used_is_replaced_by_a_new_one(operation: str) -> None:
    stage = old(1)
    pattern = f"*{RECYCLED_SUFFIX}" if operation == "rename" else f"*{PREPARED_NAME}"
    after = int(operation in ("write", "flush"))  # the active segment was opened by that name, and has one first
    stage.disk.plan.add(operation, errno.EIO, pattern=pattern, after=after, times=1)
    write(stage, 6, NEW)
    assert stage.journal._parts.recycled.reused_total == 0
    assert waiting(stage) == []
    assert [value for _, value in stage.read_all(1)] == [NEW] * 6
    assert stage.problems() == []


@pytest.mark.parametrize("seed", range(10))
def test_a_crash_while_files_are_renamed_loses_no_segment_that_is_alive(seed: int) -> None:
    """A name that comes back does so with what was in it: nothing is written before the directory is flushed."""
    stage = Stage(RECYCLING)
    write(stage, 7, OLD)
    write(stage, 3, NEW, partition_id=2)
    stage.journal.checkpointer.begin_checkpoint()
    stage.settle()
    log = stage.journal.log(1)
    log.delete_before(log.high_watermark)
    for _ in range(seed):
        stage.turn()
        stage.steps.work()
        stage.steps.tell()
    stage.disk.changes_until_power_loss = seed % 4
    stage.settle()
    stage.crash(Random(seed))
    stage.open()
    assert stage.read_all(2) == [(0, NEW), (1, NEW), (2, NEW)]
    stage.close()
    assert stage.problems() == []


def test_the_blank_end_fills_its_block_and_no_more_than_the_stale_part() -> None:
    settings = replace(SMALL, block_bytes=4096)
    assert blank_bytes(100, 0, settings) == 0, "a new file is blank already"
    assert blank_bytes(100, 1 << 20, settings) == 3996
    assert blank_bytes(4090, 1 << 20, settings) == 4102, "a whole header must be blank"
    assert blank_bytes(4096, 1 << 20, settings) == 4096
    assert blank_bytes(8000, 8010, settings) == 10
    assert blank_bytes(9000, 8010, settings) == 0


def test_a_write_by_the_kernel_ends_blank_too(tmp_path: Path) -> None:
    segment = Segment(0, tmp_path / segment_name(0))
    segment.file = RealDisk().create(segment.path)
    segment.allocated_bytes = segment.stale_bytes = SMALL.segment_bytes
    step = FlushStep(segment, [memoryview(bytearray(b"x" * 100))], 0, 100, None)
    write = step.durable_write(RECYCLING)
    assert write is not None
    assert [bytes(buffer) for buffer in write.buffers] == [b"x" * 100, bytes(192 - 100)]
    assert not any(buffer.readonly for buffer in write.buffers)
    segment.close_file()


def test_paths_of_waiting_files_are_those_that_a_start_removes() -> None:
    assert Path(f"x{RECYCLED_SUFFIX}").suffix == ".tmp"
