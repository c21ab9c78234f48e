"""Idempotent producers, told as transcripts of what was sent and what came back."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.journal.stage import SMALL, Stage

from hutong.foundation.errors import Refused
from hutong.journal.append.producers import (
    BATCHES_REMEMBERED,
    SEQUENCE_MAX,
    SEQUENCES_STORED_MAX,
    UNKNOWN_OFFSET,
    Producers,
    RememberedBatch,
    sequence_after,
)

DAY_MS = 86_400_000


def producers(producers_max: int = 100) -> Producers:
    return Producers(producers_max, DAY_MS)


def code_of(machine: Producers, producer_id: int, epoch: int, sequence: int, count: int = 1) -> int:
    with pytest.raises(Refused) as refused:
        machine.admit(producer_id, epoch, sequence, count, 999, 0)
    return refused.value.code


def test_a_repetition_gets_its_original_offset_and_a_gap_is_refused() -> None:
    machine = producers()
    assert machine.admit(1, 0, 0, 10, base_offset=100, now_ms=0) is None
    assert machine.admit(1, 0, 10, 5, base_offset=110, now_ms=1) is None
    assert machine.admit(1, 0, 0, 10, base_offset=115, now_ms=2) == 100
    assert machine.admit(1, 0, 10, 5, base_offset=115, now_ms=2) == 110
    assert code_of(machine, 1, 0, 16) == 45
    assert code_of(machine, 1, 0, 10, count=4) == 45
    assert machine.admit(1, 0, 15, 1, base_offset=115, now_ms=3) is None


def test_only_the_offsets_of_the_last_five_batches_are_remembered() -> None:
    machine = producers()
    for number in range(7):
        assert machine.admit(1, 0, number, 1, base_offset=number, now_ms=0) is None
    assert [machine.admit(1, 0, number, 1, 7, 0) for number in range(7)] == [-1, -1, 2, 3, 4, 5, 6]
    assert machine.admit(1, 0, 0, 2, 7, 0) == -1
    # In part before the remembered batches: no client sends other batches when it repeats.
    assert code_of(machine, 1, 0, 1, count=2) == 45
    assert code_of(machine, 1, 0, 8) == 45


def test_an_older_repetition_is_known_only_from_where_the_log_has_every_sequence() -> None:
    machine = producers()
    for number in range(10, 17):  # KIP-360: it began in the middle
        assert machine.admit(1, 0, number, 1, base_offset=number, now_ms=0) is None
    assert machine.admit(1, 0, 10, 2, 99, 0) == UNKNOWN_OFFSET
    assert code_of(machine, 1, 0, 9) == 45
    assert code_of(machine, 1, 0, 9, count=2) == 45
    for number in range(18, 25):  # recovery finds a log whose batch of sequence 17 was compacted away
        machine.remember(1, 0, number, 1, base_offset=number, now_ms=0)
    assert machine.admit(1, 0, 18, 1, 99, 0) == UNKNOWN_OFFSET
    assert [code_of(machine, 1, 0, number) for number in (10, 16, 17)] == [45, 45, 45]


def test_a_marker_keeps_what_is_known_of_sequences_and_a_new_epoch_begins_anew() -> None:
    machine = producers()
    for number in range(7):
        machine.admit(1, 3, number, 1, base_offset=number, now_ms=0)
    machine.record_marker(1, 3, coordinator_epoch=1, now_ms=0)
    assert machine.admit(1, 3, 0, 1, 99, 0) == UNKNOWN_OFFSET
    machine.record_marker(1, 4, coordinator_epoch=1, now_ms=0)
    assert code_of(machine, 1, 3, 0) == 47
    for number in range(6):
        assert machine.admit(1, 4, number, 1, base_offset=number + 10, now_ms=0) is None
    assert machine.admit(1, 4, 0, 1, 99, 0) == UNKNOWN_OFFSET


def test_a_new_epoch_starts_at_zero_and_the_old_one_is_fenced() -> None:
    machine = producers()
    machine.admit(1, 3, 0, 5, base_offset=0, now_ms=0)
    assert code_of(machine, 1, 4, 5) == 45
    assert machine.admit(1, 4, 0, 1, base_offset=5, now_ms=0) is None
    assert code_of(machine, 1, 3, 5) == 47
    assert code_of(machine, 1, 3, 0, count=5) == 47


def test_a_producer_nobody_remembers_may_go_on_anywhere() -> None:
    assert producers().admit(1, 2, 77, 3, base_offset=10, now_ms=0) is None


def test_sequences_wrap_to_zero() -> None:
    machine = producers()
    assert machine.admit(1, 0, SEQUENCE_MAX - 1, 2, base_offset=0, now_ms=0) is None
    assert machine.admit(1, 0, 0, 1, base_offset=2, now_ms=0) is None
    assert machine.admit(1, 0, SEQUENCE_MAX - 1, 2, base_offset=3, now_ms=0) == 0
    assert machine.admit(2, 0, SEQUENCE_MAX - 1, 4, base_offset=3, now_ms=0) is None
    assert machine.admit(2, 0, 2, 1, base_offset=7, now_ms=0) is None
    assert sequence_after(SEQUENCE_MAX, 1) == 0
    for number in range(2, 8):
        assert machine.admit(1, 0, number - 1, 1, base_offset=number + 1, now_ms=0) is None
    assert machine.admit(1, 0, SEQUENCE_MAX - 1, 2, base_offset=99, now_ms=0) == UNKNOWN_OFFSET
    assert code_of(machine, 1, 0, SEQUENCE_MAX - 2) == 45


def test_the_count_of_sequences_is_bounded_so_that_far_ahead_is_not_taken_for_behind() -> None:
    machine = producers()
    batch = 2**27
    for number in range(20):
        assert machine.admit(1, 0, number * batch & SEQUENCE_MAX, batch, base_offset=number, now_ms=0) is None
    state = machine.get(1)
    assert state is not None
    assert state.sequences_stored == SEQUENCES_STORED_MAX
    machine.check_invariants()


def test_control_batches_carry_no_sequence() -> None:
    machine = producers()
    machine.admit(1, 0, 0, 1, base_offset=0, now_ms=0)
    assert machine.admit(1, 0, -1, 1, base_offset=1, now_ms=0) is None
    assert machine.admit(1, 0, 1, 1, base_offset=2, now_ms=0) is None


def test_the_longest_silent_producer_is_forgotten_first() -> None:
    machine = producers(producers_max=2)
    machine.admit(1, 0, 0, 1, base_offset=0, now_ms=0)
    machine.admit(2, 0, 0, 1, base_offset=1, now_ms=1)
    machine.admit(1, 0, 1, 1, base_offset=2, now_ms=2)
    machine.admit(3, 0, 0, 1, base_offset=3, now_ms=3)
    assert list(machine.states()) == [1, 3]
    machine.admit(4, 0, 0, 1, base_offset=4, now_ms=DAY_MS + 2)
    assert list(machine.states()) == [3, 4]


sends = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(0, 8)), max_size=60)


@given(sends)
def test_a_client_that_repeats_writes_each_batch_once(script: list[tuple[int, int, int]]) -> None:
    machine, offset = producers(), 0
    log: dict[int, list[tuple[int, int, int]]] = {1: [], 2: [], 3: []}  # per producer: sequence, count, offset
    for producer_id, count, back in script:
        sent = log[producer_id]
        if 0 < back <= len(sent):
            sequence, repeated, original = sent[-back]
            expected = original if back <= BATCHES_REMEMBERED else UNKNOWN_OFFSET
            assert machine.admit(producer_id, 0, sequence, repeated, offset, 0) == expected
        else:
            sequence = sent[-1][0] + sent[-1][1] if sent else 0
            assert machine.admit(producer_id, 0, sequence, count, offset, 0) is None
            sent.append((sequence, count, offset))
            offset += count
        machine.check_invariants()


def test_what_was_handed_out_stays_as_it_was() -> None:
    machine = producers()
    machine.remember(1, 0, 0, 1, 100, 0)
    machine.remember(2, 0, 0, 1, 101, 0)
    states = machine.states()
    before = dict(states)
    machine.remember(1, 0, 1, 1, 102, 0)
    machine.remember(3, 0, 0, 1, 103, 0)
    assert list(states.items()) == list(before.items())
    assert states[1].batches == (RememberedBatch(0, 0, 100),)
    assert list(machine.states()) == [2, 1, 3]
    assert machine.states()[1].batches == (RememberedBatch(0, 0, 100), RememberedBatch(1, 1, 102))


def test_another_expiry_counts_for_producers_that_are_known() -> None:
    stage = Stage(replace(SMALL, producer_expiry_ms=1_000_000))
    for number, producer_id in enumerate((7, 8)):
        stage.append(1, b"v", producer_id=producer_id, producer_epoch=0, base_sequence=0)
        stage.settle()
        assert stage.journal.log(1).end_offset == number + 1
    stage.journal.alter_settings(replace(SMALL, producer_expiry_ms=1_000))
    stage.advance(1_000)
    stage.append(1, b"v", producer_id=9, producer_epoch=0, base_sequence=0)
    stage.settle()
    found = stage.journal.log(1).producers
    assert found is not None
    assert [found.get(producer_id) is not None for producer_id in (7, 8, 9)] == [False, False, True]
