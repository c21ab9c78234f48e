"""One group's progress through one partition, told as transcripts."""

from collections.abc import Sequence

import pytest

from hutong.foundation.machine import Tick
from hutong.groups.share.delivery.machine import SharePartition
from hutong.groups.share.delivery.messages import (
    Acknowledge,
    AcknowledgedBatch,
    Acknowledgement,
    Acquire,
    Acquired,
    BatchSpan,
    Buried,
    Bury,
    Configured,
    DeliveryLimits,
    Hand,
    Instruction,
    LogStartsAt,
    PersistProgress,
    RecordsAvailable,
    ReleaseMember,
    Settled,
)
from hutong.groups.share.delivery.window import ShareRecordState
from hutong.wire.kafka.error_codes import ErrorCode

ACCEPT, RELEASE, REJECT, RENEW = (int(each) for each in (1, 2, 3, 4))
RULES = DeliveryLimits(delivery_limit=3, lock_ms=100, locks_max=20)
OK = Settled(ErrorCode.NONE)


def partition(start_offset: int = 0, rules: DeliveryLimits = RULES) -> SharePartition:
    return SharePartition(start_offset, rules)


def acquire(
    machine: SharePartition,
    *spans: BatchSpan,
    member_id: str = "ann",
    now_ms: int = 0,
    records_max: int = 100,
    batch_size: int = 100,
    is_strict: bool = False,
    lock_ms: int | None = None,
    is_ordered: bool = False,
) -> tuple[Acquired, ...]:
    offset = machine.next_offset()
    assert offset is not None
    event = Acquire(member_id, now_ms, offset, spans, records_max, batch_size, is_strict, lock_ms, is_ordered)
    told = machine.handle(event)
    machine.check_invariants()
    (hand,) = [each for each in told if isinstance(each, Hand)]
    return hand.acquired


def acknowledge(
    machine: SharePartition, first: int, last: int, *types: int, member_id: str = "ann", now_ms: int = 0
) -> Sequence[Instruction]:
    told = machine.handle(Acknowledge(member_id, now_ms, [AcknowledgedBatch(first, last, types)]))
    machine.check_invariants()
    return told


def states(machine: SharePartition) -> list[tuple[int, int, str, int]]:
    return [(run.first, run.last, run.state.name.lower(), run.deliveries) for run in machine.snapshot()]


def test_what_is_accepted_is_left_behind() -> None:
    machine = partition()
    assert acquire(machine, BatchSpan(0, 4), BatchSpan(5, 9)) == (Acquired(0, 9, 1),)
    assert acknowledge(machine, 0, 9, ACCEPT) == [PersistProgress(), OK, RecordsAvailable()]
    assert (machine.start_offset, machine.end_offset, states(machine)) == (10, 10, [])


def test_each_record_has_its_own_answer() -> None:
    machine = partition()
    acquire(machine, BatchSpan(0, 4))
    assert acknowledge(machine, 0, 4, ACCEPT, RELEASE, REJECT, 0, ACCEPT) == [PersistProgress(), OK, RecordsAvailable()]
    assert states(machine) == [(1, 1, "available", 1), (2, 4, "archived", 0)]
    assert machine.next_offset() == 1
    assert machine.done_ahead == 3
    assert acquire(machine, BatchSpan(0, 4), member_id="bob") == (Acquired(1, 1, 2),)
    acknowledge(machine, 1, 1, ACCEPT, member_id="bob")
    assert machine.start_offset == 5


def test_a_lock_ends_and_at_the_limit_the_record_is_given_up() -> None:
    machine = partition()
    for delivery in (1, 2, 3):
        now_ms = delivery * 1_000
        assert acquire(machine, BatchSpan(0, 0), now_ms=now_ms) == (Acquired(0, 0, delivery),)
        assert machine.next_tick_ms() == now_ms + 100
        assert machine.handle(Tick(now_ms + 99)) == []
        assert machine.handle(Tick(now_ms + 100)) == [PersistProgress(), RecordsAvailable()]
    assert machine.start_offset == 1


def test_two_members_never_hold_the_same_record() -> None:
    machine = partition()
    assert acquire(machine, BatchSpan(0, 4), BatchSpan(5, 9), records_max=3) == (
        Acquired(0, 4, 1),
    )  # a batch stays whole
    assert acquire(machine, BatchSpan(5, 9), member_id="bob") == (Acquired(5, 9, 1),)
    (refused,) = acknowledge(machine, 0, 4, ACCEPT, member_id="bob")
    assert isinstance(refused, Settled)
    assert refused.error is ErrorCode.INVALID_RECORD_STATE
    (refused,) = acknowledge(machine, 3, 6, ACCEPT)
    assert isinstance(refused, Settled)
    assert refused.error is ErrorCode.INVALID_RECORD_STATE
    assert acknowledge(machine, 0, 4, ACCEPT) == [PersistProgress(), OK, RecordsAvailable()]


