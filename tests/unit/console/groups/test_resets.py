"""Previews of resets, and offsets that are kept for an undo."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.console.groups.resets.plan import (
    NO_OFFSET,
    NOT_IN_OTHER,
    NOTHING_LATER,
    LogSpan,
    ResetTo,
    ResetWish,
    planned,
)
from hutong.console.groups.resets.undo import RESETS_OF_SESSION_MAX, SESSIONS_WITH_RESETS_MAX, ResetShelf

PLACE = ("orders", 0)
SPAN = LogSpan(PLACE, 100, 200, 150)


@pytest.mark.parametrize(
    ("wish", "found", "after", "reason", "again"),
    [
        (ResetWish(ResetTo.EARLIEST), {}, 100, "", 50),
        (ResetWish(ResetTo.LATEST), {}, 200, "", -50),
        (ResetWish(ResetTo.OFFSET, 120), {}, 120, "", 30),
        (ResetWish(ResetTo.OFFSET, 99), {}, 100, "the log begins at 100", 50),
        (ResetWish(ResetTo.OFFSET, 10**15), {}, 200, "the log ends at 200", -50),
        (ResetWish(ResetTo.SHIFT, -20), {}, 130, "", 20),
        (ResetWish(ResetTo.SHIFT, -2_000), {}, 100, "the log begins at 100", 50),
        (ResetWish(ResetTo.SHIFT, 2_000), {}, 200, "the log ends at 200", -50),
        (ResetWish(ResetTo.TIME, 5), {PLACE: 170}, 170, "", -20),
        (ResetWish(ResetTo.TIME, 5), {PLACE: None}, 200, NOTHING_LATER, -50),
        (ResetWish(ResetTo.GROUP), {PLACE: 180}, 180, "", -30),
        (ResetWish(ResetTo.GROUP), {PLACE: 20}, 100, "the log begins at 100", 50),
        (ResetWish(ResetTo.GROUP), {}, None, NOT_IN_OTHER, 0),
    ],
)
def test_the_preview_of_a_partition(
    wish: ResetWish, found: dict[tuple[str, int], int | None], after: int | None, reason: str, again: int
) -> None:
    (row,) = planned(wish, [SPAN], found)
    assert (row.before, row.after, row.reason, row.again) == (150, after, reason, again)
    assert row.is_change is (after is not None)


def test_a_partition_without_an_offset() -> None:
    span = LogSpan(PLACE, 100, 200, None)
    (shifted,) = planned(ResetWish(ResetTo.SHIFT, 5), [span], {})
    assert (shifted.after, shifted.reason, shifted.is_change) == (None, NO_OFFSET, False)
    (first,) = planned(ResetWish(ResetTo.EARLIEST), [span], {})
    assert (first.before, first.after, first.again, first.is_change) == (None, 100, 0, True)


@given(
    st.sampled_from(ResetTo), st.integers(-(2**53), 2**53), st.integers(0, 50), st.integers(0, 50),
    st.none() | st.integers(0, 200), st.none() | st.integers(0, 200),
)  # fmt: skip
def test_every_offset_is_within_the_log(
    to: ResetTo, value: int, begin: int, length: int, committed: int | None, found: int | None
) -> None:
    span = LogSpan(PLACE, begin, begin + length, committed)
    (row,) = planned(ResetWish(to, value), [span], {PLACE: found})
    assert row.after is None or begin <= row.after <= begin + length
    assert row.after is not None or row.reason


def test_a_reset_is_found_by_its_own_session_and_group() -> None:
    shelf = ResetShelf()
    done = shelf.keep("ann", "g", {PLACE: 5, ("orders", 1): None}, {PLACE: 0, ("orders", 1): 0})
    assert shelf.find("ann", "g", done.number) is done
    assert shelf.find("bob", "g", done.number) is None
    assert shelf.find("ann", "h", done.number) is None
    assert done.restored == {PLACE: 5}
    assert done.moved({PLACE: 0, ("orders", 1): 0}) == []
    assert done.moved({PLACE: 3}) == [PLACE, ("orders", 1)]
    shelf.drop("ann", done.number)
    assert shelf.of_group("ann", "g") == []


def test_only_so_many_are_kept() -> None:
    shelf = ResetShelf()
    for _ in range(RESETS_OF_SESSION_MAX + 1):
        shelf.keep("ann", "g", {}, {})
    numbers = [done.number for done in shelf.of_group("ann", "g")]
    assert numbers == [*range(RESETS_OF_SESSION_MAX + 1, 1, -1)]
    for number in range(SESSIONS_WITH_RESETS_MAX):
        shelf.keep(f"session {number}", "g", {}, {})
    assert shelf.of_group("ann", "g") == []
