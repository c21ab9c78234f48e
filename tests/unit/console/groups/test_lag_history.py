"""Samples of lag, and the pace that follows from them."""

from hypothesis import given
from hypothesis import strategies as st

from hutong.console.groups.lag_history import RATE_MS, LagHistory, LagPace, LagSample, pace_of

KEY = ("ann", "billing")


def sample(time_s: float, committed: int, end: int, partitions: int = 1) -> LagSample:
    return LagSample(int(time_s * 1_000), partitions, committed, end)


def test_the_pace_says_when_the_group_has_caught_up() -> None:
    history = LagHistory()
    for second in range(11):
        history.add(KEY, sample(second, 30 * second, 1_000 + 10 * second))
    assert history.pace(KEY) == LagPace(30.0, 10.0, (1_100 - 300) / 20)


def test_a_lag_that_grows_has_no_end() -> None:
    assert pace_of([sample(0, 0, 100), sample(10, 10, 200)]) == LagPace(1.0, 10.0, None)


def test_without_lag_the_group_is_there() -> None:
    assert pace_of([sample(0, 90, 90), sample(10, 100, 100)]).catch_up_s == 0


def test_one_sample_has_no_pace() -> None:
    assert pace_of([sample(0, 0, 100)]) == LagPace(None, None, None)
    assert LagHistory().pace(KEY) == LagPace(None, None, None)


def test_other_partitions_are_no_movement() -> None:
    assert pace_of([sample(0, 0, 0), sample(5, 900, 1_000, 2), sample(10, 950, 1_000, 2)]).consumed_per_s == 10


def test_only_the_last_half_minute_counts() -> None:
    samples = [sample(second, 1_000_000 if second else 0, 1_000_000) for second in range(RATE_MS // 1_000 + 2)]
    assert pace_of(samples).consumed_per_s == 0


def test_a_reset_is_no_pace() -> None:
    assert pace_of([sample(0, 500, 1_000), sample(10, 0, 1_000)]).consumed_per_s == 0


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=60))
def test_it_stays_within_its_bounds(added: list[tuple[int, int]]) -> None:
    history = LagHistory(samples_max=5, groups_max=3)
    for time_s, group in added:
        history.add(("ann", str(group)), sample(time_s, 1, 2))
    assert len(history) <= 3
    for group in range(6):
        times = [each.time_ms for each in history.samples(("ann", str(group)))]
        assert times == sorted(set(times))
        assert len(times) <= 5


def test_later_samples_alone_are_asked_for() -> None:
    history = LagHistory()
    for second in (1, 2, 3):
        history.add(KEY, sample(second, 0, 0))
    assert [each.time_ms for each in history.samples(KEY, 1_000)] == [2_000, 3_000]
