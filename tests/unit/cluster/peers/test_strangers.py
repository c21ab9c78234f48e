"""Those that are not linked: another secret, cluster, version or number, clients of other protocols, and garbage."""

import asyncio
import logging
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tests.unit.cluster.peers.raw_peer import NONCE, RawPeer
from tests.unit.cluster.peers.scene import SECRET, NotingListener, peer_scene

from hutong.cluster.peers.handshake.machine import DiallingHandshake
from hutong.cluster.peers.handshake.messages import HELLO, REFUSAL, HandshakeRefused, RefusalReason
from hutong.cluster.peers.identity import PeerIdentity
from hutong.cluster.peers.limits import PeerLimits
from hutong.cluster.peers.network import PeerNetwork, PeerTls
from hutong.cluster.peers.port import PeerMessage
from hutong.foundation.clock import ManualClock, SystemClock
from hutong.foundation.errors import OwnerGone, UsageError
from hutong.foundation.timers import TimerWheel
from hutong.reactor.tls.server_contexts import server_context

OWN = PeerIdentity("the cluster", 1, 101, "1.0")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"secret": b"another"}, "cluster secret"),
        ({"secret": None}, "cluster secret"),
        ({"identity": replace(OWN, cluster_id="another")}, "another cluster"),
        ({"identity": replace(OWN, protocol_highest=2, protocol_lowest=2)}, "no version of the protocol"),
    ],
)
async def test_nodes_that_do_not_belong_together(
    options: dict[str, Any], sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hutong.cluster.peers")
    refused, failures = asyncio.Event(), 0

    def chance() -> float:
        """Asked for after each failed attempt."""
        nonlocal failures
        failures += 1
        if failures == 5:
            refused.set()
        return 0.0

    async with peer_scene(back_off_ms=1, back_off_ms_max=5) as scene:
        two = await scene.start(2)
        one = await scene.start(1, chance=chance, **options)
        scene.introduce(one, two)
        await refused.wait()
        assert ("opened", 2, two.incarnation) not in one.listener.news
        assert two.listener.news == []
        with pytest.raises(OwnerGone):
            await one.ask(2, PeerMessage(1, {}))
    lines = [record.getMessage() for record in caplog.records if "No link" in record.getMessage()]
    assert len(lines) == 2, "each side says it once"
    assert all(sentence in line for line in lines)


class HourAhead(SystemClock):
    def wall_ms(self) -> int:
        return super().wall_ms() + 3_600_000


async def test_clocks_an_hour_apart_are_named_by_both_once(caplog: pytest.LogCaptureFixture) -> None:
    async with peer_scene() as scene:
        one, two = await scene.start(1, clock=HourAhead()), await scene.start(2)
        scene.introduce(one, two)
        await one.listener.heard(("opened", 2, two.incarnation))
        await two.listener.heard(("opened", 1, one.incarnation))
    lines = sorted(record.getMessage()[:44] for record in caplog.records if "clock" in record.getMessage())
    assert lines == ["The clock of node 1 is 3,600 s ahead of this", "The clock of node 2 is 3,600 s behind this n"]


async def test_garbage_and_clients_of_other_protocols_are_closed() -> None:
    kafka = bytes.fromhex("0000001b 0012 0003 00000001 0009 61646d696e2d31 00 01 02".replace(" ", ""))
    async with peer_scene() as scene:
        one, two = await scene.linked(1, 2)
        for data in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            kafka.ljust(31, b"\0"),
            b"\0\0\0\0",
            b"\xff" * 100,
            b"\0\0\x10\x01",  # longer than a frame of a handshake
        ):
            stranger = await RawPeer.connect(two.address)
            stranger.writer.write(data)
            assert await stranger.ended() == b""
            await stranger.close()
        assert one.network.is_open(2)
        assert two.listener.news == [("opened", 1, one.incarnation)]


async def test_one_that_says_nothing_is_closed() -> None:
    async with peer_scene(handshake_ms_max=30) as scene:
        one = await scene.start(1)
        stranger = await RawPeer.connect(one.address)
        assert await stranger.ended() == b""
        await stranger.close()


@hypothesis_settings(max_examples=30, deadline=None)
@given(st.integers(0, 0x6FFF), st.binary(max_size=200), st.binary(max_size=50))
def test_frames_before_the_handshake_reach_nobody(code: int, body: bytes, header: bytes) -> None:
    async def scenario() -> None:
        async with peer_scene() as scene:
            two = await scene.start(2)
            two.network.register(7, lambda *_: pytest.fail("it was asked"))
            stranger = await RawPeer.connect(two.address)
            stranger.send(code, body, header)
            await stranger.ended()
            await stranger.close()
            assert (two.listener.news, two.listener.messages) == ([], [])

    asyncio.run(scenario())


async def test_garbage_on_a_link_ends_it() -> None:
    async with peer_scene() as scene:
        two = await scene.start(2)
        for frame in ((0x5005, b"", b"\0\0"), (0x5001, b"", b"\xff" * 40), (0x5FFE, b"", b""), (7, b"", b"\0\1")):
            two.network.register(7, lambda *_: pytest.fail("it was asked"))
            peer = await RawPeer.linked(two.address, OWN, SECRET, 2)
            await two.listener.heard(("opened", 1, OWN.incarnation))
            peer.send(frame[0], frame[1], frame[2])
            await peer.ended()
            await two.listener.heard(("closed", 1, False))
            await peer.close()
            two.listener.news.clear()
        assert two.listener.messages == []


