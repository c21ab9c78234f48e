"""A state topic on real journals: on a disk that is full for a while, and on a follower's."""

from tests.unit.journal.replicate.replicas import ReplicaStage
from tests.unit.journal.stage import SMALL, Stage

from hutong.broker.state.log_storage import LogStorage
from hutong.broker.state.state_tail import TailPace
from hutong.broker.state.state_topic import StateTopic
from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import HutongError, LimitExceeded, Refused
from hutong.wire.kafka.error_codes import ErrorCode


def test_a_state_that_is_ready_to_be_compacted_recovers_from_a_full_disk() -> None:
    stage = Stage()
    topic = StateTopic("__state", LogStorage(stage.journal.log(1)), ManualClock(), garbage_floor_bytes=10)
    outcomes: list[HutongError | None] = []
    stage.disk.capacity_bytes = stage.disk.used_bytes + 1
    topic.append(b"k", b"v", outcomes.append)
    stage.settle()
    assert isinstance(outcomes.pop(), Refused)
    stage.disk.capacity_bytes = None
    stage.advance(SMALL.shortage_retry_ms + 20)
    stage.settle()
    assert not stage.journal.is_disk_full
    assert dict(topic.live) == {b"k": b"v"}
    topic.append(b"l", b"w", outcomes.append)
    stage.settle()
    assert outcomes == [None]
    assert dict(topic.live) == {b"k": b"v", b"l": b"w"}


def test_nothing_is_decided_while_a_change_may_still_be_committed_that_was_not_in_time() -> None:
    leader = ReplicaStage(1).lead(1)
    leader.commit()
    topic = StateTopic("__state", LogStorage(leader.journal.log(0)), ManualClock())
    told: list[HutongError | None] = []
    late: list[bytes] = []
    topic.on_late = lambda key, _value: late.append(key)
    topic.append(b"first", b"v", told.append)
    leader.settle()
    leader.journal.progress.replication_failed(LimitExceeded("replicas", 1))
    topic.append(b"second", b"v", told.append)
    codes = [each.code for each in told if isinstance(each, Refused)]
    assert codes == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.NOT_ENOUGH_REPLICAS]
    assert leader.journal.log(0).end_offset == 1
    leader.commit()
    leader.settle()
    assert (late, dict(topic.live)) == ([b"first"], {b"first": b"v"})
    topic.append(b"third", b"v", told.append)
    leader.settle()
    leader.commit()
    leader.settle()
    assert told[2:] == [None]
    assert topic.live.keys() == {b"first", b"third"}


def test_a_follower_applies_what_its_own_journal_has_committed_and_trims_with_its_leader() -> None:
    leader, follower = ReplicaStage(1).lead(1), ReplicaStage(2)
    told: list[HutongError | None] = []
    topic = StateTopic("__state", LogStorage(leader.journal.log(0)), ManualClock(), garbage_floor_bytes=300)
    tail = following(follower)

    def ship() -> None:
        leader.settle()
        follower.take_from(leader)
        follower.settle()
        leader.commit()
        follower.commit(leader.journal.progress.committed_position)
        leader.settle()
        follower.settle()

    topic.append(b"k", b"v", told.append)
    leader.settle()
    follower.take_from(leader)
    follower.settle()
    assert (told, dict(tail.live)) == ([], {})
    ship()
    assert (told, dict(tail.live)) == ([None], {b"k": b"v"})
    for number in range(20):
        topic.append(b"busy", b"%d" % number * 30, told.append)
        ship()
    ship()
    assert topic.snapshots_total
    assert follower.journal.log(0).start_offset == leader.journal.log(0).start_offset > 0
    assert dict(tail.live) == dict(topic.live)


def test_what_a_journal_had_when_it_was_opened_counts_once_it_is_committed() -> None:
    leader, follower = ReplicaStage(1).lead(1), ReplicaStage(2)
    topic = StateTopic("__state", LogStorage(leader.journal.log(0)), ManualClock())
    topic.append(b"k", b"v", lambda _error: None)
    leader.settle()
    follower.take_from(leader)
    follower.settle()
    follower.journal.abort()
    follower.open()
    tail = following(follower)
    follower.settle()
    assert follower.journal.log(0).end_offset == 1
    assert dict(tail.live) == {}
    follower.commit()
    tail.look()
    follower.settle()
    assert dict(tail.live) == {b"k": b"v"}


def following(stage: ReplicaStage) -> StateTopic:
    storage = LogStorage(stage.journal.log(0))
    pace = TailPace(stage.turns.append, lambda _ms, call: stage.turns.append(call))
    topic = StateTopic("__state", storage, ManualClock())
    topic.follow(storage, Refused(ErrorCode.NOT_CONTROLLER), pace)
    return topic
