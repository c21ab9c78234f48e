"""Opening connections, on asyncio's loop and on uvloop: what is served, what fails, and that nothing is left behind."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
import uvloop

from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import Expired, HutongError, LimitExceeded, OwnerGone
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import WaitTable
from hutong.reactor.accept.acceptor import Acceptor
from hutong.reactor.connections.channel import Response
from hutong.reactor.connections.handler import Peer
from hutong.reactor.connector import Connector
from hutong.reactor.figures import CloseReason
from hutong.reactor.frames.framing import LengthPrefixedFraming
from hutong.reactor.limits import ReactorLimits
from hutong.reactor.tls.server_contexts import server_context
from hutong.wire.buffer import Buffer

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def on_both_loops(scenario: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[str], None]:
    def test(loop: str) -> None:
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(scenario())

    test.__name__ = scenario.__name__
    return pytest.mark.parametrize("loop", LOOPS)(test)


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


class Side:
    """A handler that notes what it hears; `answers` are given to frames that begin with `?`."""

    def __init__(self) -> None:
        self.peers: list[Peer] = []
        self.frames: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed: asyncio.Queue[Peer] = asyncio.Queue()
        self.on_opened: Callable[[], object] = lambda: None

    def connection_opened(self, peer: Peer) -> None:
        self.peers.append(peer)
        self.on_opened()

    def connection_closed(self, peer: Peer) -> None:
        self.peers.remove(peer)
        self.closed.put_nowait(peer)

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        self.frames.put_nowait(bytes(frame))
        return [framed(b"!" + bytes(frame[1:]))] if frame[:1] == b"?" else None


class Town:
    """An acceptor and a connector on one manual clock."""

    def __init__(self, limits: ReactorLimits | None) -> None:
        loop = asyncio.get_running_loop()
        self.clock = ManualClock()
        self.wheel = TimerWheel(0)
        self.there, self.here = Side(), Side()
        self.acceptor = Acceptor(loop, self.there, LengthPrefixedFraming, clock=self.clock, wheel=self.wheel)
        self.connector = Connector(
            loop, self.here, LengthPrefixedFraming, clock=self.clock, wheel=self.wheel, limits=limits
        )
        self.port = 0

    async def connect(self) -> Peer:
        return await self.connector.connect("127.0.0.1", self.port)

    def pass_ms(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.wheel.advance(self.clock.monotonic_ms())

    async def close(self) -> None:
        ending = asyncio.gather(self.connector.close(0), self.acceptor.drain(0))
        await asyncio.sleep(0)
        self.pass_ms(10)
        await ending
        assert not self.here.peers
        assert self.connector.figures.connections_open == 0
        assert len(self.wheel) == 0


@asynccontextmanager
async def town(tls: ssl.SSLContext | None = None, limits: ReactorLimits | None = None) -> AsyncIterator[Town]:
    made = Town(limits)
    _, made.port = await made.acceptor.listen("127.0.0.1", 0, tls)
    try:
        yield made
    finally:
        await made.close()


@asynccontextmanager
async def silent_port() -> AsyncIterator[int]:
    """A listener whose queue is full: whoever connects hears nothing."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@on_both_loops
async def test_both_sides_speak_unasked_and_answer() -> None:
    async with town() as it:
        peer = await it.connect()
        assert it.here.peers == [peer]
        peer.push([framed(b"?who"), framed(b"hello")])
        assert await it.there.frames.get() == b"?who"
        assert await it.there.frames.get() == b"hello"
        assert await it.here.frames.get() == b"!who"
        it.there.peers[0].push([framed(b"?and you")])
        assert await it.here.frames.get() == b"?and you"
        assert await it.there.frames.get() == b"!and you"
        assert it.connector.figures.requests_total == 2


@on_both_loops
async def test_what_is_pushed_waits_for_the_end_of_the_turn_and_what_is_sent_does_not() -> None:
    async with town() as it:
        peer = await it.connect()
        peer.push([framed(b"one")])
        peer.push([framed(b"two")])
        assert it.connector.figures.writes_total == 0
        peer.send([framed(b"three")])
        assert it.connector.figures.writes_total == 1
        assert [await it.there.frames.get() for _ in range(3)] == [b"one", b"two", b"three"]
        peer.close()
        peer.send([framed(b"too late")])
        assert await it.here.closed.get() is peer
        peer.send([framed(b"to nobody")])
        assert it.there.frames.empty()