async def test_an_impostor_with_the_nodes_own_number_and_one_that_dials_another() -> None:
    async with peer_scene() as scene:
        two = await scene.start(2)
        for own, to_node, reason in (
            (replace(OWN, node=2), 2, RefusalReason.SAME_NUMBER),
            (OWN, 3, RefusalReason.OTHER_NODE),
        ):
            peer = await RawPeer.connect(two.address)
            with pytest.raises(HandshakeRefused) as refused:
                await peer.greet(DiallingHandshake(own, SECRET, NONCE, to_node))
            assert refused.value.reason is reason
            assert await peer.ended() == b""
            await peer.close()
        assert two.listener.news == []


async def test_of_two_processes_with_one_number_the_registered_one_keeps_its_link() -> None:
    async with peer_scene() as scene:
        one, two = await scene.linked(1, 2)
        peer = await RawPeer.connect(two.address)
        with pytest.raises(HandshakeRefused) as refused:
            await peer.greet(DiallingHandshake(replace(OWN, incarnation=7), SECRET, NONCE, 2))
        assert refused.value.reason is RefusalReason.OTHER_LIFE
        await peer.close()
        assert two.network.is_open(1)
        # Once the new one is registered, the old one's link ends.
        two.network.set_addresses({1: ("127.0.0.1", 1, 7)})
        await two.listener.heard(("closed", 1, False))
        again = await RawPeer.linked(two.address, replace(OWN, incarnation=7), SECRET, 2)
        await two.listener.heard(("opened", 1, 7))
        await again.close()
        await scene.stop(one)


async def test_one_that_is_dialled_and_speaks_first() -> None:
    async with peer_scene(back_off_ms=1) as scene:
        came: asyncio.Queue[bytes] = asyncio.Queue()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peer = RawPeer(reader, writer)
            peer.send(HELLO, b"{}")
            peer.send(0x5005, b"", b"\0")
            came.put_nowait(await peer.ended())
            await peer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        one = await scene.start(1)
        host, port = server.sockets[0].getsockname()
        one.network.set_addresses({2: (host, port, 1)})
        for _ in range(2):
            await came.get()
        assert one.listener.news == []
        await scene.stop(one)
        server.close()


async def test_a_refusal_says_no_more_than_its_reason() -> None:
    async with peer_scene() as scene:
        two = await scene.start(2)
        peer = await RawPeer.connect(two.address)
        (code, hello), *_ = DiallingHandshake(replace(OWN, cluster_id="?"), SECRET, NONCE, 2).begin()
        peer.send(code, hello)
        answer = await peer.read()
        assert (answer.code, bytes(answer.body)) == (REFUSAL, b'{"reason":2}')
        await peer.close()


async def test_without_a_secret_only_this_machine() -> None:
    async with peer_scene() as scene:
        one = await scene.start(1, secret=None)
        two = await scene.start(2, secret=None)
        scene.introduce(one, two)
        await one.listener.heard(("opened", 2, two.incarnation))
        with pytest.raises(UsageError, match="cluster secret"):
            await one.network.listen("0.0.0.0", 0)
        one.network.set_addresses({3: ("10.1.2.3", 1, 1)})
        assert not one.network.is_open(3)


async def test_mutual_tls(tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()

    def contexts(by: trustme.CA, name: str) -> PeerTls:
        certificate = by.issue_cert("127.0.0.1")
        certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / f"{name}.pem")
        authority.cert_pem.write_to_path(tmp_path / "authority.pem")
        client = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))
        client.load_cert_chain(tmp_path / f"{name}.pem")
        return PeerTls(server_context(tmp_path / f"{name}.pem", client_ca=tmp_path / "authority.pem"), client)

    async with peer_scene(back_off_ms=1, back_off_ms_max=5) as scene:
        one = await scene.start(1, tls=contexts(authority, "one"))
        three = await scene.start(3, tls=contexts(authority, "three"))
        stranger = await scene.start(2, tls=contexts(other, "stranger"))
        scene.introduce(one, stranger, three)
        await one.listener.heard(("opened", 3, three.incarnation))
        three.network.register(7, lambda node, question, then: then(question))
        assert bytes((await one.ask(3, PeerMessage(7, {}, b"x" * 1_000_000))).body) == b"x" * 1_000_000
        assert stranger.listener.news == []


async def test_tls_must_be_mutual(tmp_path: Path) -> None:
    certificate = trustme.CA().issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "one.pem")
    clock = ManualClock()
    tls = PeerTls(server_context(tmp_path / "one.pem"), ssl.create_default_context())
    with pytest.raises(UsageError, match="both sides"):
        PeerNetwork(
            asyncio.get_running_loop(),
            clock=clock,
            wheel=TimerWheel(0),
            identity=OWN,
            secret=SECRET,
            listener=NotingListener(),
            tls=tls,
        )


def test_a_bound_below_one() -> None:
    with pytest.raises(ValueError, match="questions_max"):
        PeerLimits(questions_max=0)
