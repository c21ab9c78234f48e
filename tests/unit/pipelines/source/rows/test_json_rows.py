from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from hutong.pipelines.source.rows.ddl import parse_ddl
from hutong.pipelines.source.rows.json_rows import json_reader


@pytest.mark.parametrize(
    ("schema", "document", "value"),
    [
        ("a INT, `b c` MAP<STRING, DOUBLE>", b'{"a": 1, "z": [{}], "b c": {"k": 1}}', {"a": 1, "b c": {"k": 1.0}}),
        ("a INT", b"{}", {}),
        ("a INT", b"null", None),
        ("a INT", b'{"a": null}', {"a": None}),
        ("a TINYINT, b BOOLEAN", b'{"a": -128, "b": true}', {"a": -128, "b": True}),
        ("a DATE, b BINARY", b'{"a": "2015-05-17", "b": "AQI="}', {"a": date(2015, 5, 17), "b": b"\1\2"}),
        ("a TIMESTAMP", b'{"a": "2015-05-17T10:05:03Z"}', {"a": datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC)}),
        ("a DECIMAL(9,2)", b'{"a": 1.25}', {"a": Decimal("1.25")}),
        ("array<int>", b"[1, null]", [1, None]),
    ],
)
def test_a_document_becomes_a_row(schema: str, document: bytes, value: Any) -> None:
    assert json_reader(parse_ddl(schema))(document) == value


@pytest.mark.parametrize(
    ("schema", "document", "sentence"),
    [
        ("a BIGINT", b'{"a": "1"}', "field a: Expected `int`, got `str`"),
        ("a TINYINT", b'{"a": 128}', "field a: Expected `int` <= 127"),
        ("a STRUCT<b: ARRAY<INT>>", b'{"a": {"b": [1, "x"]}}', r"field a\.b\[1\]: Expected `int`, got `str`"),
        ("a INT NOT NULL", b"{}", "missing required field `a`"),
        ("a INT NOT NULL", b'{"a": null}', "field a: Expected `int`, got `null`"),
        ("a INT", b"[]", "Expected `object`, got `array`"),
        ("a DATE", b'{"a": "yesterday"}', "field a: Invalid RFC3339"),
        ("a INT", b'{"a": 1', "no JSON: Input data was truncated"),
        ("a INT", b"", "no JSON"),
        ("a INT", b'{"a": 1} {"a": 2}', "no JSON: JSON is malformed: trailing characters"),
        ("a STRING", b'{"a": "\xff"}', "no JSON"),
        ("a INT", b'{"z": ' + b"[" * 100_000, "no JSON"),
    ],
)
def test_what_does_not_fit_is_told_with_its_field(schema: str, document: bytes, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        json_reader(parse_ddl(schema))(document)


@pytest.mark.parametrize(
    ("schema", "document", "sentence"),
    [
        ("a DECIMAL(9,2)", b'{"a": 1E-999999999}', "field a: a decimal has the exponent -999999999"),
        ("a DECIMAL(9,2)", b'{"a": "1E-99\\u003999999"}', "field a: a decimal has the exponent -9999999"),
        (
            "a STRUCT<b: ARRAY<DECIMAL(9,2)>>",
            b'{"a": {"b": [null, 1, 1E-9999]}}',
            r"field a\.b: a decimal has the exponent",
        ),
        (
            "a MAP<STRING, DECIMAL(9,2)>",
            b'{"a": {"k": null, "l": 1E+9999}}',
            "field a: a decimal has the exponent 9999",
        ),
        ("decimal(9,2)", b"1E-99999", "a decimal has the exponent"),
    ],
)
def test_a_decimal_that_arrow_cannot_bear_is_refused(schema: str, document: bytes, sentence: str) -> None:
    """pyarrow ends the process with a segmentation fault at some."""
    with pytest.raises(ValueError, match=f"^{sentence}"):
        json_reader(parse_ddl(schema))(document)


def test_decimals_that_are_absent_null_or_not_finite_are_left_to_arrow() -> None:
    read = json_reader(parse_ddl("a DECIMAL(9,2), b ARRAY<DECIMAL(9,2)>"))
    for document in (
        b"null",
        b"{}",
        b'{"a": null, "b": null}',
        b'{"a": "NaN", "b": [null, "Infinity"]}',
        b'{"a": 1E-1000}',
    ):
        read(document)
