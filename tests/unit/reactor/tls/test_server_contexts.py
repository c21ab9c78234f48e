"""TLS listeners: with a server's certificate, with clients' certificates, and what goes wrong."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
import uvloop
from tests.support.revocation import DAY, revocation_list

from hutong.foundation.clock import ManualClock, SystemClock
from hutong.foundation.errors import UsageError
from hutong.foundation.timers import TimerWheel
from hutong.reactor.accept.acceptor import Acceptor
from hutong.reactor.connections.channel import Response
from hutong.reactor.connections.handler import Peer
from hutong.reactor.figures import HandshakeFailure
from hutong.reactor.frames.framing import LengthPrefixedFraming
from hutong.reactor.limits import ReactorLimits
from hutong.reactor.tls.protocol import FREE_READS, READ_PAUSE_MS, TlsSource
from hutong.reactor.tls.server_contexts import ClientAuth, CrlCheck, TlsVersion, server_context
from hutong.runtime.loops.timers import LoopTimers
from hutong.wire.buffer import Buffer

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class Echo:
    """Sends every frame back, whole."""

    def __init__(self) -> None:
        self.peers: list[Peer] = []

    def connection_opened(self, peer: Peer) -> None:
        self.peers.append(peer)

    def connection_closed(self, peer: Peer) -> None:
        """Nothing is kept."""

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        return [len(frame).to_bytes(4, "big"), frame]


class Authority:
    """Certificates of one authority, in files."""

    def __init__(self, folder: Path) -> None:
        self.authority = authority = trustme.CA()
        self.ca, self.server, self.client = folder / "ca.pem", folder / "server.pem", folder / "client.pem"
        authority.cert_pem.write_to_path(self.ca)
        authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(self.server)
        authority.issue_cert("ann@example.org").private_key_and_cert_chain_pem.write_to_path(self.client)
        self.expired, self.stranger = folder / "expired.pem", folder / "stranger.pem"
        yesterday = datetime.now(UTC) - timedelta(days=1)
        late = authority.issue_cert("late@example.org", not_before=yesterday - timedelta(days=1), not_after=yesterday)
        late.private_key_and_cert_chain_pem.write_to_path(self.expired)
        trustme.CA().issue_cert("eve@example.org").private_key_and_cert_chain_pem.write_to_path(self.stranger)

    def client_context(self, *, shows_certificate: bool = False) -> ssl.SSLContext:
        return self.showing(self.client if shows_certificate else None)

    def showing(self, certificate: Path | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.ca))
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@asynccontextmanager
async def serving(
    tls: ssl.SSLContext | TlsSource, limits: ReactorLimits | None = None
) -> AsyncIterator[tuple[Echo, int]]:
    async with accepting(tls, limits) as (acceptor, handler, port):
        assert acceptor.figures.connections_open == 0
        yield handler, port


@asynccontextmanager
async def accepting(
    tls: ssl.SSLContext | TlsSource, limits: ReactorLimits | None = None
) -> AsyncIterator[tuple[Acceptor, Echo, int]]:
    clock, loop, handler = SystemClock(), asyncio.get_running_loop(), Echo()
    wheel = TimerWheel(clock.monotonic_ms())
    timers = LoopTimers(loop, wheel, clock)
    acceptor = Acceptor(loop, handler, LengthPrefixedFraming, clock=clock, wheel=wheel, limits=limits)
    _, port = await acceptor.listen("localhost", 0, tls)
    try:
        yield acceptor, handler, port
    finally:
        await acceptor.drain(0)
        timers.close()
        assert acceptor.figures.connections_open == 0


async def ask(port: int, tls: ssl.SSLContext, payload: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("localhost", port, ssl=tls)
    try:
        writer.write(len(payload).to_bytes(4, "big") + payload)
        return (await reader.readexactly(4 + len(payload)))[4:]
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


@pytest.mark.parametrize("loop", LOOPS)
def test_frames_of_all_sizes_come_back(loop: str, authority: Authority) -> None:
    async def scenario() -> None:
        async with serving(server_context(authority.server)) as (handler, port):
            for size in (0, 1, 100_000, 3_000_000):
                assert await ask(port, authority.client_context(), bytes(size)) == bytes(size)
            assert handler.peers[0].certificate in (None, {})

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(scenario())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_client_that_does_not_read_is_not_read_and_loses_nothing(loop: str, authority: Authority) -> None:
    async def scenario() -> None:
        limits = ReactorLimits(requests_in_flight_max=4, unsent_bytes_max=16_384)
        async with accepting(server_context(authority.server), limits) as (acceptor, _, port):
            reader, writer = await asyncio.open_connection("localhost", port, ssl=authority.client_context())
            frame = (10_000).to_bytes(4, "big") + bytes(10_000)
            writer.write(frame * 1_000)
            for _ in range(1_000):
                assert await reader.readexactly(len(frame)) == frame
            assert acceptor.figures.reading_pauses_total
            writer.close()
            await writer.wait_closed()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(scenario())


@pytest.mark.parametrize("loop", LOOPS)
def test_bytes_that_break_tls_end_the_connection(loop: str, authority: Authority) -> None:
    async def scenario() -> None:
        async with serving(server_context(authority.server)) as (handler, port):
            reader, writer = await asyncio.open_connection("localhost", port)
            session, sent, got = authority.client_context(), ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = session.wrap_bio(got, sent, server_hostname="localhost")
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    writer.write(sent.read())
                    got.write(await reader.read(65_536))
            tls.write(b"\0\0\0\4ping")
            writer.write(sent.read())
            got.write(await reader.read(65_536))
            assert tls.read(8) == b"\0\0\0\4ping"
            writer.write(b"\x17\x03\x03\0\x20" + bytes(32))  # a record that nobody has encrypted
            got.write(await reader.read())
            with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
                tls.read(8)
            writer.close()
            assert len(handler.peers) == 1

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(scenario())


@pytest.mark.parametrize("loop", LOOPS)
def test_clients_must_show_a_certificate_where_one_is_asked_for(loop: str, authority: Authority) -> None:
    async def scenario() -> None:
        async with serving(server_context(authority.server, client_ca=authority.ca)) as (handler, port):
            shown = authority.client_context(shows_certificate=True)
            assert await ask(port, shown, b"hello") == b"hello"
            (peer,) = handler.peers
            assert peer.certificate is not None
            assert ("email", "ann@example.org") in peer.certificate["subjectAltName"]
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await ask(port, authority.client_context(), b"hello")
            assert len(handler.peers) == 1

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(scenario())


@pytest.mark.parametrize("loop", LOOPS)
def test_who_does_not_shake_hands_is_closed(loop: str, authority: Authority) -> None:
    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        async with serving(server_context(authority.server), ReactorLimits(handshake_ms_max=50)) as (handler, port):
            reader, writer = await asyncio.open_connection("localhost", port)
            writer.write(b"")
            assert await reader.read() == b""  # silent for too long
            writer.close()
            reader, writer = await asyncio.open_connection("localhost", port)
            writer.write(b"\0\0\0\4ping")  # no TLS
            await asyncio.gather(reader.read(), return_exceptions=True)
            assert reader.at_eof() or reader.exception() is not None
            writer.close()
            assert await ask(port, authority.client_context(), b"still here") == b"still here"
            assert len(handler.peers) == 1

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(scenario())


REFUSED = {
    "nothing": (HandshakeFailure.NO_CERTIFICATE, "CERTIFICATE_REQUIRED"),
    "expired": (HandshakeFailure.EXPIRED, "CERTIFICATE_EXPIRED"),
    "stranger": (HandshakeFailure.UNKNOWN_AUTHORITY, "UNKNOWN_CA"),
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("shown", REFUSED)
def test_a_client_is_told_by_an_alert_why_it_is_refused(
    loop: str, shown: str, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    failure, alert = REFUSED[shown]

    async def scenario() -> None:
        async with accepting(server_context(authority.server, client_ca=authority.ca)) as (acceptor, handler, port):
            for _ in range(3):
                with pytest.raises(ssl.SSLError, match=alert):
                    await ask(port, authority.showing(getattr(authority, shown, None)), b"hello")
            assert acceptor.figures.handshakes_failed_total[failure] == 3
            assert handler.peers == []
            good = authority.client_context(shows_certificate=True)
            assert await ask(port, good, b"still here") == b"still here"
            assert acceptor.figures.handshakes_total == 1

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(scenario())
    (line,) = [record for record in caplog.records if record.name == "hutong.tls"]
    assert failure.value in line.getMessage()


CRLS = {
    "revoked": (HandshakeFailure.REVOKED, "ALERT_CERTIFICATE_REVOKED"),
    "expired list": (HandshakeFailure.NO_CRL, "ALERT_CERTIFICATE_EXPIRED"),
    "list of another": (HandshakeFailure.NO_CRL, "ALERT_UNKNOWN_CA"),
    "valid list": (None, ""),
    "chain": (None, ""),
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("case", CRLS)
def test_a_certificate_comes_in_only_by_a_valid_list(loop: str, case: str, authority: Authority) -> None:
    failure, alert = CRLS[case]
    file = authority.ca.with_name("crl.pem")
    issuer = trustme.CA() if case == "list of another" else authority.authority
    revoked = [authority.client] if case == "revoked" else []
    file.write_bytes(revocation_list(issuer, revoked, lasts=DAY / 2 if case == "expired list" else 2 * DAY))
    check = CrlCheck.CHAIN if case == "chain" else CrlCheck.LEAF
    context = server_context(authority.server, client_ca=authority.ca, crl_files=[file], crl_check=check)

    async def scenario() -> None:
        async with accepting(context) as (acceptor, handler, port):
            shown = authority.client_context(shows_certificate=True)
            if failure is None:
                assert await ask(port, shown, b"hello") == b"hello"
                return
            with pytest.raises(ssl.SSLError, match=alert):
                await ask(port, shown, b"hello")
            assert acceptor.figures.handshakes_failed_total[failure] == 1
            assert handler.peers == []

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(scenario())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_client_that_may_show_a_certificate_comes_in_without(loop: str, authority: Authority) -> None:
    async def scenario() -> None:
        context = server_context(authority.server, client_ca=authority.ca, client_auth=ClientAuth.REQUESTED)
        async with serving(context) as (handler, port):
            assert await ask(port, authority.client_context(), b"hello") == b"hello"
            assert await ask(port, authority.client_context(shows_certificate=True), b"hello") == b"hello"
            without, shown = handler.peers
            assert without.certificate_der is None
            assert shown.certificate_der is not None
            with pytest.raises(ssl.SSLError, match="UNKNOWN_CA"):
                await ask(port, authority.showing(authority.stranger), b"hello")

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(scenario())


class Transport(asyncio.Transport):
    """Notes whether it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = True
        self.closed = False

    def pause_reading(self) -> None:
        assert self.reads, "paused twice"
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True


