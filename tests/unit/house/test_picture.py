"""The picture of the README is the one that `python -m bench picture` draws of the committed figures."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from bench.picture import drawn

FIGURES = Path(__file__).parents[3] / "docs" / "figures"


def test_the_picture_shows_the_figures() -> None:
    picture = drawn(json.loads((FIGURES / "kafka.json").read_text()), "hutong")
    assert picture == (FIGURES / "kafka.svg").read_text(), (
        "run: python -m bench picture docs/figures/kafka.json docs/figures/kafka.svg"
    )
    ET.fromstring(picture)


def test_without_a_ratio_there_is_nothing_to_draw() -> None:
    rows = [{"measurement": "m", "figure": "f", "times_better_than_baseline": {"kafka": 1.0}}]
    with pytest.raises(ValueError, match="no figure of hutong"):
        drawn({"baseline": "kafka", "rows": rows}, "hutong")
