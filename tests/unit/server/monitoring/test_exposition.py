"""Prometheus' text format: the rules of its documentation, checked on what is written."""

import math
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.exposition import parse

from hutong.foundation.histograms import Histogram
from hutong.server.monitoring.exposition import LINES_PER_PIECE, Family, MetricKind, Samples, Scale, Spread, render

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def page_of(families: Iterable[tuple[Family, Samples]]) -> bytes:
    return b"".join(render(families))


def test_a_page() -> None:
    histogram = Histogram()
    for value in (1, 3, 9):
        histogram.record(value)
    page = page_of(
        [
            (Family("a_total", MetricKind.COUNTER, "How many.", ("kind",)), [(("x",), 1), (("y",), 2)]),
            (Family("b", MetricKind.GAUGE, "How much."), [((), 0.25)]),
            (
                Family("c", MetricKind.HISTOGRAM, "How spread.", ("of",)),
                [(("z",), Spread(histogram, Scale(0, 2, 0.5)))],
            ),
            (Family("d", MetricKind.GAUGE, "Nothing yet."), []),
        ]
    )
    assert page.decode() == (
        "# HELP a_total How many.\n# TYPE a_total counter\n"
        'a_total{kind="x"} 1\na_total{kind="y"} 2\n'
        "# HELP b How much.\n# TYPE b gauge\nb 0.25\n"
        "# HELP c How spread.\n# TYPE c histogram\n"
        'c_bucket{of="z",le="0.5"} 1\nc_bucket{of="z",le="1"} 1\nc_bucket{of="z",le="2"} 2\n'
        'c_bucket{of="z",le="+Inf"} 3\nc_sum{of="z"} 6.5\nc_count{of="z"} 3\n'
        "# HELP d Nothing yet.\n# TYPE d gauge\n"
    )


@given(TEXTS, TEXTS)
def test_any_text_survives_as_meaning_and_as_label(meaning: str, label: str) -> None:
    families = parse(page_of([(Family("a", MetricKind.GAUGE, meaning, ("l",)), [((label,), 1)])]).decode())
    assert families["a"].meaning == meaning
    assert families["a"].samples == {("a", (("l", label),)): 1.0}


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_number_survives(number: float) -> None:
    families = parse(page_of([(Family("a", MetricKind.GAUGE, "A."), [((), number)])]).decode())
    assert math.isclose(families["a"].samples["a", ()], number, rel_tol=0, abs_tol=0)


@pytest.mark.parametrize(
    "page",
    [
        "a 1\n",
        "# HELP a A.\n# TYPE a gauge\na 1",
        "# HELP a A.\n# TYPE a gauge\na 1\na 2\n",
        "# HELP a A.\n# TYPE a counter\na 1\n",
        '# HELP a A.\n# TYPE a histogram\na_bucket{le="1"} 2\na_bucket{le="+Inf"} 1\na_sum 1\na_count 1\n',
        '# HELP a A.\n# TYPE a histogram\na_bucket{le="1"} 1\na_sum 1\na_count 1\n',
        '# HELP a A.\n# TYPE a gauge\na{l="x"y"} 1\n',
    ],
)
def test_the_parser_of_these_tests_sees_what_is_wrong(page: str) -> None:
    with pytest.raises(AssertionError):
        parse(page)


def test_a_long_page_comes_in_pieces_of_whole_lines() -> None:
    family = Family("a", MetricKind.GAUGE, "A.", ("l",))
    made = list(render([(family, [((str(number),), number) for number in range(1000)])]))
    assert len(made) == 1 + 1002 // LINES_PER_PIECE
    assert all(piece.endswith(b"\n") for piece in made)
    assert len(parse(b"".join(made).decode())["a"].samples) == 1000
