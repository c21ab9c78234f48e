import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from hutong.foundation.errors import UsageError
from hutong.pipelines.errors import BadRecord
from hutong.pipelines.source.decode.columns import SCHEMA
from hutong.pipelines.source.options import schema_of
from hutong.pipelines.source.rows.columns import RowDecoder
from hutong.pipelines.source.rows.formats import row_format
from hutong.pipelines.source.rows.protobuf.descriptors import file_of_one, set_text

TEXT = set_text([file_of_one("M")])
POINT = json.dumps({"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]})


def decoded(values: list[bytes | None], *names: str, **options: str) -> pa.RecordBatch | None:
    """Values from offset 100 on, whose keys are their numbers."""
    decoder = RowDecoder("t", 3, names, row_format(options))
    columns = {
        "key": pa.array([b"%d" % number for number in range(len(values))], pa.binary()),
        "value": pa.array(values, pa.binary()),
        "offset": pa.array(range(100, 100 + len(values)), pa.int64()),
    }
    read = [name for name in decoder.read_names if name in columns]
    batch = pa.RecordBatch.from_arrays(
        [columns[name] for name in read], schema=pa.schema([SCHEMA.field(name) for name in read])
    )
    return decoder.decode(batch)


def rows(batch: pa.RecordBatch | None) -> list[dict[str, Any]]:
    assert batch is not None
    return batch.to_pylist()  # type: ignore[no-any-return]


def test_strings() -> None:
    found = decoded(["ä".encode(), b"", None], "value", "offset", valueFormat="string")
    assert rows(found) == [{"value": "ä", "offset": 100}, {"value": "", "offset": 101}, {"value": None, "offset": 102}]


def test_json_and_a_key_of_another_format() -> None:
    options = {"keyFormat": "json", "keySchema": "bigint", "valueFormat": "json", "valueSchema": "u STRING, n INT"}
    found = decoded([b'{"u": "a", "n": 1}', b"{}", None], "value", "key", **options)
    assert found is not None
    assert found.schema == pa.schema(
        [
            pa.field("value", pa.struct([pa.field("u", pa.string()), pa.field("n", pa.int32())])),
            pa.field("key", pa.int64()),
        ]
    )
    assert rows(found) == [
        {"value": {"u": "a", "n": 1}, "key": 0},
        {"value": {"u": None, "n": None}, "key": 1},
        {"value": None, "key": 2},
    ]


def test_maps_and_times() -> None:
    document = b'{"m": {"a": 1, "b": null}, "t": "2015-05-17T12:05:03+02:00", "d": 1.5}'
    found = decoded(
        [document], "value", valueFormat="json", valueSchema="m MAP<STRING, INT>, t TIMESTAMP, d DECIMAL(9,2)"
    )
    (row,) = rows(found)
    assert dict(row["value"]["m"]) == {"a": 1, "b": None}
    assert row["value"]["t"] == datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC)
    assert str(row["value"]["d"]) == "1.50"


def test_avro_with_and_without_the_number_of_a_schema() -> None:
    options = {"valueFormat": "avro", "valueSchema": POINT}
    assert rows(decoded([b"\x0e", None], "value", **options)) == [{"value": {"x": 7}}, {"value": None}]
    framed = decoded([b"\0\0\0\0\x63\x0e"], "value", valueFraming="confluent", **options)
    assert rows(framed) == [{"value": {"x": 7}}]


@pytest.mark.parametrize(
    ("value", "options", "sentence"),
    [
        (b"\xffx", {"valueFormat": "string"}, "the value at offset 101 of t-3 is not UTF-8 text: byte 0 is no part"),
        (
            b'{"n": "x"}',
            {"valueFormat": "json", "valueSchema": "n INT"},
            "the value at offset 101 of t-3 is not JSON of its schema: field n: Expected `int`, got `str`",
        ),
        (
            b'{"n": 12.345}',
            {"valueFormat": "json", "valueSchema": "n DECIMAL(4,2)"},
            "the value at offset 101 of t-3 is not JSON of its schema",
        ),
        (b"", {"valueFormat": "avro", "valueSchema": POINT}, "is not Avro of its schema: field x: the bytes end"),
        (b"\x08", {"valueFormat": "protobuf", "valueSchema": TEXT}, "is not Protobuf of its schema: the bytes end in"),
        (
            b"\1\0\0\0\1\x0e",
            {"valueFormat": "avro", "valueSchema": POINT, "valueFraming": "confluent"},
            "does not begin with a zero byte",
        ),
    ],
)
def test_what_cannot_be_decoded_is_told_by_topic_partition_offset_and_field(
    value: bytes, options: dict[str, str], sentence: str
) -> None:
    good: dict[str, bytes] = {"string": b"s", "json": b'{"n": 1}', "avro": b"\x0e", "protobuf": b""}
    first = (b"\0\0\0\0\1" if "valueFraming" in options else b"") + good[options["valueFormat"]]
    with pytest.raises(BadRecord, match=sentence):
        decoded([first, value], "value", **options)
    assert rows(decoded([first, value], "value", onUndecodable="null", **options))[1] == {"value": None}
    assert len(rows(decoded([first, value], "value", onUndecodable="skip", **options))) == 1
    assert decoded([value], "value", onUndecodable="skip", **options) is None
    kept = rows(decoded([first, value], "value", "undecodable", onUndecodable="keep", **options))
    assert kept[0]["undecodable"] is None
    assert (kept[1]["value"], kept[1]["undecodable"]["part"], kept[1]["undecodable"]["content"]) == (
        None,
        "value",
        value,
    )


def test_the_schema_tells_the_types() -> None:
    options = {"keyFormat": "string", "valueFormat": "json", "valueSchema": "n INT", "columns": "key,value,offset"}
    assert schema_of(options) == "key STRING, value STRUCT<`n`: INT>, offset BIGINT"
    assert schema_of({"onUndecodable": "keep"}).endswith(
        "undecodable STRUCT<part: STRING, reason: STRING, content: BINARY>"
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"valueFormat": "xml"}, "option valueFormat is 'xml': take one of binary, string, json, avro"),
        ({"valueFormat": "json"}, "option valueSchema must be given with valueFormat json"),
        ({"keyFormat": "avro"}, "option keySchema must be given with keyFormat avro"),
        ({"valueSchema": "n INT"}, "option valueSchema is given, but valueFormat is binary"),
        ({"valueFormat": "json", "valueSchema": "n IMT"}, "option valueSchema is not valid: IMT is no type"),
        ({"valueFormat": "avro", "valueSchema": "{"}, "option valueSchema is not valid"),
        ({"valueFormat": "avro", "valueSchema": '"null"'}, "option valueSchema is null alone"),
        ({"valueFraming": "confluent"}, "option valueFraming is confluent, but valueFormat is binary"),
        ({"onUndecodable": "ignore"}, "option onUndecodable is 'ignore': take one of fail, null, skip, keep"),
    ],
)
def test_formats_that_do_not_fit_are_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        row_format(options)
