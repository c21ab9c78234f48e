"""The entries of nodes and registrations: round trips, and bytes that are none."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import ProtocolError
from hutong.wire.vertx.cluster_nodes import (
    NodeInfo,
    RegistrationInfo,
    decode_node,
    decode_registration,
    encode_node,
    encode_registration,
)

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
NODES = st.builds(NodeInfo, TEXT, st.integers(1, 65_535), st.none() | st.binary(max_size=30))
REGISTRATIONS = st.builds(RegistrationInfo, TEXT, st.integers(-(1 << 63), (1 << 63) - 1), st.booleans())


@given(NODES)
def test_a_node_comes_back(info: NodeInfo) -> None:
    data = encode_node(info)
    assert decode_node(data) == info
    for size in range(len(data)):
        with pytest.raises(ProtocolError):
            decode_node(data[:size])
    with pytest.raises(ProtocolError):
        decode_node(data + b"x")


@given(REGISTRATIONS)
def test_a_registration_comes_back(info: RegistrationInfo) -> None:
    data = encode_registration(info)
    assert decode_registration(data) == info
    for size in range(len(data)):
        with pytest.raises(ProtocolError):
            decode_registration(data[:size])


@pytest.mark.parametrize(
    "data",
    [
        b"7f9c24e5-2c4f-4d8a-9b1e-0d3a4b5c6d7e",  # the bare id that an entry has at first
        struct.pack(">i", 1 << 30),
        struct.pack(">i1sii", 1, b"h", 0, -1),
        struct.pack(">i1sii", 1, b"h", 1, -2),
        struct.pack(">i1sii", 1, b"h", 1, 1 << 30),
        struct.pack(">i1sii", 1, b"\xff", 1, -1),
    ],
)
def test_what_is_no_node_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_node(data)
