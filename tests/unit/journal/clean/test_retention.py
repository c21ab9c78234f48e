"""What goes and what stays: the pure decision, then whole segments on disk."""

import errno
from random import Random

import pytest
from tests.unit.journal.stage import DIRECTORY, Stage

from hutong.foundation.errors import Refused
from hutong.journal.clean.retention import RetentionPolicy, retained_from
from hutong.journal.files.spans import Span

SPANS = [Span(0, 0, 10, 100, 1_000), Span(500, 10, 40, 300, 3_000), Span(900, 40, 45, 50, 2_000)]
END = 45


def kept_from(policy: RetentionPolicy, now_ms: int = 10_000, start_offset: int = 0) -> int:
    return retained_from(SPANS, 450, start_offset, END, policy, now_ms)


def test_without_limits_everything_stays() -> None:
    assert kept_from(RetentionPolicy()) == 0


def test_by_time_a_span_goes_when_its_newest_record_is_too_old() -> None:
    assert kept_from(RetentionPolicy(retention_ms=9_001)) == 0
    assert kept_from(RetentionPolicy(retention_ms=8_999)) == 10
    assert kept_from(RetentionPolicy(retention_ms=7_000)) == 10, "a younger span protects the older records behind it"
    assert kept_from(RetentionPolicy(retention_ms=6_999)) == END
    assert kept_from(RetentionPolicy(retention_ms=0), now_ms=2_999) == 10


def test_by_size_spans_go_while_enough_is_left() -> None:
    assert kept_from(RetentionPolicy(retention_bytes=450)) == 0
    assert kept_from(RetentionPolicy(retention_bytes=350)) == 10
    assert kept_from(RetentionPolicy(retention_bytes=51)) == 10
    assert kept_from(RetentionPolicy(retention_bytes=50)) == 40
    assert kept_from(RetentionPolicy(retention_bytes=0)) == END


def test_the_start_never_goes_back() -> None:
    assert kept_from(RetentionPolicy(), start_offset=20) == 20
    assert kept_from(RetentionPolicy(retention_bytes=350), start_offset=20) == 20


def test_records_without_a_time_do_not_grow_old() -> None:
    spans = [Span(0, 0, 10, 100, -1), Span(500, 10, 20, 100, 1_000)]
    assert retained_from(spans, 200, 0, 20, RetentionPolicy(retention_ms=1), 10_000) == 0


def test_what_is_not_visible_yet_is_kept() -> None:
    assert retained_from(SPANS, 450, 0, 12, RetentionPolicy(retention_bytes=0), 10_000) == 10


def fill(stage: Stage, partition_id: int, count: int) -> None:
    for _ in range(count):
        stage.append(partition_id, bytes(100))
        stage.settle()


def journal_files(stage: Stage) -> list[str]:
    return [name for name in stage.disk.list(DIRECTORY) if name.endswith(".journal")]


def test_segments_are_removed_whole_and_oldest_first() -> None:
    stage = Stage()
    fill(stage, 1, 60)
    before = journal_files(stage)
    log = stage.journal.log(1)
    held = stage.read_all(log)
    stage.journal.enforce_retention({1: RetentionPolicy(retention_bytes=4_000)})
    stage.settle()
    after = journal_files(stage)
    assert after == before[-len(after) :]
    assert len(after) < len(before)
    assert stage.read_all(log) == held[log.start_offset :]
    assert len([name for name in stage.disk.list(DIRECTORY) if name.endswith(".index")]) <= len(after)
    stage.open()
    assert stage.read_all(1) == held[stage.journal.log(1).start_offset :]
    assert stage.journal.log(1).start_offset > 0


def test_one_log_that_keeps_its_records_keeps_the_segment() -> None:
    stage = Stage()
    stage.append(2, b"precious")
    fill(stage, 1, 60)
    before = journal_files(stage)
    stage.journal.enforce_retention({1: RetentionPolicy(retention_bytes=0)})
    stage.settle()
    assert journal_files(stage) == before
    assert stage.read_all(2) == [(0, b"precious")]
    assert stage.read_all(1) == []
    stage.journal.delete_log(2)
    stage.settle()
    assert len(journal_files(stage)) == 1


