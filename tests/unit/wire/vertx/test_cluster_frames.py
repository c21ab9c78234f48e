"""Frames between nodes: round trips, cut and lying frames."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.bus.envelope import headers as envelope
from hutong.foundation.errors import ProtocolError
from hutong.wire.vertx.cluster_frames import (
    ADDRESS_BYTES_MAX,
    CODEC_NAME_BYTES_MAX,
    FRAME_BYTES_MAX,
    HEADER_BYTES_MAX,
    HEADERS_MAX,
    USER_CODEC,
    ClusterFrame,
    decode,
    encode,
    encode_ping,
)
from hutong.wire.vertx.wire_versions import NODE_NAME_BYTES_MAX, VERSION_2

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
PLAIN = st.builds(
    ClusterFrame,
    st.integers(0, 127),
    TEXT,
    TEXT,
    st.binary(max_size=50),
    st.none() | TEXT.filter(bool),
    st.lists(st.tuples(TEXT, TEXT), max_size=4).map(tuple),
    st.booleans(),
)
FRAMES = PLAIN | st.builds(
    lambda frame, name: ClusterFrame(
        USER_CODEC, frame.address, frame.sender, frame.body, frame.reply_address, frame.headers, frame.is_send, name
    ),
    PLAIN,
    TEXT,
)


@given(FRAMES)
def test_a_frame_comes_back(frame: ClusterFrame) -> None:
    data = encode(frame)
    assert struct.unpack_from(">i", data) == (len(data) - 4,)
    assert decode(data[4:]) == frame


@given(FRAMES)
def test_a_frame_that_is_cut_before_its_body_is_refused(frame: ClusterFrame) -> None:
    data = encode(frame)[4:]
    for size in range(len(data) - len(frame.body)):
        with pytest.raises(ProtocolError):
            decode(data[:size])


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda rest: bytes([VERSION_2.number]) + rest))
def test_any_bytes_are_a_frame_or_refused(data: bytes) -> None:
    try:
        decode(data)
    except ProtocolError:
        return


@given(FRAMES, st.data())
def test_a_frame_whose_lengths_lie_is_another_frame_or_refused(frame: ClusterFrame, data: st.DataObject) -> None:
    """Whatever it becomes holds no more than its own bytes."""
    damaged = bytearray(encode(frame)[4:])
    at = data.draw(st.integers(0, max(0, len(damaged) - 4)))
    damaged[at : at + 4] = struct.pack(">i", data.draw(st.integers(-(1 << 31), (1 << 31) - 1)))
    try:
        found = decode(bytes(damaged))
    except ProtocolError:
        return
    assert len(found.address) + len(found.sender) + len(found.body) <= len(damaged)


def test_an_announced_length_costs_nothing() -> None:
    head = struct.pack(">BbB", VERSION_2.number, 9, 0)
    for size in (1 << 30, -1, ADDRESS_BYTES_MAX + 1):
        with pytest.raises(ProtocolError, match="address"):
            decode(head + struct.pack(">i", size) + b"x" * 16)


def with_headers(size: int, count: int, rest: bytes = b"") -> bytes:
    before = encode(ClusterFrame(9, "a", "n"))[4:-4]
    return before + struct.pack(">ii", size, count) + rest


@pytest.mark.parametrize(
    ("size", "count", "rest"),
    [
        (8, 1, b""),
        (1 << 30, 1, b""),
        (-1, 0, b""),
        (3, 0, b""),
        (HEADER_BYTES_MAX + 1, 1, b""),
        (8, HEADERS_MAX + 1, b""),
        (8, -1, b""),
        (12, 0, bytes(4)),
        (16, 2, bytes(8)),
        (24, 1, struct.pack(">i", 100) + bytes(12)),
    ],
)
def test_headers_that_lie_are_refused(size: int, count: int, rest: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(with_headers(size, count, rest))


def test_what_is_too_long_is_not_sent() -> None:
    for frame in (
        ClusterFrame(9, "a" * (ADDRESS_BYTES_MAX + 1), "n"),
        ClusterFrame(9, "a", "n" * (NODE_NAME_BYTES_MAX + 1)),
        ClusterFrame(USER_CODEC, "a", "n", codec_name="c" * (CODEC_NAME_BYTES_MAX + 1)),
        ClusterFrame(9, "a", "n", headers=(("k", "v"),) * (HEADERS_MAX + 1)),
        ClusterFrame(9, "a", "n", headers=(("k", "v" * HEADER_BYTES_MAX),)),
        ClusterFrame(9, "a", "n", bytes(FRAME_BYTES_MAX)),
        ClusterFrame(9, "a\ud800", "n"),
    ):
        with pytest.raises(ValueError, match=r"allowed|surrogates"):
            encode(frame)


def test_headers_have_the_bounds_of_a_message() -> None:
    """So whatever a program can send fits into a frame, four bytes for each character at most."""
    assert HEADERS_MAX == envelope.HEADERS_MAX
    assert 4 * envelope.HEADER_CHARACTERS_MAX <= HEADER_BYTES_MAX


def test_another_version_is_refused() -> None:
    data = bytearray(encode(ClusterFrame(9, "a", "n"))[4:])
    data[0] = 1
    with pytest.raises(ProtocolError, match="version 1"):
        decode(bytes(data))


def test_a_ping_names_its_receiver() -> None:
    found = decode(encode_ping("node-b")[4:])
    assert (found.codec, found.address, found.sender, bytes(found.body)) == (1, "__vertx_ping", "node-b", b"")


@given(st.binary(max_size=80), st.integers(0, 60), st.integers(0, 255))
def test_a_frame_that_is_read_at_once_is_what_care_finds(body: bytes, at: int, value: int) -> None:
    data = bytearray(encode(ClusterFrame(9, "place", "node-1", body, "reply")))
    data[at % len(data)] = value
    try:
        found = decode(bytes(data[4:]))
    except ProtocolError:
        with pytest.raises(ProtocolError):
            decode(memoryview(data)[4:])
    else:
        # A view is read with care.
        assert decode(memoryview(data)[4:]) == found