def test_a_strict_member_gets_not_one_record_too_many() -> None:
    machine = partition()
    assert acquire(machine, BatchSpan(0, 4), records_max=3, is_strict=True) == (Acquired(0, 2, 1),)
    assert machine.next_offset() == 3
    assert acquire(machine, BatchSpan(0, 4), records_max=3, is_strict=True) == (Acquired(3, 4, 1),)


def test_there_are_not_more_locks_than_allowed() -> None:
    machine = partition()
    assert acquire(machine, BatchSpan(0, 14), BatchSpan(15, 29)) == (Acquired(0, 19, 1),)
    assert machine.next_offset() is None
    acknowledge(machine, 3, 5, ACCEPT)
    assert machine.next_offset() == 20
    assert acquire(machine, BatchSpan(15, 29)) == (Acquired(20, 22, 1),)
    assert machine.handle(Configured(DeliveryLimits(locks_max=30))) == [RecordsAvailable()]
    assert machine.next_offset() == 23


def test_what_is_not_for_readers_is_passed_over() -> None:
    machine = partition()
    assert acquire(machine, BatchSpan(0, 2), BatchSpan(3, 3, is_passed_over=True), BatchSpan(8, 9)) == (
        Acquired(0, 2, 1),
        Acquired(8, 9, 1),
    )
    assert states(machine) == [(0, 2, "acquired", 1), (3, 7, "archived", 0), (8, 9, "acquired", 1)]
    acknowledge(machine, 0, 2, ACCEPT)
    assert machine.start_offset == 8


def test_batches_are_as_large_as_the_member_likes() -> None:
    machine = partition()
    assert acquire(machine, *(BatchSpan(at, at + 1) for at in range(0, 10, 2)), batch_size=4) == (
        Acquired(0, 3, 1),
        Acquired(4, 7, 1),
        Acquired(8, 9, 1),
    )


def test_a_renewed_lock_lasts_longer_and_needs_no_disk() -> None:
    machine = partition()
    acquire(machine, BatchSpan(0, 1))
    assert acknowledge(machine, 0, 0, RENEW, now_ms=90) == [OK]
    assert machine.handle(Tick(100)) == [PersistProgress(), RecordsAvailable()]
    assert states(machine) == [(0, 0, "acquired", 1), (1, 1, "available", 1)]
    assert machine.next_tick_ms() == 190
    machine.handle(Configured(DeliveryLimits(may_renew=False)))
    (refused,) = acknowledge(machine, 0, 0, RENEW)
    assert isinstance(refused, Settled)
    assert refused.error is ErrorCode.INVALID_RECORD_STATE


def test_a_lock_may_have_a_length_of_its_own() -> None:
    machine = partition()
    assert acquire(machine, BatchSpan(0, 0), lock_ms=500) == (Acquired(0, 0, 1),)
    assert acquire(machine, BatchSpan(1, 1), member_id="bob") == (Acquired(1, 1, 1),)
    assert machine.next_tick_ms() == 100
    machine.handle(Tick(100))
    assert (states(machine), machine.next_tick_ms()) == ([(0, 0, "acquired", 1), (1, 1, "available", 1)], 500)
    # A renewed lock may end sooner than the one before it.
    machine.handle(Acknowledge("ann", 110, [AcknowledgedBatch(0, 0, [RENEW])], lock_ms=10))
    machine.check_invariants()
    assert machine.next_tick_ms() == 120
    machine.handle(Tick(120))
    assert states(machine) == [(0, 1, "available", 1)]


def test_who_is_gone_gives_back_what_it_held() -> None:
    machine = partition()
    acquire(machine, BatchSpan(0, 1))
    acquire(machine, BatchSpan(2, 3), member_id="bob")
    assert machine.handle(ReleaseMember("ann")) == [PersistProgress(), RecordsAvailable()]
    assert states(machine) == [(0, 1, "available", 1), (2, 3, "acquired", 1)]
    assert machine.handle(ReleaseMember("ann")) == []


def test_dead_letters_come_before_the_end() -> None:
    machine = partition(rules=DeliveryLimits(delivery_limit=1, lock_ms=100, has_dead_letters=True))
    acquire(machine, BatchSpan(0, 3))
    rejected, exhausted = Bury(0, 0, 1, is_rejected=True), Bury(2, 2, 1, is_rejected=False)
    assert acknowledge(machine, 0, 3, REJECT, ACCEPT, RELEASE, ACCEPT) == [
        PersistProgress(),
        rejected,
        exhausted,
        OK,
        RecordsAvailable(),
    ]
    assert machine.start_offset == 0
    restarted = SharePartition(machine.start_offset, machine.rules, machine.snapshot())
    assert restarted.to_bury() == [rejected, exhausted]
    assert machine.handle(Buried(0, 0)) == [PersistProgress(), RecordsAvailable()]
    assert machine.start_offset == 2
    machine.handle(Buried(2, 2))
    assert machine.start_offset == 4


