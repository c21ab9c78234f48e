"""Commands in both forms: round trips, the short ways beside the general one, and every lie about a length."""

import struct
from collections.abc import Callable
from contextlib import suppress

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hutong.foundation.errors import ProtocolError
from hutong.wire.rocketmq.command import (
    BINARY,
    EXT_FIELDS_MAX,
    FRAME_BYTES_MAX,
    HEADER_BYTES_MAX,
    IS_ONEWAY,
    JSON,
    LANGUAGES,
    OTHER,
    PYTHON,
    VERSION,
    Command,
    decode,
    decode_ext,
    encode,
    encode_binary,
    encode_ext,
)

i16 = st.integers(-(2**15), 2**15 - 1)
i32 = st.integers(-(2**31), 2**31 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
fields = st.dictionaries(text.filter(bool), text, max_size=6)
remarks = st.none() | text.filter(bool)
languages = st.integers(0, len(LANGUAGES) - 1)


def framed(command: Command, form: int) -> bytes:
    """The frame without its length, which is checked."""
    whole = b"".join(encode(command, serialization=form))
    assert struct.unpack_from(">I", whole) == (len(whole) - 4,)
    return whole[4:]


@given(i16, i32, i32, remarks, fields, st.binary(max_size=50), languages, i16, st.sampled_from([JSON, BINARY]))
def test_a_command_comes_back(
    code: int, opaque: int, flag: int, remark: str | None, ext: dict[str, str], body: bytes, language: int,
    version: int, form: int,
) -> None:  # fmt: skip
    command = Command(code, opaque, flag, None, body, remark, ext, language, version)
    frame = framed(command, form)
    for given_frame in (frame, memoryview(bytearray(frame))):
        back = decode(given_frame)
        assert (back.code, back.opaque, back.flag, back.remark) == (code, opaque, flag, remark)
        assert (back.language, back.version, back.serialization) == (language, version, form)
        assert back.ext() == ext
        assert bytes(back.body) == body


@given(i16, i32, i32, st.binary(max_size=30), st.binary(max_size=30), text)
def test_the_short_way_writes_what_the_general_one_does(
    code: int, opaque: int, flag: int, block: bytes, body: bytes, remark: str
) -> None:
    command = Command(code, opaque, flag, block, body, remark)
    assert encode_binary(code, opaque, flag, block, body, remark.encode()) == b"".join(encode(command))


@given(fields)
def test_ext_blocks(ext: dict[str, str]) -> None:
    block = encode_ext(ext)
    assert decode_ext(block) == ext
    # By its layout, which is known by now.
    assert decode_ext(block) == ext
    command = decode(encode_binary(1, 2, 0, block)[4:])
    assert (command.ext_block or b"") == block
    assert command.ext() is command.ext()


def test_a_binary_frame_by_its_bytes() -> None:
    frame = encode_binary(10, 7, IS_ONEWAY, encode_ext({"topic": "t"}), b"body")
    assert frame.hex(" ") == (
        "00 00 00 29 01 00 00 21 00 0a 03 01 f4 00 00 00 07 00 00 00 02 00 00 00 00 00 00 00 0c "
        "00 05 74 6f 70 69 63 00 00 00 01 74 62 6f 64 79"
    )
    command = decode(frame[4:])
    assert command.is_oneway
    assert not command.is_response
    assert (command.language, command.version) == (PYTHON, VERSION)


def json_frame(header: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(header)) + header + body


def test_json_as_others_write_it() -> None:
    command = decode(json_frame(b'{"code":105,"language":"NODE_JS","opaque":3,"unknown":[{}],"extFields":'
                                b'{"a":1,"b":true,"c":"x","d":null,"e":1.5}}', b"rest"))  # fmt: skip
    assert command.ext() == {"a": "1", "b": "true", "c": "x", "e": "1.5"}
    assert (LANGUAGES[command.language], bytes(command.body)) == ("NODE_JS", b"rest")
    assert decode(json_frame(b'{"code":1,"language":9,"extFields":null}')).language == 9
    for language in (b'"KLINGON"', b"77", b"-1"):
        assert decode(json_frame(b'{"code":1,"language":%s}' % language)).language == OTHER


def test_json_as_we_write_it() -> None:
    frame = framed(Command(17, 4, 1, None, b"", "no topic", None), JSON)
    assert msgspec.json.decode(frame[4:]) == {
        "code": 17, "extFields": {}, "flag": 1, "language": "PYTHON", "opaque": 4, "remark": "no topic",
        "serializeTypeCurrentRPC": "JSON", "version": VERSION,
    }  # fmt: skip


def test_a_code_of_more_than_16_bits_goes_as_json() -> None:
    command = decode(framed(Command(200_050, ext_block=encode_ext({"a": "b"})), BINARY))
    assert (command.code, command.serialization, command.ext()) == (200_050, JSON, {"a": "b"})


def test_what_does_not_fit_is_not_written() -> None:
    wrong: list[Callable[[], object]] = [
        lambda: encode(Command(1, 1 << 31)),
        lambda: encode(Command(1, language=300)),
        lambda: encode(Command(1, remark="x" * HEADER_BYTES_MAX)),
        lambda: encode(Command(1, remark="x" * HEADER_BYTES_MAX), serialization=JSON),
        lambda: encode(Command(1, body=bytes(FRAME_BYTES_MAX))),
        lambda: encode_ext({"": "nameless"}),
        lambda: encode_ext({"x" * 40_000: ""}),
        lambda: encode_ext({"x": "y" * HEADER_BYTES_MAX}),
        lambda: encode_ext({str(number): "" for number in range(EXT_FIELDS_MAX + 1)}),
    ]
    for attempt in wrong:
        with pytest.raises(ValueError):
            attempt()
    assert len(b"".join(encode(Command(1, body=bytes(FRAME_BYTES_MAX - 25))))) == FRAME_BYTES_MAX + 4


GOOD = encode_binary(10, 7, 0, encode_ext({"topic": "t"}), b"body", b"why")[4:]


def altered(at: int, form: str, value: int) -> bytes:
    frame = bytearray(GOOD)
    struct.pack_into(form, frame, at, value)
    return bytes(frame)


REMARK_AT, EXT_AT = 17, 24
LIES = {
    "no header": b"",
    "half a mark": b"\x01\x00\x00",
    "unknown form": altered(0, ">I", 2 << 24 | 21),
    "header longer than the frame": altered(0, ">I", 1 << 24 | 0xFFFFFF),
    "header shorter than it is": altered(0, ">I", 1 << 24 | 20),
    "header that ends in its ext fields": altered(0, ">I", 1 << 24 | 30),
    "header too long": struct.pack(">I", HEADER_BYTES_MAX + 1) + bytes(HEADER_BYTES_MAX + 1),
    "remark longer than the header": altered(REMARK_AT, ">i", 1000),
    "remark longer than memory": altered(REMARK_AT, ">i", 2**31 - 1),
    "negative remark": altered(REMARK_AT, ">i", -1),
    "remark that is no text": altered(REMARK_AT + 4, ">B", 0xFF),
    "ext fields longer than the header": altered(EXT_AT, ">i", 1000),
    "ext fields shorter than the header": altered(EXT_AT, ">i", 1),
    "negative ext fields": altered(EXT_AT, ">i", -4),
    "no JSON": json_frame(b"{"),
    "JSON that is no object": json_frame(b"[]"),
    "JSON without a code": json_frame(b"{}"),
    "JSON with a code that is none": json_frame(b'{"code":"x"}'),
    "JSON with too large a code": json_frame(b'{"code":2147483648}'),
    "JSON with too large an opaque": json_frame(b'{"code":1,"opaque":99999999999999999999999999}'),
    "JSON with too large a version": json_frame(b'{"code":1,"version":40000}'),
    "JSON with nested fields": json_frame(b'{"code":1,"extFields":{"a":{}}}'),
    "JSON that is deep": json_frame(b'{"code":1,"extFields":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "JSON that is no text": json_frame(b'{"code":1,"remark":"\xff"}'),
    "JSON with too many fields": json_frame(
        msgspec.json.encode({"code": 1, "extFields": {str(number): "" for number in range(EXT_FIELDS_MAX + 1)}})
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_refused(lie: str) -> None:
    with pytest.raises(ProtocolError):
        decode(LIES[lie])


def test_depth_in_a_member_that_is_not_read_is_refused_or_skipped() -> None:
    """Python 3.14 bounds recursion in C by the stack that there is, and not by a count of calls."""
    with suppress(ProtocolError):
        assert decode(json_frame(b'{"code":1,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}")).code == 1


BAD_BLOCKS = {
    "half a length": b"\x00",
    "key longer than the block": b"\x00\x09a",
    "negative key": struct.pack(">hi", -1, 0),
    "key without a name": struct.pack(">hi", 0, 0),
    "no value": b"\x00\x01a",
    "value longer than the block": b"\x00\x01a" + struct.pack(">i", 1),
    "value longer than memory": b"\x00\x01a" + struct.pack(">i", 2**31 - 1),
    "negative value": b"\x00\x01a" + struct.pack(">i", -5),
    "key that is no text": b"\x00\x01\xff" + struct.pack(">i", 0),
    "too many": b"".join(struct.pack(">hsi", 1, b"a", 0) for _ in range(EXT_FIELDS_MAX + 1)),
}


@pytest.mark.parametrize("block", BAD_BLOCKS)
def test_bad_blocks_are_refused(block: str) -> None:
    command = decode(encode_binary(1, 1, 0, BAD_BLOCKS[block])[4:])
    with pytest.raises(ProtocolError):
        command.ext()


@given(st.integers(0, len(GOOD)))
def test_a_header_that_is_cut_off_is_refused(size: int) -> None:
    header_end = len(GOOD) - len(b"body")
    if size < header_end:
        with pytest.raises(ProtocolError):
            decode(GOOD[:size])
    else:
        assert bytes(decode(GOOD[:size]).body) == b"body"[: size - header_end]


@given(st.binary(max_size=80), st.sampled_from([b"", b"\x00\x00\x00\x20", b"\x01\x00\x00\x15", b"\x01\x00\x00\x20"]))
@example(b"", b"\x01\x00\x00\x00")
def test_garbage_is_decoded_or_refused(garbage: bytes, beginning: bytes) -> None:
    with suppress(ProtocolError):
        decode(beginning + garbage).ext()


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_a_changed_byte_is_decoded_or_refused(at: int, value: int) -> None:
    with suppress(ProtocolError):
        decode(altered(at, ">B", value)).ext()
