"""Tables, JSON lines and the escaping of what came from a broker."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.cli.output import print_json, print_rows, printable, progress, text_or_base64, utc

ROWS = [
    {"topic": "orders", "in_sync": [1, 2], "records": 1_234_567, "key": None, "default": True},
    {"topic": "[red]\x1b[31m", "in_sync": [], "records": 1, "key": "k", "default": False},
]


def test_a_table_shows_text_as_it_is_and_controls_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(ROWS, ("topic", "in_sync", "records", "key", "default"), as_json=False)
    heading, first, second = capsys.readouterr().out.splitlines()
    assert heading.split() == ["topic", "in", "sync", "records", "key", "default"]
    assert first.split() == ["orders", "1,", "2", "1,234,567", "-", "yes"]
    assert second.split() == [r"[red]\x1b[31m", "1", "k", "no"]


def test_json_is_one_object_a_line_with_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(ROWS, ("topic",), as_json=True)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == ROWS


def test_a_table_without_rows_is_its_heading(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([], ("topic", "partitions"), as_json=False)
    assert capsys.readouterr().out.split() == ["topic", "partitions"]


@given(st.text())
def test_printable_text_moves_no_cursor(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert text != shown or text.isprintable()


@given(st.binary() | st.text().map(str.encode))
def test_any_value_survives_json(value: bytes) -> None:
    shown = json.loads(json.dumps(text_or_base64(value)))
    restored = base64.b64decode(shown["base64"]) if isinstance(shown, dict) else shown.encode()
    assert restored == value


def test_json_keeps_other_scripts_readable(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"value": "胡同"})
    assert capsys.readouterr().out == '{"value": "胡同"}\n'


def test_times() -> None:
    assert utc(1_431_857_103_250) == "2015-05-17T10:05:03.250Z"
    assert utc(2**62) == f"{2**62} ms"


def test_no_progress_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("working") as advance:
        advance(1)
    assert capsys.readouterr().err == ""
