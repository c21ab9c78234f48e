"""Offsets of open transactions: they wait, survive a restart, and count when, and only when, they are committed."""

import itertools
import os
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.foundation.fake_state import FakeState
from tests.unit.groups.stage import RETENTION_MS, Stage

from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import CorruptData, DiskFull, HutongError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import WaitTable
from hutong.groups.offsets.offset_log import OffsetLog
from hutong.groups.offsets.records import StoredOffset, decode_offset
from hutong.groups.offsets.store import OffsetStore
from hutong.groups.offsets.transactional import TransactionalOffsets, is_transactional_key
from hutong.groups.record_keys import OffsetKey, decode_key
from hutong.wire.kafka.error_codes import ErrorCode

EXAMPLES = int(os.environ.get("TEST_TRANSACTIONAL_OFFSETS", "60"))
ANN, BOB = 1, 2
EPOCH = 0


class Desk:
    """The table, what waits, and the log of both; `restart` is a crash."""

    def __init__(self) -> None:
        self.state = FakeState()
        self._start()

    def _start(self) -> None:
        self.store = OffsetStore()
        wheel = TimerWheel(ManualClock().monotonic_ms())
        self.waiting = TransactionalOffsets(self.store, self.state, WaitTable("test", wheel, 100))
        for key, value in self.state.durable:
            if is_transactional_key(key):
                self.waiting.replay(key, value)
            else:
                decoded = decode_key(key)
                assert isinstance(decoded, OffsetKey)
                self.store.apply(decoded, None if value is None else decode_offset(value))

    def restart(self) -> None:
        self.state.on_their_way.clear()
        self._start()

    def write(self, producer_id: int, *offsets: tuple[int, int]) -> list[HutongError | None]:
        outcomes: list[HutongError | None] = []
        changes = [(key(partition), at(offset)) for partition, offset in offsets]
        self.waiting.write("g", producer_id, EPOCH, changes, outcomes.append)
        return outcomes

    def end(self, producer_id: int, *, is_commit: bool) -> list[HutongError | None]:
        outcomes: list[HutongError | None] = []
        self.waiting.end(producer_id, outcomes.append, is_commit=is_commit)
        return outcomes

    def commit(self, partition: int, offset: int) -> list[HutongError | None]:
        """Commit outside any transaction."""
        outcomes: list[HutongError | None] = []
        log = OffsetLog(self.store, self.state, self.waiting)
        log.write("g", [(key(partition), at(offset))], outcomes.append)
        return outcomes

    def committed(self, partition: int = 0) -> int | None:
        found = self.store.get("g", "orders", partition)
        return found.offset if found is not None else None


def key(partition: int) -> OffsetKey:
    return OffsetKey("g", "orders", partition)


def at(offset: int) -> StoredOffset:
    return StoredOffset(offset, -1, f"at {offset}", 0)


def test_they_count_when_the_transaction_is_committed() -> None:
    desk = Desk()
    assert desk.write(ANN, (0, 5), (1, 6)) == [None]
    assert desk.committed() is None
    assert desk.waiting.is_unstable("g", "orders", 0)
    assert not desk.waiting.is_unstable("g", "orders", 2)
    assert desk.end(ANN, is_commit=True) == [None]
    assert (desk.committed(0), desk.committed(1)) == (5, 6)
    assert not desk.waiting.is_unstable("g", "orders", 0)
    assert not desk.waiting.holds("g")


def test_they_go_when_it_is_aborted() -> None:
    desk = Desk()
    desk.write(ANN, (0, 5))
    assert desk.end(ANN, is_commit=False) == [None]
    assert desk.committed() is None
    assert len(desk.waiting) == 0
    desk.restart()
    assert len(desk.waiting) == 0


def test_they_survive_a_restart() -> None:
    desk = Desk()
    desk.write(ANN, (0, 5))
    desk.restart()
    assert desk.waiting.is_unstable("g", "orders", 0)
    assert desk.waiting.has_begun("g", ANN, EPOCH)
    desk.end(ANN, is_commit=True)
    desk.restart()
    assert desk.committed() == 5


