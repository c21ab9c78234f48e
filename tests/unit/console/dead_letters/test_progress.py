"""The progress of a redrive: a set of offsets in one commit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.console.dead_letters.redriving.progress import (
    METADATA_CHARS_MAX,
    RedriveProgress,
    UnreadableProgress,
    decode_progress,
)
from hutong.foundation.errors import LimitExceeded

RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 10)), max_size=30)


@given(st.integers(0, 20), RANGES)
def test_it_is_a_set_of_offsets(begin: int, ranges: list[tuple[int, int]]) -> None:
    progress, model = RedriveProgress(begin), set(range(begin))
    for first, length in ranges:
        progress.add(first, first + length)
        model.update(range(first, first + length))
    assert [offset for offset in range(80) if offset in progress] == sorted(model)
    assert progress.count_done(10, 50) == len(model & set(range(10, 50)))
    again = decode_progress(progress.offset, progress.encode())
    assert (again.offset, again.runs) == (progress.offset, progress.runs)
    again.check_invariants()


def test_the_copy_is_another() -> None:
    progress = RedriveProgress(0)
    progress.add(5, 6)
    progress.copy().add(0, 5)
    assert (progress.offset, progress.runs) == (0, [(5, 6)])


def test_a_long_run_takes_no_more_room_than_a_short_one() -> None:
    progress = RedriveProgress(0)
    progress.add(1, 10**12)
    assert progress.encode() == "done:1+e8d4a50fff"


def test_too_many_gaps_are_refused() -> None:
    progress = RedriveProgress(0)
    for offset in range(1, 3 * METADATA_CHARS_MAX, 2):
        progress.add(offset, offset + 1)
    with pytest.raises(LimitExceeded):
        progress.encode()


def test_without_runs_nothing_is_written() -> None:
    assert RedriveProgress(7).encode() == ""
    assert decode_progress(7, "").offset == decode_progress(7, None).offset == 7


@pytest.mark.parametrize(
    "text",
    ["x", "done:", "done:1", "done:1+", "done:+1", "done:0+1", "done:1+0", "done:-1+1", "done:1+1,", "done: 1+1",
     "done:1_0+1", "done:1+1+1", "done:g+1", "done:" + "1+1," * 2_000 + "1+1", "done:" + "f" * 17 + "+1", "done:²+1"],
)  # fmt: skip
def test_metadata_of_others_are_refused(text: str) -> None:
    with pytest.raises(UnreadableProgress):
        decode_progress(0, text)


@given(st.text(max_size=50), st.text("0123456789abcdef+,", max_size=50))
def test_any_text_is_read_or_refused(text: str, rest: str) -> None:
    for metadata in (text, "done:" + rest):
        try:
            progress = decode_progress(3, metadata)
        except UnreadableProgress:
            continue
        progress.check_invariants()
