"""The arithmetic of blocks, without Spark."""

import pytest

np = pytest.importorskip("numpy")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from tests.spark.reference import page_rank  # noqa: E402

from hutong.pipelines.jobs.pagerank.blocks import Ranges, block_of, next_ranks  # noqa: E402

PAGES_MAX = 12


@given(st.integers(1, 200), st.integers(1, 20))
def test_ranges_hold_every_page_once(page_count: int, count: int) -> None:
    ranges = Ranges(page_count, count)
    of = ranges.of(np.arange(page_count, dtype=np.int32))
    assert ranges.first(0) == 0
    assert ranges.first(count) == page_count
    for index in range(count):
        assert np.flatnonzero(of == index).tolist() == list(range(ranges.first(index), ranges.first(index + 1)))


@given(
    st.lists(st.tuples(st.integers(0, PAGES_MAX - 1), st.integers(0, PAGES_MAX - 1)), max_size=40),
    st.integers(1, 4),
    st.integers(1, 6),
)
def test_rounds_over_blocks_give_the_ranks_of_dictionaries(
    links: list[tuple[int, int]], block_count: int, iterations: int
) -> None:
    ranges = Ranges(PAGES_MAX, block_count)
    blocks = []
    for index in range(block_count):
        mine = [link for link in links if ranges.first(index) <= link[1] < ranges.first(index + 1)]
        halves = [np.array(part, np.int32).reshape(-1, 2).T for part in (mine[::2], mine[1::2])]
        blocks.append(block_of(ranges, index, [(half[0], half[1]) for half in halves]))
    degrees = sum(np.bincount(block.sources, minlength=PAGES_MAX) for block in blocks)
    ranks = np.where(degrees > 0, 1.0, 0.0)
    for _ in range(iterations):
        shares = np.divide(ranks, degrees, out=np.zeros(PAGES_MAX), where=degrees > 0)
        ranks = next_ranks(np.concatenate([block.received(shares)[1] for block in blocks]))
    expected = page_rank([(str(source), str(target)) for source, target in links], iterations)
    assert {str(page): rank for page, rank in enumerate(ranks) if rank} == pytest.approx(expected, rel=1e-12)
