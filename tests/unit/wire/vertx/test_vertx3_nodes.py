"""Registrations of Vert.x 3: bytes that 3.9.13 writes, round trips, and objects that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import ProtocolError
from hutong.wire.vertx.cluster_nodes import NODE_ID_BYTES_MAX, NodeInfo
from hutong.wire.vertx.vertx3_nodes import PlaceRegistration, decode_place, encode_place

NODE = "d63d5e73-e666-4348-bc6f-5c7ab18717ba"
REAL = bytes.fromhex(
    "00aced000573720035696f2e76657274782e636f72652e6576656e746275732e696d706c2e636c757374657265642e436c75737465724e6f"
    "6465496e666f00000000000000010200024c00066e6f646549647400124c6a6176612f6c616e672f537472696e673b4c0008736572766572"
    "49447400214c696f2f76657274782f636f72652f6e65742f696d706c2f53657276657249443b787074002464363364356537332d65363636"
    "2d343334382d626336662d3563376162313837313762617372001f696f2e76657274782e636f72652e6e65742e696d706c2e536572766572"
    "49444e3903b8671c1186020002490004706f72744c0004686f737471007e00017870000094b17400093132372e302e302e31"
)
FOUND = PlaceRegistration(NODE, NodeInfo("127.0.0.1", 38065))
PRINTABLE = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=40)


def test_bytes_of_vertx_3() -> None:
    assert decode_place(REAL) == FOUND
    assert encode_place(FOUND) == REAL
    assert FOUND.name == f"{NODE}:127.0.0.1:38065"


@given(st.builds(PlaceRegistration, PRINTABLE, st.builds(NodeInfo, PRINTABLE, st.integers(1, 65_535))))
def test_a_registration_comes_back(registration: PlaceRegistration) -> None:
    data = encode_place(registration)
    assert decode_place(data) == registration
    for size in range(len(data)):
        with pytest.raises(ProtocolError):
            decode_place(data[:size])
    with pytest.raises(ProtocolError):
        decode_place(data + b"x")


def test_every_other_byte_of_the_form_is_refused() -> None:
    values = {*range(REAL.index(NODE.encode()), REAL.index(NODE.encode()) + len(NODE))}
    values |= set(range(len(REAL) - 9, len(REAL))) | set(range(len(REAL) - 14, len(REAL) - 12))  # host, and port's half
    for at in set(range(len(REAL))) - values:
        damaged = bytearray(REAL)
        damaged[at] ^= 0x41
        with pytest.raises(ProtocolError):
            decode_place(bytes(damaged))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        bytes.fromhex("00aced0005737200116a6176612e7574696c2e48617368536574ba44859596b8b7340300007870"),  # a HashSet
        bytes.fromhex("00aced000570"),  # null
        bytes.fromhex("00aced000574000161"),  # a text
        b"\x01" + REAL[1:],  # a class that writes itself
        REAL.replace(b"ClusterNodeInfo", b"ClusterNodeInf0"),
        REAL.replace(b"\x74\x00\x24" + NODE.encode(), b"\x70"),  # without a node
        REAL.replace(b"\x74\x00\x24" + NODE.encode(), b"\x74\x00\x00"),
        REAL.replace(b"\x74\x00\x24" + NODE.encode(), b"\x74\xff\xff" + NODE.encode()),
        REAL.replace(b"\x74\x00\x24" + NODE.encode(), b"\x74\x01\x01" + b"n" * (NODE_ID_BYTES_MAX + 1)),
        REAL.replace(NODE.encode(), NODE.replace("-", "\n").encode()),
        REAL.replace(NODE.encode(), b"\xc0\x80" + NODE[2:].encode()),
        REAL.replace(bytes.fromhex("000094b1"), bytes(4)),
        REAL.replace(bytes.fromhex("000094b1"), bytes.fromhex("00010000")),
        REAL.replace(bytes.fromhex("000094b1"), bytes.fromhex("ffff94b1")),
    ],
)
def test_other_objects_are_refused(data: bytes) -> None:
    assert data != REAL
    with pytest.raises(ProtocolError):
        decode_place(data)


@given(st.binary(max_size=400) | st.binary(max_size=100).map(lambda rest: REAL[:-20] + rest))
def test_any_bytes_are_a_registration_or_refused(data: bytes) -> None:
    try:
        found = decode_place(data)
    except ProtocolError:
        return
    assert encode_place(found) == data


@pytest.mark.parametrize("text", ["", "ü", "a\nb", "n" * 300])
def test_what_cannot_be_written_is_refused(text: str) -> None:
    for registration in (PlaceRegistration(text, NodeInfo("h", 1)), PlaceRegistration("n", NodeInfo(text, 1))):
        with pytest.raises(ValueError, match="cannot be an id or a host"):
            encode_place(registration)
