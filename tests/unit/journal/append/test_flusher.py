"""Flushing: group commit, a flush that fails for good, a disk that is full for a while."""

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tests.unit.journal.stage import DIRECTORY, SMALL, Append, Stage

from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import DiskFull, FlushFailed, HutongError, LimitExceeded, Refused, StorageError
from hutong.journal.append.flusher import FlushStep, FlushTimes, FlushWork
from hutong.journal.append.log_appends import Appended
from hutong.journal.append.next_file import prepare_file
from hutong.journal.append.qos import Qos
from hutong.journal.files.disk import RealDisk
from hutong.journal.files.segment import PREPARED_NAME, Segment, segment_name
from hutong.journal.read.timestamps import Found
from hutong.testing.disks.faults import FaultPlan
from hutong.testing.disks.faulty import FaultyDisk


def code_of(append: Append) -> int:
    assert isinstance(append.outcome, Refused)
    return append.outcome.code


def test_a_failed_flush_ends_the_journal_and_nothing_is_acknowledged_after_it() -> None:
    stage = Stage()
    failures: list[StorageError] = []
    stage.journal.on_failure(failures.append)
    safe = stage.append(1, b"safe")
    stage.settle()
    stage.disk.failing_flushes = 1
    in_flight = stage.append(1, b"in flight")
    stage.turn()
    sealed = stage.append(1, b"sealed meanwhile", qos=Qos.ALL)
    stage.turn()
    noted = stage.append(1, b"not sealed yet")
    stage.steps.work()
    stage.steps.tell()
    assert safe.base_offset == 0
    assert isinstance(in_flight.outcome, FlushFailed)
    assert isinstance(sealed.outcome, FlushFailed)
    assert code_of(stage.append(1, b"after")) == 56
    stage.settle()
    assert isinstance(noted.outcome, HutongError)
    assert failures == [stage.journal.failure]
    assert stage.read_all(1) == [(0, b"safe")], "reads go on"
    stage.advance(SMALL.shortage_retry_ms * 10)
    stage.settle()
    assert stage.journal.flushed_position < stage.journal.position, "never tried again"


def test_what_was_acknowledged_before_a_failed_flush_survives_the_next_start() -> None:
    stage = Stage()
    stage.append(1, b"safe")
    stage.settle()
    stage.disk.failing_flushes = 1
    stage.append(1, b"lost")
    stage.settle()
    stage.close()
    stage.disk.crash(Random(3))
    stage.open()
    assert stage.read_all(1)[0] == (0, b"safe")
    assert stage.append(1, b"goes on").is_open


def fill_until_full(stage: Stage) -> list[Append]:
    stage.disk.capacity_bytes = 6_000
    appends = []
    while not stage.journal.is_disk_full:
        appends.append(stage.append(1, bytes(200)))
        stage.settle()
    return appends


def test_a_full_disk_refuses_writes_serves_reads_and_recovers() -> None:
    stage = Stage()
    *stored, in_flight = fill_until_full(stage)
    assert all(isinstance(append.outcome, Appended) for append in stored)
    assert code_of(in_flight) == 56
    assert code_of(stage.append(1, b"refused")) == 56
    assert code_of(stage.append(2, b"refused", qos=Qos.RECEIVE)) == 56
    assert len(stage.read_all(1)) == len(stored)
    stage.advance(SMALL.shortage_retry_ms + 20)
    stage.settle()
    assert stage.journal.is_disk_full, "still no space"
    stage.disk.capacity_bytes = None
    stage.advance(SMALL.shortage_retry_ms + 20)
    stage.settle()
    assert not stage.journal.is_disk_full
    after = stage.append(1, b"after")
    stage.settle()
    assert after.base_offset == len(stored) + 1
    assert len(stage.read_all(1)) == len(stored) + 2, "what was in flight is written once there is space"
    stage.crash(Random(0))
    stage.open()
    assert len(stage.read_all(1)) == len(stored) + 2


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS])
@pytest.mark.parametrize("operation", ["write", "preallocate", "create", "sync_directory"])
def test_whatever_fails_while_flushing_ends_the_journal(operation: str, code: int) -> None:
    stage = Stage()
    stage.disk.plan.add(operation, code, times=1)
    append = stage.append(1, b"v")
    stage.settle()
    assert isinstance(append.outcome, StorageError)
    assert str(DIRECTORY) in str(append.outcome)
    assert stage.journal.failure is append.outcome
    assert code_of(stage.append(1, b"after")) == 56


