import json

import pytest

from hutong.foundation.errors import Refused
from hutong.pipelines.source.rows.avro_schema import parse_avro
from hutong.pipelines.source.rows.framing import IDS_MAX
from hutong.pipelines.source.rows.registered import RegisteredReader

ONE = '{"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]}'
TWO = json.dumps({"type": "record", "name": "R", "fields": [
    {"name": "y", "type": ["null", "string"], "default": None}, {"name": "x", "type": "long"}]})  # fmt: skip


class Texts:
    """Schemas by their ids; counts what is asked."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.asked: list[int] = []

    def __call__(self, schema_id: int) -> str:
        self.asked.append(schema_id)
        if schema_id >= len(self.texts):
            raise Refused(40403)
        return self.texts[schema_id]


def framed(schema_id: int, data: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + data


def test_values_of_several_versions_come_as_one() -> None:
    texts = Texts(ONE, TWO)
    read = RegisteredReader(parse_avro(TWO), None, texts)
    values = [read(framed(0, b"\x02")), read(framed(1, b"\x02\x02a\x04")), read(framed(0, b"\x06"))]
    assert values == [(None, 1), ("a", 2), (None, 3)]
    assert texts.asked == [0, 1]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "does not begin with a zero byte"),
        (b"\0\0\0", "does not begin with a zero byte"),
        (b"\1\0\0\0\0\2", "does not begin with a zero byte"),
        (framed(9, b"\2"), "schema 9 is not in the registry"),
        (framed(1, b"\2"), "schema 1 cannot be read as the column's: field x: string was written"),
        (framed(2, b"\2"), "schema 2 cannot be read as the column's: "),
        (framed(0, b"\2\2"), "1 bytes are left"),
        (framed(0, b""), "field x: the bytes end"),
    ],
)
def test_what_cannot_be_read(content: bytes, reason: str) -> None:
    read = RegisteredReader(parse_avro(ONE), None, Texts(ONE, ONE.replace("int", "string"), '{"a": "nothing"}'))
    for _ in range(2):
        with pytest.raises(ValueError, match=r".") as raised:
            read(content)
        assert reason in str(raised.value)


def test_random_bytes_make_a_bounded_number_of_requests() -> None:
    texts = Texts(ONE)
    read = RegisteredReader(parse_avro(ONE), None, texts)
    for schema_id in range(1, 2 * IDS_MAX):
        with pytest.raises(ValueError, match=f"schema {schema_id}"):
            read(framed(schema_id, b"\2"))
    assert len(texts.asked) == IDS_MAX
    with pytest.raises(ValueError, match="after 1000 others"):
        read(framed(0, b"\2"))


def test_what_a_registry_refuses_otherwise_ends_the_task() -> None:
    def refuse(schema_id: int) -> str:
        raise Refused(50001)

    with pytest.raises(Refused):
        RegisteredReader(parse_avro(ONE), None, refuse)(framed(1, b""))
