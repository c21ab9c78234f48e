"""The driver of share partitions with a disk that does what the test says: what is answered is on it."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.unit.foundation.fake_state import FakeState

from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import HutongError, Refused, StorageError
from hutong.foundation.timers import TimerWheel
from hutong.groups.share.delivery.driver import Deliveries
from hutong.groups.share.delivery.machine import SharePartition
from hutong.groups.share.delivery.messages import (
    Acknowledge,
    AcknowledgedBatch,
    Acquire,
    Acquired,
    BatchSpan,
    Bury,
    DeliveryLimits,
    Settled,
)
from hutong.groups.share.delivery.progress import KeptProgress, ProgressVersions, ProgressWrite
from hutong.groups.share.records import NO_PROGRESS, PartitionKey, decode_key, encode_progress, version_of
from hutong.groups.share.settings import GroupRules, ShareSettings
from hutong.wire.kafka.error_codes import ErrorCode

KEY = PartitionKey("g", b"t" * 16, 0)
LOCK_MS = 1_000
SPANS = (BatchSpan(0, 4), BatchSpan(5, 9))
ACCEPT, REJECT = 1, 3


@dataclass
class FakeLogs:
    begins_at: int | HutongError = 0
    starts_at: int | None = 0
    graves: list[tuple[Bury, Callable[[bool], None]]] = field(default_factory=list)

    def first_offset(self, key: PartitionKey, rules: GroupRules, then: Callable[[int | HutongError], None]) -> None:
        then(self.begins_at)

    def start_offset(self, key: PartitionKey) -> int | None:
        return self.starts_at

    def bury(self, key: PartitionKey, letter: Bury, topic: str, then: Callable[[bool], None]) -> None:
        self.graves.append((letter, then))


class Stage:
    """The driver with its surroundings. `restart` is a crash: only what is durable is there afterwards."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.state = FakeState()
        self.numbers = itertools.count(1, 1_000)
        self.logs = FakeLogs()
        self.dead_letter_topic = "dead"
        self.start()

    def start(self) -> None:
        self.wheel = TimerWheel(self.clock.monotonic_ms())
        self.offered: list[PartitionKey] = []
        versions = ProgressVersions(lambda count: next(self.numbers).to_bytes(count, "big"))
        self.progress = KeptProgress(self.state, versions)
        self.deliveries = Deliveries(
            clock=self.clock,
            timers=self.wheel,
            progress=self.progress,
            versions=versions,
            logs=self.logs,
            rules_of=self.rules,
            settings=ShareSettings(partitions_max=2),
        )
        self.deliveries.on_offer = self.offered.append
        for key, value in self.state.live.items():
            decoded = decode_key(key)
            assert isinstance(decoded, PartitionKey)
            self.progress.replay(decoded, value)

    def restart(self) -> None:
        self.state.on_their_way.clear()
        self.logs.graves.clear()
        self.start()

    def rules(self, _group_id: str) -> GroupRules:
        topic = self.dead_letter_topic
        return GroupRules(
            45_000, 5_000, "earliest", 0, False, topic, DeliveryLimits(2, LOCK_MS, 100, has_dead_letters=bool(topic))
        )

    def reached(self) -> tuple[int, int] | None:
        """The start offset on the disk, and the number of finished offsets after it."""
        summary = self.progress.summary(KEY)
        return None if summary is None else (summary.start_offset, summary.done_ahead)

    def pass_time(self, milliseconds: int) -> None:
        until_ms = self.clock.monotonic_ms() + milliseconds
        while (due_ms := self.wheel.next_deadline_ms()) is not None and due_ms <= until_ms:
            self.clock.advance(max(0, due_ms - self.clock.monotonic_ms()))
            self.wheel.advance(self.clock.monotonic_ms())
        self.clock.advance(until_ms - self.clock.monotonic_ms())

    def open(self, key: PartitionKey = KEY) -> list[SharePartition | HutongError]:
        found: list[SharePartition | HutongError] = []
        self.deliveries.open(key, found.append)
        return found

    def acquire(self, member_id: str = "ann") -> list[tuple[Acquired, ...] | HutongError]:
        (machine,) = self.open()
        assert isinstance(machine, SharePartition)
        offset = machine.next_offset()
        assert offset is not None
        handed: list[tuple[Acquired, ...] | HutongError] = []
        event = Acquire(member_id, self.clock.monotonic_ms(), offset, SPANS, 10, 10)
        self.deliveries.acquire(KEY, event, handed.append)
        return handed

    def acknowledge(self, first: int, last: int, kind: int = ACCEPT, member_id: str = "ann") -> list[Settled]:
        settled: list[Settled] = []
        event = Acknowledge(member_id, self.clock.monotonic_ms(), [AcknowledgedBatch(first, last, [kind])])
        self.deliveries.acknowledge(KEY, event, settled.append)
        return settled


