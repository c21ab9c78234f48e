"""A journal that another group has, too, from some moment on: nothing that happens to one reaches the other."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tests.unit.journal.replicate.replicas import ReplicaStage
from tests.unit.journal.stage import DIRECTORY, SMALL, Stage, values

from hutong.foundation.errors import StorageError
from hutong.journal.files.segment import INDEX_SUFFIX, SEGMENT_SUFFIX
from hutong.journal.recover.recovered import Recovered
from hutong.journal.recover.recovery import recover
from hutong.journal.replicate.fork import fork_journal, has_journal
from hutong.testing.disks.simulated import SimDisk

FORK = Path("/data/fork")


@pytest.fixture
def source() -> ReplicaStage:
    """A journal of several segments, some of them in its checkpoint, which is closed as by a change of leaders."""
    stage = ReplicaStage(1).lead(1)
    for number in range(40):
        stage.append(1 + number % 2, *values(number, number + 3))
        stage.settle()
        stage.commit()
        stage.settle()
        if number == 30:
            stage.journal.checkpointer.begin_checkpoint()
            stage.settle()
    stage.journal.abort()
    stage.settle()
    return stage


def found_in(disk: SimDisk, directory: Path = FORK) -> tuple[object, ...]:
    """All that a start finds in a folder."""
    recovered = recover(disk, directory, SMALL, 1)
    content = b"".join(bytes(disk.open(each.path).read(1 << 20, 0)) for each in recovered.segments)
    return recovered.position, _logs(recovered), recovered.epochs.starts(), content


def _logs(recovered: Recovered) -> object:
    return {number: (log.start_offset, log.end_offset) for number, log in recovered.logs.items()}


def test_it_has_the_same(source: ReplicaStage) -> None:
    fork_journal(source.disk, DIRECTORY, FORK)
    assert has_journal(source.disk, FORK)
    # Indexes come along: a start would have to read all segments to make them.
    indexes = [name for name in source.disk.list(DIRECTORY) if name.endswith(INDEX_SUFFIX)]
    assert indexes == [name for name in source.disk.list(FORK) if name.endswith(INDEX_SUFFIX)] != []
    assert found_in(source.disk) == found_in(source.disk, DIRECTORY)


def test_what_is_in_the_checkpoint_takes_no_space(source: ReplicaStage) -> None:
    before = len({id(node) for node in source.disk._names.values()})
    fork_journal(source.disk, DIRECTORY, FORK)
    segments = [name for name in source.disk.list(FORK) if name.endswith(SEGMENT_SUFFIX)]
    added = len({id(node) for node in source.disk._names.values()}) - before
    assert added < len(segments)


def test_the_source_goes_on_and_nothing_of_that_is_in_the_fork(source: ReplicaStage) -> None:
    fork_journal(source.disk, DIRECTORY, FORK)
    before = found_in(source.disk)
    source.open()
    source.lead(2)
    for number in range(60):
        source.append(1, *values(number, number + 3))
        source.settle()
        source.commit()
        source.settle()
    source.journal.log(1).delete_before(source.journal.log(1).high_watermark)
    source.journal.delete_log(2)
    source.commit()
    source.journal.checkpointer.begin_checkpoint()
    source.settle()
    source.commit()
    source.settle()
    assert found_in(source.disk) == before


@pytest.mark.parametrize("changes", range(0, 60, 2))
def test_the_power_may_go_at_any_time(source: ReplicaStage, changes: int) -> None:
    disk = source.disk
    whole = found_in(disk, DIRECTORY)
    disk.changes_until_power_loss = changes
    try:
        fork_journal(disk, DIRECTORY, FORK)
    except StorageError:
        disk.crash(Random(changes))
    disk.changes_until_power_loss = None
    # A start completes it, or it is made again.
    fork_journal(disk, DIRECTORY, FORK)
    assert found_in(disk) == whole == found_in(disk, DIRECTORY)
    fork_journal(disk, DIRECTORY, FORK)
    assert found_in(disk) == whole


def test_a_file_with_two_names_is_not_written_again() -> None:
    """A segment that dies in one journal would become another one there, and be garbage in the other."""
    stage = Stage(replace(SMALL, recycled_bytes_max=1 << 16))
    for number in range(60):
        stage.append(1, *values(number, number + 3))
        stage.settle()
    stage.journal.checkpointer.begin_checkpoint()
    stage.settle()
    oldest = stage.journal._parts.segments.all()[0]
    content = bytes(stage.disk.open(oldest.path).read(1 << 20, 0))
    stage.disk.link(oldest.path, FORK / "other")
    log = stage.journal.log(1)
    log.delete_before(log.high_watermark)
    for number in range(120):
        stage.append(1, *values(number, number + 3))
        stage.settle()
    assert stage.journal.recycled.reused_total
    assert bytes(stage.disk.open(FORK / "other").read(1 << 20, 0)) == content


def test_a_folder_without_segments_stays_empty(source: ReplicaStage) -> None:
    empty = Path("/data/empty")
    source.disk.make_directory(empty)
    fork_journal(source.disk, empty, FORK)
    assert not has_journal(source.disk, FORK)
