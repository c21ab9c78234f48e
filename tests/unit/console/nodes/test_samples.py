import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.console.nodes import samples
from hutong.console.nodes.samples import Kept, SampleReader

KEPT = {
    "up": Kept(),
    "lag": Kept(("group", "topic"), with_fewer=True),
    "age": Kept(("group",), max),
    "name": Kept(("text",)),
}
PAGE = """\
# HELP lag Records behind.
# TYPE lag gauge
lag{group="a",topic="t",partition="0"} 3
lag{group="a",topic="t",partition="1"} 4.5
lag{group="b",topic="t",partition="0"} 1
unwanted{group="a"} 7

age{group="a",partition="0"} 2 1700000000000
age{group="a",partition="1"} 1e1
up 1
"""


def read(page: str) -> samples.Sample:
    return SampleReader(KEPT).read(page, 5, 6)


def test_figures_come_by_name_and_kept_labels() -> None:
    sample = read(PAGE)
    assert sample.series("lag") == {
        (("group", "a"), ("topic", "t")): 7.5,
        (("group", "b"), ("topic", "t")): 1.0,
    }
    assert sample.series("age") == {(("group", "a"),): 10.0}
    assert sample.value("up") == 1
    assert sample.value("lag", group="a") == 7.5
    assert sample.value("lag", topic="t") == 8.5
    assert sample.value("lag", group="c") is None
    assert (sample.refused, sample.is_cut, sample.lines) == (0, False, len(PAGE.splitlines()) + 1)
    assert "unwanted" not in sample.values


@pytest.mark.parametrize(
    "line",
    [
        "up",
        "up ",
        "up one",
        "up 1_000",
        "up 1 2 3",
        "up NaN",
        "up nan",
        "up 0x10",
        'name{text="a} 1',
        "name{text=a} 1",
        'name{text="a" 1',
        'name{="a"} 1',
        "name 1",
        'name{other="a"} 1',
        'name{text="a",text="b"} 1',
        'name{text="a"}',
        "up 1e9999",
        'up 1" 2}',
        'up 1"} 2',
        "up " + "1" * samples.LINE_CHARACTERS_MAX,
    ],
)
def test_a_line_that_the_format_does_not_allow_is_left_out_and_counted(line: str) -> None:
    sample = read(f"{line}\nlag 2\n")
    assert sample.refused == 1
    assert sample.value("lag") == 2
    assert sample.values.keys() == {"lag"}


def test_bounds_are_numbers_and_values_finite() -> None:
    kept = {"time_bucket": Kept(("le",))}
    page = "".join(f'time_bucket{{le="{bound}"}} 1\n' for bound in ("0.1", "+Inf", "-Inf", "NaN", "x", ""))
    sample = SampleReader(kept).read(page, 0, 0)
    assert set(sample.series("time_bucket")) == {(("le", "0.1"),), (("le", "+Inf"),)}
    assert sample.refused == 4
    assert read("up +Inf\nup 1e999\n").refused == 2


@given(st.dictionaries(st.text(), st.integers(-(2**53), 2**53), max_size=20))
def test_every_value_of_a_label_comes_back(given: dict[str, int]) -> None:
    def escaped(text: str) -> str:
        return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")

    page = "".join(f'name{{text="{escaped(text)}"}} {value}\n' for text, value in given.items())
    expected = {(("text", text),): float(value) for text, value in given.items()}
    assert read(page).series("name") == expected


@given(st.text(alphabet=st.sampled_from('up lagname{}=",\\#\n0123456789.+-einfINFNa_')))
def test_no_text_makes_it_fail(page: str) -> None:
    sample = read(page)
    assert all(not math.isnan(value) for family in sample.values.values() for value in family.values())


def test_a_page_that_is_too_long_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "VALUES_MAX", 3)
    sample = read("".join(f'name{{text="{number}"}} 1\n' for number in range(10)))
    assert sample.is_cut
    assert len(sample.series("name")) == 3
    monkeypatch.setattr(samples, "LINES_MAX", 4)
    assert read("other 1\n" * 4 + "up 1\n").is_cut


def test_series_that_have_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "VALUES_MAX", 10)
    reader = SampleReader(KEPT)
    for turn in range(20):
        page = "".join(f'name{{text="{turn}-{number}"}} {turn}\n' for number in range(5))
        assert sum(reader.read(page, turn, turn).series("name").values()) == turn * 5
    assert len(reader._known) <= 2 * 10 + 5
