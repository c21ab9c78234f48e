"""The compiled pass over requests to send takes what Python would take, and makes the same bytes of it."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.plain_sends import taken

from hutong.broker.rocketmq.records import packing
from hutong.broker.rocketmq.sends import compiled_sends
from hutong.broker.rocketmq.sends.plain_send import BODY_BYTES_MAX
from hutong.wire.rocketmq.codes import RequestCode
from hutong.wire.rocketmq.command import BINARY, IS_ONEWAY, IS_RESPONSE, JSON, Command, encode
from hutong.wire.rocketmq.messages import encode_properties

pytestmark = pytest.mark.skipif(compiled_sends.found_sends is None, reason="it is not compiled")
FORMS = pytest.mark.parametrize("form", [BINARY, JSON])
NAMES = {
    RequestCode.SEND_MESSAGE_V2: "befghijm",
    RequestCode.SEND_MESSAGE: (
        "topic", "queueId", "sysFlag", "bornTimestamp", "flag", "properties", "reconsumeTimes", "batch",
    ),
}  # fmt: skip
PLAIN = ("t", "3", "0", "1764288000000", "7", "KEYS\x01a b\x02TAGS\x01ü\x02", "0", "false")
PIECES = st.sampled_from(["KEYS", "TAGS", "a", "k 1", " ", "\x01", "\x02", "é", "\U0001f600", "\0", '"', "\\", "DELAY"])
TEXTS = st.lists(PIECES, max_size=12).map("".join)


def frame(form: int = BINARY, code: int = 310, body: bytes = b"body", **more: Any) -> bytes:
    """One frame. `fields` are by their numbers in PLAIN; those that are None are left out."""
    values: dict[str, Any] = dict(zip(NAMES[RequestCode(code)], PLAIN, strict=True))
    for place, value in more.pop("fields", {}).items():
        values[NAMES[RequestCode(code)][place]] = value
    fields = {name: value for name, value in values.items() if value is not None} | more.pop("others", {})
    return b"".join(encode(Command(code, body=body, fields=fields, serialization=form, **more)))


def json_frame(header: str) -> bytes:
    data = header.encode(errors="surrogatepass")
    return struct.pack(">II", len(data) + 4, len(data)) + data


@FORMS
@pytest.mark.parametrize("code", NAMES)
def test_plain_requests_are_taken_by_one_call(form: int, code: int) -> None:
    frames = [
        frame(form, code, opaque=5),
        frame(form, code, b"", opaque=-1, fields={5: None, 4: None, 6: None, 7: None}),
        frame(form, code, bytes(BODY_BYTES_MAX), others={"a": "g", "c": "TBW102", "n": "b"}),
        frame(form, code, fields={5: "", 0: "ein Thema ü"}),
        frame(form, code, fields={5: encode_properties({f"name {number}": "v" * number for number in range(60)})}),
        frame(form, code, fields={5: "KEYS\x01\x02KEYS\x01one\x02\x01no name\x02no value\x02KEYS"}),
        frame(form, code, fields={5: "a\x01b\x01c\x02a\x01\x02"}),
    ]
    data = b"".join(frames)
    assert len(taken(data)) == len(frames)
    assert [each.opaque for each in taken(data)][:2] == [5, -1]
    assert taken(data, 2) == taken(data)[:2]
    # What is cut off waits for the rest.
    assert len(taken(data[:-1])) == len(frames) - 1
    assert all(taken(frames[0][:size]) == [] for size in range(len(frames[0])))


@FORMS
@pytest.mark.parametrize(
    "odd",
    [
        {"flag": IS_ONEWAY},
        {"flag": IS_RESPONSE},
        {"body": bytes(BODY_BYTES_MAX + 1)},
        {"fields": {0: None}},
        {"fields": {0: "t" * 128}},
        {"fields": {1: "-1"}},
        {"fields": {1: "\u0661"}},
        {"fields": {1: "1" * 10}},
        {"fields": {1: ""}},
        {"fields": {2: "1"}},
        {"fields": {2: None}},
        {"fields": {3: "x"}},
        {"fields": {3: "1" * 19}},
        {"fields": {4: "-7"}},
        {"fields": {6: "1"}},
        {"fields": {7: "true"}},
        *[
            {"fields": {5: text}}
            for text in (
                "DELAY\x013\x02",
                "TIMER_DELAY_SEC\x013\x02",
                "__STARTDELIVERTIME\x013\x02",
                "TRAN_MSG\x01true\x02",
                "REPLY_TO_CLIENT\x01c\x02",
                "WAIT\x01false\x02",
                "long\x01" + "x" * 8_000 + "\x02",
                encode_properties({f"name {number}": "v" for number in range(65)}),
            )
        ],
    ],
)
def test_others_are_left_with_all_behind_them(form: int, odd: dict[str, Any]) -> None:
    plain = frame(form)
    assert len(taken(plain + frame(form, **odd) + plain)) == 1


def test_other_codes_are_left() -> None:
    assert taken(b"".join(encode(Command(RequestCode.HEART_BEAT)))) == []


@pytest.mark.parametrize(
    ("header", "is_taken"),
    [
        ('{"code":310,"extFields":{"b":"t","e":"0","f":"0","g":"1"}}', True),
        (' { "extFields" : {"b":"\\u0074\\u00fc\\u20ac\\n","e":0,"f":0,"g":1,"m":false} , "code" :310 } ', True),
        ('{"code":310,"opaque":-5,"remark":null,"language":9,"extFields":{"b":"t","e":"0","f":"0","g":"1"}}', True),
        ('{"code":310,"more":"x","extFields":{"b":"t","e":"0","f":"0","g":"1"}}', True),
        ('{"code":310,"more":[],"extFields":{"b":"t","e":"0","f":"0","g":"1"}}', False),
        ('{"code":310,"code":310,"extFields":{"b":"t","e":"0","f":"0","g":"1"}}', False),
        ('{"code":310,"extFields":{"b":"t","b":"u","e":"0","f":"0","g":"1"}}', False),
        ('{"code":310,"extFields":{"b":"\\ud83d\\ude00","e":"0","f":"0","g":"1"}}', False),
        ('{"code":310,"extFields":{"b":"\\ud83d","e":"0","f":"0","g":"1"}}', False),
        ('{"code":310,"extFields":{"b":"t","e":"0","f":"0","g":1.0}}', False),
        ('{"code":310,"extFields":{"b":"t","e":null,"f":"0","g":"1"}}', False),
        ('{"code":310,"extFields":{"b":"t","e":00,"f":"0","g":"1"}}', False),
        ('{"code":310,"extFields":{"b":"t\x01","e":"0","f":"0","g":"1"}}', False),
        ('{"code":310,"extFields":{"b":"t\\x","e":"0","f":"0","g":"1"}}', False),
        ('{"code":310,"opaque":2147483648,"extFields":{"b":"t","e":"0","f":"0","g":"1"}}', False),
        ('{"code":310,"version":32768,"extFields":{"b":"t","e":"0","f":"0","g":"1"}}', False),
        ('{"code":310,"extFields":{"b":"t","e":"0","f":"0","g":"1"}}x', False),
        ('{"code":310,"extFields":{"b":"t","e":"0","f":"0","g":"1",}}', False),
        ('{"code":310,"extFields":{"b":"t","e":"0","f":"0","g":"1"}', False),
        ('{"code":310,"extFields":null}', False),
        ("{}", False),
        ("[]", False),
        ('{"code":310,"extFields":{"b":"\ud800","e":"0","f":"0","g":"1"}}', False),
    ],
)
def test_json_of_any_client(header: str, is_taken: bool) -> None:
    assert len(taken(json_frame(header))) == is_taken


def test_binary_headers_that_are_broken_or_rare_are_left() -> None:
    whole = bytearray(frame())
    for place, value in ((8, 2), (21, 1), (25, 1), (28, 0), (29, 0x80), (29, 1), (30, 0)):
        broken = bytearray(whole)
        broken[place] = value
        assert taken(bytes(broken)) == [], place
    block = whole.index(b"\0\x01b")
    for broken_block in (b"\0\0b", b"\xff\xffb", b"\x7f\xffb"):
        broken = bytearray(whole)
        broken[block : block + 3] = broken_block
        assert taken(bytes(broken)) == []
    assert taken(bytes(whole).replace("ü".encode(), b"\xff\xff")) == []
    assert taken(frame(others={f"x{number}": "" for number in range(80)})) == []


@given(
    st.sampled_from([BINARY, JSON]),
    st.sampled_from([*NAMES]),
    TEXTS,
    TEXTS,
    st.binary(max_size=40),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=2),
)
def test_what_is_taken_is_what_python_makes_of_it(
    form: int, code: int, topic: str, properties: str, body: bytes, changes: list[tuple[int, int]]
) -> None:
    data = bytearray(frame(form, code, body, fields={0: topic, 5: properties}))
    for place, value in changes:
        data[place % len(data)] = value
    taken(bytes(data) + frame(form))


@given(st.lists(st.binary(max_size=300), max_size=140))
def test_records_are_joined_alike(tails: list[bytes]) -> None:
    assert compiled_sends.joined_records(tails) == packing.joined_records(tails)


@pytest.mark.parametrize(
    ("function", "arguments", "error"),
    [
        ("plain_sends", (b"", b""), TypeError),
        ("plain_sends", (b"", b"", "1"), TypeError),
        ("plain_sends", ("", b"", 1), TypeError),
        ("plain_sends", (b"", "", 1), TypeError),
        ("plain_sends", (b"", bytes(25), 1), ValueError),
        ("joined_records", ((),), TypeError),
        ("joined_records", ([""],), TypeError),
    ],
)
def test_wrong_arguments_are_named(function: str, arguments: tuple[object, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        getattr(compiled_sends._compiled, function)(*arguments)


def test_nothing_is_kept_of_what_was_taken() -> None:
    data = bytearray(frame())
    (found,) = taken(bytes(data))
    assert compiled_sends.found_sends is not None
    kept = compiled_sends.found_sends(memoryview(data), bytes(12), 1)
    data[:] = bytes(len(data))
    data.clear()  # a view that was kept would forbid it
    assert kept[0][1] == found.place == b"t\0003"