@on_both_loops
async def test_what_waits_for_the_other_side_fails_when_it_goes() -> None:
    async with town() as it:
        peer = await it.connect()
        table: WaitTable[str] = WaitTable("waits", it.wheel, 10)
        endings: list[str | HutongError] = []
        table.park("key", endings.append, owner=peer.owner)
        it.acceptor.cut(lambda _: True)
        assert await it.here.closed.get() is peer
        assert isinstance(endings[0], OwnerGone)
        peer.push([b"to nobody"])
        assert (await it.connect()).id != peer.id


@on_both_loops
async def test_a_connection_closed_from_here_is_closed_there() -> None:
    async with town() as it:
        peer = await it.connect()
        peer.push([framed(b"last")])
        peer.close()
        assert await it.there.frames.get() == b"last"
        await it.there.closed.get()
        assert await it.here.closed.get() is peer
        assert it.connector.figures.closed_total[CloseReason.HANDLER] == 1


@on_both_loops
async def test_nobody_listens() -> None:
    async with town() as it:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            with pytest.raises(OSError):
                await it.connector.connect("127.0.0.1", unused.getsockname()[1])


@on_both_loops
async def test_an_attempt_ends_in_time() -> None:
    async with town() as it, silent_port() as port:
        attempt = asyncio.ensure_future(it.connector.connect("127.0.0.1", port, timeout_ms=100))
        await asyncio.sleep(0)
        it.pass_ms(90)
        await asyncio.sleep(0)
        assert not attempt.done()
        it.pass_ms(20)
        with pytest.raises(Expired):
            await attempt


@on_both_loops
async def test_an_attempt_that_is_given_up_leaves_nothing() -> None:
    async with town() as it, silent_port() as port:
        attempt = asyncio.ensure_future(it.connector.connect("127.0.0.1", port))
        await asyncio.sleep(0)
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt


@on_both_loops
async def test_a_connection_that_stands_when_it_is_given_up_is_closed() -> None:
    async with town() as it:
        attempt = asyncio.ensure_future(it.connect())
        it.here.on_opened = attempt.cancel
        with pytest.raises(asyncio.CancelledError):
            await attempt
        await it.here.closed.get()


@on_both_loops
async def test_attempts_count_as_connections() -> None:
    async with town(limits=ReactorLimits(connections_max=2)) as it, silent_port() as port:
        await it.connect()
        attempt = asyncio.ensure_future(it.connector.connect("127.0.0.1", port))
        await asyncio.sleep(0)
        with pytest.raises(LimitExceeded, match="connections_max"):
            await it.connect()
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt


@on_both_loops
async def test_close_ends_attempts_and_connections() -> None:
    async with town() as it, silent_port() as port:
        await it.connect()
        attempt = asyncio.ensure_future(it.connector.connect("127.0.0.1", port))
        await asyncio.sleep(0)
        await it.connector.close()
        with pytest.raises(OwnerGone):
            await attempt
        with pytest.raises(OwnerGone):
            await it.connect()
        await it.here.closed.get()


@on_both_loops
async def test_the_largest_unfinished_frame_goes_when_memory_is_short() -> None:
    async with town(limits=ReactorLimits(receiving_bytes_max=100_000)) as it:
        await it.connect()
        it.there.peers[0].push([framed(bytes(300_000))[:200_000]])
        await it.here.closed.get()
        assert it.connector.figures.closed_total[CloseReason.MEMORY] == 1


@pytest.mark.parametrize("loop", LOOPS)
def test_tls(loop: str, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")

    async def scenario() -> None:
        async with town(server_context(tmp_path / "server.pem")) as it:
            with pytest.raises(ssl.SSLCertVerificationError):
                await it.connector.connect("127.0.0.1", it.port, tls=ssl.create_default_context())
            trusting = ssl.create_default_context()
            authority.configure_trust(trusting)
            peer = await it.connector.connect("127.0.0.1", it.port, tls=trusting)
            peer.push([framed(b"?who")])
            assert await it.here.frames.get() == b"!who"

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(scenario())
