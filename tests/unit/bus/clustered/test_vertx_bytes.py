"""Bytes that Vert.x 4.5.27 writes: frames of every codec, and the entries of nodes and registrations."""

from typing import Any

import pytest

from hutong.bus.clustered.translation import frame_bytes, frame_sender, message_of
from hutong.bus.delivery.registrations import Registrations
from hutong.bus.delivery.remote import RemoteSide
from hutong.bus.envelope.codecs import SYSTEM_CODECS, Codecs
from hutong.bus.envelope.java_objects import ClusterSerializable, JavaSerialized
from hutong.bus.envelope.message import FullMessage
from hutong.bus.envelope.service_failure import ServiceFailure, ServiceFailureCodec
from hutong.bus.errors import FailureType, ReplyError
from hutong.wire.vertx.cluster_frames import ClusterFrame, decode, encode, encode_ping
from hutong.wire.vertx.cluster_nodes import (
    NodeInfo,
    RegistrationInfo,
    decode_node,
    decode_registration,
    encode_node,
    encode_registration,
)
from hutong.wire.vertx.wire_versions import VERSION_2

HEAD = "00000000026164" + "00000000" + "000000066e6f64652d61" + "00000004"
"""Behind the codec: a send to "ad" without a reply address, of "node-a", without headers."""
NODE_A = frame_sender("node-a", VERSION_2)
FRAMES: list[tuple[str, Any, str]] = [
    ("null", None, "00"),
    ("byte", -2, "02fe"),
    ("boolean", True, "0300"),
    ("short", 258, "040102"),
    ("int", 1, "0500000001"),
    ("long", 1 << 40, "060000010000000000"),
    ("float", 1.5, "073fc00000"),
    ("double", -2.25, "08c002000000000000"),
    ("string", "h\u00e9", "090000000368c3a9"),
    ("char", "x", "0a0078"),
    ("buffer", b"ab", "0b000000026162"),
    ("bytearray", b"\x01\x02", "0c000000020102"),
    ("jsonobject", {"a": 1, "b": b"\xfb\xff\x01"}, "0d000000127b2261223a312c2262223a222d5f3842227d"),
    ("jsonarray", [1, None], "0e000000085b312c6e756c6c5d"),
    ("replyexception", ReplyError(FailureType.RECIPIENT_FAILURE, 7, "no"), "0f020000000701000000026e6f"),
    (
        "clusterserializable",
        ClusterSerializable("io.vertx.core.json.JsonArray", bytes.fromhex("000000035b315d")),
        "100000001c696f2e76657274782e636f72652e6a736f6e2e4a736f6e4172726179000000035b315d",
    ),
    (
        "serializable",
        JavaSerialized(
            bytes.fromhex(
                "aced0005737200116a6176612e6c616e672e496e746567657212e2a0a4f781873802000149000576616c7565787200106a61"
                "76612e6c616e672e4e756d62657286ac951d0b94e08b020000787000000005"
            )
        ),
        "1100000051aced0005737200116a6176612e6c616e672e496e746567657212e2a0a4f781873802000149000576616c75657872001"
        "06a6176612e6c616e672e4e756d62657286ac951d0b94e08b020000787000000005",
    ),
]


def frame_of(codec_and_body: str) -> bytes:
    rest = bytes.fromhex("02" + codec_and_body[:2] + HEAD + codec_and_body[2:])
    return len(rest).to_bytes(4, "big") + rest


@pytest.mark.parametrize(("name", "body", "wire"), FRAMES, ids=[name for name, _, _ in FRAMES])
def test_every_codec_writes_and_reads_what_vertx_writes(name: str, body: Any, wire: str) -> None:
    codec = SYSTEM_CODECS[name]
    assert frame_bytes(FullMessage("ad", body, None, None, True, codec), NODE_A) == frame_of(wire)
    side = RemoteSide(None, Registrations(), Codecs(), None)  # type: ignore[arg-type]  # codecs are asked for
    found = message_of(decode(frame_of(wire)[4:]), side, None)
    if isinstance(body, ReplyError):
        assert repr(found.body) == repr(body)
    elif name == "jsonobject":
        assert found.body == {"a": 1, "b": "-_8B"}  # JSON has no bytes
    else:
        assert found.body == body
    assert found.codec_name == name


def test_all_codecs_are_here() -> None:
    assert {name for name, _, _ in FRAMES} | {"ping"} == set(SYSTEM_CODECS)
    assert encode_ping("node-a")[4:6] == b"\x02\x01"


def test_a_reply_exception_without_a_text() -> None:
    found = SYSTEM_CODECS["replyexception"].decode(bytes.fromhex("00ffffffff00"))
    assert (found.failure_type, found.failure_code, found.message) == (FailureType.TIMEOUT, -1, "")


def test_headers_and_a_reply_address_of_a_publication() -> None:
    wire = bytes.fromhex(
        "000000560209010000000261640000000f5f5f76657274782e7265706c792e31000000066e6f64652d610000002b00000003000000016b"
        "0000000176000000014b0000000377c3a9000000056f74686572000000000000000178"
    )
    headers = (("k", "v"), ("K", "w\u00e9"), ("other", ""))
    frame = ClusterFrame(9, "ad", "node-a", b"\x00\x00\x00\x01x", "__vertx.reply.1", headers, is_send=False)
    assert encode(frame) == wire
    assert decode(wire[4:]) == frame


def test_entries_of_nodes_and_registrations() -> None:
    plain = bytes.fromhex("000000093132372e302e302e3100001267ffffffff")
    assert decode_node(plain) == NodeInfo("127.0.0.1", 4711)
    assert encode_node(NodeInfo("127.0.0.1", 4711)) == plain
    described = bytes.fromhex("000000016800000001000000097b2261223a2262227d")
    assert decode_node(described) == NodeInfo("h", 1, b'{"a":"b"}')
    assert encode_node(NodeInfo("h", 1, b'{"a":"b"}')) == described
    for wire, info in (
        ("000000066e6f64652d61000000000000000500", RegistrationInfo("node-a", 5)),
        ("000000066e6f64652d61000000020000000001", RegistrationInfo("node-a", 1 << 33, is_local_only=True)),
    ):
        assert decode_registration(bytes.fromhex(wire)) == info
        assert encode_registration(info) == bytes.fromhex(wire)


def test_a_service_exception() -> None:
    codec = ServiceFailureCodec()
    wire = bytes.fromhex("0000000501000000026e6f000000077b2261223a317d")
    assert codec.encode(ServiceFailure(5, "no", {"a": 1})) == wire
    found = codec.decode(wire)
    assert (found.failure_code, found.message, found.debug_info) == (5, "no", {"a": 1})
    bare = codec.decode(bytes.fromhex("0000000500000000027b7d"))
    assert (bare.failure_code, bare.message, bare.debug_info) == (5, "", None)
