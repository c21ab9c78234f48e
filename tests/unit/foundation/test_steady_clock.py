"""Wall time for lengths of time: steady where the wall clock jumps, and close to it where it drifts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.clock import ManualClock
from hutong.foundation.steady_clock import SteadyClock

HOUR_MS = 3_600_000


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
def test_a_jump_does_not_change_the_length_of_a_minute(jump_ms: int) -> None:
    clock = ManualClock()
    steady = SteadyClock(clock)
    begin_ms = steady.wall_ms()
    clock.jump(jump_ms)
    assert steady.wall_ms() == begin_ms
    clock.advance(60_000)
    assert abs(steady.wall_ms() - begin_ms - 60_000) <= 30, "500 of a million"


def test_a_difference_is_slewed_until_it_is_gone() -> None:
    clock = ManualClock()
    steady = SteadyClock(clock)
    clock.jump(1_000)
    for _ in range(21):
        clock.advance(100_000)
        steady.wall_ms()
    assert steady.wall_ms() == clock.wall_ms()


@given(st.lists(st.tuples(st.integers(0, HOUR_MS), st.integers(-HOUR_MS, HOUR_MS)), max_size=20))
def test_it_never_goes_back(steps: list[tuple[int, int]]) -> None:
    clock = ManualClock()
    steady = SteadyClock(clock)
    last_ms = steady.wall_ms()
    for passed_ms, jump_ms in steps:
        clock.advance(passed_ms)
        clock.jump(jump_ms)
        now_ms = steady.wall_ms()
        assert now_ms >= last_ms
        last_ms = now_ms
    assert (steady.monotonic_ms(), steady.monotonic_us()) == (clock.monotonic_ms(), clock.monotonic_us())