def test_trimming_a_log_frees_its_segments_without_being_asked_again() -> None:
    stage = Stage()
    fill(stage, 1, 60)
    stage.journal.log(1).delete_before(55)
    stage.settle()
    assert len(journal_files(stage)) <= 2


def test_old_records_of_the_newest_segment_go_too() -> None:
    stage = Stage()
    fill(stage, 1, 3)
    stage.advance(10_000)
    stage.journal.enforce_retention({1: RetentionPolicy(retention_ms=5_000)})
    stage.settle()
    log = stage.journal.log(1)
    assert (log.start_offset, log.high_watermark) == (3, 3)
    fill(stage, 1, 1)
    assert [offset for offset, _ in stage.read_all(1)] == [3]


def test_a_reader_keeps_its_file_while_the_segment_is_removed() -> None:
    stage = Stage()
    stage.disk.is_cached = False
    fill(stage, 1, 60)
    log = stage.journal.log(1)
    cold = log.read(0, 1_000)
    outcomes: list[object] = []
    log.read_from_disk(cold, outcomes.append)  # type: ignore[arg-type]
    stage.journal.enforce_retention({1: RetentionPolicy(retention_bytes=0)})
    stage.settle()
    (found,) = outcomes
    assert isinstance(found, list)
    assert found
    with pytest.raises(Refused):
        stage.read(log, 0)


def test_a_quiet_segment_is_closed_when_it_is_old_and_its_space_returns() -> None:
    stage = Stage()
    fill(stage, 1, 3)
    policy = RetentionPolicy(retention_ms=5_000, roll_ms=4_000)
    stage.journal.enforce_retention({1: policy})
    stage.settle()
    first = journal_files(stage)
    stage.advance(10_000)
    stage.journal.enforce_retention({1: policy})
    stage.settle()
    assert not set(first) & set(journal_files(stage))
    assert stage.read_all(1) == []
    stage.open()
    assert (stage.journal.log(1).start_offset, stage.journal.log(1).end_offset) == (3, 3)


def test_the_last_segment_stays_listed_until_something_behind_it_is_flushed() -> None:
    """A replica that lacks everything gets the files that are listed, and a start the one that is left."""
    stage = Stage()
    fill(stage, 1, 3)
    stage.journal.log(1).delete_before(3)
    stage.journal.writer.roll()
    segments, rolled = stage.journal._parts.segments, stage.journal.position
    while stage.journal.position == rolled:
        stage.turn()
        stage.steps.work()
        stage.steps.tell()
    assert segments.all()[0].base_position == 0, "what states the end of the log is not flushed"
    stage.settle()
    assert [each.base_position for each in segments.all()] == [rolled]
    stage.journal.checkpointer.begin_checkpoint()
    stage.settle()
    assert journal_files(stage) == [segments.all()[0].path.name]
    stage.open()
    assert (stage.journal.log(1).start_offset, stage.journal.log(1).end_offset) == (3, 3)


def test_the_age_of_a_segment_outlives_a_restart() -> None:
    stage = Stage()
    fill(stage, 1, 1)
    stage.advance(3_000)
    stage.close()
    stage.open()
    fill(stage, 1, 1)
    stage.journal.roll_if_full({1: RetentionPolicy(roll_ms=3_001)})
    stage.settle()
    assert len(stage.journal.log(1).spans) == 0
    stage.journal.roll_if_full({1: RetentionPolicy(roll_ms=3_000)})
    stage.settle()
    assert len(stage.journal.log(1).spans) == 1


def test_a_segment_is_closed_when_it_holds_enough_of_one_log() -> None:
    stage = Stage()
    fill(stage, 1, 2)
    fill(stage, 2, 1)
    held_bytes = stage.journal.log(1).held_bytes
    stage.journal.roll_if_full(dict.fromkeys((1, 2), RetentionPolicy(roll_bytes=held_bytes + 1)))
    assert len(stage.journal.log(1).spans) == 0
    stage.journal.roll_if_full(dict.fromkeys((1, 2), RetentionPolicy(roll_bytes=held_bytes)))
    assert len(stage.journal.log(1).spans) == 1
    fill(stage, 1, 1)
    stage.open()
    assert len(stage.read_all(1)) == 3


