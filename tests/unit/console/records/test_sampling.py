"""The live tail's sample: shares, figures and bounds, with time by hand."""

from hypothesis import given
from hypothesis import strategies as st

from hutong.console.records.tailing.sampling import TailSampler


def test_a_quiet_topic_is_shown_as_a_whole() -> None:
    sampler = TailSampler({0: 100, 1: 5}, 0, per_second_max=50)
    assert sampler.turn({0: 100, 1: 5}, 250) == {}
    assert sampler.turn({0: 103, 1: 6}, 500) == {0: (100, 103), 1: (5, 6)}
    figures = sampler.figures()
    assert (figures.seen, figures.shown) == (4, 4)


def test_a_fast_topic_is_sampled_from_its_newest_records_and_all_are_counted() -> None:
    sampler = TailSampler({0: 0, 1: 0}, 0, per_second_max=40)
    for turn in range(1, 9):
        spans = sampler.turn({0: turn * 2_000, 1: turn * 500}, turn * 250)
        assert spans[0][1] == turn * 2_000
    figures = sampler.figures()
    assert (figures.seen_per_s, figures.shown_per_s) == (10_000, 40)
    assert (figures.seen, figures.shown) == (20_000, 40 + 70)


def test_shares_are_those_of_the_partitions() -> None:
    sampler = TailSampler({0: 0, 1: 0, 2: 0}, 0, per_second_max=10)
    spans = sampler.turn({0: 600, 1: 300, 2: 100}, 0)
    assert {place: end - begin for place, (begin, end) in spans.items()} == {0: 6, 1: 3, 2: 1}


def test_a_partition_that_is_new_or_was_made_again_begins_where_it_is() -> None:
    sampler = TailSampler({0: 50}, 0)
    assert sampler.turn({0: 3, 1: 70}, 250) == {}
    assert sampler.turn({0: 4, 1: 71}, 500) == {0: (3, 4), 1: (70, 71)}


@given(st.lists(st.tuples(st.integers(0, 2_000), st.lists(st.integers(0, 5_000), max_size=4)), max_size=60))
def test_no_more_than_the_rate_is_shown_and_all_are_seen(turns: list[tuple[int, list[int]]]) -> None:
    sampler = TailSampler(dict.fromkeys(range(4), 0), 0, per_second_max=50)
    now_ms, ends, sent, shown = 0, dict.fromkeys(range(4), 0), 0, 0
    for wait_ms, counts in turns:
        now_ms += wait_ms
        for place, count in enumerate(counts):
            ends[place] += count
            sent += count
        spans = sampler.turn(ends, now_ms)
        shown += sum(end - begin for begin, end in spans.values())
        assert all(0 <= begin < end <= ends[place] for place, (begin, end) in spans.items())
        sampler.check_invariants()
    assert (sampler.figures().seen, sampler.figures().shown) == (sent, shown)
    assert shown <= 50 + 50 * now_ms / 1_000
