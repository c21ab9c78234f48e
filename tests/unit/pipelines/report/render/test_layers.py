"""Layouts hold what a reader relies on, whatever the graph."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hutong.pipelines.report.render.layers import JOINT_WIDTH, Spot, arrange

NODE_WIDTH, GAP, ROW_MAX = 100.0, 10.0, 4

graphs = st.integers(0, 30).flatmap(
    lambda count: st.dictionaries(st.integers(0, count), st.lists(st.integers(-2, count + 2), max_size=4), max_size=30)
)


@settings(deadline=None, max_examples=25)
@given(graphs)
def test_who_waits_stands_below_and_nothing_overlaps(parents: dict[int, list[int]]) -> None:
    layout = arrange(parents, NODE_WIDTH, GAP, ROW_MAX)
    assert set(layout.home) == set(parents)
    for upper, lower in layout.links:
        assert lower.row == upper.row + 1
    for row in layout.rows:
        assert sum(not layout.is_joint(spot) for spot in row) <= ROW_MAX
        edges = [0.0 - GAP]
        for spot in row:
            half = (JOINT_WIDTH if layout.is_joint(spot) else NODE_WIDTH) / 2
            assert layout.centres[spot] - half >= edges[-1] + GAP - 0.001
            edges.append(layout.centres[spot] + half)
        assert edges[-1] <= layout.width + 0.001


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 25).flatmap(lambda count: st.lists(st.sets(st.integers(0, 24), max_size=3), min_size=count)))
def test_every_edge_arrives(wishes: list[set[int]]) -> None:
    parents = {node: [wish for wish in wished if wish < node] for node, wished in enumerate(wishes)}
    layout = arrange(parents, NODE_WIDTH, GAP, ROW_MAX)
    above: dict[Spot, set[Spot]] = {}
    for upper, lower in layout.links:
        above.setdefault(lower, set()).add(upper)
    for node, wanted in parents.items():
        assert {spot.node for spot in above.get(Spot(node, layout.home[node]), ())} == set(wanted)
        for parent in wanted:
            for row in range(layout.home[parent] + 1, layout.home[node]):
                assert Spot(parent, row - 1) in above[Spot(parent, row)]


def test_a_circle_is_cut_and_strangers_are_left_out() -> None:
    layout = arrange({1: [2, 99], 2: [1], 3: [3]}, NODE_WIDTH, GAP, ROW_MAX)
    assert layout.home == {2: 0, 1: 1, 3: 0}
    assert layout.links == [(Spot(2, 0), Spot(1, 1))]


def test_nothing_is_a_layout_too() -> None:
    layout = arrange({}, NODE_WIDTH, GAP, ROW_MAX)
    assert (layout.rows, layout.width) == ([], 0.0)
