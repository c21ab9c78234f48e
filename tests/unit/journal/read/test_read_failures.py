"""Reads that the disk refuses: counted and told, and forgotten for readiness after a while; writing goes on."""

import errno
from random import Random

import pytest
from tests.unit.journal.stage import Stage

from hutong.foundation.errors import StorageError
from hutong.journal.read.read_failures import RECENT_MS
from hutong.journal.read.timestamps import Found


def restarted() -> Stage:
    """With a record on disk and nothing in memory."""
    stage = Stage()
    stage.append(1, b"v")
    stage.settle()
    stage.crash(Random(1))
    stage.open()
    return stage


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOMEM])
def test_a_read_that_fails_is_told_and_ends_nothing(code: int) -> None:
    stage = restarted()
    failures = stage.journal.reader.failures
    told: list[StorageError] = []
    failures.on_failure = told.append
    stage.disk.plan.add("read", code)
    stage.disk.plan.add("read_cached", errno.EAGAIN)
    with pytest.raises(StorageError):
        stage.read(1, 0)
    assert failures.total == len(told) == 1
    assert failures.recent is told[0]
    assert stage.journal.failure is None
    stage.advance(RECENT_MS)
    assert failures.recent is None
    stage.disk.plan.heal()
    append = stage.append(1, b"w")
    stage.settle()
    assert append.base_offset == 1
    assert stage.read_all(1) == [(0, b"v"), (1, b"w")]


def test_a_search_by_time_that_fails_is_told_too() -> None:
    stage = restarted()
    stage.disk.plan.add("read", errno.EIO)
    outcomes: list[Found | Exception] = []
    stage.journal.log(1).offset_for_timestamp(0, outcomes.append)
    stage.settle()
    assert isinstance(outcomes[0], StorageError)
    assert stage.journal.reader.failures.total == 1


def test_damage_and_removed_segments_are_no_failures_of_the_disk() -> None:
    stage = restarted()
    cold = stage.journal.log(1).read(0, 1 << 20)
    segment = stage.journal._parts.segments.all()[0]
    segment.is_doomed = True  # retention came between
    stage.disk.plan.add("open", errno.ENOENT)
    stage.disk.plan.add("read", errno.ENOENT)
    outcomes: list[object] = []
    stage.journal.log(1).read_from_disk(cold, outcomes.append)  # type: ignore[arg-type]
    stage.settle()
    assert isinstance(outcomes[0], StorageError)
    assert stage.journal.reader.failures.total == 0
