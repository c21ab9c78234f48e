"""What a peer may write into a node's socket: cut frames, lengths that lie, unknown codecs, ids of others.

Whatever comes, the node answers another node afterwards, and keeps nothing of the peer.
"""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.waiting import turning_until
from tests.unit.bus.clustered.scenes import Cluster, ClusterNode

from hutong.bus import FailureType, ReplyError
from hutong.bus.envelope.codecs import CODECS_BY_NUMBER
from hutong.wire.vertx.cluster_frames import PING_CODEC, PONG, USER_CODEC, ClusterFrame, decode, encode, encode_ping
from hutong.wire.vertx.cluster_nodes import NodeInfo

pytestmark = pytest.mark.timeout(60)
STRING, FAILURE = 9, 15
TAKING_ANY_BODY = {0, 1, 2, 3, 11}  # of one byte: null, ping, byte, boolean, buffer
TEXT = struct.pack(">i", 4) + b"text"
REQUEST = encode(ClusterFrame(STRING, "place", "peer", TEXT, "answers", (("k", "v"),)))
HOSTILE_INTS = (-(1 << 31), -1, 0, 3, 1 << 16, (1 << 31) - 1)


class Peer:
    """One connection to a node, that sends any bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def is_cut_off(self) -> bool:
        """Whether the node has ended the connection. A ping behind what was sent says that it has not."""
        self._writer.write(encode_ping("a"))
        try:
            return await self._reader.readexactly(1) != PONG
        except (asyncio.IncompleteReadError, ConnectionError):
            return True

    async def end(self) -> None:
        """Send nothing more, and wait until the node has closed its side."""
        self._writer.write_eof()
        assert await self._reader.read() in (b"", PONG)

    def close(self) -> None:
        self._writer.close()


class Scene:
    """Node `a` with a consumer at `place`, node `b`, and a registered place where `peer` hears its answers."""

    def __init__(self, cluster: Cluster, a: ClusterNode, b: ClusterNode) -> None:
        self.cluster, self.a, self.b = cluster, a, b
        self.seen: list[Any] = []
        self._peers: list[Peer] = []
        self.answers: asyncio.Queue[ClusterFrame] = asyncio.Queue()

    async def peer(self) -> Peer:
        peer = Peer(*await asyncio.open_connection(self.a.info.host, self.a.info.port))
        self._peers.append(peer)
        return peer

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        membership = self.cluster.registry.connect()
        await membership.start("peer", NodeInfo(*self._server.sockets[0].getsockname()), Deaf())
        await turning_until(lambda: "peer" in self.a.clustered._received)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                frame = decode(await reader.readexactly(int.from_bytes(await reader.readexactly(4))))
                if frame.codec == PING_CODEC:
                    writer.write(PONG)
                else:
                    self.answers.put_nowait(frame)
        writer.close()

    async def must_answer(self) -> None:
        """The node goes on, and what it keeps is sound."""
        assert (await self.b.bus.request("echo", 1)).body == 1
        self.a.clustered.check_invariants()

    def close(self) -> None:
        for peer in self._peers:
            peer.close()
        self._server.close()


class Deaf:
    def nodes_changed(self, nodes: object) -> None: ...

    def registrations_changed(self, address: str, counts: object) -> None: ...

    def announced(self, number: int) -> None: ...


@asynccontextmanager
async def a_scene() -> AsyncIterator[Scene]:
    async with Cluster() as cluster:
        a, b = await cluster.pair()
        scene = Scene(cluster, a, b)

        def take(message: Any) -> str:
            scene.seen.append(message.body)
            return "taken"

        a.bus.consumer("place", take)
        a.bus.consumer("echo", lambda message: message.body)
        await b.until_receivers("echo", 1)
        await scene.listen()
        yield scene
        scene.close()


async def test_a_frame_comes_in_any_pieces() -> None:
    async with a_scene() as scene:
        peer = await scene.peer()
        for at in range(len(REQUEST)):
            await peer.send(REQUEST[at : at + 1])
        assert (await scene.answers.get()).address == "answers"
        await peer.send(REQUEST + REQUEST[:20])
        await peer.send(REQUEST[20:] + REQUEST)
        await turning_until(lambda: len(scene.seen) == 4)
        assert not await peer.is_cut_off()
        peer.close()


async def test_a_frame_that_is_cut_delivers_nothing() -> None:
    async with a_scene() as scene:
        for size in range(len(REQUEST)):
            peer = await scene.peer()
            await peer.send(REQUEST[:size])
            await peer.end()
            peer.close()
        assert scene.seen == []
        await scene.must_answer()


async def test_lengths_that_lie() -> None:
    """Each four bytes of a frame are once each hostile number: then it is another frame, or its connection ends."""
    async with a_scene() as scene:
        for at in range(len(REQUEST) - 3):
            for number in HOSTILE_INTS:
                peer = await scene.peer()
                await peer.send(REQUEST[:at] + struct.pack(">i", number) + REQUEST[at + 4 :])
                await peer.end()
                peer.close()
        await scene.must_answer()
        assert scene.a.clustered._acceptor.figures.connections_open <= 1
        assert not scene.a.errors


async def test_an_unknown_codec_fails_its_request_alone() -> None:
    async with a_scene() as scene:
        peer = await scene.peer()
        for codec in [number for number in range(-128, 128) if number not in CODECS_BY_NUMBER]:
            name = "of-nobody" if codec == USER_CODEC else None
            await peer.send(encode(ClusterFrame(codec, "place", "peer", b"any", "answers", codec_name=name)))
            answer = await scene.answers.get()
            # A ReplyException: ERROR, -1, and a text that names the codec.
            assert (answer.codec, bytes(answer.body)[:6]) == (FAILURE, b"\x03" + struct.pack(">i", -1) + b"\x01")
            assert (name or str(codec)).encode() in bytes(answer.body)
        await peer.send(REQUEST)
        assert (await scene.answers.get()).codec == STRING
        assert scene.seen == ["text"]


async def test_a_body_that_its_codec_did_not_write_fails_its_request_alone() -> None:
    async with a_scene() as scene:
        peer = await scene.peer()
        for number in sorted(set(CODECS_BY_NUMBER) - TAKING_ANY_BODY):
            await peer.send(encode(ClusterFrame(number, "place", "peer", b"\x7f", "answers")))
            assert (await scene.answers.get()).codec == FAILURE, number
        await peer.send(REQUEST)
        assert (await scene.answers.get()).codec == STRING
        assert scene.seen == ["text"]


async def test_a_peer_that_claims_another_nodes_id_gets_nothing_of_it() -> None:
    """It ends that node's connection, which is opened anew; what it claims to answer was asked of others."""
    async with a_scene() as scene:
        a, b = scene.a, scene.b
        addresses: list[Any] = []
        b.bus.consumer("slow", lambda message: addresses.append(message.reply_address))
        await a.until_receivers("slow", 1)
        asked = a.bus.request("slow", timeout=0.3)
        await turning_until(lambda: addresses)
        for claimed in ("c", "peer", "stranger"):
            peer = await scene.peer()
            await peer.send(encode(ClusterFrame(0, str(addresses[0]), claimed)))
            assert not await peer.is_cut_off()
            peer.close()
        with pytest.raises(ReplyError) as caught:
            await asked
        assert caught.value.failure_type is FailureType.TIMEOUT
        # As b itself: what was asked of b can be answered so, which is why nodes belong into a network of their own.
        peer = await scene.peer()
        await peer.send(encode(ClusterFrame(STRING, "place", "b", TEXT, "answers")))
        await turning_until(lambda: scene.seen == ["text"])
        # The answer went to b, and none came to the peer.
        assert scene.answers.empty()
        peer.close()
        await turning_until(lambda: a.clustered._acceptor.figures.connections_open == 1)
        await scene.must_answer()


async def test_a_peer_that_changes_its_id_is_cut_off() -> None:
    async with a_scene() as scene:
        peer = await scene.peer()
        await peer.send(REQUEST + encode(ClusterFrame(STRING, "place", "b", TEXT)))
        assert await peer.is_cut_off()
        assert scene.seen == ["text"]
        await scene.must_answer()


async def test_a_peer_that_claims_the_nodes_own_id_is_cut_off() -> None:
    async with a_scene() as scene:
        peer = await scene.peer()
        await peer.send(encode(ClusterFrame(STRING, "place", "a", TEXT, "answers")))
        assert await peer.is_cut_off()
        assert scene.seen == []
        await scene.must_answer()


async def test_what_is_no_message_of_version_2_is_cut_off() -> None:
    async with a_scene() as scene:
        for data in (
            REQUEST[:4] + b"\x01" + REQUEST[5:],
            REQUEST[:4] + b"\x03" + REQUEST[5:],
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            encode_ping("another"),
        ):
            peer = await scene.peer()
            await peer.send(data)
            assert await peer.is_cut_off()
            peer.close()
        await scene.must_answer()