def client_hello(authority: Authority) -> bytes:
    sent = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        authority.client_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost").do_handshake()
    return sent.read()


async def test_a_handshake_in_many_pieces_is_read_now_and_then(authority: Authority) -> None:
    """Each piece costs the loop as much as a whole handshake: hundreds of such clients would slow down all others."""
    clock, wheel = ManualClock(), TimerWheel(0)
    acceptor = Acceptor(asyncio.get_running_loop(), Echo(), LengthPrefixedFraming, clock=clock, wheel=wheel)
    protocol, transport = acceptor._encrypted(server_context(authority.server), False)(), Transport()
    protocol.connection_made(transport)
    waits = 0
    for byte in client_hello(authority)[: 3 * FREE_READS]:
        protocol.get_buffer(-1)[0] = byte
        protocol.buffer_updated(1)
        if not transport.reads:
            waits += 1
            clock.advance(READ_PAUSE_MS)
            wheel.advance(clock.monotonic_ms())
            assert transport.reads
    assert waits == 2 * FREE_READS
    protocol.buffer_updated(1)
    clock.advance(ReactorLimits().handshake_ms_max)
    wheel.advance(clock.monotonic_ms())
    assert transport.closed
    assert len(wheel) == 0
    await acceptor.drain(0)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_client_whose_handshake_comes_byte_by_byte_gets_in(loop: str, authority: Authority) -> None:
    async def scenario() -> None:
        async with serving(server_context(authority.server)) as (_, port):
            reader, writer = await asyncio.open_connection("localhost", port)
            sent, got = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = authority.client_context().wrap_bio(got, sent, server_hostname="localhost")
            is_done = False
            while not is_done:
                try:
                    tls.do_handshake()
                    is_done = True
                except ssl.SSLWantReadError:
                    pass
                for byte in sent.read():
                    writer.write(bytes((byte,)))
                    await writer.drain()
                    await asyncio.sleep(0)
                if not is_done:
                    got.write(await reader.read(65_536))
            tls.write(b"\0\0\0\4ping")
            writer.write(sent.read())
            got.write(await reader.read(65_536))
            assert tls.read(8) == b"\0\0\0\4ping"
            writer.close()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(scenario())


