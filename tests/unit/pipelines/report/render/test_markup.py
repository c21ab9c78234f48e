"""How figures and names stand in a page."""

import pytest

from hutong.pipelines.engine.stages import size
from hutong.pipelines.report.render.markup import count, duration, escaped, shortened


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1500, "1.50 s"),
        (42_000, "42.0 s"),
        (61_000, "1 min 1 s"),
        (7_260_000, "2 h 1 min"),
    ],
)
def test_durations(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


@pytest.mark.parametrize(("bytes_", "text"), [(0, "-"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**60, "1024.0 PiB")])
def test_sizes(bytes_: int, text: str) -> None:
    assert size(bytes_) == text


@pytest.mark.parametrize(("value", "text"), [(3, "3"), (3.25, "3.2"), (1234567.8, "1,234,568")])
def test_counts(value: float, text: str) -> None:
    assert count(value) == text


def test_names_are_cut_in_the_middle() -> None:
    assert shortened("start at NativeMethodAccessorImpl.java:0", 20) == "start at …pl.java:0"
    assert shortened("short", 20) == "short"
    assert len(shortened("中" * 40, 20)) <= 11


def test_text_cannot_end_an_element_or_hold_what_xml_forbids() -> None:
    assert escaped("<&\"'\x00\ud800") == "&lt;&amp;&quot;&#x27;��"
