"""Charts of anything are well-formed, and every point keeps inside the frame."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hutong.pipelines.report.render.charts import HEIGHT, WIDTH, Series, lines_over_time, stacked_bars, thinned
from hutong.pipelines.report.render.markup import count

values = st.none() | st.floats(0, 1e15, allow_subnormal=False)
PLACE = re.compile(r"[ML](-?[\d.]+) (-?[\d.]+)")


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.integers(-(10**15), 10**15), values, values), max_size=20))
def test_lines(points: list[tuple[int, float | None, float | None]]) -> None:
    points.sort(key=lambda point: point[0])
    series = [Series("<a>", [point[1] for point in points]), Series("b", [point[2] for point in points])]
    drawn = ElementTree.fromstring(lines_over_time("x", [point[0] for point in points], series, count))
    for path in drawn.iter("{http://www.w3.org/2000/svg}path"):
        for x, y in PLACE.findall(path.attrib["d"]):
            assert -1 <= float(x) <= WIDTH + 1
            assert -1 <= float(y) <= HEIGHT + 1


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(values, values), max_size=20))
def test_bars(points: list[tuple[float | None, float | None]]) -> None:
    series = [Series("a", [point[0] for point in points]), Series("b", [point[1] for point in points])]
    drawn = ElementTree.fromstring(stacked_bars("x", [f"batch {at}" for at in range(len(points))], series, count))
    for box in drawn.iter("{http://www.w3.org/2000/svg}rect"):
        assert float(box.attrib["y"]) >= -1
        assert float(box.attrib["y"]) + float(box.attrib["height"]) <= HEIGHT


@given(st.lists(st.integers(), max_size=50), st.integers(1, 20))
def test_neighbours_are_put_together_and_none_is_lost(items: list[int], most: int) -> None:
    groups = thinned(items, most)
    assert [item for group in groups for item in group] == items
    assert len(groups) <= most
    assert all(groups)


@pytest.mark.parametrize("value", [3.0, 7e-3, 12e6])
def test_axes_have_round_steps(value: float) -> None:
    drawn = lines_over_time("x", [0, 1000], [Series("a", [0.0, value])], lambda tick: f"{tick:g}")
    ticks = [float(text) for text in re.findall(r'text-anchor="end">([^<]+)<', drawn)]
    assert ticks[0] == 0
    assert ticks[-1] >= value
    assert str(f"{ticks[1]:e}")[0] in "125"