@pytest.mark.parametrize("loop", LOOPS)
def test_each_connection_gets_the_context_of_its_time(loop: str, authority: Authority, tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "other").mkdir()
        other = Authority(tmp_path / "other")
        contexts = [server_context(authority.server)]
        async with serving(lambda: contexts[-1]) as (_, port):
            reader, writer = await asyncio.open_connection("localhost", port, ssl=authority.client_context())
            contexts.append(server_context(other.server))
            assert await ask(port, other.client_context(), b"new") == b"new"
            writer.write(b"\0\0\0\3old")
            assert await reader.readexactly(7) == b"\0\0\0\3old"
            writer.close()
            await writer.wait_closed()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(scenario())


def test_connections_that_shake_hands_count_against_the_bounds(authority: Authority) -> None:
    async def scenario() -> None:
        limits = ReactorLimits(connections_max=2)
        async with accepting(server_context(authority.server), limits) as (acceptor, _, port):
            silent = [await asyncio.open_connection("localhost", port) for _ in range(2)]
            refused, writer = await asyncio.open_connection("localhost", port)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await refused.readexactly(1)
            assert acceptor.figures.connections_refused_total == 1
            for _, open_writer in (*silent, (refused, writer)):
                open_writer.close()

    asyncio.run(scenario())


def test_a_client_of_an_older_version_is_refused(authority: Authority) -> None:
    async def scenario() -> None:
        async with accepting(server_context(authority.server, version=TlsVersion.TLS_1_3)) as (acceptor, _, port):
            old = authority.client_context()
            old.maximum_version = ssl.TLSVersion.TLSv1_2
            with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
                await ask(port, old, b"hello")
            assert acceptor.figures.handshakes_failed_total[HandshakeFailure.NO_AGREEMENT] == 1

    asyncio.run(scenario())