def test_the_end_awaits_what_is_on_its_way() -> None:
    desk = Desk()
    desk.state.holds_back = True
    desk.write(ANN, (0, 5))
    ended = desk.end(ANN, is_commit=True)
    assert desk.waiting.holds("g")
    desk.state.flush()
    assert ended == [None]
    assert desk.committed() == 5


def test_a_transaction_that_is_being_ended_takes_no_more_on_its_own_word() -> None:
    desk = Desk()
    desk.write(ANN, (0, 5))
    desk.state.holds_back = True
    ended = desk.end(ANN, is_commit=False)
    # The tombstone is on its way: what came now would come behind it, and wait for an end that is over.
    assert not desk.waiting.has_begun("g", ANN, EPOCH)
    desk.state.flush()
    assert ended == [None]
    assert len(desk.waiting) == 0


def test_an_end_that_failed_leaves_the_transaction_open() -> None:
    desk = Desk()
    desk.write(ANN, (0, 5))
    desk.state.failure = DiskFull("no space")
    assert isinstance(desk.end(ANN, is_commit=False)[0], DiskFull)
    desk.state.failure = None
    assert desk.waiting.has_begun("g", ANN, EPOCH)
    desk.waiting.check_invariants()


def test_many_are_ended_a_bounded_number_at_a_time() -> None:
    desk = Desk()
    desk.write(ANN, *((partition, partition) for partition in range(2_500)))
    desk.state.holds_back = True
    ended = desk.end(ANN, is_commit=True)
    entries, then = desk.state.on_their_way.pop(0)
    desk.state.durable += entries
    then(None)
    desk.restart()  # between two of the appends: the rest waits still
    desk.state.holds_back = False
    assert ended == []
    assert len(desk.store) == 1_000
    assert len(desk.waiting) == 1_500
    desk.end(ANN, is_commit=True)
    assert len(desk.store) == 2_500


def test_a_later_commit_outside_the_transaction_stays() -> None:
    desk = Desk()
    for restarts in (False, True):
        desk = Desk()
        desk.write(ANN, (0, 5))
        assert desk.commit(0, 9) == [None]
        if restarts:
            desk.restart()
        desk.end(ANN, is_commit=True)
        assert desk.committed() == 9


def test_a_commit_on_its_way_overtakes_what_is_on_its_way_before_it() -> None:
    desk = Desk()
    desk.state.holds_back = True
    desk.write(ANN, (0, 5))
    desk.commit(0, 9)
    desk.end(ANN, is_commit=True)
    desk.state.flush()
    assert desk.committed() == 9
    assert len(desk.waiting) == 0
    desk.restart()
    assert desk.committed() == 9


def test_an_end_awaits_a_commit_that_overtakes_it() -> None:
    desk = Desk()
    desk.write(ANN, (0, 5))
    desk.state.holds_back = True
    desk.commit(0, 9)
    ended = desk.end(ANN, is_commit=True)
    desk.state.flush()
    assert ended == [None]
    assert desk.committed() == 9


def test_an_end_awaits_that_of_a_later_commit() -> None:
    desk = Desk()
    desk.write(ANN, (0, 5))
    desk.write(BOB, (0, 7))
    desk.state.holds_back = True
    desk.end(BOB, is_commit=True)
    ended = desk.end(ANN, is_commit=True)
    desk.state.flush()
    assert ended == [None]
    assert desk.committed() == 7


def test_a_commit_that_failed_overtakes_nothing() -> None:
    desk = Desk()
    desk.write(ANN, (0, 5))
    desk.state.failure = DiskFull("full")
    assert isinstance(desk.commit(0, 9)[0], DiskFull)
    desk.state.failure = None
    desk.end(ANN, is_commit=True)
    assert desk.committed() == 5


