"""The memory of all connections on real sockets: slow readers are held, then closed, and others go on."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop
from tests.support.waiting import turning_until as until

from hutong.foundation.clock import ManualClock
from hutong.foundation.timers import TimerWheel
from hutong.reactor.accept.acceptor import Acceptor
from hutong.reactor.connections.channel import PendingResponse, Response
from hutong.reactor.connections.handler import Peer
from hutong.reactor.figures import CloseReason
from hutong.reactor.frames.framing import LengthPrefixedFraming
from hutong.reactor.limits import ReactorLimits
from hutong.reactor.memory.budget import STILL_MS
from hutong.reactor.memory.watch import CHECK_INTERVAL_MS
from hutong.wire.buffer import Buffer

MEBIBYTE = 1 << 20
LIMITS = ReactorLimits(memory_bytes_max=32 * MEBIBYTE, send_buffer_bytes=16 * 1024, receive_buffer_bytes=16 * 1024)
ASK = struct.pack(">i", 1) + b"m"
PING = struct.pack(">i", 1) + b"p"
PONG = struct.pack(">i", 1) + b"p"


class Server:
    """Answers `m` with four mebibytes, parks `k` with as many, and answers anything else with itself."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.clock, self.wheel = ManualClock(), TimerWheel(0)
        framing = LengthPrefixedFraming
        self.acceptor = Acceptor(loop, self, framing, clock=self.clock, wheel=self.wheel, limits=LIMITS)
        self.memory, self.figures = self.acceptor.memory, self.acceptor.figures
        self.port = 0

    def connection_opened(self, peer: Peer) -> None: ...

    def connection_closed(self, peer: Peer) -> None: ...

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        match bytes(frame):
            case b"m":
                return [bytes(4 * MEBIBYTE)]
            case b"k":
                return PendingResponse(parked_bytes=4 * MEBIBYTE)
        return [PONG]

    async def look(self) -> None:
        """A look now, whatever has passed."""
        looks = self.memory.checks_total
        self.memory.schedule_check()
        await until(lambda: self.memory.checks_total > looks)

    def pass_ms(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.wheel.advance(self.clock.monotonic_ms())


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    server = Server(asyncio.get_running_loop())
    _, server.port = await server.acceptor.listen("127.0.0.1", 0)
    try:
        yield server
    finally:
        draining = asyncio.ensure_future(server.acceptor.drain(0))
        await asyncio.sleep(0)
        server.pass_ms(10)
        await draining


def connected(server: Server) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
    client.connect(("127.0.0.1", server.port))
    client.setblocking(False)
    return client


async def ping(client: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(client, PING)
    got = b""
    while len(got) < len(PONG):
        got += await loop.sock_recv(client, 100)
    assert got == PONG


async def slow_readers_are_held_then_closed() -> None:
    async with serving() as server:
        loop, figures = asyncio.get_running_loop(), server.figures
        good = connected(server)
        await ping(good)
        slow = [connected(server) for _ in range(5)]
        for client in slow:
            await loop.sock_sendall(client, ASK)
        await until(lambda: server.memory.measure() > 16 * MEBIBYTE)
        await server.look()
        assert server.memory.budget.is_tight
        assert server.memory.budget.held_count == len(slow)
        served = figures.requests_total
        for client in slow:
            await loop.sock_sendall(client, ASK)
        for _ in range(50):
            await ping(good)
        assert figures.requests_total == served + 50, "who is held is not read"
        more = [connected(server) for _ in range(5)]
        for client in more:
            await loop.sock_sendall(client, ASK)
        await until(lambda: figures.closed_total[CloseReason.MEMORY])
        await until(lambda: server.memory.measure() <= LIMITS.memory_bytes_max)
        await ping(good)
        for client in (*slow, *more):
            client.close()
        await until(lambda: figures.connections_open == 1)
        server.pass_ms(2 * CHECK_INTERVAL_MS)
        await server.look()
        assert not server.memory.budget.is_tight
        assert server.memory.budget.held_count == 0
        assert server.memory.measure() == 0
        await ping(good)
        good.close()


async def a_held_connection_goes_on_once_its_answers_are_read() -> None:
    async with serving() as server:
        loop = asyncio.get_running_loop()
        slow = [connected(server) for _ in range(5)]
        for client in slow:
            await loop.sock_sendall(client, ASK)
        await until(lambda: server.memory.measure() > 16 * MEBIBYTE)
        await server.look()
        reader = slow[0]
        await loop.sock_sendall(reader, PING)
        left = 4 * MEBIBYTE + len(PONG)
        last = b""
        while left:
            last = await loop.sock_recv(reader, MEBIBYTE)
            left -= len(last)
            if server.memory.measure() <= 16 * MEBIBYTE:
                server.pass_ms(CHECK_INTERVAL_MS)
        assert last.endswith(PONG)
        for client in slow:
            client.close()


async def what_parked_requests_keep_counts() -> None:
    async with serving() as server:
        loop = asyncio.get_running_loop()
        good, bad = connected(server), connected(server)
        await ping(good)
        await loop.sock_sendall(bad, (struct.pack(">i", 1) + b"k") * 9)
        await until(lambda: server.memory.measure() == 36 * MEBIBYTE)
        await server.look()
        await until(lambda: server.figures.connections_open == 1)
        assert server.figures.closed_total[CloseReason.MEMORY] == 1
        assert server.memory.measure() == 0
        await ping(good)
        good.close()
        bad.close()


async def a_held_connection_whose_client_is_gone_is_closed() -> None:
    """It is not read, so its end is not seen; what it parked kept memory tight until it was answered."""
    async with serving() as server:
        loop = asyncio.get_running_loop()
        bad = connected(server)
        await loop.sock_sendall(bad, (struct.pack(">i", 1) + b"k") * 5)
        await until(lambda: server.memory.measure() == 20 * MEBIBYTE)
        await server.look()
        assert server.memory.budget.held_count == 1
        bad.close()
        server.pass_ms(STILL_MS - 1)
        await server.look()
        assert server.figures.connections_open == 1
        server.pass_ms(CHECK_INTERVAL_MS)
        await until(lambda: server.figures.connections_open == 0)
        assert server.figures.closed_total[CloseReason.MEMORY] == 1
        await server.look()
        assert not server.memory.budget.is_tight


LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
SCENARIOS = (
    slow_readers_are_held_then_closed,
    a_held_connection_goes_on_once_its_answers_are_read,
    what_parked_requests_keep_counts,
    a_held_connection_whose_client_is_gone_is_closed,
)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_memory(scenario: Callable[[], Coroutine[Any, Any, None]], loop: str) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(scenario())


async def test_somebody_is_told_of_the_next_traffic_once() -> None:
    async with serving() as server:
        client, calls = connected(server), []
        with client:
            await ping(client)
            mark = server.figures.check_at_bytes
            server.memory.call_at_traffic(lambda: calls.append("traffic"))
            await ping(client)
            await ping(client)
        assert calls == ["traffic"]
        assert server.figures.check_at_bytes == mark, "the bound on memory stays where it was"


async def test_a_look_meanwhile_keeps_both_promises() -> None:
    async with serving() as server:
        client, calls = connected(server), []
        with client:
            await ping(client)
            server.memory.call_at_traffic(lambda: calls.append("traffic"))
            await server.look()
            await ping(client)
            assert calls == ["traffic"]
            assert server.figures.check_at_bytes > server.figures.traffic_bytes
