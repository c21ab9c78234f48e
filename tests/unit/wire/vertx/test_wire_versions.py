"""Version 1 of the frames between nodes: bytes that Vert.x 3.9.16 writes, round trips, cut and lying frames."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import ProtocolError
from hutong.wire.vertx.cluster_frames import (
    PING_ADDRESS,
    PING_CODEC,
    USER_CODEC,
    ClusterFrame,
    decode,
    encode,
    encode_ping,
)
from hutong.wire.vertx.cluster_nodes import NodeInfo
from hutong.wire.vertx.usual_frames import NO_NUMBER, make_frame, python_make_frame, python_take_frames, take_frames
from hutong.wire.vertx.wire_versions import NODE_NAME_BYTES_MAX, VERSION_1, VERSION_2, place_name

THEIRS = "127.0.0.1:38223"
PREFIX = b"__hutong.reply."
SEND = "00000029010900000000026164000000000000954f000000093132372e302e302e31000000040000000368c3a9"
PUBLICATION = (
    "00000047010d01000000026164000000000000954f000000093132372e302e302e310000001e00000002000000016b0000000176000000"
    "016e0000000377c3a9000000077b2261223a317d"
)
REQUEST = (
    "00000058010500000000026164000000325f5f76657274782e7265706c792e37633331656231382d623934652d343431612d623561342d"
    "3531316563623036323333340000954f000000093132372e302e302e310000000400000005"
)
FAILURE = "00000031010f00000000055f5f722e31000000000000954f000000093132372e302e302e3100000004020000000701000000026e6f"
PING = "0000002c0101000000000c5f5f76657274785f70696e670000000000001267000000093132372e302e302e3100000004"
FRAMES = {
    SEND: ClusterFrame(9, "ad", THEIRS, b"\0\0\0\x03h\xc3\xa9"),
    PUBLICATION: ClusterFrame(
        13, "ad", THEIRS, b'\0\0\0\x07{"a":1}', None, (("k", "v"), ("n", "wé")), is_send=False
    ),
    REQUEST: ClusterFrame(
        5, "ad", THEIRS, b"\0\0\0\x05", "__vertx.reply.7c31eb18-b94e-441a-b5a4-511ecb062334"
    ),
    FAILURE: ClusterFrame(15, "__r.1", THEIRS, b"\x02\0\0\0\x07\x01\0\0\0\x02no"),
    PING: ClusterFrame(PING_CODEC, PING_ADDRESS, "127.0.0.1:4711"),
}  # fmt: skip
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
NAMES = st.builds(lambda host, port: f"{host}:{port}", TEXT.filter(bool), st.integers(1, 65_535))
ANY = st.builds(
    ClusterFrame,
    st.integers(0, 127),
    TEXT,
    NAMES,
    st.binary(max_size=50),
    st.none() | TEXT.filter(bool),
    st.lists(st.tuples(TEXT, TEXT), max_size=4).map(tuple),
    st.booleans(),
) | st.builds(lambda name, text: ClusterFrame(USER_CODEC, "a", name, codec_name=text), NAMES, TEXT)


@pytest.mark.parametrize(("wire", "frame"), FRAMES.items(), ids=["send", "publication", "request", "failure", "ping"])
def test_bytes_of_vertx_3(wire: str, frame: ClusterFrame) -> None:
    data = bytes.fromhex(wire)
    assert encode(frame, VERSION_1) == data
    assert decode(data[4:], VERSION_1) == frame
    # Vert.x has no clusters with both.
    with pytest.raises(ProtocolError, match=r"a frame of version 1; nodes of Vert\.x 4 and 5 send version 2"):
        decode(data[4:], VERSION_2)
    assert encode_ping("127.0.0.1:4711", VERSION_1).hex() == PING


def test_usual_frames_of_vertx_3_are_taken_together() -> None:
    field = VERSION_1.sender_bytes(THEIRS)
    data = bytes.fromhex(SEND + SEND + REQUEST + PUBLICATION + SEND)
    for take in (python_take_frames, take_frames):
        frames, taken = take(data, 1, field, PREFIX, 100, 1_000)
        assert frames == [
            *2 * [(9, "ad", None, "hé", True)], (5, "ad", FRAMES[REQUEST].reply_address, 5, True),
        ]  # fmt: skip
        assert taken == len(bytes.fromhex(SEND + SEND + REQUEST))
        assert take(data, 2, field, PREFIX, 100, 1_000) == ([], 0)
        assert take(data, 1, VERSION_1.sender_bytes("127.0.0.1:38224"), PREFIX, 100, 1_000) == ([], 0)
    for make in (python_make_frame, make_frame):
        assert make(1, "ad", PREFIX, NO_NUMBER, field, "hé") == bytes.fromhex(SEND)


@given(ANY)
def test_a_frame_comes_back(frame: ClusterFrame) -> None:
    data = encode(frame, VERSION_1)
    assert struct.unpack_from(">i", data) == (len(data) - 4,)
    assert decode(data[4:], VERSION_1) == frame
    for size in range(len(data) - 4 - len(frame.body)):
        with pytest.raises(ProtocolError):
            decode(data[4 : 4 + size], VERSION_1)


@given(ANY, st.data())
def test_a_frame_whose_lengths_lie_is_another_frame_or_refused(frame: ClusterFrame, data: st.DataObject) -> None:
    damaged = bytearray(encode(frame, VERSION_1)[4:])
    at = data.draw(st.integers(0, max(0, len(damaged) - 4)))
    damaged[at : at + 4] = struct.pack(">i", data.draw(st.integers(-(1 << 31), (1 << 31) - 1)))
    try:
        found = decode(bytes(damaged), VERSION_1)
    except ProtocolError:
        return
    assert len(found.address) + len(found.body) <= len(damaged)


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda rest: b"\x01" + rest))
def test_any_bytes_are_a_frame_or_refused(data: bytes) -> None:
    try:
        decode(data, VERSION_1)
    except ProtocolError:
        return


@pytest.mark.parametrize(("port", "host"), [(0, b"h"), (-1, b"h"), (65_536, b"h"), (1, b""), (1, b"\xff")])
def test_a_sender_that_is_no_place_is_refused(port: int, host: bytes) -> None:
    head = bytes.fromhex("010000" + "0000000161" + "00000000")
    with pytest.raises(ProtocolError):
        decode(head + struct.pack(">ii", port, len(host)) + host + b"\0\0\0\4", VERSION_1)


@pytest.mark.parametrize("name", ["", "host", ":1", "host:", "host:x", "host:123456", "host:\u0661", "h" * 300 + ":1"])
def test_a_name_that_is_no_place_cannot_be_written(name: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT|allowed between nodes"):
        VERSION_1.sender_bytes(name)


def test_hosts_with_colons_keep_them() -> None:
    name = place_name(NodeInfo("fe80::1", 7000))
    assert decode(encode(ClusterFrame(0, "a", name), VERSION_1)[4:], VERSION_1).sender == name
    longest = "h" * (NODE_NAME_BYTES_MAX - 6) + ":65535"
    assert decode(encode(ClusterFrame(0, "a", longest), VERSION_1)[4:], VERSION_1).sender == longest