def test_an_answer_waits_for_the_disk_and_one_write_serves_many() -> None:
    stage = Stage()
    stage.state.holds_back = True
    opening = stage.open()
    assert opening == []
    stage.state.flush(1)
    assert len(opening) == 1
    handed = stage.acquire()
    assert handed == []
    settled = [stage.acknowledge(offset, offset) for offset in range(5)]
    before = stage.state.appends_total
    stage.state.flush(1)
    assert handed == [(Acquired(0, 9, 1),)]
    assert settled == [[]] * 5
    stage.state.flush(1)
    assert settled == [[Settled(ErrorCode.NONE)]] * 5
    assert stage.state.appends_total == before + 1


def test_a_repeated_acknowledgement_is_not_answered_before_the_first_one_is_stored() -> None:
    """Else its records would come again after a write that fails, though a member was told that they are done."""
    stage = Stage()
    stage.acquire()
    stage.state.holds_back = True
    first, repeated = stage.acknowledge(0, 9), stage.acknowledge(0, 9)
    assert (first, repeated) == ([], [])
    stage.state.flush(1)
    assert (first, repeated) == ([Settled(ErrorCode.NONE)], [])
    stage.state.flush(1)
    assert repeated == [Settled(ErrorCode.NONE)]


def test_what_was_not_answered_may_come_again_and_what_was_does_not() -> None:
    stage = Stage()
    stage.acquire()
    stage.acknowledge(0, 3)
    stage.state.holds_back = True
    assert stage.acknowledge(4, 4) == []
    stage.restart()
    stage.state.holds_back = False
    assert stage.reached() == (4, 0)
    assert stage.acquire() == [(Acquired(4, 9, 2),)]