def test_a_snapshot_that_copies_an_older_offset_overtakes_nothing() -> None:
    desk = Desk()
    desk.commit(0, 3)
    desk.write(ANN, (0, 5))
    desk.state.copy_live(1)  # the committed offset is in the log once more, behind the one that waits
    desk.restart()
    desk.end(ANN, is_commit=True)
    assert desk.committed() == 5


def test_a_snapshot_in_any_order_keeps_the_order_of_commits() -> None:
    for turn in range(3):
        desk = Desk()
        desk.write(ANN, (0, 5))
        desk.write(BOB, (0, 7))
        desk.state.copy_live(2, turn)
        desk.restart()
        desk.end(BOB, is_commit=True)
        desk.end(ANN, is_commit=True)
        assert desk.committed() == 7


def test_a_record_without_a_number_is_read() -> None:
    """Earlier programs wrote the epoch and the offset alone."""
    desk = Desk()
    desk.write(ANN, (0, 5))
    record_key, value = desk.state.durable[-1]
    assert value is not None
    desk.state.durable[-1] = record_key, b"\0\0" + value[12:]
    desk.restart()
    assert desk.waiting.has_begun("g", ANN, EPOCH)
    desk.end(ANN, is_commit=True)
    assert desk.committed() == 5


def test_a_cut_off_record_is_corrupt() -> None:
    desk = Desk()
    desk.write(ANN, (0, 5))
    record_key, value = desk.state.durable[-1]
    assert value is not None
    for size in range(len(value)):
        with pytest.raises(CorruptData):
            Desk().waiting.replay(record_key, value[:size])


def test_a_commit_that_is_stored_late_drops_what_it_overtook() -> None:
    desk = Desk()
    desk.write(ANN, (0, 5))
    records, _ = desk.waiting.overtake([key(0)])
    for record_key, value in records:
        desk.waiting.apply_late(record_key, value)
    assert len(desk.waiting) == 0


def test_an_offset_that_is_stored_late_does_not_count() -> None:
    desk = Desk()
    desk.write(BOB, (1, 5))
    record_key, value = desk.state.durable[-1]
    desk.end(BOB, is_commit=False)
    desk.waiting.apply_late(record_key, value)
    assert len(desk.waiting) == 1
    desk.end(BOB, is_commit=True)
    assert desk.committed(1) is None
    assert len(desk.waiting) == 0


def test_among_transactions_the_later_commit_counts_whichever_ends_first() -> None:
    for first, second in ((ANN, BOB), (BOB, ANN)):
        desk = Desk()
        desk.write(ANN, (0, 5))
        desk.write(BOB, (0, 7))
        desk.end(first, is_commit=True)
        desk.restart()
        desk.end(second, is_commit=True)
        assert desk.committed() == 7


def test_what_could_not_be_stored_does_not_count_and_leaves_nothing() -> None:
    desk = Desk()
    desk.state.failure = DiskFull("full")
    (error,) = desk.write(ANN, (0, 5))
    assert isinstance(error, DiskFull)
    assert isinstance(desk.end(ANN, is_commit=True)[0], DiskFull)
    desk.state.failure = None
    assert desk.end(ANN, is_commit=True) == [None]
    assert desk.committed() is None
    assert desk.state.durable[-1][1] is None  # whatever turns up of it is dropped again


def test_they_go_with_their_group_and_topic() -> None:
    stage = Stage()
    codes: list[ErrorCode] = []
    stage.groups.commit_transactional("g", ANN, EPOCH, [(key(0), at(5))], codes.append)
    stage.groups.offsets.transactional.forget_topic("orders", lambda _error: None)
    assert len(stage.groups.offsets.transactional) == 0
    stage.groups.commit_transactional("g", ANN, EPOCH, [(key(0), at(5))], codes.append)
    stage.groups.offsets.forget("g", [key(0)], codes.append)
    assert len(stage.groups.offsets.transactional) == 0
    assert codes == [ErrorCode.NONE] * 3


