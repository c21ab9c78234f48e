"""Connections that are TLS or not, as their first byte says, on asyncio's loop and on uvloop."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import trustme
import uvloop

from hutong.foundation.clock import ManualClock
from hutong.foundation.timers import TimerWheel
from hutong.reactor.accept.acceptor import Acceptor
from hutong.reactor.connections.channel import Response
from hutong.reactor.connections.handler import Peer
from hutong.reactor.frames.framing import LengthPrefixedFraming
from hutong.reactor.limits import ReactorLimits
from hutong.reactor.tls.server_contexts import server_context
from hutong.wire.buffer import Buffer

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class Place:
    """An echo server with a permissive listener, on a manual clock."""

    def __init__(self, folder: Path, limits: ReactorLimits | None = None) -> None:
        authority = trustme.CA()
        authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
        self.trusting = ssl.create_default_context()
        authority.configure_trust(self.trusting)
        self.clock, self.wheel = ManualClock(), TimerWheel(0)
        self.context = server_context(folder / "server.pem")
        self.limits = limits
        self.port = 0

    def connection_opened(self, peer: Peer) -> None: ...

    def connection_closed(self, peer: Peer) -> None: ...

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        return [len(frame).to_bytes(4, "big"), frame]

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self.acceptor = Acceptor(
            loop, self, LengthPrefixedFraming, clock=self.clock, wheel=self.wheel, limits=self.limits
        )
        _, self.port = await self.acceptor.listen("127.0.0.1", 0, self.context, is_tls_optional=True)

    def pass_ms(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.wheel.advance(self.clock.monotonic_ms())

    async def close(self) -> None:
        ending = asyncio.ensure_future(self.acceptor.drain(0))
        await asyncio.sleep(0)
        self.pass_ms(10)
        await ending
        assert self.acceptor.figures.connections_open == 0
        assert len(self.wheel) == 0

    async def says(self, data: bytes, tls: ssl.SSLContext | None = None) -> tuple[bytes, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=tls, server_hostname="localhost" if tls else None
        )
        writer.write(len(data).to_bytes(4, "big") + data)
        return (await reader.readexactly(4 + len(data)))[4:], writer


def at_a_place(
    scenario: Callable[[Place], Coroutine[Any, Any, None]], limits: ReactorLimits | None = None
) -> Callable[[str, Path], None]:
    def test(loop: str, tmp_path: Path) -> None:
        async def run() -> None:
            place = Place(tmp_path, limits)
            await place.open()
            await scenario(place)
            await place.close()

        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(run())

    test.__name__ = scenario.__name__
    return pytest.mark.parametrize("loop", LOOPS)(test)


@at_a_place
async def test_both_kinds_on_one_port(place: Place) -> None:
    for tls in (None, place.trusting, None, place.trusting):
        answer, writer = await place.says(b"hello" * 10_000, tls)
        assert answer == b"hello" * 10_000
        writer.close()
        await writer.wait_closed()
    assert place.acceptor.figures.connections_accepted_total == 4


@at_a_place
async def test_who_says_nothing_is_closed_in_time(place: Place) -> None:
    loop = asyncio.get_running_loop()
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    answer, other = await place.says(b"others are served")
    assert answer == b"others are served"
    other.close()
    place.pass_ms(10_010)
    assert await reader.read() == b""
    writer.close()
    with socket.create_connection(("127.0.0.1", place.port)) as gone:
        gone.setblocking(False)
    await loop.run_in_executor(None, lambda: None)


@at_a_place
async def test_a_handshake_that_fails_harms_nobody(place: Place) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    writer.write(b"\x16 is no handshake at all, however it begins" * 10)
    assert b"!" not in await reader.read()
    writer.close()
    with pytest.raises(ssl.SSLError):
        await place.says(b"x", ssl.create_default_context())
    answer, other = await place.says(b"still here", place.trusting)
    assert answer == b"still here"
    other.close()


@at_a_place
async def test_those_who_have_said_nothing_are_closed_at_the_end(place: Place) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    answer, other = await place.says(b"later than the silent one")
    assert answer
    await place.close()
    assert await reader.read() == b""
    writer.close()
    other.close()
