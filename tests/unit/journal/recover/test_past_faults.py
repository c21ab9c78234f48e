"""Histories that once went wrong, each at its shortest. `tests/fault/journal_history.py` found them."""

from dataclasses import replace
from random import Random

from tests.unit.journal.keyed import clean, newest, put, read_records, roll
from tests.unit.journal.stage import SMALL, Stage, values

from hutong.foundation.errors import FlushFailed
from hutong.journal.append.qos import Qos
from hutong.journal.clean.retention import RetentionPolicy
from hutong.journal.log import PartitionLog

LARGE = b"." * 1300  # three of them need a second segment


def receiving(stage: Stage) -> PartitionLog:
    log = stage.journal.log(1)
    log.configure(receive_qos=True, log_append_time=False)
    return log


def test_a_repeated_batch_on_a_receive_log_is_not_acknowledged_before_its_original_is_on_disk() -> None:
    stage = Stage()
    log = receiving(stage)
    idempotent = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    first = stage.append(log, b"a", qos=Qos.ALL, **idempotent)
    stage.turn()
    assert log.high_watermark == 1
    again = stage.append(log, b"a", qos=Qos.ALL, **idempotent)
    assert again.is_open
    stage.settle()
    assert again.base_offset == first.base_offset == 0
    third = stage.append(log, b"a", qos=Qos.ALL, **idempotent)
    assert third.base_offset == 0, "what is on disk already is acknowledged at once"


def test_what_removing_a_segment_says_of_a_log_leaves_out_no_batch_of_the_same_turn() -> None:
    stage = Stage()
    for _ in range(3):
        stage.append(1, LARGE)
    stage.settle()
    stage.journal.log(1).delete_before(3)
    append = stage.append(2, b"precious")
    stage.journal.enforce_retention({})
    stage.settle()
    assert append.base_offset == 0
    stage.crash(Random(0))
    stage.open()
    assert stage.read_all(2) == [(0, b"precious")]


def test_retention_keeps_what_is_acknowledged_and_not_in_any_span_yet() -> None:
    stage = Stage()
    log = receiving(stage)
    stage.append(log, LARGE)
    stage.settle()
    stage.advance(10_000)
    stage.append(log, b"young", qos=Qos.RECEIVE)
    stage.journal.enforce_retention({1: RetentionPolicy(retention_ms=5_000)})
    assert stage.read_all(log) == [(1, b"young")]


def test_a_log_deleted_with_batches_to_come_leaves_a_true_index() -> None:
    stage = Stage()
    for _ in range(3):
        stage.append(1, LARGE)
    stage.journal.delete_log(1)
    stage.settle()
    stage.close()
    assert stage.problems() == []


def test_a_closed_segment_keeps_its_file_until_all_of_it_is_flushed() -> None:
    stage = Stage(replace(SMALL, segments_open_max=1))
    stage.disk.is_cached = False
    for _ in range(7):
        stage.append(1, LARGE)
    stage.settle()
    for _ in range(2):
        stage.append(1, LARGE)
    stage.turn()  # the rest of one segment and the start of the next wait to be flushed
    log = stage.journal.log(1)
    for offset in (0, 3, 5):
        found = log.read(offset, 1)
        if not hasattr(found, "buffers"):
            log.read_from_disk(found, lambda _found: None)
    while stage.steps.waiting or stage.steps.done:  # the reads end before the flush is begun
        stage.steps.waiting.rotate(1)
        stage.steps.work()
        stage.steps.tell()
    stage.settle()
    stage.crash(Random(0))
    stage.open()
    assert [offset for offset, _ in stage.read_all(1)] == list(range(9))


def test_a_flush_that_failed_holds_no_region() -> None:
    stage = Stage()
    appends = [stage.append(1, value) for value in values(0, 3)]
    stage.disk.failing_flushes = 1
    stage.settle()
    assert all(isinstance(append.outcome, FlushFailed) for append in appends)
    stage.close()
    assert stage.journal._parts.cache.escaped_bytes == 0


def test_a_tombstone_that_gets_its_time_makes_no_segment_outgrow_its_place() -> None:
    stage = Stage()
    put(stage, 1, (b"key", None))
    roll(stage)
    clean(stage, 1)
    assert stage.journal.cleaner.last_error is None
    stage.crash(Random(0))
    stage.open()
    assert [(held.key, held.value) for held in read_records(stage, 1)] == [(b"key", None)]
    put(stage, 1, (b"key", b"value"))
    stage.crash(Random(0))
    stage.open()
    assert newest(read_records(stage, 1)) == {b"key": b"value"}
    assert stage.problems() == []


def test_no_file_goes_that_only_a_checkpoint_to_come_would_speak_of() -> None:
    stage = Stage()
    appends = [stage.append(1, LARGE, producer_id=7, producer_epoch=0, base_sequence=number) for number in range(2)]
    stage.append(2, LARGE)  # in a segment of its own
    stage.turn()
    while stage.journal.log(2).high_watermark == 0:
        stage.steps.work()
        stage.steps.tell()
    stage.journal.abort()  # before anything was put into a checkpoint
    stage.open()
    stage.disk.capacity_bytes = 0  # no room for a checkpoint, nor for a word about the log
    stage.journal.log(1).delete_before(len(appends))
    stage.settle()
    assert stage.journal.is_disk_full
    stage.journal.enforce_retention({1: RetentionPolicy(retention_bytes=0)})
    stage.settle()
    stage.crash(Random(0))
    log = stage.open().log(1)
    assert log.end_offset == len(appends), "its offsets would be given again"
    stage.disk.capacity_bytes = None
    again = stage.append(1, LARGE, producer_id=7, producer_epoch=0, base_sequence=1)
    stage.settle()
    assert again.base_offset == 1, "the producer's batch would be there twice"
