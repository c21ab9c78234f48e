"""The handling machine: order by key, slots, attempts, batches, and positions."""

import pytest
from tests.unit.handlers.consume.scene import FIRST, Scene, record

from hutong.handlers.consume.machine import UNREADABLE
from hutong.handlers.consume.messages import (
    HaltHandling,
    HandlingRules,
    PartitionQuiet,
    SharesLeaving,
)

SECOND = ("orders", 1)


def scene(**rules: int | bool) -> Scene:
    made = Scene(HandlingRules(**rules))  # type: ignore[arg-type]
    made.give()
    return made


def test_one_slot_keeps_the_order_of_the_log() -> None:
    stage = scene()
    stage.take(record(5, b"a"), record(6, b"b"))
    assert stage.begun == [5]
    stage.end(5)
    assert stage.begun == [6]


def test_keys_overtake_each_other_and_a_key_keeps_its_order() -> None:
    stage = scene(concurrency=3)
    stage.take(record(0, b"a"), record(1, b"a"), record(2, b"b"), record(3), record(4))
    assert stage.begun == [0, 2, 3]
    stage.end(2)
    assert stage.begun == [0, 3, 4]
    stage.end(0)
    assert stage.begun == [3, 4, 1]


def test_a_position_passes_what_is_done_without_a_gap() -> None:
    stage = scene(concurrency=3)
    stage.take(record(7), record(8), record(9))
    stage.end(8)
    assert stage.positions() == {}
    stage.end(7)
    assert stage.positions() == {FIRST: 9}
    assert stage.positions() == {}


def test_a_failure_waits_longer_each_time_and_holds_up_its_own_key_alone() -> None:
    stage = scene(concurrency=2)
    stage.take(record(0, b"a"), record(1, b"a"), record(2, b"b"))
    stage.fail(0)
    stage.end(2)
    assert stage.begun == []
    assert stage.machine.next_tick_ms() == 100
    stage.pass_time(100)
    assert stage.begun == [0]
    stage.fail(0)
    assert stage.machine.next_tick_ms() == 300
    stage.pass_time(200)
    stage.end(0)
    assert stage.begun == [1]


def test_after_its_last_attempt_a_message_is_a_dead_letter_and_its_position_waits_for_that() -> None:
    stage = scene()
    stage.take(record(0))
    for _ in range(3):
        stage.fail(0)
        stage.pass_time(1_000)
    [item] = stage.publishing
    assert (item.is_buried, item.attempts, item.error_type) == (True, 3, "ValueError")
    assert stage.positions() == {}
    stage.store(0)
    assert stage.positions() == {FIRST: 1}


def test_a_final_failure_is_given_up_at_once() -> None:
    stage = scene()
    stage.take(record(0), record(1))
    stage.fail(0, is_final=True)
    stage.store(0)
    assert stage.begun == [1]


def test_an_unreadable_message_is_given_up_without_a_slot_and_holds_nobody_up() -> None:
    stage = scene()
    stage.take(record(0), record(1, is_readable=False), record(2))
    [item] = stage.publishing
    assert (item.error_type, item.attempts, stage.begun) == (UNREADABLE, 1, [0])
    stage.store(1)
    stage.end(0)
    assert stage.positions() == {FIRST: 2}
    assert stage.begun == [2]


def test_without_dead_letters_nothing_more_is_begun() -> None:
    stage = scene(has_dead_letters=False)
    stage.take(record(0), record(1))
    stage.fail(0, is_final=True)
    assert isinstance(stage.said[-1], HaltHandling)
    assert stage.begun == []
    assert stage.positions() == {}


def test_results_are_stored_before_the_position_passes_and_the_key_goes_on_meanwhile() -> None:
    stage = scene()
    stage.take(record(0), record(1))
    stage.end(0, "invoice")
    assert stage.begun == [1]
    assert stage.positions() == {}
    stage.store(0)
    assert stage.positions() == {FIRST: 1}


def test_results_refused_for_a_while_are_sent_again() -> None:
    stage = scene()
    stage.take(record(0))
    stage.end(0, "invoice")
    stage.refuse(0, is_hopeless=False)
    stage.pass_time(1_000)
    stage.store(0)
    assert stage.positions() == {FIRST: 1}


