"""A replica of a journal: it has what the leader has, and knows what the leader knows."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.journal.replicate.replicas import NOT_LEADER, ReplicaStage, state_of
from tests.unit.journal.stage import SMALL, records_of, values

from hutong.foundation.errors import CorruptData, LimitExceeded
from hutong.journal.append.leader_epochs import EpochStart
from hutong.journal.append.qos import Qos
from hutong.wire.kafka.batch.records import TRANSACTIONAL


def pair() -> tuple[ReplicaStage, ReplicaStage]:
    return ReplicaStage(1).lead(1), ReplicaStage(2)


class Writing:
    """Appends of all kinds to the leader's logs, drawn from a seed."""

    def __init__(self, leader: ReplicaStage, random: Random) -> None:
        self.leader = leader
        self.random = random
        self.logs = [1, 2, 3]
        self.sequences: dict[tuple[int, int], int] = {}

    def write(self) -> None:
        log, kind = self.random.choice(self.logs), self.random.randrange(7)
        if kind < 2:
            self.leader.append(log, *values(0, self.random.randint(1, 5)))
        elif kind < 5:
            self._produce(
                log, producer=self.random.choice((7, 8)) + 10 * (kind > 2), attributes=TRANSACTIONAL * (kind > 2)
            )
        elif kind == 5:
            is_commit = self.random.random() < 0.5
            producer = self.random.choice((17, 18))
            self.leader.journal.log(log).append_marker(
                producer, 0, is_commit=is_commit, coordinator_epoch=0, then=lambda _: None
            )
        else:
            found = self.leader.journal.log(log)
            found.delete_before(self.random.randint(found.start_offset, found.high_watermark))

    def delete_one(self) -> None:
        """Delete a log; its number is not used again."""
        place = self.random.randrange(len(self.logs))
        self.leader.journal.delete_log(self.logs[place])
        self.logs[place] = max(self.logs) + 1

    def _produce(self, log: int, producer: int, attributes: int) -> None:
        sequence = self.sequences.get((log, producer), 0)
        self.leader.append(
            log, b"v", producer_id=producer, producer_epoch=0, base_sequence=sequence, attributes=attributes
        )
        self.sequences[log, producer] = sequence + 1


@given(st.integers(0, 2**32))
def test_a_replica_becomes_what_the_leader_is(seed: int) -> None:
    random = Random(seed)
    leader, replica = pair()
    writing = Writing(leader, random)
    for _ in range(random.randint(1, 60)):
        writing.write()
        if random.random() < 0.5:
            leader.turn()
            replica.take_from(leader)
        if random.random() < 0.3:
            for stage in (leader, replica):
                stage.settle()
                stage.commit()
        if random.random() < 0.05:
            writing.delete_one()
    leader.settle()
    replica.take_from(leader)
    for stage in (leader, replica):
        stage.settle()
        stage.commit()
        stage.settle()
    assert replica.journal.epochs.starts() == leader.journal.epochs.starts() == [EpochStart(1, 0, 1)]
    before = logs_of(leader)
    assert logs_of(replica) == before
    # Also after a loss of power: all of it was flushed.
    replica.crash(random)
    replica.open()
    replica.commit()
    assert logs_of(replica) == before
    assert replica.problems() == []


def logs_of(stage: ReplicaStage) -> dict[int, object]:
    found: dict[int, object] = {}
    for number in sorted(stage.journal.log_ids()):
        log = stage.journal.log(number)
        if not log.end_offset:  # asked for, and never written to
            continue
        records, offset = [], log.start_offset
        while offset < log.high_watermark:
            records += [record for record in records_of(stage.read(log, offset)) if record[0] >= offset]
            offset = records[-1][0] + 1
        found[number] = state_of(log), records
    return found


def test_what_was_taken_before_changes_nothing() -> None:
    leader, replica = pair()
    leader.append(1, b"a")
    leader.turn()
    first = leader.bytes_from(0)
    replica.take_from(leader)
    leader.append(1, b"b")
    leader.turn()
    replica.journal.replica.append(0, first)
    replica.journal.replica.append(0, leader.bytes_from(0))
    replica.journal.replica.append(0, leader.bytes_from(0))
    replica.settle()
    replica.commit()
    assert replica.read_all(1) == [(0, b"a"), (1, b"b")]


def test_a_gap_is_refused() -> None:
    leader, replica = pair()
    middle = leader.journal.position
    leader.append(1, b"a")
    leader.turn()
    with pytest.raises(CorruptData, match="do not follow position 0"):
        replica.journal.replica.append(middle, leader.bytes_from(middle))
    assert replica.journal.position == 0


