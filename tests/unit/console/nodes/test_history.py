import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.console.nodes.figures_of import histogram, history, sample

from hutong.console.nodes.history import GAP_MS_MAX, KEPT_MS, RECENT_MS, SPACING_MS, History, quantile_of
from hutong.console.nodes.samples import Sample

COUNTER = "hutong_flushes_total"
TIMES = "hutong_loop_work_seconds"


def test_rates_and_increases_of_two_samples() -> None:
    made = history(
        sample(0, f'{COUNTER}{{group="a"}} 10', f'{COUNTER}{{group="b"}} 5'),
        sample(4, f'{COUNTER}{{group="a"}} 30', f'{COUNTER}{{group="b"}} 2', f'{COUNTER}{{group="c"}} 8'),
    )
    found = made.over(1)
    assert found is not None
    assert found.increase(COUNTER) == 20 + 2 + 8  # one fell and began anew, one is new
    assert found.increase(COUNTER, group="a") == 20
    assert found.rate(COUNTER, group="a") == 5
    assert found.rates(COUNTER)[("group", "c"),] == 2
    assert found.rate("hutong_received_bytes_total") is None


def test_one_sample_has_no_rates() -> None:
    assert History().over(1) is None
    assert history(sample(0, "hutong_received_bytes_total 1")).over(1) is None


def test_quantiles_are_those_of_the_time_between() -> None:
    before = histogram(TIMES, {"0.001": 1_000, "0.002": 0, "0.004": 0, "+Inf": 0})
    after = histogram(TIMES, {"0.001": 1_000, "0.002": 50, "0.004": 50, "+Inf": 0})
    found = history(sample(0, *before), sample(2, *after)).over(1)
    assert found is not None
    assert found.quantile(TIMES, 0.5) == pytest.approx(0.002)
    assert found.quantile(TIMES, 0.75) == pytest.approx(0.003)
    assert found.quantile(TIMES, 1.0) == pytest.approx(0.004)


def test_a_brief_page_and_a_full_one_have_bounds_in_common() -> None:
    brief = histogram(TIMES, {"0.001": 5, "0.004": 0, "+Inf": 0})
    full = histogram(TIMES, {"0.001": 5, "0.002": 3, "0.004": 1, "+Inf": 0})
    for lines in ((brief, full), (full, brief)):
        found = history(sample(0, *lines[0], is_full=False), sample(2, *lines[1])).over(1)
        assert found is not None
        bounds = [set(one) for one in found.histograms(TIMES).values()]
        assert all(one == {0.001, 0.004, float("inf")} for one in bounds)


def test_a_histogram_that_is_new_has_seen_all_it_counts() -> None:
    found = history(sample(0), sample(2, *histogram(TIMES, {"0.001": 1, "+Inf": 1}))).over(1)
    assert found is not None
    assert found.histograms(TIMES) == {(): {0.001: 1, float("inf"): 2}}
    assert found.quantile(TIMES, 0.99) == 0.001  # above the last bound nothing is known


def test_no_values_have_no_quantile() -> None:
    assert quantile_of({}, 0.5) is None
    assert quantile_of({1.0: 0.0}, 0.5) is None


@given(
    st.dictionaries(st.floats(0.001, 1_000), st.integers(0, 1_000), min_size=1, max_size=12),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_quantiles_rise_within_the_bounds(counts: dict[float, int], one: float, other: float) -> None:
    below = 0
    buckets = {}
    for bound, count in sorted(counts.items()):
        below += count
        buckets[bound] = float(below)
    low, high = (quantile_of(buckets, quantile) for quantile in sorted((one, other)))
    if below == 0:
        assert low is high is None
        return
    assert low is not None
    assert high is not None
    assert 0 <= low <= high + 1e-9
    assert high <= max(buckets)


@given(st.lists(st.integers(500, GAP_MS_MAX), min_size=1, max_size=400))
def test_what_is_kept_is_bounded_and_reaches_back(pauses_ms: list[int]) -> None:
    made, at_ms = History(), 0
    for pause_ms in pauses_ms:
        at_ms += pause_ms
        made.add(Sample(at_ms, at_ms, {}))
    assert len(made) <= RECENT_MS // 500 + KEPT_MS // SPACING_MS + 3
    newest = made.newest
    assert newest is not None
    assert newest.at_ms == at_ms
    for length_ms in (4_000, 10_000, 300_000):
        found = made.over(length_ms)
        if found is not None and at_ms - pauses_ms[0] >= length_ms + SPACING_MS + GAP_MS_MAX:
            assert length_ms <= found.length_ms <= length_ms + 2 * SPACING_MS + GAP_MS_MAX


def test_a_gap_begins_anew() -> None:
    made = history(sample(0), sample(2), sample(4))
    assert len(made) == 3
    made.add(sample(4 + GAP_MS_MAX / 1_000 + 1))
    assert len(made) == 1