def test_a_journal_whose_folder_vanished_acknowledges_nothing_more() -> None:
    stage = Stage()
    stage.append(1, b"v")
    stage.settle()
    for name in stage.disk.list(DIRECTORY):
        stage.disk.unlink(DIRECTORY / name)
    append = stage.append(1, b"w")
    stage.settle()
    assert isinstance(append.outcome, FlushFailed)
    assert "removed while it was in use" in str(append.outcome)
    assert stage.read_all(1) == [(0, b"v")]


@pytest.mark.parametrize("is_crash", [True, False])
def test_half_a_write_on_a_full_disk_is_no_record_until_it_is_whole(is_crash: bool) -> None:
    stage = Stage()
    stage.append(1, b"before")
    stage.settle()
    stage.disk.plan.add("write", errno.ENOSPC, times=1, lands_bytes=90)
    assert stage.append(1, b"half").is_open
    stage.settle()
    if is_crash:
        stage.crash(Random(5))
        stage.open()
        assert stage.read_all(1) == [(0, b"before")]
    else:
        stage.advance(SMALL.shortage_retry_ms + 20)
        stage.settle()
        stage.crash(Random(5))
        stage.open()
        assert stage.read_all(1) == [(0, b"before"), (1, b"half")]
    assert stage.problems() == []


@pytest.mark.parametrize("trouble", ["full", "failed"])
def test_producers_that_were_made_to_wait_are_let_on_to_be_refused(trouble: str) -> None:
    stage = Stage()
    heard: list[bool] = []
    stage.journal.watch_congestion(heard.append)
    while not stage.journal.is_congested:
        stage.append(1, bytes(400))
        stage.turn()
    stage.disk.plan.add("write", errno.ENOSPC if trouble == "full" else errno.EIO)
    stage.settle()
    assert heard == [True, False]
    assert code_of(stage.append(1, b"v")) == 56
    stage.journal.delete_log(2)
    stage.journal.log(1).delete_before(0)
    stage.settle()
    assert not stage.journal.is_congested


def test_a_full_disk_is_told_once_and_that_there_is_space_again_once() -> None:
    stage = Stage()
    told: list[StorageError | None] = []
    stage.journal.on_shortage(told.append)
    stage.disk.plan.add("write", errno.ENOSPC)
    stage.append(1, b"v")
    stage.settle()
    for _ in range(3):
        stage.advance(SMALL.shortage_retry_ms + 20)
        stage.settle()
    assert [type(error) for error in told] == [DiskFull]
    stage.disk.plan.heal()
    stage.advance(SMALL.shortage_retry_ms + 20)
    stage.settle()
    assert told[1:] == [None]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_offsets_are_found_by_time_in_what_is_on_disk(code: int) -> None:
    stage = Stage()
    stage.append(1, b"v")
    stage.settle()
    stage.disk.plan.add("write", code)
    stage.append(1, b"w")
    stage.settle()
    found: list[Found | HutongError] = []
    stage.journal.log(1).offset_for_timestamp(0, found.append)
    stage.journal.log(1).offset_of_max_timestamp(found.append)
    stage.settle()
    assert [outcome[1] for outcome in found if isinstance(outcome, tuple)] == [0, 0]


def test_a_journal_that_closes_tries_a_full_disk_once_more() -> None:
    """Told event by event: no timer is due, yet what was accepted is written, marked clean and found again."""
    stage = Stage()
    stage.disk.plan.add("write", errno.ENOSPC, times=1)
    refused = stage.append(1, b"accepted before")
    stage.turn()
    stage.steps.work()
    stage.steps.tell()
    assert code_of(refused) == 56
    assert stage.journal.is_disk_full
    assert not stage.steps.waiting, "nothing is tried before the timer"
    stage.close()
    assert not stage.journal.is_disk_full
    assert stage.open().recovery.was_clean
    assert stage.read_all(1) == [(0, b"accepted before")]


def test_a_journal_that_closes_gives_up_where_the_disk_is_still_full() -> None:
    stage = Stage()
    stage.append(1, b"safe")
    stage.settle()
    stage.disk.plan.add("write", errno.ENOSPC)
    stage.append(1, b"refused")
    stage.settle()
    writes = stage.disk.plan.faults[0].seen
    stage.close()
    assert stage.disk.plan.faults[0].seen == writes + 1, "tried once more, not again and again"
    assert stage.journal.is_disk_full
    assert len(stage.wheel) == 0
    stage.disk.plan.heal()
    assert not stage.open().recovery.was_clean
    assert stage.read_all(1) == [(0, b"safe")]


