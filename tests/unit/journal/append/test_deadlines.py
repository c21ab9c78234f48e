"""Acknowledgements that come too late: told once, in time, while the record stays and the stream goes on."""

from typing import Any

import pytest
from tests.unit.journal.stage import Append, Stage, append_batch

from hutong.foundation.errors import Expired, FlushFailed
from hutong.journal.append.qos import Qos
from hutong.wire.kafka.batch.records import Record, build_batch

TIMEOUT_MS = 1000
LATEST_MS = TIMEOUT_MS * 9 // 8 + 20  # rounded up by an eighth at most, then to the wheel's next tick


def append(stage: Stage, *, timeout_ms: int = TIMEOUT_MS, qos: Qos = Qos.PERSISTENCE, **options: Any) -> Append:
    """Append one record with a deadline."""
    content = build_batch([Record(value=b"v")], **options)
    told = Append([b"v"])
    append_batch(stage.journal.log(1), content, qos, told.outcomes.append, timeout_ms)
    return told


@pytest.mark.parametrize("qos", [Qos.PERSISTENCE, Qos.ALL])
def test_a_slow_disk_costs_the_acknowledgement_and_not_the_record(qos: Qos) -> None:
    stage = Stage()
    late = append(stage, qos=qos)
    stage.turn()
    assert len(stage.steps.waiting) == 1, "the flush is under way, and takes its time"
    stage.advance(TIMEOUT_MS - 10)
    assert late.is_open
    stage.advance(LATEST_MS)
    assert isinstance(late.outcome, Expired)
    assert not any(map(len, stage.journal.progress.tables.values()))
    in_time = append(stage, qos=qos)
    stage.settle()
    assert isinstance(late.outcome, Expired), "told once"
    assert in_time.base_offset == 1
    assert stage.read_all(1) == [(0, b"v"), (1, b"v")]


def test_each_waits_as_long_as_it_asked_for() -> None:
    stage = Stage()
    hurried, patient, forever = append(stage, timeout_ms=100), append(stage), stage.append(1, b"v")
    stage.turn()
    later = append(stage, timeout_ms=100)
    stage.turn()
    stage.advance(150)
    assert [isinstance(each.outcome, Expired) for each in (hurried, later)] == [True, True]
    assert patient.is_open
    stage.advance(LATEST_MS)
    assert isinstance(patient.outcome, Expired)
    stage.advance(10**9)
    assert forever.is_open
    stage.settle()
    assert forever.base_offset == 2


def test_a_producer_that_repeats_what_came_too_late_is_stored_once_and_has_its_offset() -> None:
    stage = Stage()
    sent: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    late = append(stage, **sent)
    stage.turn()
    stage.advance(LATEST_MS)
    again = append(stage, **sent)
    assert again.is_open
    stage.settle()
    assert isinstance(late.outcome, Expired)
    assert again.base_offset == 0
    assert stage.read_all(1) == [(0, b"v")]


def test_what_came_too_late_is_not_told_again_when_the_flush_fails() -> None:
    stage = Stage()
    stage.disk.failing_flushes = 1
    late = append(stage)
    stage.turn()
    stage.advance(LATEST_MS)
    waiting = append(stage, timeout_ms=10**6)
    stage.settle()
    assert isinstance(late.outcome, Expired)
    assert isinstance(waiting.outcome, FlushFailed)


def test_deadlines_cost_one_timer_and_it_goes_when_the_journal_ends() -> None:
    stage = Stage()
    append(stage)
    stage.settle()
    before = len(stage.wheel)
    for _ in range(20):
        append(stage)
        stage.settle()
    assert len(stage.wheel) == before
    stage.close()
    assert len(stage.wheel) == 0
