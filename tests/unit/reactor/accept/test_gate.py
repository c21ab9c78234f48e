"""The gate of an acceptor, on real sockets: who comes in, what stands before the handler, whom it cuts off."""

import asyncio

from hutong.foundation.clock import SystemClock
from hutong.foundation.timers import TimerWheel
from hutong.reactor.accept.acceptor import Acceptor
from hutong.reactor.accept.gate import Cut
from hutong.reactor.connections.channel import PendingResponse, Response
from hutong.reactor.connections.handler import Handler, Peer
from hutong.reactor.figures import CloseReason
from hutong.reactor.frames.framing import LengthPrefixedFraming
from hutong.wire.buffer import Buffer


class Echo:
    """Answers with the frame, later where it begins with `l`; tells who has left."""

    def __init__(self) -> None:
        self.left: asyncio.Queue[Peer] = asyncio.Queue()
        self.pending: asyncio.Queue[PendingResponse] = asyncio.Queue()

    def connection_opened(self, peer: Peer) -> None:
        """Nothing to keep."""

    def connection_closed(self, peer: Peer) -> None:
        self.left.put_nowait(peer)

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        if bytes(frame[:1]) == b"l":
            later = PendingResponse()
            self.pending.put_nowait(later)
            return later
        return [b"\0\0\0\1", bytes(frame)]


class Porter:
    """A gate that is open or not, and that answers in the handler's place when told to."""

    def __init__(self) -> None:
        self.is_open = True
        self.instead: bytes | None = None
        self.peers: list[Peer] = []
        self.cut: Cut
        self.handler: Handler

    def admits(self, address: str) -> bool:
        return self.is_open and address == "127.0.0.1"

    def before(self, handler: Handler, cut: Cut) -> Handler:
        self.handler, self.cut = handler, cut
        return self

    def connection_opened(self, peer: Peer) -> None:
        self.peers.append(peer)
        self.handler.connection_opened(peer)

    def connection_closed(self, peer: Peer) -> None:
        self.handler.connection_closed(peer)

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        if self.instead is not None:
            return [b"\0\0\0\1", self.instead]
        return self.handler.request_received(frame, peer)


async def opened(porter: Porter, echo: Echo) -> tuple[Acceptor, int]:
    clock = SystemClock()
    wheel = TimerWheel(clock.monotonic_ms())
    loop = asyncio.get_running_loop()
    acceptor = Acceptor(loop, echo, LengthPrefixedFraming, clock=clock, wheel=wheel, gate=porter)
    _, port = await acceptor.listen("127.0.0.1", 0)
    return acceptor, port


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, byte: bytes) -> bytes:
    writer.write(b"\0\0\0\1" + byte)
    return (await reader.readexactly(5))[4:]


async def is_reset(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


async def test_a_shut_door_resets_who_comes_and_keeps_who_is_in() -> None:
    porter, echo = Porter(), Echo()
    acceptor, port = await opened(porter, echo)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await ask(reader, writer, b"a") == b"a"
    porter.is_open = False
    refused, refused_writer = await asyncio.open_connection("127.0.0.1", port)
    assert await is_reset(refused)
    assert acceptor.figures.connections_refused_total == 1
    assert await ask(reader, writer, b"b") == b"b"
    for open_writer in (writer, refused_writer):
        open_writer.close()
    await echo.left.get()
    await acceptor.drain(0)


async def test_what_stands_before_the_handler_may_answer_in_its_place() -> None:
    porter, echo = Porter(), Echo()
    acceptor, port = await opened(porter, echo)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    porter.instead = b"!"
    assert await ask(reader, writer, b"a") == b"!"
    porter.instead = None
    assert await ask(reader, writer, b"a") == b"a"
    writer.close()
    await echo.left.get()
    await acceptor.drain(0)


async def test_chosen_connections_are_cut_off_with_what_they_wait_for() -> None:
    porter, echo = Porter(), Echo()
    acceptor, port = await opened(porter, echo)
    first, first_writer = await asyncio.open_connection("127.0.0.1", port)
    second, second_writer = await asyncio.open_connection("127.0.0.1", port)
    assert await ask(first, first_writer, b"a") == b"a"
    assert await ask(second, second_writer, b"a") == b"a"
    chosen = porter.peers[0]
    first_writer.write(b"\0\0\0\1l")
    later = await echo.pending.get()
    assert porter.cut(lambda peer: peer is chosen) == 1
    assert await is_reset(first)
    assert await echo.left.get() is chosen
    later.complete([b"nobody reads this"])
    assert acceptor.figures.closed_total[CloseReason.CUT] == 1
    assert porter.cut(lambda peer: peer is chosen) == 0
    assert await ask(second, second_writer, b"b") == b"b"
    for writer in (first_writer, second_writer):
        writer.close()
    await echo.left.get()
    await acceptor.drain(0)