def test_the_timers_of_an_owner_change_nothing_in_a_journal_that_was_aborted() -> None:
    """A replica that leads no more opens its journal anew, and a timer may still have the former one."""
    stage = Stage()
    fill(stage, 1, 3)
    stage.journal.abort(Refused(6, "Another node leads."))
    stage.settle()
    before, position = journal_files(stage), stage.journal.position
    stage.journal.roll_if_full({1: RetentionPolicy(roll_bytes=1)})
    stage.journal.enforce_retention({1: RetentionPolicy(retention_bytes=0)})
    stage.journal.delete_log(1)
    stage.advance(10_000)
    stage.settle()
    assert (journal_files(stage), stage.journal.position) == (before, position)
    assert len(stage.journal.log(1).spans) == 0
    assert stage.journal.log(1).start_offset == 0


def test_files_go_only_after_the_ends_of_their_logs_are_on_disk() -> None:
    stage = Stage()
    fill(stage, 1, 60)
    before = set(journal_files(stage))
    stage.journal.writer.roll()
    stage.journal.log(1).delete_before(60)
    while before <= set(journal_files(stage)):
        stage.turn()
        stage.steps.work()
        stage.steps.tell()
    stage.disk.unlink(DIRECTORY / "checkpoint")
    stage.disk.crash(Random(1))
    stage.open()
    assert (stage.journal.log(1).start_offset, stage.journal.log(1).end_offset) == (60, 60)


def on_a_full_disk() -> Stage:
    """A journal with some segments of log 1, and no space for anything more."""
    stage = Stage()
    fill(stage, 1, 60)
    stage.disk.capacity_bytes = 0
    stage.append(2, bytes(1000))
    stage.settle()
    assert stage.journal.is_disk_full
    return stage


def test_a_full_disk_gives_back_the_space_of_dead_segments() -> None:
    stage = on_a_full_disk()
    before = journal_files(stage)
    stage.journal.enforce_retention({1: RetentionPolicy(retention_bytes=0)})
    stage.settle()
    assert len(journal_files(stage)) < len(before)


def test_a_crash_on_a_full_disk_moves_the_start_back_at_most_and_never_the_end() -> None:
    stage = on_a_full_disk()
    before = journal_files(stage)
    stage.journal.enforce_retention({1: RetentionPolicy(retention_bytes=0)})
    stage.settle()
    assert len(journal_files(stage)) < len(before), "although the new start could not be stated"
    assert (stage.journal.log(1).start_offset, stage.journal.log(1).end_offset) == (60, 60)
    stage.disk.crash(Random(1))
    stage.disk.capacity_bytes = None
    stage.open()
    log = stage.journal.log(1)
    assert log.start_offset < log.end_offset == 60, "what was deleted and is still in a file is there again"
    assert [offset for offset, _ in stage.read_all(1)] == list(range(log.start_offset, 60))
    assert stage.problems() == []


def test_a_segment_that_could_not_be_removed_for_want_of_files_goes_later() -> None:
    stage = Stage()
    log = stage.journal.log(1)
    while len(journal_files(stage)) < 3:
        fill(stage, 1, 1)
    oldest = journal_files(stage)[0]
    fault = stage.disk.plan.add("unlink", errno.EMFILE, times=1)
    log.delete_before(log.end_offset)
    fill(stage, 1, 1)
    assert fault.seen
    assert stage.journal.failure is None
    fill(stage, 1, 1)
    assert oldest not in journal_files(stage)
    assert stage.problems() == []


def test_nothing_is_deleted_for_a_clock_that_jumped_ahead() -> None:
    stage = Stage()
    log = stage.journal.log(1)
    while len(journal_files(stage)) < 3:
        fill(stage, 1, 1)
    policies = {1: RetentionPolicy(retention_ms=7 * 86_400_000, roll_ms=86_400_000)}
    stage.clock.jump(365 * 86_400_000)
    stage.journal.enforce_retention(policies)
    stage.settle()
    assert log.start_offset == 0
    assert len(journal_files(stage)) == 3, "nor is the segment closed for its age"
    stage.clock.jump(-365 * 86_400_000)
    stage.advance(7 * 86_400_000 + 1)
    stage.journal.enforce_retention(policies)
    stage.settle()
    assert log.start_offset == log.end_offset, "what has grown old goes"