@given(st.data())
def test_a_damaged_message_is_refused_and_what_is_sound_before_it_stays(data: st.DataObject) -> None:
    leader, replica = pair()
    for number in range(3):
        leader.append(1 + number % 2, b"value", producer_id=7, producer_epoch=0, base_sequence=number // 2)
        leader.turn()
    sound = leader.bytes_from(0)
    damaged = bytearray(sound)
    place = data.draw(st.integers(0, len(sound) - 1))
    damaged[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptData):
        replica.journal.replica.append(0, bytes(damaged))
    assert replica.journal.position <= place
    replica.journal.check_invariants()
    # The leader sends it again.
    replica.journal.replica.append(0, sound)
    for stage in (leader, replica):
        stage.settle()
        stage.commit()
    assert logs_of(replica) == logs_of(leader)


@given(st.integers(1, 150))
def test_a_message_that_is_cut_off_is_refused(missing: int) -> None:
    leader, replica = pair()
    for _ in range(3):
        leader.append(1, b"value")
        leader.turn()
    sound = leader.bytes_from(0)
    with pytest.raises(CorruptData):
        replica.journal.replica.append(0, sound[:-missing])  # inside the last chunk
    replica.journal.replica.append(0, sound)
    assert replica.journal.position == len(sound)


def test_a_follower_takes_no_batches_and_shows_what_is_committed() -> None:
    leader, replica = pair()
    assert replica.append(1, b"x").outcome is NOT_LEADER
    leader.append(1, b"a")
    leader.turn()
    replica.take_from(leader)
    replica.settle()
    assert replica.journal.log(1).high_watermark == 0, "the leader may be alone with it"
    replica.commit()
    assert replica.read_all(1) == [(0, b"a")]


def test_a_follower_that_leads_goes_on_where_the_leader_was() -> None:
    leader, replica = pair()
    sent: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}
    leader.append(1, b"a", base_sequence=0, **sent)
    leader.turn()
    replica.take_from(leader)
    replica.lead(2)
    again = replica.append(1, b"a", base_sequence=0, qos=Qos.ALL, **sent)
    new = replica.append(1, b"b", base_sequence=1, qos=Qos.ALL, **sent)
    replica.settle()
    replica.commit()
    replica.settle()
    assert (again.base_offset, new.base_offset) == (0, 1)
    assert [start[::2] for start in replica.journal.epochs.starts()] == [(1, 1), (2, 2)]
    # The old leader takes what the new one has written.
    leader.close()
    follower = ReplicaStage(1, disk=leader.disk)
    follower.take_from(replica)
    follower.settle()
    follower.commit()
    assert logs_of(follower) == logs_of(replica)


def test_chunks_of_an_older_leader_are_refused() -> None:
    _, replica = pair()
    replica.lead(2)
    position = replica.journal.position
    other = ReplicaStage(3).lead(1)
    assert other.journal.position == position
    other.append(1, b"late")
    other.turn()
    with pytest.raises(CorruptData, match="goes back to epoch 1"):
        replica.journal.replica.append(0, other.bytes_from(0))
    assert replica.journal.position == position


def test_a_full_disk_refuses_chunks_until_there_is_space() -> None:
    leader, replica = pair()
    leader.append(1, b"a")
    leader.turn()
    replica.disk.capacity_bytes = 0
    replica.take_from(leader)
    replica.settle()
    assert replica.journal.is_disk_full
    leader.append(1, b"b")
    leader.turn()
    with pytest.raises(Exception, match="No space is left"):
        replica.take_from(leader)
    replica.disk.capacity_bytes = None
    replica.journal.flusher.retry_now()
    replica.settle()
    replica.take_from(leader)
    replica.settle()
    replica.commit()
    assert replica.read_all(1) == [(0, b"a"), (1, b"b")]
    assert replica.append(1, b"x").outcome is NOT_LEADER


def assert_that_a_checkpoint_waits(replica: ReplicaStage) -> None:
    replica.journal.checkpointer.begin_checkpoint()
    replica.settle()
    assert replica.journal.checkpointer.checkpoints_total == 0
    replica.commit()
    replica.settle()
    assert replica.journal.checkpointer.checkpoints_total == 1


def test_a_checkpoint_waits_for_the_commit() -> None:
    leader, replica = pair()
    leader.append(1, b"a")
    leader.turn()
    replica.take_from(leader)
    assert_that_a_checkpoint_waits(replica)


def test_after_a_start_a_checkpoint_waits_for_the_commit_too() -> None:
    leader, replica = pair()
    leader.append(1, b"a")
    leader.turn()
    replica.take_from(leader)
    replica.settle()
    replica.crash(Random(1))
    replica.open()
    assert_that_a_checkpoint_waits(replica)


def test_a_follower_whose_disk_is_slow_takes_no_more_than_its_bound() -> None:
    leader, replica = pair()
    heard: list[bool] = []
    replica.journal.watch_congestion(heard.append)

    def ship() -> None:
        leader.append(1, bytes(200))
        leader.settle()
        leader.commit()
        replica.take_from(leader)

    while replica.journal.writer.replica_refusal is None:
        ship()
    with pytest.raises(LimitExceeded):
        ship()
    assert heard == [True]
    assert replica.journal.position < 3 * SMALL.dirty_bytes_max
    replica.settle()
    replica.commit()
    replica.settle()
    assert heard == [True, False]
    assert replica.append(1, b"x").outcome is NOT_LEADER


def test_a_follower_takes_all_that_waits_for_its_commit_once_it_has_stored_the_rest() -> None:
    """The leader's tail may be longer: replicas were away, and nothing is committed before this one has it all."""
    leader, replica = pair()
    for _ in range(3 * SMALL.dirty_bytes_max // 200):
        leader.append(1, bytes(200))
        leader.settle()
        replica.take_from(leader)
        replica.settle()
        leader.journal.progress.replication_failed(NOT_LEADER)  # too few replicas: it goes on for acks=1
        leader.settle()
    assert replica.journal.position == leader.journal.position > 2 * SMALL.dirty_bytes_max