def test_a_log_that_starts_later_takes_records_away() -> None:
    machine = partition()
    acquire(machine, BatchSpan(0, 9))
    assert machine.handle(LogStartsAt(5)) == [PersistProgress(), RecordsAvailable()]
    assert acknowledge(machine, 0, 9, ACCEPT) == [
        PersistProgress(),
        OK,
        RecordsAvailable(),
    ]  # of what is gone nobody asks any more
    assert machine.handle(LogStartsAt(50)) == [PersistProgress(), RecordsAvailable()]
    assert (machine.start_offset, machine.next_offset()) == (50, 50)


def test_a_restart_frees_locks_and_keeps_counts() -> None:
    machine = partition()
    acquire(machine, BatchSpan(0, 4))
    acknowledge(machine, 1, 1, ACCEPT)
    acknowledge(machine, 2, 2, RELEASE)
    for now_ms in (1_000, 2_000):
        machine.handle(Tick(now_ms))
        acquire(machine, BatchSpan(0, 4), now_ms=now_ms)
    assert states(machine) == [(0, 0, "acquired", 3), (1, 1, "acknowledged", 0), (2, 4, "acquired", 3)]
    restarted = SharePartition(machine.start_offset, RULES, machine.snapshot())
    assert states(restarted) == [(0, 0, "available", 2), (1, 1, "acknowledged", 0), (2, 4, "available", 2)]
    assert acquire(restarted, BatchSpan(0, 4)) == (Acquired(0, 0, 3), Acquired(2, 4, 3))


@pytest.mark.parametrize(
    ("batches", "error"),
    [
        ([(3, 2, (1,))], ErrorCode.INVALID_REQUEST),
        ([(-1, 2, (1,))], ErrorCode.INVALID_REQUEST),
        ([(0, 2, ())], ErrorCode.INVALID_REQUEST),
        ([(0, 2, (1, 1))], ErrorCode.INVALID_REQUEST),
        ([(0, 2, (5,))], ErrorCode.INVALID_REQUEST),
        ([(0, 2, (1,)), (2, 3, (1,))], ErrorCode.INVALID_REQUEST),
        ([(0, 5, (1,))], ErrorCode.INVALID_REQUEST),
        ([(0, 2**62, (1,))], ErrorCode.INVALID_REQUEST),
        ([(0, 1, (1,)), (3, 3, (1,))], ErrorCode.INVALID_RECORD_STATE),
    ],
)
def test_nothing_is_taken_of_what_cannot_be_meant(
    batches: list[tuple[int, int, tuple[int, ...]]], error: ErrorCode
) -> None:
    machine = partition()
    acquire(machine, BatchSpan(0, 4))
    acknowledge(machine, 3, 3, ACCEPT)
    before = states(machine)
    (refused,) = machine.handle(Acknowledge("ann", 0, [AcknowledgedBatch(*batch) for batch in batches]))
    assert isinstance(refused, Settled)
    assert refused.error is error
    assert states(machine) == before


def test_the_numbers_are_those_of_kafka() -> None:
    assert [state.value for state in ShareRecordState] == [0, 1, 2, 3, 4]
    assert [each.name for each in Acknowledgement] == ["GAP", "ACCEPT", "RELEASE", "REJECT", "RENEW"]


def test_an_ordered_acquisition_waits_until_all_before_is_settled() -> None:
    machine = partition()
    assert acquire(machine, BatchSpan(0, 3), records_max=2, is_strict=True, is_ordered=True) == (Acquired(0, 1, 1),)
    acknowledge(machine, 1, 1, ACCEPT)
    assert acquire(machine, BatchSpan(0, 3), is_ordered=True, member_id="bob") == ()
    # Another member that asks for no order is not held up.
    assert acquire(machine, BatchSpan(0, 3), records_max=1, is_strict=True, member_id="cid") == (Acquired(2, 2, 1),)
    acknowledge(machine, 2, 2, ACCEPT, member_id="cid")
    acknowledge(machine, 0, 0, RELEASE)
    found = acquire(machine, BatchSpan(0, 3), is_ordered=True, member_id="bob")
    assert found == (Acquired(0, 0, 2), Acquired(3, 3, 1))


def test_a_peek_sees_what_an_acquisition_would_get_and_changes_nothing() -> None:
    machine = partition()
    spans = [BatchSpan(0, 3), BatchSpan(4, 4, is_passed_over=True), BatchSpan(5, 9)]
    acquire(machine, BatchSpan(0, 3))
    acknowledge(machine, 1, 1, RELEASE)
    before = machine.snapshot()
    assert machine.peek(1, spans, 3) == (Acquired(1, 1, 2), Acquired(5, 6, 1))
    assert machine.peek(1, spans, 1) == (Acquired(1, 1, 2),)
    assert machine.peek(1, spans, 0) == ()
    assert machine.peek(0, [BatchSpan(0, 0)], 9) == ()
    assert machine.snapshot() == before