def test_ciphers_that_nobody_knows_are_refused(authority: Authority) -> None:
    with pytest.raises(UsageError, match="knows none of the TLS ciphers"):
        server_context(authority.server, ciphers="ROT13")


def test_files_that_cannot_be_used_are_named(authority: Authority, tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("nothing")
    for certificate, key, ca in (
        (tmp_path / "none.pem", None, None),
        (garbage, None, None),
        (authority.ca, None, None),
        (authority.ca, authority.client, None),
        (authority.server, None, garbage),
        (authority.server, None, tmp_path / "none.pem"),
    ):
        with pytest.raises(UsageError, match=r"Cannot use the TLS .*\.pem.*: .+\.") as caught:
            server_context(certificate, key, ca)
        assert caught.value.exit_code == 78


def test_an_encrypted_key_is_refused_without_asking_the_terminal(tmp_path: Path, authority: Authority) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(authority.server.read_bytes(), None)
    encrypted = tmp_path / "encrypted.pem"
    encrypted.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(UsageError, match="the key is encrypted"):
        server_context(authority.server, encrypted)


def test_a_certificate_without_a_key_next_to_it_says_where_one_is_looked_for(authority: Authority) -> None:
    with pytest.raises(UsageError, match="its key is looked for in the same file"):
        server_context(authority.ca)
