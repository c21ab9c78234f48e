"""The framing of one line: there and back, and everything that is not a line."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hutong.cli.meet.lines import LINE_BYTES_MAX, Line, decode_line, encode_line, line_end
from hutong.foundation.errors import ProtocolError

TEXTS = st.text(max_size=200)


def test_the_bytes_of_a_line_are_those_of_the_exercise() -> None:
    assert encode_line(0x01020304, "刚吃。") == bytes.fromhex("0000000d 01020304") + "刚吃。".encode()


@settings(deadline=None)
@given(st.integers(0, (1 << 32) - 1), TEXTS, st.binary(max_size=20), st.binary(max_size=20))
def test_a_line_comes_back_from_anywhere(serial: int, text: str, before: bytes, after: bytes) -> None:
    line = encode_line(serial, text)
    data = before + line + after
    end = line_end(data, len(before))
    assert end == len(before) + len(line)
    assert decode_line(data, len(before), end) == Line(serial, text)


@settings(deadline=None)
@given(st.integers(0, (1 << 32) - 1), TEXTS)
def test_of_a_part_of_a_line_only_its_length_is_said(serial: int, text: str) -> None:
    line = encode_line(serial, text)
    for cut in range(len(line)):
        assert line_end(line[:cut], 0) == (None if cut < 4 else len(line))


@pytest.mark.parametrize("length", [0, 3, LINE_BYTES_MAX + 1, 1 << 31, (1 << 32) - 1])
def test_a_length_that_lies_is_refused_before_anything_else_is_there(length: int) -> None:
    with pytest.raises(ProtocolError, match=f"a line of {length} bytes; 4 to 1024 are allowed"):
        line_end(struct.pack(">I", length), 0)


@pytest.mark.parametrize("length", [4, LINE_BYTES_MAX])
def test_the_bounds_themselves_are_allowed(length: int) -> None:
    assert line_end(struct.pack(">I", length), 0) == 4 + length


def test_a_text_that_is_not_utf_8_is_refused() -> None:
    bad = struct.pack(">II", 6, 7) + b"\xff\xfe"
    with pytest.raises(ProtocolError, match="serial 7: the text is not UTF-8"):
        decode_line(bad, 0, len(bad))


def test_what_no_frame_can_hold_is_not_encoded() -> None:
    with pytest.raises(ValueError, match="32 bits"):
        encode_line(1 << 32, "")
    with pytest.raises(ValueError, match="32 bits"):
        encode_line(-1, "")
    assert len(encode_line(0, "x" * (LINE_BYTES_MAX - 4))) == 4 + LINE_BYTES_MAX
    with pytest.raises(ValueError, match="1020 are allowed"):
        encode_line(0, "x" * (LINE_BYTES_MAX - 3))