def test_no_timer_is_armed_by_what_ends_after_the_stop() -> None:
    stage = Stage()
    log = stage.journal.log(1)
    log.configure(receive_qos=True, log_append_time=False)
    stage.disk.plan.add("write", errno.ENOSPC, times=1)
    stage.append(1, b"in flight")
    stage.turn()
    stage.steps.work()
    stage.journal.flusher.stop()
    stage.steps.tell()  # the disk is full: a running flusher would try again later
    assert stage.journal.is_disk_full
    assert len(stage.wheel) == 0
    stage.journal.flusher.shortage = None
    stage.append(log, b"nobody waits", qos=Qos.RECEIVE)  # refused: nothing to look after either
    stage.journal._parts.events.batch_deferred()  # a running flusher would look again in a while
    assert len(stage.wheel) == 0


def test_an_idempotent_producer_that_repeats_after_a_full_disk_writes_once() -> None:
    stage = Stage()
    stored = fill_until_full(stage)[:-1]
    full = stage.append(1, b"x", producer_id=1, producer_epoch=0, base_sequence=0)
    assert code_of(full) == 56
    stage.disk.capacity_bytes = None
    stage.advance(SMALL.shortage_retry_ms + 20)
    stage.settle()
    again = stage.append(1, b"x", producer_id=1, producer_epoch=0, base_sequence=0)
    stage.settle()
    assert again.base_offset == len(stored) + 1


def test_a_journal_with_a_full_disk_closes_and_is_recovered() -> None:
    stage = Stage()
    stored = fill_until_full(stage)[:-1]
    stage.close()
    assert len(stage.wheel) == 0
    stage.open()
    assert len(stage.read_all(1)) >= len(stored)


def test_space_is_reserved_ahead_and_given_back_when_a_segment_is_closed() -> None:
    stage = Stage()
    stage.append(1, b"v")
    stage.settle()
    assert stage.disk.used_bytes == SMALL.preallocate_bytes
    while len(stage.journal._parts.segments) < 3:
        stage.append(1, bytes(300))
        stage.settle()
    for segment in stage.journal._parts.segments.all()[:-1]:
        assert segment.end_position is not None
        assert stage.disk.open(segment.path).size() == segment.end_position - segment.base_position


def test_the_next_segment_is_made_ready_before_it_is_needed() -> None:
    stage = Stage()
    while stage.journal.position < SMALL.segment_bytes * 0.6:
        stage.append(1, bytes(300))
        stage.settle()
    assert PREPARED_NAME in stage.disk.list(DIRECTORY)
    while len(stage.journal._parts.segments) < 2:
        stage.append(1, bytes(300))
        stage.settle()
    assert PREPARED_NAME not in stage.disk.list(DIRECTORY)
    stage.close()
    stage.open()
    assert len(stage.read_all(1)) == stage.journal.log(1).end_offset


def test_one_flush_may_span_segments() -> None:
    stage = Stage()
    appends = []
    while len(stage.journal._parts.segments) < 2:
        appends.append(stage.append(1, bytes(300)))
        stage.turn()
    flushes = stage.journal.flusher.flushes_total
    stage.settle()
    assert stage.journal.flusher.flushes_total <= flushes + 2
    assert [append.base_offset for append in appends] == list(range(len(appends)))
    stage.crash(Random(0))
    stage.open()
    assert len(stage.read_all(1)) == len(appends)


def test_a_failing_checkpoint_costs_nothing_but_is_told() -> None:
    stage = Stage()
    stage.append(1, b"v")
    stage.settle()
    stage.disk.capacity_bytes = 0
    stage.journal.checkpointer.begin_checkpoint()
    stage.settle()
    assert stage.journal.checkpointer.last_error is not None
    stage.disk.capacity_bytes = None
    stage.append(1, b"w")
    stage.settle()
    stage.advance(SMALL.checkpoint_interval_ms + 20)
    stage.settle()
    assert stage.journal.checkpointer.last_error is None
    assert stage.journal.checkpointer.last_position == stage.journal.position


