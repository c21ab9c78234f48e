"""Who is held, let go and closed, as transcripts; then, over any history: within the bound, nobody held for nothing."""

from hypothesis import given
from hypothesis import strategies as st

from hutong.reactor.memory.budget import (
    HOLD_FROM_BYTES,
    STALLED_MS,
    STEP_BYTES_MIN,
    STILL_MS,
    Holding,
    MemoryBudget,
    MemoryVerdict,
)

BOUND = 16 * HOLD_FROM_BYTES
MUCH, LITTLE = 4 * HOLD_FROM_BYTES, HOLD_FROM_BYTES // 4


def judge(budget: MemoryBudget[str], now_ms: int = 0, /, **held: int) -> MemoryVerdict[str]:
    """Nobody reads: all that is held was sent."""
    return judge_parts(budget, now_ms, {name: (count, count) for name, count in held.items()})


def judge_parts(budget: MemoryBudget[str], now_ms: int, held: dict[str, tuple[int, int]]) -> MemoryVerdict[str]:
    verdict = budget.judge([Holding(name, *parts) for name, parts in held.items()], now_ms)
    budget.check_invariants()
    return verdict


def test_below_half_of_the_bound_nothing_happens() -> None:
    budget: MemoryBudget[str] = MemoryBudget(BOUND)
    assert judge(budget, a=BOUND // 2 - 1) == MemoryVerdict()
    assert not budget.is_tight
    assert budget.held_bytes == BOUND // 2 - 1


def test_from_half_of_it_on_who_holds_much_is_held_and_others_are_not() -> None:
    budget: MemoryBudget[str] = MemoryBudget(BOUND)
    assert judge(budget, a=MUCH, b=MUCH, c=LITTLE) == MemoryVerdict(hold=["a", "b"])
    assert budget.held_count == 2
    assert budget.is_tight
    assert judge(budget, a=MUCH, b=MUCH, c=LITTLE) == MemoryVerdict()
    assert budget.holds_total == 2


def test_who_is_held_is_let_go_when_little_is_left_of_it_or_nothing_is_tight() -> None:
    budget: MemoryBudget[str] = MemoryBudget(BOUND)
    judge(budget, a=MUCH, b=MUCH)
    assert judge(budget, a=HOLD_FROM_BYTES // 2, b=2 * MUCH).resume == []
    assert judge(budget, a=HOLD_FROM_BYTES // 2 - 1, b=2 * MUCH).resume == ["a"]
    assert judge(budget, b=MUCH).resume == ["b"]
    assert budget.held_count == 0


def test_beyond_the_bound_who_holds_most_is_closed_and_no_more_than_need_be() -> None:
    budget: MemoryBudget[str] = MemoryBudget(BOUND)
    verdict = judge(budget, a=MUCH, b=3 * MUCH, c=MUCH)
    assert verdict.close == ["b"]
    assert verdict.hold == ["a", "c"]
    assert budget.held_bytes == 2 * MUCH
    assert budget.closed_total == 1


def test_who_does_not_read_is_closed_before_who_holds_more_and_reads() -> None:
    budget: MemoryBudget[str] = MemoryBudget(BOUND)
    judge(budget, stalled=MUCH, reading=2 * MUCH)
    verdict = judge_parts(
        budget, STALLED_MS, {"stalled": (MUCH, MUCH), "reading": (2 * MUCH, MUCH), "new": (2 * MUCH, 2 * MUCH)}
    )
    assert verdict.close == ["stalled"]


def test_one_who_holds_nearly_everything_is_closed_before_one_who_merely_does_not_read() -> None:
    budget: MemoryBudget[str] = MemoryBudget(BOUND)
    judge(budget, stalled=LITTLE)
    assert judge_parts(budget, STALLED_MS, {"stalled": (LITTLE, LITTLE), "parked": (BOUND, 0)}).close == ["parked"]


def test_who_is_held_and_stays_the_same_is_closed_while_it_is_tight() -> None:
    budget: MemoryBudget[str] = MemoryBudget(BOUND)
    parked = {"parked": (2 * MUCH, 0)}
    assert judge_parts(budget, 0, parked).hold == ["parked"]
    assert judge_parts(budget, STILL_MS - 1, parked) == MemoryVerdict()
    assert judge_parts(budget, STILL_MS, parked) == MemoryVerdict(close=["parked"])
    assert budget.closed_total == 1
    assert not budget.is_tight


def test_of_those_who_stay_the_same_no_more_are_closed_than_need_be() -> None:
    budget: MemoryBudget[str] = MemoryBudget(BOUND)
    judge(budget, a=MUCH, b=2 * MUCH, c=LITTLE)
    assert judge(budget, STILL_MS, a=MUCH, b=2 * MUCH, c=LITTLE) == MemoryVerdict(close=["b"], resume=["a"])


def test_who_is_held_and_changes_is_not_closed() -> None:
    budget: MemoryBudget[str] = MemoryBudget(BOUND)
    judge(budget, a=3 * MUCH)
    assert judge(budget, STILL_MS - 1, a=3 * MUCH - 1) == MemoryVerdict()
    assert judge(budget, 2 * STILL_MS - 2, a=3 * MUCH - 1) == MemoryVerdict()
    assert judge(budget, 2 * STILL_MS - 1, a=3 * MUCH - 1) == MemoryVerdict(close=["a"])


def test_who_was_let_go_has_the_whole_time_again() -> None:
    budget: MemoryBudget[str] = MemoryBudget(BOUND)
    judge(budget, a=MUCH, b=MUCH)
    assert judge(budget, STALLED_MS, a=MUCH).resume == ["a", "b"]
    assert judge(budget, STILL_MS, a=MUCH, b=MUCH) == MemoryVerdict(hold=["a", "b"])


def test_input_alone_closes_nobody_below_the_bound() -> None:
    budget: MemoryBudget[str] = MemoryBudget(BOUND)
    received = [Holding("uploads", 2 * MUCH, 0, input_bytes=2 * MUCH)]
    assert budget.judge(received, 0).hold == ["uploads"]
    assert budget.judge(received, 2 * STILL_MS) == MemoryVerdict()


def test_the_next_look_comes_sooner_the_less_is_left() -> None:
    budget: MemoryBudget[str] = MemoryBudget(BOUND * 64)
    assert budget.step_bytes == BOUND * 32
    judge(budget, a=BOUND * 32)
    assert budget.step_bytes == BOUND * 16
    judge(budget, a=BOUND * 64)
    assert budget.step_bytes == STEP_BYTES_MIN


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from("abcdefgh"), st.tuples(st.integers(0, BOUND), st.integers(0, BOUND)), max_size=8
        ),
        max_size=8,
    )
)
def test_any_history_ends_within_the_bound_and_holds_only_who_is_there(looks: list[dict[str, tuple[int, int]]]) -> None:
    budget: MemoryBudget[str] = MemoryBudget(BOUND)
    held: set[str] = set()
    for number, look in enumerate(looks):
        holdings = {name: (kept + unread, unread) for name, (kept, unread) in look.items()}
        verdict = judge_parts(budget, number * STALLED_MS, holdings)
        assert budget.held_bytes <= BOUND
        assert not set(verdict.hold) & set(verdict.close)
        assert not set(verdict.resume) & (set(verdict.hold) | set(verdict.close))
        held = (held | set(verdict.hold)) - set(verdict.resume) - set(verdict.close)
        assert held <= holdings.keys()
        assert len(held) == budget.held_count
        left = {name: parts for name, parts in holdings.items() if name not in verdict.close}
        assert budget.held_bytes == sum(kept for kept, _ in left.values())