def test_a_group_stays_while_a_transaction_may_commit_to_it() -> None:
    stage = Stage()
    codes: list[ErrorCode] = []
    stage.groups.commit("g", [(key(0), at(1))], codes.append)
    stage.groups.commit_transactional("g", ANN, EPOCH, [(key(0), at(5))], codes.append)
    stage.pass_time(2 * RETENTION_MS)
    assert stage.groups.get("g") is not None
    stage.restart()
    assert stage.groups.get("g") is not None
    assert stage.groups.offsets.table.get("g", "orders", 0) == at(1)
    stage.groups.offsets.transactional.end(ANN, lambda _error: None, is_commit=False)
    stage.pass_time(2 * RETENTION_MS)
    assert stage.groups.get("g") is None


def test_who_may_commit_in_a_transaction() -> None:
    stage = Stage()
    may = stage.groups.transactional_commit_error
    assert may("", "", None, -1) is ErrorCode.INVALID_GROUP_ID
    assert may("new", "", None, -1) is ErrorCode.NONE
    assert may("new", "m", None, 3) is ErrorCode.ILLEGAL_GENERATION
    (offered,) = stage.join()
    joined = stage.join(offered.member_id)
    stage.pass_time(200)
    stage.sync(joined[0])
    assert may("g", "", None, -1) is ErrorCode.NONE  # a producer that does not say who it is
    assert may("g", offered.member_id, None, 1) is ErrorCode.NONE
    assert may("g", offered.member_id, None, 7) is ErrorCode.ILLEGAL_GENERATION
    assert may("g", "somebody", None, 1) is ErrorCode.UNKNOWN_MEMBER_ID


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "commit", "abort", "plain", "restart", "hold", "flush", "snapshot"]),
        st.integers(1, 3),
        st.integers(0, 2),
    ),
    max_size=40,
)


class Model:
    """For each partition the number of the commit that counts, and what waits. Everything happens in its order."""

    def __init__(self) -> None:
        self.waiting: dict[int, dict[int, int]] = {}
        self.counts: dict[int, int] = {}

    def commit(self, partition: int, number: int) -> None:
        self.counts[partition] = number
        for mine in self.waiting.values():
            if mine.get(partition, number) < number:
                del mine[partition]

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        for partition, number in self.waiting.pop(producer_id, {}).items():
            if is_commit:
                self.commit(partition, number)


@settings(max_examples=EXAMPLES, deadline=None)
@given(STEPS)
def test_the_last_commit_of_each_partition_counts(script: Sequence[tuple[str, int, int]]) -> None:
    desk, model, numbers = Desk(), Model(), itertools.count(1)
    ends: dict[int, list[HutongError | None]] = {}
    for action, producer_id, partition in [*script, ("flush", 1, 0)]:
        match action:
            case "write":
                # A transaction that is being ended takes no more (see `has_begun`): its end is let through first.
                desk.state.flush()
                number = next(numbers)
                model.waiting.setdefault(producer_id, {})[partition] = number
                desk.write(producer_id, (partition, number))
            case "commit" | "abort":
                # A coordinator decides once: it never aborts and then commits.
                if not ends.get(producer_id, [None]):
                    desk.state.flush()
                model.end(producer_id, is_commit=action == "commit")
                ends[producer_id] = desk.end(producer_id, is_commit=action == "commit")
            case "plain":
                number = next(numbers)
                model.commit(partition, number)
                desk.commit(partition, number)
            case "restart":
                desk.state.flush()
                desk.restart()
            case "snapshot":
                desk.state.copy_live(partition + 1, producer_id)
            case "hold":
                desk.state.holds_back = True
            case "flush":
                desk.state.flush()
                desk.state.holds_back = False
        desk.waiting.check_invariants()
        # What is on its way counts in the model, and not yet in the node.
        if not desk.state.on_their_way:
            for index in range(3):
                assert desk.committed(index) == model.counts.get(index)
                awaited = any(index in mine for mine in model.waiting.values())
                assert desk.waiting.is_unstable("g", "orders", index) == awaited