def test_a_write_that_fails_is_as_if_nothing_had_been_said() -> None:
    stage = Stage()
    stage.acquire()
    stage.state.holds_back = True
    first, second = stage.acknowledge(0, 3), stage.acknowledge(4, 4)
    stage.state.flush(1, StorageError("no disk"))
    assert [each.error for each in (*first, *second)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert stage.acknowledge(5, 5) == [Settled(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]  # nobody holds anything now
    stage.state.holds_back = False
    assert stage.acquire("bob") == [(Acquired(0, 9, 2),)]


def test_locks_end_by_themselves() -> None:
    stage = Stage()
    stage.acquire()
    stage.pass_time(LOCK_MS - 20)
    assert stage.offered == []
    stage.pass_time(40)
    assert stage.offered == [KEY]
    assert stage.acquire("bob") == [(Acquired(0, 9, 2),)]
    (settle,) = stage.acknowledge(0, 9)
    assert settle.error is ErrorCode.INVALID_RECORD_STATE
    stage.deliveries.release_member("bob", "g")
    assert [letter for letter, _ in stage.logs.graves] == [Bury(0, 9, 2, is_rejected=False)]


def test_dead_letters_are_tried_until_they_are_written_also_after_a_restart() -> None:
    stage = Stage()
    stage.acquire()
    assert stage.acknowledge(0, 1, REJECT) == [Settled(ErrorCode.NONE)]
    letter = Bury(0, 1, 1, is_rejected=True)
    stage.logs.graves.pop()[1](False)
    stage.pass_time(2_000)
    assert [each for each, _ in stage.logs.graves] == [letter]
    stage.restart()
    stage.open()
    ((again, ended),) = stage.logs.graves
    assert again == letter
    ended(True)
    assert stage.reached() == (2, 0)
    stage.acquire()
    stage.dead_letter_topic = ""
    assert stage.acknowledge(2, 2, REJECT) == [Settled(ErrorCode.NONE)]
    assert [each for each, _ in stage.logs.graves] == [letter]


def test_a_log_that_cannot_say_where_to_begin_is_asked_again() -> None:
    stage = Stage()
    stage.logs.begins_at = StorageError("no disk")
    (error,) = stage.open()
    assert isinstance(error, StorageError)
    stage.logs.begins_at = 7
    stage.open()
    assert stage.reached() == (7, 0)
    stage.logs.starts_at = 9
    (machine,) = stage.open()
    assert isinstance(machine, SharePartition)
    stage.deliveries.refresh(machine, KEY)
    assert stage.reached() == (9, 0)


def test_progress_is_reset_and_forgotten() -> None:
    stage = Stage()
    stage.acquire()
    outcomes: list[HutongError | None] = []
    stage.deliveries.replace({KEY: 5}, outcomes.append)
    assert stage.reached() == (5, 0)
    assert stage.acknowledge(0, 9) == [Settled(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert stage.progress.keys_of("g") == [KEY]
    stage.open()
    stage.deliveries.replace({KEY: None}, outcomes.append)
    assert stage.reached() is None
    assert stage.progress.keys_of("g") == []
    stage.deliveries.replace({}, outcomes.append)
    stage.open()
    stage.deliveries.drop(lambda key: key.topic_id == KEY.topic_id, StorageError("gone"))
    stage.progress.forget_topic(KEY.topic_id)
    assert stage.deliveries.get(KEY) is None
    assert stage.progress.groups() == []
    assert outcomes == [None] * 3
    assert stage.state.live == {}


def test_a_group_that_nobody_reads_here_begins_where_others_have_set_it() -> None:
    stage = Stage()
    stage.progress.is_shared = True
    stage.acquire()
    stage.state.holds_back = True
    settled = stage.acknowledge(0, 9)
    stage.deliveries.leave("g")
    assert stage.deliveries.get(KEY) is not None, "an answer is on its way"
    stage.state.flush(1)
    assert settled == [Settled(ErrorCode.NONE)]
    assert stage.deliveries.get(KEY) is None
    stage.state.holds_back = False
    stage.progress.replace({KEY: 5}, lambda _error: None)  # on another node, at the progress's owner
    assert stage.acquire() == [(Acquired(5, 9, 1),)]
    stage.deliveries.leave("g")
    assert stage.deliveries.get(KEY) is None


def test_a_node_alone_keeps_what_nobody_reads() -> None:
    stage = Stage()
    stage.acquire()
    stage.deliveries.leave("g")
    assert stage.deliveries.get(KEY) is not None


def test_who_goes_on_from_older_progress_is_refused_and_begins_again() -> None:
    stage = Stage()
    stage.acquire()
    found: list[bytes | HutongError | None] = []
    stage.progress.read(KEY, found.append)
    assert isinstance(found[0], bytes)
    other = encode_progress(5, (), 77)
    outcomes: list[HutongError | None] = []
    stage.progress.write(ProgressWrite(KEY, version_of(found[0]), other), outcomes.append)
    (settle,) = stage.acknowledge(0, 9)
    assert settle.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert stage.reached() == (5, 0)
    (handed,) = stage.acquire("bob")
    assert handed == (Acquired(5, 9, 1),)
    # The same once more: its answer may have been lost, but others have gone on since.
    stage.progress.write(ProgressWrite(KEY, version_of(found[0]), other), outcomes.append)
    assert outcomes[0] is None
    assert isinstance(outcomes[1], Refused)


def test_a_write_may_be_repeated_and_two_from_one_version_are_not_accepted() -> None:
    stage = Stage()
    stage.state.holds_back = True
    outcomes: list[HutongError | None] = []
    first, second = encode_progress(1, (), 11), encode_progress(2, (), 12)
    for value in (first, second, first):
        stage.progress.write(ProgressWrite(KEY, NO_PROGRESS, value), outcomes.append)
    assert len(outcomes) == 1
    assert isinstance(outcomes[0], Refused), "the second is refused though the first is not on the disk yet"
    stage.state.flush()
    assert outcomes[1:] == [None, None]
    assert stage.reached() == (1, 0)
    stage.progress.forget_topic(KEY.topic_id)
    stage.state.flush()
    assert stage.reached() is None


def test_a_node_is_at_work_in_so_many_partitions() -> None:
    stage = Stage()
    for partition in (0, 1):
        assert isinstance(stage.open(PartitionKey("g", KEY.topic_id, partition))[0], SharePartition)
    (refused,) = stage.open(PartitionKey("g", KEY.topic_id, 2))
    assert isinstance(refused, HutongError)
