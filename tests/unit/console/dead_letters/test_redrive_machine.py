"""Decisions of a redrive: exactly once through failures and kills, chosen letters, rates, pauses, refusals."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.console.dead_letters.redrive_world import (
    Fate,
    RedriveProcess,
    RedriveWorld,
    all_to_origin,
    letter_record,
)

from hutong.console.dead_letters.redriving.machine import FAILURES_MAX, NO_TARGET, OTHER_REASON, SCATTERED
from hutong.console.dead_letters.redriving.messages import (
    CancelRedrive,
    PauseRedrive,
    RedriveFailed,
    RedriveState,
    RedriveWish,
    ResumeRedrive,
    StoreLetters,
)


def world_of(count: int, **more: object) -> RedriveWorld:
    return RedriveWorld([letter_record(0, offset) for offset in range(count)], {0: count}, **more)  # type: ignore[arg-type]


def once_each(world: RedriveWorld) -> Counter[tuple[str, bytes]]:
    return Counter({("orders", record.value or b""): 1 for record in world.records.values()})


def test_all_letters_go_to_their_origin_in_batches() -> None:
    world = world_of(2_500)
    process = RedriveProcess(world, all_to_origin())
    assert process.run()
    assert world.sent == once_each(world)
    assert world.batches == [1_000, 1_000, 500]
    assert process.machine.state is RedriveState.DONE
    assert process.machine.tally.sent == {"orders": 2_500}


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), unique=True, max_size=60),
    st.lists(st.lists(st.sampled_from(Fate), max_size=12), max_size=6),
    st.integers(1, 30),
    st.frozensets(st.integers(0, 40), max_size=10),
)
def test_every_letter_is_sent_exactly_once(
    places: list[tuple[int, int]], lives: list[list[Fate]], rate: int, first_chosen: frozenset[int]
) -> None:
    """Through lives that fail and are killed at any step, after some letters were sent as chosen ones."""
    world = RedriveWorld([letter_record(*place) for place in places], dict.fromkeys(range(3), 45))
    chosen = dict.fromkeys(range(3), first_chosen)
    RedriveProcess(world, all_to_origin(RedriveWish("dead", chosen=chosen))).run()
    assert sum(world.sent.values()) == sum(offset in first_chosen for _, offset in places)
    for fates in lives:
        RedriveProcess(world, all_to_origin(RedriveWish("dead", rate_per_s=rate))).run(fates)
    assert RedriveProcess(world, all_to_origin()).run()
    assert world.sent == once_each(world)
    assert world.left() == 0
    assert all((offset, metadata) == (45, "") for offset, metadata in world.committed.values()), "gaps are passed"


@settings(max_examples=100, deadline=None)
@given(st.frozensets(st.integers(0, 49), max_size=6), st.lists(st.sampled_from(Fate), max_size=20))
def test_a_letter_that_no_target_takes_is_left_alone(poisoned: frozenset[int], fates: list[Fate]) -> None:
    world = world_of(50, poison=frozenset(b"0/%d" % offset for offset in poisoned))
    RedriveProcess(world, all_to_origin()).run(fates)
    process = RedriveProcess(world, all_to_origin())
    assert process.run()
    assert process.machine.state is RedriveState.DONE
    assert max(world.sent.values()) == 1
    assert sum(world.sent.values()) == 50 - len(poisoned) == 50 - world.left()
    assert process.machine.tally.left.get("too large", 0) == len(poisoned)


def test_letters_for_a_forbidden_target_are_left_and_the_others_go_on() -> None:
    records = [letter_record(0, offset, "other" if offset % 2 else "orders") for offset in range(40)]
    world = RedriveWorld(records, {0: 40})
    world.refused_targets = frozenset({"other"})
    process = RedriveProcess(world, all_to_origin())
    assert process.run()
    assert process.machine.tally.sent == {"orders": 20}
    assert process.machine.tally.left == {"forbidden": 20}


def test_a_letter_that_comes_back_is_for_the_next_redrive() -> None:
    world = world_of(10)
    process = RedriveProcess(world, all_to_origin())
    process.step(process.instructions.pop(0), Fate.DONE)
    world.records[0, 10] = letter_record(0, 10)
    world.ends[0] = 11
    assert process.run()
    assert sum(world.sent.values()) == 10
    assert RedriveProcess(world, all_to_origin()).run()
    assert sum(world.sent.values()) == 11


def test_letters_without_a_named_target_are_left() -> None:
    world = RedriveWorld(
        [letter_record(0, 0), letter_record(0, 1, "secrets"), letter_record(0, 2, "__internal")], {0: 3}
    )
    process = RedriveProcess(world, RedriveWish("dead", {"orders": "repaired", "": "unknown"}))
    assert process.run()
    assert world.sent == {("repaired", b"0/0"): 1, ("unknown", b"0/2"): 1}
    assert process.machine.tally.left == {NO_TARGET: 1}
    assert process.machine.tally.origins == {"orders": 1, "secrets": 1, "": 1}


def test_letters_of_other_reasons_stay() -> None:
    records = [letter_record(0, offset, reason="A" if offset < 3 else "B") for offset in range(5)]
    world = RedriveWorld(records, {0: 5})
    process = RedriveProcess(world, all_to_origin(RedriveWish("dead", reasons=frozenset({"B"}))))
    assert process.run()
    assert sum(world.sent.values()) == 2
    assert process.machine.tally.left == {OTHER_REASON: 3}
    assert world.committed == {0: (0, "done:3+2")}
    assert RedriveProcess(world, all_to_origin()).run()
    assert world.sent == once_each(world)


def test_a_dry_run_counts_and_stores_nothing() -> None:
    world = world_of(2_500)
    process = RedriveProcess(world, all_to_origin(RedriveWish("dead", is_dry=True, records_max=2_000)))
    assert process.run()
    assert (process.machine.tally.sent, process.machine.is_truncated) == ({"orders": 2_000}, True)
    assert not world.sent
    assert not world.committed


def test_the_rate_makes_pauses_between_small_batches() -> None:
    world = world_of(100)
    assert RedriveProcess(world, all_to_origin(RedriveWish("dead", rate_per_s=10))).run()
    assert world.batches == [10] * 10
    assert world.now_ms == 10_000


def test_a_pause_holds_what_is_read_until_it_goes_on() -> None:
    world = world_of(10)
    process = RedriveProcess(world, all_to_origin())
    process.step(process.instructions.pop(0), Fate.DONE)
    process.feed(PauseRedrive())
    assert process.run()
    assert (process.machine.state, len(world.sent)) == (RedriveState.PAUSED, 0)
    process.feed(ResumeRedrive(world.now_ms))
    assert process.run()
    assert world.sent == once_each(world)


def test_a_cancel_waits_for_the_batch_under_way() -> None:
    world = world_of(3_000)
    process = RedriveProcess(world, all_to_origin())
    while not isinstance(process.instructions[0], StoreLetters):
        process.step(process.instructions.pop(0), Fate.DONE)
    process.feed(CancelRedrive())
    assert process.run()
    assert (process.machine.state, sum(world.sent.values())) == (RedriveState.CANCELLED, 1_000)
    assert RedriveProcess(world, all_to_origin()).run()
    assert world.sent == once_each(world)


def test_a_cancel_ends_a_paused_one_at_once() -> None:
    process = RedriveProcess(world_of(3), all_to_origin())
    process.step(process.instructions.pop(0), Fate.DONE)
    process.feed(PauseRedrive())
    process.run()
    process.feed(CancelRedrive())
    assert process.run()
    assert process.machine.state is RedriveState.CANCELLED


def test_it_gives_up_after_failures_without_end() -> None:
    process = RedriveProcess(world_of(3), all_to_origin())
    assert process.run([Fate.FAILED] * 100)
    assert (process.machine.state, process.machine.problem) == (RedriveState.FAILED, "no answer")
    assert process.world.steps < 4 * FAILURES_MAX


def test_a_failure_for_good_ends_it() -> None:
    process = RedriveProcess(world_of(3), all_to_origin())
    process.instructions.clear()
    process.feed(RedriveFailed("fenced", 0, is_final=True))
    assert process.run()
    assert (process.machine.state, process.machine.problem) == (RedriveState.FAILED, "fenced")


def test_letters_with_too_many_gaps_between_them_end_it_before_anything_is_doubled() -> None:
    records = [letter_record(0, offset, reason="AB"[offset % 2]) for offset in range(8_000)]
    world = RedriveWorld(records, {0: 8_000})
    process = RedriveProcess(world, all_to_origin(RedriveWish("dead", reasons=frozenset("B"))))
    assert process.run()
    assert (process.machine.state, process.machine.problem) == (RedriveState.FAILED, SCATTERED)
    assert RedriveProcess(world, all_to_origin()).run()
    assert world.sent == once_each(world)


@pytest.mark.parametrize("chosen", [{0: frozenset({3, 7, 400})}, {0: frozenset()}, {}, {9: frozenset({1})}])
def test_chosen_letters_alone_are_sent(chosen: dict[int, frozenset[int]]) -> None:
    world = world_of(10)
    process = RedriveProcess(world, all_to_origin(RedriveWish("dead", chosen=chosen)))
    assert process.run()
    assert set(world.sent) == {("orders", b"0/%d" % offset) for offset in chosen.get(0, ()) if offset < 10}
    again = RedriveProcess(world, all_to_origin(RedriveWish("dead", chosen=chosen)))
    assert again.run()
    assert again.machine.tally.done_before == len(world.sent)
    assert not world.sent or max(world.sent.values()) == 1