def test_results_refused_for_good_make_a_dead_letter_and_a_refused_letter_ends_it() -> None:
    stage = scene()
    stage.take(record(0))
    stage.end(0, "invoice")
    stage.refuse(0, is_hopeless=True)
    [item] = stage.publishing
    assert item.is_buried
    stage.refuse(0, is_hopeless=True)
    assert isinstance(stage.said[-1], HaltHandling)


def test_a_full_partition_is_paused_and_resumed_at_half() -> None:
    stage = scene(records_held_max=4)
    stage.take(*(record(offset) for offset in range(4)))
    assert stage.paused == {FIRST}
    stage.end(0)
    assert stage.paused == {FIRST}
    stage.end(1)
    assert stage.paused == set()


def test_a_partition_is_full_by_bytes_too() -> None:
    stage = scene(bytes_held_max=100)
    stage.take(record(0, size_bytes=100))
    assert stage.paused == {FIRST}


def test_a_leaving_partition_begins_nothing_new_and_says_when_it_is_quiet() -> None:
    stage = scene(concurrency=2)
    stage.take(record(0, b"a"), record(1, b"a"))
    assert stage.feed(SharesLeaving([FIRST])) == []
    stage.end(0)
    assert stage.begun == []
    assert stage.said[-1] == PartitionQuiet(FIRST)
    assert stage.positions() == {FIRST: 1}


def test_leaving_for_good_begins_nothing_of_partitions_that_come_later() -> None:
    stage = scene()
    stage.feed(SharesLeaving(None))
    stage.give(SECOND)
    stage.take(record(0), place=SECOND)
    assert stage.begun == []


def test_results_of_a_lost_partition_count_for_nothing_and_free_their_slot() -> None:
    stage = scene()
    stage.take(record(0), record(1))
    stage.gone(FIRST)
    stage.give(FIRST)
    stage.take(record(0))
    assert stage.begun == [0]  # the old one still has the slot
    stage.end(0)
    assert stage.positions() == {}
    assert stage.begun == [0]
    stage.end(0)
    assert stage.positions() == {FIRST: 1}


@pytest.mark.parametrize("is_gone", [True, False])
def test_records_twice_or_of_others_are_left_out(is_gone: bool) -> None:
    stage = scene()
    stage.take(record(0))
    if is_gone:
        stage.gone()
    stage.take(record(0))
    assert stage.begun == [0]
    stage.end(0)
    assert stage.begun == []


def test_a_batch_is_full_or_has_waited() -> None:
    stage = scene(batch_max=3, batch_wait_ms=50, concurrency=2)
    stage.take(*(record(offset, b"%d" % offset) for offset in range(4)))
    assert stage.batches == [[0, 1, 2]]
    assert stage.machine.next_tick_ms() == 50
    stage.end(0)
    stage.pass_time(50)
    assert stage.batches == [[3]]
    stage.end(3)
    assert stage.positions() == {FIRST: 4}


def test_batches_of_a_partition_come_one_after_the_other_and_those_of_others_at_the_same_time() -> None:
    stage = scene(batch_max=1, concurrency=4)
    stage.give(SECOND)
    stage.take(record(0), record(1))
    stage.take(record(0), place=SECOND)
    assert stage.batches == [[0], [0]]


def test_an_unreadable_message_ends_the_batch_before_it() -> None:
    stage = scene(batch_max=9, batch_wait_ms=50)
    stage.take(record(0), record(1, is_readable=False), record(2))
    stage.store(1)
    assert stage.batches == [[0]]
    stage.end(0)
    assert stage.positions() == {FIRST: 2}
    stage.pass_time(50)
    assert stage.batches == [[2]]


def test_with_transactions_results_wait_for_the_position_and_fill_the_partition_until_then() -> None:
    stage = scene(keeps_finished=True, records_held_max=2)
    stage.take(record(0), record(1))
    stage.end(0, "first")
    stage.end(1, "second")
    assert stage.publishing == []
    taken = stage.machine.take_positions()
    assert [item.outputs for item in taken[FIRST].items] == [("first",), ("second",)]
    assert stage.paused == {FIRST}
    stage.machine.give_back(taken)
    again = stage.machine.take_positions()
    assert [item.outputs for item in again[FIRST].items] == [("first",), ("second",)]
    stage.hear(stage.machine.committed(again))
    assert stage.paused == set()
    assert stage.machine.take_positions() == {}
