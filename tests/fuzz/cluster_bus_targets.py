"""Targets for what other nodes of a clustered bus send, and what they write into ZooKeeper."""

from collections.abc import Iterator, Sequence
from typing import Any

from tests.fuzz.target import MEBIBYTE, Target

from hutong.bus.clustered.connections import AcceptedConnections
from hutong.bus.clustered.membership.vertx3.layout import decode_info, encode_info
from hutong.bus.clustered.membership.zookeeper.layout import counts_of, numbers_of
from hutong.bus.envelope.codecs import CODECS_BY_NUMBER
from hutong.foundation.errors import ProtocolError
from hutong.reactor.connections.handler import Peer
from hutong.reactor.frames.framing import LengthPrefixedFraming
from hutong.wire.vertx import cluster_frames, cluster_nodes
from hutong.wire.vertx.usual_frames import UsualFrame, python_take_frames, take_frames
from hutong.wire.vertx.vertx3_nodes import PlaceRegistration, decode_place, encode_place
from hutong.wire.vertx.wire_versions import VERSION_1, VERSION_2, WireVersion

NAMES = {VERSION_1: ("own:1", "other:2", "another:3"), VERSION_2: ("own", "other", "another")}
"""Of this node, of one that connects, and of a third one."""
_PREFIX = b"__hutong.reply."


class Bodies:
    """Reads the body of each message as its codec has it."""

    def frame_received(self, frame: cluster_frames.ClusterFrame, size: int) -> None:
        codec: Any = CODECS_BY_NUMBER.get(frame.codec)
        if codec is not None:
            codec.decode(bytes(frame.body))

    def usual_received(self, node: str, frames: Sequence[UsualFrame], size: int) -> None:
        assert len(frames) <= size


def read_connection(data: bytes, wire: WireVersion = VERSION_2) -> None:
    """All that comes by one connection. A broken body fails its message, and a broken frame the connection."""
    own, other, _ = NAMES[wire]
    framing = LengthPrefixedFraming(cluster_frames.FRAME_BYTES_MAX)
    handler = AcceptedConnections(own, Bodies(), wire)
    peer = Peer(1, "127.0.0.1", 1, framing)
    handler.connection_opened(peer)
    for frame in framing.receive_data(data):
        handler.request_received(frame, peer)
    # By now the connection has a name, and its usual frames come together. Both ways find the same.
    found = python_take_frames(data, wire.number, wire.sender_bytes(other), _PREFIX, 100, peer.frame_limit)
    assert take_frames(data, wire.number, wire.sender_bytes(other), _PREFIX, 100, peer.frame_limit) == found
    if peer.express is not None:
        peer.express.take_requests(data, 100)
    handler.connection_closed(peer)


def read_connection_of_vertx_3(data: bytes) -> None:
    read_connection(data, VERSION_1)


def connections(wire: WireVersion = VERSION_2) -> Iterator[bytes]:
    own, other, another = NAMES[wire]
    headers = (("user", "mei"), ("tag", "ü"))
    for number in sorted(CODECS_BY_NUMBER):
        message = cluster_frames.ClusterFrame(number, "greet", other, b"\0\0\0\1x", "__vertx.reply.1", headers)
        yield cluster_frames.encode(message, wire) + cluster_frames.encode_ping(own, wire)
        bare = cluster_frames.ClusterFrame(number, "__hutong.reply.12", other, b"\0\0\0\1x", "__vertx.reply.1")
        yield 2 * cluster_frames.encode(bare, wire)
    by_name = cluster_frames.ClusterFrame(cluster_frames.USER_CODEC, "greet", other, b"any", codec_name="points")
    yield cluster_frames.encode(by_name, wire) + cluster_frames.encode_ping(another, wire)


def connections_of_vertx_3() -> Iterator[bytes]:
    return connections(VERSION_1)


def read_node(data: bytes) -> object:
    """An entry of a node: the first byte says of which kind."""
    if data[:1] == b"n":
        return cluster_nodes.decode_node(data[1:])
    if data[:1] == b"r":
        return cluster_nodes.decode_registration(data[1:])
    if data[:1] == b"p":
        return decode_place(data[1:])
    if data[:1] == b"i":
        return decode_info(data[1:])
    names = data.decode(errors="replace").split("\n")
    return counts_of(names), numbers_of(names, "other")


def entries() -> Iterator[bytes]:
    for metadata in (None, b'{"rack":"east"}'):
        yield b"n" + cluster_nodes.encode_node(cluster_nodes.NodeInfo("10.0.0.5", 7000, metadata))
    yield b"r" + cluster_nodes.encode_registration(cluster_nodes.RegistrationInfo("other", 7, is_local_only=True))
    place = cluster_nodes.NodeInfo("10.0.0.5", 7000)
    yield b"p" + encode_place(PlaceRegistration("other", place))
    yield b"i" + encode_info("other", place)
    yield b"other-1\nother-2\nf3a6a4f8-7f1c-4b57-9d0a-5f1e7d1c2b3a-3\nother-x"


TARGETS = [
    Target("bus-connection", read_connection, connections, (ProtocolError,), memory_base=4 * MEBIBYTE),
    Target(
        "bus-connection-of-vertx-3",
        read_connection_of_vertx_3,
        connections_of_vertx_3,
        (ProtocolError,),
        memory_base=4 * MEBIBYTE,
    ),
    Target("bus-entry", read_node, entries, (ProtocolError,)),
]
