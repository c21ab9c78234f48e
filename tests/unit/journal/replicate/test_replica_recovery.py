"""The recovery of a replica: chunks of another node say nothing of this node's disk."""

from dataclasses import replace
from random import Random

import pytest
from tests.unit.journal.replicate.replicas import ReplicaStage
from tests.unit.journal.replicate.test_replica_appends import logs_of
from tests.unit.journal.stage import DIRECTORY, SMALL

from hutong.foundation.errors import CorruptData
from hutong.journal.append.leader_epochs import NOBODY, EpochStart
from hutong.journal.recover import recovered
from hutong.journal.recover.checkpoint import Checkpoint, encode_checkpoint, parse_checkpoint
from hutong.journal.recover.recovery import recover
from hutong.wire.kafka.batch.records import TRANSACTIONAL

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


def test_after_a_start_a_replica_shows_what_was_committed_and_the_rest_once_it_is() -> None:
    leader, replica = ReplicaStage(1, ROOMY).lead(1), ReplicaStage(2, ROOMY)
    ends = []
    for number in range(4):
        leader.append(1, b"%d" % number)
        leader.settle()
        replica.take_from(leader)
        replica.settle()
        ends.append(replica.journal.position)
        if number == 1:
            replica.commit()
            replica.journal.checkpointer.begin_checkpoint()
            replica.settle()
    replica.journal.abort()
    replica.open()
    log = replica.journal.log(1)
    assert (log.high_watermark, log.end_offset) == (2, 4)
    assert replica.read_all(1) == [(0, b"0"), (1, b"1")]
    replica.commit(ends[2])
    assert log.high_watermark == 3
    replica.commit()
    assert log.high_watermark == 4
    replica.journal.check_invariants()


def test_a_transaction_that_ended_behind_the_checkpoint_is_stable_once_its_marker_is_committed() -> None:
    leader, replica = ReplicaStage(1, ROOMY).lead(1), ReplicaStage(2, ROOMY)
    leader.append(1, b"in", producer_id=7, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL)
    leader.settle()
    leader.journal.log(1).append_marker(7, 0, is_commit=True, coordinator_epoch=0, then=lambda _: None)
    leader.settle()
    replica.take_from(leader)
    replica.settle()
    replica.journal.abort()
    replica.open()
    log = replica.journal.log(1)
    assert (log.high_watermark, log.last_stable_offset) == (0, 0)
    replica.commit()
    assert (log.high_watermark, log.last_stable_offset) == (2, 2)


def test_of_very_many_chunks_two_become_visible_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovered, "UNCERTAIN_ROWS_MAX", 4)
    leader, replica = ReplicaStage(1, ROOMY).lead(1), ReplicaStage(2, ROOMY)
    for number in range(9):
        leader.append(number % 2, b"%d" % number)
        leader.settle()
        replica.take_from(leader)
    replica.settle()
    replica.journal.abort()
    replica.open()
    assert replica.journal.log(0).high_watermark == 0
    replica.commit()
    assert [replica.journal.log(number).high_watermark for number in (0, 1)] == [5, 4]
