"""Cutting what another leader never had, and taking that leader's chunks instead."""

import contextlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.journal.replicate.replicas import ReplicaStage
from tests.unit.journal.replicate.test_replica_appends import logs_of
from tests.unit.journal.stage import DIRECTORY

from hutong.foundation.errors import CorruptData, StorageError
from hutong.journal.replicate.truncation import truncate_journal


def append(stage: ReplicaStage, count: int, size: int = 100) -> None:
    for _ in range(count):
        stage.append(1, bytes(size))
        stage.turn()


def diverged(committed: int, cut: int, new: int) -> tuple[ReplicaStage, ReplicaStage, int]:
    """A former leader with a tail of its own, the new leader, and the position where their streams part."""
    old, new_leader = ReplicaStage(1).lead(1), ReplicaStage(2)
    append(old, committed)
    new_leader.take_from(old)
    for stage in (old, new_leader):
        stage.settle()
        stage.commit()
        stage.journal.checkpointer.begin_checkpoint()
        stage.settle()
    parting = new_leader.journal.position
    append(old, cut)
    old.settle()
    new_leader.lead(2)
    append(new_leader, new)
    new_leader.settle()
    new_leader.commit()
    new_leader.settle()
    return old, new_leader, parting


def where_to_cut(old: ReplicaStage, new_leader: ReplicaStage) -> int:
    """The questions of a follower, until its last epoch is the leader's (KIP-279)."""
    end, epochs = old.journal.position, old.journal.epochs
    epoch = epochs.last
    while True:
        theirs, their_end = new_leader.journal.epochs.end_of(epoch, new_leader.journal.position)
        ours, our_end = epochs.end_of(theirs, end)
        if ours == theirs:
            return min(our_end, their_end)
        epoch = ours


@given(st.integers(0, 40), st.integers(0, 60), st.integers(0, 20), st.integers(0, 2**32))
def test_a_former_leader_cuts_its_tail_and_follows(committed: int, cut: int, new: int, seed: int) -> None:
    old, new_leader, parting = diverged(committed, cut, new)
    assert where_to_cut(old, new_leader) == parting
    if seed % 2:
        old.crash(Random(seed))
    else:
        old.close()
    truncate_journal(old.disk, DIRECTORY, parting)
    follower = ReplicaStage(1, disk=old.disk)
    assert follower.journal.position == parting
    assert follower.journal.epochs.starts() == new_leader.journal.epochs.starts()[:-1]
    stream = b"".join(stored(new_leader))
    follower.journal.replica.append(parting, stream[parting:])
    follower.settle()
    follower.commit()
    follower.settle()
    assert logs_of(follower) == logs_of(new_leader)
    assert follower.problems() == []


def stored(stage: ReplicaStage) -> list[bytes]:
    """The stream from its beginning, from the files: most of it has left the cache."""
    found = []
    for segment in stage.journal._parts.segments.all():
        end = segment.end_position or stage.journal.position
        if end > segment.base_position:
            found.append(bytes(stage.disk.open(segment.path).read(end - segment.base_position, 0)))
    return found


@pytest.mark.parametrize("changes", range(12))
def test_a_crash_amid_a_cut_leaves_a_journal_that_is_cut_again(changes: int) -> None:
    old, _, parting = diverged(5, 60, 3)
    old.close()
    old.disk.changes_until_power_loss = changes
    with contextlib.suppress(StorageError):
        truncate_journal(old.disk, DIRECTORY, parting)
    old.disk.crash(Random(changes))
    assert ReplicaStage(1, disk=old.disk).journal.position >= parting
    truncate_journal(old.disk, DIRECTORY, parting)
    assert ReplicaStage(1, disk=old.disk).journal.position == parting


def test_what_is_committed_is_not_cut() -> None:
    old, _, parting = diverged(5, 5, 3)
    old.close()
    with pytest.raises(CorruptData, match="is committed, not 10"):
        truncate_journal(old.disk, DIRECTORY, 10)
    assert ReplicaStage(1, disk=old.disk).journal.position > parting