@pytest.mark.parametrize("seed", range(5))
def test_regions_are_reused_while_everything_is_flushed_and_nobody_reads(seed: int) -> None:
    stage, random = Stage(), Random(seed)
    for _ in range(100):
        stage.append(1, bytes(random.randint(1, 400)))
        stage.settle()
    cache = stage.journal._parts.cache
    assert cache.escapes_total == 0
    assert cache.regions_mapped <= 4
    assert cache.regions_reused > 5


def test_what_nobody_waits_for_is_flushed_after_a_while() -> None:
    stage = Stage()
    log = stage.journal.log(1)
    log.configure(receive_qos=True, log_append_time=False)
    stage.append(log, b"a", qos=Qos.RECEIVE)
    stage.turn()
    assert log.high_watermark == 1  # readers of such a log do not wait for the disk
    assert not stage.steps.waiting
    stage.clock.advance(stage.settings.lazy_flush_interval_ms)
    stage.wheel.advance(stage.clock.monotonic_ms() + 10)
    assert len(stage.steps.waiting) == 1


def test_someone_who_waits_takes_along_what_was_left_lying() -> None:
    stage = Stage()
    log = stage.journal.log(1)
    log.configure(receive_qos=True, log_append_time=False)
    stage.append(log, b"a", qos=Qos.RECEIVE)
    stage.turn()
    awaited = stage.append(log, b"b", qos=Qos.ALL)
    stage.turn()
    assert len(stage.steps.waiting) == 1
    stage.settle()
    assert awaited.base_offset == 1
    assert stage.journal.flushed_position == stage.journal.position


def test_much_that_nobody_waits_for_is_flushed_at_once() -> None:
    stage = Stage(replace(SMALL, lazy_flush_bytes=400))
    log = stage.journal.log(1)
    log.configure(receive_qos=True, log_append_time=False)
    for _ in range(2):  # together more than a chunk takes
        stage.append(log, b"x" * 400, qos=Qos.RECEIVE)
    assert len(stage.steps.waiting) == 1


def test_many_that_nobody_waits_for_share_a_chunk_until_somebody_reads() -> None:
    stage = Stage(replace(SMALL, noted_batches_max=3, chunk_bytes_max=4096))
    log = stage.journal.log(1)
    log.configure(receive_qos=True, log_append_time=False)
    for _ in range(4):
        stage.append(log, b"a", qos=Qos.RECEIVE)
        stage.turn()
    assert stage.journal.figures.bytes_per_chunk.count == 1
    assert (log.sealed_offset, log.high_watermark) == (3, 4)
    assert stage.read_all(log) == [(offset, b"a") for offset in range(4)]
    assert stage.journal.figures.bytes_per_chunk.count == 2


def test_who_watches_such_a_log_hears_of_each_turn() -> None:
    stage = Stage()
    log = stage.journal.log(1)
    log.configure(receive_qos=True, log_append_time=False)
    heard: list[int] = []
    log.watch(lambda: heard.append(log.high_watermark))
    for _ in range(3):
        stage.append(log, b"a", qos=Qos.RECEIVE)
        stage.turn()
    assert heard == [1, 2, 3]


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
@pytest.mark.parametrize("operation", ["create", "write", "preallocate"])
def test_a_shortage_of_files_or_memory_passes(operation: str, code: int) -> None:
    stage = Stage()
    told: list[StorageError | None] = []
    stage.journal.on_shortage(told.append)
    stage.disk.plan.add(operation, code)
    first = stage.append(1, b"first")
    stage.settle()
    assert code_of(first) == 56
    assert stage.journal.failure is None
    assert not stage.journal.is_disk_full
    assert code_of(stage.append(1, b"refused")) == 56
    stage.disk.plan.heal()
    stage.advance(SMALL.shortage_retry_ms + 20)
    stage.settle()
    assert [error is None for error in told] == [False, True]
    second = stage.append(1, b"second")
    stage.settle()
    assert second.base_offset == 1
    assert stage.read_all(1) == [(0, b"first"), (1, b"second")]
    assert stage.problems() == []


@pytest.mark.parametrize("is_late", [False, True], ids=["at once", "after the kernel gave it back"])
def test_a_flush_that_no_worker_takes_is_tried_again(monkeypatch: pytest.MonkeyPatch, is_late: bool) -> None:
    stage = Stage()

    def refuse(work: object, then: Callable[[object], None]) -> None:
        refusal = LimitExceeded("worker_threads", 0)
        if not is_late:
            raise refusal
        then(refusal)

    with monkeypatch.context() as patch:
        patch.setattr(stage.steps, "submit", refuse)
        first = stage.append(1, b"first")
        stage.settle()
    assert code_of(first) == 56
    assert stage.journal.failure is None
    stage.advance(SMALL.shortage_retry_ms + 20)
    stage.settle()
    second = stage.append(1, b"second")
    stage.settle()
    assert second.base_offset == 1
    assert stage.read_all(1) == [(0, b"first"), (1, b"second")]
    assert stage.problems() == []


