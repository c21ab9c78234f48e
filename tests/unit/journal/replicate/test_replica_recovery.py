"""The recovery of a replica: chunks of another node say nothing of this node's disk."""

from dataclasses import replace
from random import Random

import pytest
from tests.unit.journal.replicate.replicas import ReplicaStage
from tests.unit.journal.replicate.test_replica_appends import logs_of
from tests.unit.journal.stage import DIRECTORY, SMALL

from hutong.foundation.errors import CorruptData
from hutong.journal.append.leader_epochs import NOBODY, EpochStart
from hutong.journal.recover.checkpoint import Checkpoint, encode_checkpoint, parse_checkpoint
from hutong.journal.recover.recovery import recover

ROOMY = replace(SMALL, cached_bytes_max=1 << 20, dirty_bytes_max=1 << 20)


def torn(seed: int) -> tuple[ReplicaStage, ReplicaStage]:
    """A leader that has flushed each chunk, and a replica that lost its power amid one flush of all of them."""
    leader, replica = ReplicaStage(1, ROOMY).lead(1), ReplicaStage(2, ROOMY)
    for _ in range(12):
        leader.append(1, bytes(300))
        leader.settle()
        replica.take_from(leader)
        leader.commit()
    # The first flush carries the first chunk, the next one all that came meanwhile.
    replica.steps.work()
    replica.steps.tell()
    replica.disk.changes_until_power_loss = 1
    replica.steps.work()
    replica.crash(Random(seed))
    return leader, replica


@pytest.mark.parametrize("seed", range(20))
def test_a_torn_tail_of_a_replica_is_cut_and_taken_again(seed: int) -> None:
    leader, replica = torn(seed)
    replica.open()
    replica.take_from(leader)
    replica.settle()
    replica.commit()
    assert logs_of(replica) == logs_of(leader)


def test_the_same_tail_is_rot_for_the_node_that_wrote_it() -> None:
    refused = 0
    for seed in range(20):
        _, replica = torn(seed)
        try:
            recover(replica.disk, DIRECTORY, replica.settings, node=1)
        except CorruptData:
            refused += 1
    assert refused


def test_a_checkpoint_keeps_the_epochs() -> None:
    epochs = [EpochStart(0, 0, NOBODY), EpochStart(3, 4_096, 2), EpochStart(7, 2**40, 1)]
    written = Checkpoint(2**41, 7, False, {}, epochs)
    assert parse_checkpoint(encode_checkpoint(written)) == written


@pytest.mark.parametrize("how", ["close", "crash"])
def test_epochs_survive(how: str) -> None:
    stage = ReplicaStage(1).lead(1)
    stage.append(1, b"v")
    stage.settle()
    stage.commit()
    stage.lead(4)
    stage.settle()
    stage.commit()
    starts = stage.journal.epochs.starts()
    assert [(start.epoch, start.node) for start in starts] == [(1, 1), (4, 1)]
    stage.close() if how == "close" else stage.crash(Random(1))
    stage.open()
    assert stage.journal.epochs.starts() == starts
