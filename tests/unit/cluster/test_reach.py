"""Who is out of reach by what all nodes say of their links."""

from collections.abc import Collection, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.cluster.reach import out_of_reach


def said(count: int, cut: Collection[tuple[int, int]]) -> dict[int, set[int]]:
    """What the nodes from 1 on say where these pairs are cut."""
    nodes = range(1, count + 1)
    return {node: {other for other in nodes if {(node, other), (other, node)} & {*cut}} for node in nodes}


@pytest.mark.parametrize(
    ("count", "cut", "expected"),
    [
        (3, [], set()),
        (3, [(1, 2)], set()),
        (3, [(1, 2), (1, 3)], {1}),
        (3, [(1, 2), (1, 3), (2, 3)], set()),  # nobody is better off
        (2, [(1, 2)], set()),
        (1, [], set()),
        (4, [(1, 3), (1, 4), (2, 3), (2, 4)], set()),  # two halves
        (5, [(1, 3), (1, 4), (1, 5), (2, 3), (2, 4), (2, 5)], {1, 2}),
        (5, [(1, 3), (1, 4), (1, 5), (2, 4), (2, 5)], {1}),  # node 2 reaches 1 and 3: a majority
    ],
)
def test_a_node_is_out_of_reach_where_it_has_no_majority_and_another_has(
    count: int, cut: Collection[tuple[int, int]], expected: set[int]
) -> None:
    assert {out_of_reach(own, said(count, cut)) for own in range(1, count + 1)} == {frozenset(expected)}


def test_a_node_that_says_nothing_is_out_of_reach_for_others() -> None:
    """It is stopped, or slow."""
    assert out_of_reach(2, {1: [], 2: [1], 3: [1]}) == {1}


def test_a_node_is_out_of_reach_for_itself_only_by_its_own_words() -> None:
    """After a pause its links are there again before the others have said so."""
    assert out_of_reach(1, {1: [], 2: [1], 3: [1]}) == frozenset()
    assert out_of_reach(1, {1: [2], 2: [1], 3: [1]}) == frozenset()


def test_a_node_that_is_registered_no_more_is_not_missed() -> None:
    assert out_of_reach(1, {1: [3], 2: [3]}) == frozenset()


_PAIRS = st.integers(1, 7).flatmap(
    lambda count: st.tuples(
        st.just(count),
        st.sets(st.tuples(st.integers(1, count), st.integers(1, count)).filter(lambda two: two[0] < two[1])),
    )
)


@given(_PAIRS)
def test_whoever_is_within_reach_of_a_cut_cluster_has_a_majority(cluster: tuple[int, set[tuple[int, int]]]) -> None:
    """So a leader that was handed to such a node is not handed on, as long as no further link breaks."""
    count, cut = cluster
    links: Mapping[int, Collection[int]] = said(count, cut)
    found = out_of_reach(1, links)
    for node in links:
        has_majority = 2 * (count - len(links[node])) > count
        assert has_majority == (node not in found) or not found
    assert len(found) < count
