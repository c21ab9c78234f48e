"""A bound that many share: nobody takes all, and everything that is given back can be taken again."""

from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.fair_shares import NOBODY, FairShares


def taken_greedily(shares: FairShares, holder: str) -> int:
    while shares.may_take(holder):
        shares.take(holder)
    return shares.held_by(holder)


def test_each_gets_three_quarters_of_what_the_others_left() -> None:
    shares = FairShares("things", 10_000)
    assert [taken_greedily(shares, holder) for holder in "abcd"] == [7_500, 1_875, 469, 117]
    assert not shares.may_take("a")
    assert shares.may_take("e")
    shares.release("a", 7_500)
    assert taken_greedily(shares, "b") > 1_875


def test_a_small_bound_can_be_used() -> None:
    shares = FairShares("things", 1)
    assert taken_greedily(shares, "a") == 1
    assert not shares.may_take("b")


def test_what_nobody_holds_counts_as_taken() -> None:
    shares = FairShares("things", 100)
    shares.take(NOBODY, 99)
    assert taken_greedily(shares, "a") == 1
    shares.release(NOBODY, 99)
    assert taken_greedily(shares, "a") == 75
    assert taken_greedily(shares, NOBODY) == 25


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 60), st.booleans())))
def test_the_bound_holds_and_a_newcomer_finds_room(steps: list[tuple[str, int, bool]]) -> None:
    shares = FairShares("things", 100)
    for holder, amount, is_released in steps:
        if is_released:
            shares.release(holder, shares.held_by(holder))
        elif shares.may_take(holder, amount):
            shares.take(holder, amount)
        shares.check_invariants()
        assert shares.taken <= shares.maximum
    held = [shares.held_by(holder) for holder in "abc"]
    if max(held) <= 75 and sum(held) < 100:
        assert shares.may_take("newcomer")