def test_a_roll_for_want_of_a_file_is_made_up_for() -> None:
    stage = Stage()
    stage.append(1, b"v")
    stage.settle()
    stage.disk.plan.add("create", errno.EMFILE)
    stored = 1
    while stage.journal.shortage is None:
        stage.append(1, bytes(400))
        stage.settle()
        stored += 1
    stage.disk.plan.heal()
    stage.advance(SMALL.shortage_retry_ms + 20)
    stage.settle()
    assert len(stage.read_all(1)) == stored
    stage.crash(Random(1))
    stage.open()
    assert len(stage.read_all(1)) == stored


@pytest.mark.parametrize("operation", ["preallocate", "flush"])
def test_a_file_that_could_not_be_made_ready_is_closed(operation: str, tmp_path: Path) -> None:
    plan = FaultPlan()
    plan.add(operation, errno.ENOSPC)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(StorageError):
            prepare_file(FaultyDisk(RealDisk(), plan), tmp_path, SMALL)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("operation", "is_prepared"), [("rename", True), ("sync_directory", True), ("sync_directory", False)]
)
def test_a_flush_that_could_not_make_its_file_leaves_none_open(
    operation: str, is_prepared: bool, tmp_path: Path
) -> None:
    plan = FaultPlan()
    plan.add(operation, errno.ENOSPC)
    disk = FaultyDisk(RealDisk(), plan)
    before = len(os.listdir("/proc/self/fd"))
    segment = Segment(0, tmp_path / segment_name(0))
    for _ in range(3):
        prepared = prepare_file(disk, tmp_path, SMALL) if is_prepared else None
        step = FlushStep(segment, [memoryview(bytes(2000))], 0, 2000, prepared)
        with pytest.raises(StorageError):
            step.execute(disk, SMALL, SystemClock(), FlushTimes(0))
        step.release()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_made_ready_for_a_flush_that_failed_before_is_closed(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    prepared = prepare_file(RealDisk(), tmp_path, SMALL)
    FlushStep(Segment(0, tmp_path / segment_name(0)), [], 0, 0, prepared).release()
    assert len(os.listdir("/proc/self/fd")) == before


def flush_of(segment: Segment, disk: RealDisk, content: bytes, position: int) -> FlushWork:
    step = FlushStep(segment, [memoryview(bytearray(content))], position, len(content), None)
    return FlushWork([step], disk, SMALL, SystemClock())


def test_a_flush_is_one_write_once_its_file_is_there_and_has_room(tmp_path: Path) -> None:
    disk, segment = RealDisk(), Segment(0, tmp_path / segment_name(0))
    first = flush_of(segment, disk, b"first", 0)
    assert first.durable_write() is None, "there is no file"
    first()
    write = flush_of(segment, disk, b"second", 5).durable_write()
    assert write is not None
    assert (b"".join(write.buffers), write.position) == (b"second", 5)
    assert flush_of(segment, disk, bytes(SMALL.preallocate_bytes), 5).durable_write() is None, "there is no room"
    both = FlushWork([FlushStep(segment, [], 0, 0, None)] * 2, disk, SMALL, SystemClock())
    assert both.durable_write() is None, "it crosses into another file"
    assert segment.file is not None
    segment.file.close()


@pytest.mark.parametrize("fault", ["the disk", "the name"])
def test_a_flush_by_the_kernel_fails_as_one_by_a_worker(tmp_path: Path, fault: str) -> None:
    disk, segment = RealDisk(), Segment(0, tmp_path / segment_name(0))
    flush_of(segment, disk, b"first", 0)()
    good, bad = flush_of(segment, disk, b"good", 5), flush_of(segment, disk, b"bad", 9)
    assert good.durable_write() is not None
    assert good.finish_write(0).fsync_us >= 0
    if fault == "the name":
        segment.path.unlink()
    with pytest.raises(FlushFailed, match=segment.path.name):
        bad.finish_write(errno.EIO if fault == "the disk" else 0)
    assert segment.file is not None
    segment.file.close()
