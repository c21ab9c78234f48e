"""Nodes that speak version 1 of the wire format, in which a node's name is the place where it listens."""

import asyncio
from typing import Any

import pytest
from tests.support.waiting import turning_until
from tests.unit.bus.clustered.scenes import Cluster
from tests.unit.bus.clustered.test_connections import Taken

from hutong.bus import FailureType, Message, ReplyError
from hutong.bus.clustered.connections import AcceptedConnections
from hutong.foundation.errors import ProtocolError
from hutong.reactor.connections.handler import Peer
from hutong.reactor.frames.framing import LengthPrefixedFraming
from hutong.wire.vertx.cluster_frames import FRAME_BYTES_MAX, PONG, ClusterFrame, encode, encode_ping
from hutong.wire.vertx.wire_versions import VERSION_1, VERSION_2, place_name


async def test_messages_of_all_kinds_between_two_nodes() -> None:
    async with Cluster(wire=VERSION_1) as cluster:
        a, b = await cluster.pair()
        assert (a.clustered.node, b.clustered.node) == (place_name(a.info), place_name(b.info))
        seen: list[Any] = []

        def answer(message: Message) -> None:
            seen.append((message.body, message.is_send, dict(message.headers.items())))
            message.reply([message.body], headers={"seen": "yes"})

        b.bus.consumer("place", answer)
        b.bus.consumer("fail", lambda message: message.fail(7, "no"))
        await a.until_receivers("place", 1)
        await a.until_receivers("fail", 1)
        for body in (1, "ü", None, {"a": 1}):
            reply = await a.bus.request("place", body, headers={"k": "v"})
            assert (reply.body, dict(reply.headers.items())) == ([body], {"seen": "yes"})
        assert (await a.bus.request("place", 5)).body == [5]
        a.bus.publish("place", "all")
        await turning_until(lambda: len(seen) == 6)
        assert seen[-1] == ("all", False, {})
        with pytest.raises(ReplyError) as caught:
            await a.bus.request("fail")
        assert (caught.value.failure_type, caught.value.failure_code) == (FailureType.RECIPIENT_FAILURE, 7)
        a.clustered.check_invariants()


async def test_a_node_that_is_back_at_its_place_is_the_same_one() -> None:
    async with Cluster(wire=VERSION_1) as cluster:
        a, b = await cluster.pair()
        b.bus.consumer("place", lambda message: "first")
        await a.until_receivers("place", 1)
        assert (await a.bus.request("place")).body == "first"
        port = b.info.port
        await b.close()
        await a.until_receivers("place", 0)
        again = await cluster.node("c", port=port)
        again.bus.consumer("place", lambda message: "second")
        await a.until_receivers("place", 1)
        assert again.clustered.node == f"127.0.0.1:{port}"
        assert (await a.bus.request("place")).body == "second"


async def test_frames_of_the_other_version_end_their_connection() -> None:
    async with Cluster(wire=VERSION_1) as cluster:
        a, b = await cluster.pair()
        own = a.clustered.node
        for data in (
            encode_ping(own, VERSION_2),
            encode_ping(b.clustered.node, VERSION_1),  # for the node that was here before
            encode(ClusterFrame(0, "place", own), VERSION_1),  # of itself
            encode(ClusterFrame(0, "place", "stranger"), VERSION_2),
        ):
            reader, writer = await asyncio.open_connection(a.info.host, a.info.port)
            writer.write(encode_ping(own, VERSION_1) + data)
            assert await reader.read() == PONG
            writer.close()
        a.bus.consumer("place", lambda message: 1)
        await b.until_receivers("place", 1)
        assert (await b.bus.request("place")).body == 1


def test_no_message_is_taken_before_a_node_has_its_name() -> None:
    """Others may know the place from a node that was there before."""
    taken = Taken()
    handler = AcceptedConnections(None, taken, VERSION_1)
    peer = Peer(1, "127.0.0.1", 1, LengthPrefixedFraming(FRAME_BYTES_MAX))
    handler.connection_opened(peer)
    for data in (encode_ping("own:1", VERSION_1), encode(ClusterFrame(0, "place", "other:2"), VERSION_1)):
        with pytest.raises(ProtocolError, match="has not entered the cluster yet"):
            handler.request_received(data[4:], peer)
    handler.node = "own:1"
    assert handler.request_received(encode_ping("own:1", VERSION_1)[4:], peer) == [PONG]
    assert taken.single == []


def test_usual_frames_of_a_place_are_taken_together() -> None:
    taken = TakenFromPlace()
    handler = AcceptedConnections("own:1", taken, VERSION_1)
    peer = Peer(1, "127.0.0.1", 1, LengthPrefixedFraming(FRAME_BYTES_MAX))
    handler.connection_opened(peer)
    message = encode(ClusterFrame(9, "place", "other:2", b"\0\0\0\1x"), VERSION_1)
    handler.request_received(message[4:], peer)
    assert peer.express is not None
    assert peer.express.take_requests(3 * message, 10) == (3, 3 * len(message), [])
    assert (taken.single, taken.together) == (["place"], [3])


class TakenFromPlace(Taken):
    node = "other:2"
