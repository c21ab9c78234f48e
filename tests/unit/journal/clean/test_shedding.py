"""A journal gives back what deleted logs have left in it, and keeps all else."""

import pytest
from tests.unit.journal.replicate.replicas import ReplicaStage
from tests.unit.journal.replicate.test_install import copy_files, listing_of
from tests.unit.journal.stage import DIRECTORY, values

from hutong.foundation.errors import HutongError, OwnerGone
from hutong.journal.clean.shedding import AGAIN_MS
from hutong.journal.replicate.install import install_files

STEPS_MAX = 100


def mixed() -> ReplicaStage:
    """A leader's journal, most of which is of a log that is deleted."""
    stage = ReplicaStage(1).lead(1)
    for number in range(60):
        stage.append(1 if number % 10 == 0 else 2, *values(number, number + 3))
        stage.settle()
        stage.commit()
        stage.settle()
    stage.journal.delete_log(2)
    return stage


def shed(stage: ReplicaStage) -> bool:
    """Wait until it is done, without time."""
    outcomes: list[HutongError | None] = []
    stage.journal.shed_garbage(outcomes.append)
    for _ in range(STEPS_MAX):
        if outcomes:
            break
        stage.settle()
        stage.commit()
        stage.settle()
    return outcomes == [None]


def stored_bytes(stage: ReplicaStage) -> int:
    segments = stage.journal._parts.segments.all()
    return sum((each.end_position or stage.journal.position) - each.base_position for each in segments)


def test_what_is_deleted_goes_and_all_else_stays() -> None:
    stage = mixed()
    before, kept = stored_bytes(stage), stage.read_all(1)
    assert kept
    assert shed(stage)
    assert stored_bytes(stage) < before / 4
    assert stage.read_all(1) == kept
    stage.journal.abort()
    stage.settle()
    stage.open()
    stage.commit()
    assert stage.read_all(1) == kept
    assert stage.journal.log_ids() == [1]


def test_a_journal_opens_again_after_all_of_it_was_deleted() -> None:
    stage = mixed()
    stage.journal.delete_log(1)
    assert shed(stage)
    position = stage.journal.position
    stage.journal.abort()
    stage.settle()
    stage.open()
    assert stage.journal.position == position


@pytest.mark.parametrize("is_log_deleted", [True, False])
def test_a_journal_of_which_all_was_deleted_can_be_copied(*, is_log_deleted: bool) -> None:
    stage = mixed()
    log = stage.journal.log(1)
    if is_log_deleted:
        stage.journal.delete_log(1)
    else:
        log.delete_before(log.end_offset)
    assert shed(stage)
    listing = listing_of(stage)
    replica = ReplicaStage(2)
    replica.journal.abort()
    replica.settle()
    copy_files(stage, listing, replica)
    install_files(replica.disk, DIRECTORY, listing.sizes)
    replica.open()
    assert replica.journal.position == listing.position
    if not is_log_deleted:
        assert replica.journal.log(1).start_offset == replica.journal.log(1).end_offset == log.end_offset
    assert replica.problems() == []


def test_what_must_stay_of_deleted_records_is_no_garbage() -> None:
    """The last batch of a log stays, as the log ends with it: to clean its segment again and again would not end."""
    stage = ReplicaStage(1).lead(1)
    for log_id in (1, 3):
        stage.append(log_id, bytes(20 if log_id == 1 else 400))
        stage.settle()
        stage.commit()
        stage.settle()
    stage.append(2, bytes(400))
    stage.settle()
    stage.commit()
    stage.settle()
    stage.journal.delete_log(2)
    log = stage.journal.log(3)
    log.delete_before(log.end_offset)
    assert shed(stage)
    assert stage.journal.cleaner.passes_total == 1
    assert stage.read_all(1) == [(0, bytes(20))]
    assert (log.start_offset, log.end_offset) == (1, 1)


def test_without_garbage_nothing_is_written_again() -> None:
    stage = ReplicaStage(1).lead(1)
    stage.append(1, *values(0, 3))
    stage.settle()
    stage.commit()
    assert shed(stage)
    assert not stage.journal.cleaner.passes_total


def test_a_journal_that_follows_sheds_nothing() -> None:
    outcomes: list[HutongError | None] = []
    ReplicaStage(1).journal.shed_garbage(outcomes.append)
    assert isinstance(outcomes[0], OwnerGone)


def test_who_waits_for_a_journal_that_ends_is_told() -> None:
    stage = mixed()
    outcomes: list[HutongError | None] = []
    stage.journal.shed_garbage(outcomes.append)
    assert outcomes == []
    stage.journal.abort()
    assert isinstance(outcomes[0], OwnerGone)


def test_what_a_full_disk_has_ended_is_tried_again_a_little_later() -> None:
    stage = mixed()
    stage.disk.capacity_bytes = stage.disk.used_bytes
    assert not shed(stage)
    stage.disk.capacity_bytes = None
    before = stored_bytes(stage)
    for _ in range(STEPS_MAX):
        stage.advance(AGAIN_MS)
        stage.settle()
        stage.commit()
        stage.settle()
    assert stored_bytes(stage) < before / 4
