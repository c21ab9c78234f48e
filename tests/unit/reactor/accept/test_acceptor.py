"""The reactor on real sockets, on asyncio's loop and on uvloop: what a client sees, and what the limits do."""

import asyncio
import gc
import socket
import struct
import tracemalloc
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import pytest
import uvloop
from tests.support.waiting import turning_until as until

from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import HutongError, OwnerGone, ProtocolError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import WaitTable
from hutong.reactor.accept.acceptor import Acceptor, close_longest_idle
from hutong.reactor.accept.connection_quotas import ConnectionLimits, ConnectionQuotas, ListenerLimits
from hutong.reactor.accept.intake import Intake
from hutong.reactor.connections.channel import PendingResponse, Response
from hutong.reactor.connections.connection import Connection
from hutong.reactor.connections.handler import Peer
from hutong.reactor.connections.protocol import SCRATCH_BYTES
from hutong.reactor.figures import CloseReason
from hutong.reactor.frames.framing import LengthPrefixedFraming
from hutong.reactor.limits import ReactorLimits
from hutong.wire.buffer import Buffer

MEBIBYTE = 1 << 20
SMALL_IN_THE_KERNEL = ReactorLimits(
    send_buffer_bytes=64 * 1024, receive_buffer_bytes=64 * 1024, unsent_bytes_max=MEBIBYTE
)
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter
Scenario = Callable[[], Coroutine[Any, Any, None]]


def on_both_loops(scenario: Scenario) -> Callable[[str], None]:
    def test(loop: str) -> None:
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(scenario())

    test.__name__ = scenario.__name__
    return pytest.mark.parametrize("loop", LOOPS)(test)


async def turns(count: int) -> None:
    """Let the loop turn so often, for what must not happen."""
    for _ in range(count):
        await asyncio.sleep(0)


def framed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


class Server:
    """An acceptor on a manual clock, whose handler answers as a frame's first byte says."""

    def __init__(self, limits: ReactorLimits | None, quotas: ConnectionQuotas | None = None) -> None:
        self.clock = ManualClock()
        self.wheel = TimerWheel(0)
        self.acceptor = Acceptor(
            asyncio.get_running_loop(),
            self,
            LengthPrefixedFraming,
            clock=self.clock,
            wheel=self.wheel,
            limits=limits,
            name="TEST",
            quotas=quotas,
        )
        self.figures = self.acceptor.figures
        self.peers: dict[int, Peer] = {}
        self.seen: list[bytes] = []
        self.pending: list[PendingResponse] = []
        self.port = 0
        self._clients: list[Writer] = []

    def connection_opened(self, peer: Peer) -> None:
        self.peers[peer.id] = peer

    def connection_closed(self, peer: Peer) -> None:
        del self.peers[peer.id]

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        self.seen.append(bytes(frame[:100]))
        match bytes(frame[:1]):
            case b"l":
                self.pending.append(PendingResponse())
                return self.pending[-1]
            case b"b":
                raise ProtocolError("broken")
            case b"f":
                raise ZeroDivisionError("a fault of ours")
            case b"m":
                return [framed(bytes(MEBIBYTE))]
        return [framed(bytes(frame))]

    def pass_ms(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.wheel.advance(self.clock.monotonic_ms())

    async def connect(self, local_address: str = "127.0.0.1") -> tuple[Reader, Writer]:
        """A client whose connection the server has accepted or refused."""
        decided = self._decided() + 1
        client = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(local_address, 0))
        await until(lambda: self._decided() == decided)
        self._clients.append(client[1])
        return client

    async def knock(self) -> tuple[Reader, Writer]:
        """A client of which nobody knows whether it will be accepted."""
        client = await asyncio.open_connection("127.0.0.1", self.port)
        self._clients.append(client[1])
        return client

    async def close(self) -> None:
        """Cut off what is left, and check that nothing is left behind."""
        draining = asyncio.ensure_future(self.acceptor.drain(0))
        await asyncio.sleep(0)
        self.pass_ms(10)
        await draining
        for writer in self._clients:
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)  # it may have been cut off
        assert self.peers == {}
        assert self.figures.connections_open == 0
        assert self.figures.receiving_bytes == 0

    def _decided(self) -> int:
        figures = self.figures
        refused = figures.connections_refused_total + figures.connections_refused_per_ip_total
        return figures.connections_accepted_total + refused


@asynccontextmanager
async def serving(limits: ReactorLimits | None = None, quotas: ConnectionQuotas | None = None) -> AsyncIterator[Server]:
    server = Server(limits, quotas)
    host, server.port = await server.acceptor.listen("127.0.0.1", 0)
    assert host == "127.0.0.1"
    try:
        yield server
    finally:
        await server.close()


async def is_closed(reader: Reader) -> bool:
    """True if the server has closed this client's connection, with nothing more to read."""
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


async def ask(client: tuple[Reader, Writer], payload: bytes) -> bytes:
    reader, writer = client
    writer.write(framed(payload))
    return (await reader.readexactly(4 + len(payload)))[4:]


@on_both_loops
async def test_frames_of_all_sizes_come_back() -> None:
    async with serving() as server:
        client = await server.connect()
        for size in (0, 1, 150, 100_000, SCRATCH_BYTES, 3 * MEBIBYTE + 1, 7):
            payload = bytes(size)
            assert await ask(client, payload) == payload
        assert server.figures.requests_total == 7


@on_both_loops
async def test_what_is_answered_in_one_turn_leaves_in_one_write() -> None:
    async with serving() as server:
        reader, writer = await server.connect()
        writer.write(framed(*(b"%d" % number for number in range(64))))
        await reader.readexactly(len(framed(*(b"%d" % number for number in range(64)))))
        assert server.figures.writes_total == 1
        writer.write(framed(*[b"later"] * 64))
        await until(lambda: len(server.pending) == 64)
        for pending in server.pending:
            pending.complete([framed(b"x")])
        assert await reader.readexactly(64 * 5) == framed(b"x") * 64
        assert server.figures.writes_total == 2


@on_both_loops
async def test_answers_arrive_in_order_whatever_order_they_are_given_in() -> None:
    async with serving() as server:
        reader, writer = await server.connect()
        writer.write(framed(b"later", b"later", b"3", b"later"))
        await until(lambda: len(server.pending) == 3)
        for number in (2, 0, 1):
            server.pending[number].complete([framed(b"later %d" % number)])
        expected = framed(b"later 0", b"later 1", b"3", b"later 2")
        assert await reader.readexactly(len(expected)) == expected


@on_both_loops
async def test_reading_stops_at_the_bound_and_goes_on() -> None:
    async with serving(ReactorLimits(requests_in_flight_max=2)) as server:
        reader, writer = await server.connect()
        requests = framed(*[b"later" + bytes(MEBIBYTE)] * 20)
        writer.write(requests)
        await until(lambda: len(server.pending) == 2)
        await until(lambda: server.figures.reading_pauses_total == 1)
        received = server.figures.bytes_received_total
        await turns(100)
        assert server.figures.bytes_received_total == received < 4 * MEBIBYTE
        assert len(server.seen) == 2
        for number in range(20):
            await until(lambda number=number: len(server.pending) > number)  # type: ignore[misc]
            server.pending[number].complete([framed(b"%02d" % number)])
        assert await reader.readexactly(20 * 6) == framed(*(b"%02d" % number for number in range(20)))
        assert len(server.seen) == 20


@on_both_loops
async def test_a_peer_that_does_not_read_is_served_no_more_until_it_does() -> None:
    async with serving() as server:
        client = socket.create_connection(("127.0.0.1", server.port))
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(client, framed(*[b"mebibyte"] * 40))
        await until(lambda: server.figures.reading_pauses_total == 1)
        await turns(100)
        assert len(server.seen) < 30
        remaining = 40 * (MEBIBYTE + 4)
        while remaining:
            remaining -= len(await loop.sock_recv(client, MEBIBYTE))
        assert len(server.seen) == 40
        client.close()


@on_both_loops
async def test_bad_bytes_close_only_their_own_connection() -> None:
    async with serving(ReactorLimits(frame_bytes_max=1000)) as server:
        good = await server.connect()
        for bad in (struct.pack(">i", -1), struct.pack(">i", 1001), b"GET / HTTP/1.1\r\n\r\n", framed(b"broken")):
            reader, writer = await server.connect()
            writer.write(framed(b"answered") + bad)
            assert await reader.read() == framed(b"answered")
            writer.close()
        assert await ask(good, b"still here") == b"still here"
        assert server.figures.closed_total[CloseReason.PROTOCOL_ERROR] == 4


@on_both_loops
async def test_a_fault_of_ours_is_told_and_closes_only_its_connection() -> None:
    async with serving() as server:
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        good = await server.connect()
        reader, writer = await server.connect()
        writer.write(framed(b"fault"))
        assert await is_closed(reader)
        assert isinstance(told[0]["exception"], ZeroDivisionError)
        assert await ask(good, b"still here") == b"still here"
        assert server.figures.closed_total[CloseReason.FAULT] == 1


@on_both_loops
async def test_a_fault_in_the_backlog_is_told_too() -> None:
    async with serving(ReactorLimits(requests_in_flight_max=1)) as server:
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        good = await server.connect()
        reader, writer = await server.connect()
        writer.write(framed(b"1", b"fault"))
        await is_closed(reader)
        assert isinstance(told[0]["exception"], ZeroDivisionError)
        assert await ask(good, b"still here") == b"still here"


@on_both_loops
async def test_what_a_peer_waits_for_ends_with_it() -> None:
    async with serving() as server:
        table: WaitTable[str] = WaitTable("waits", server.wheel, 10)
        endings: list[str | HutongError] = []
        reader, writer = await server.connect()
        writer.write(framed(b"later"))
        await until(lambda: bool(server.pending))
        (peer,) = server.peers.values()
        table.park("key", endings.append, owner=peer.owner)
        writer.close()
        await until(lambda: bool(endings))
        assert isinstance(endings[0], OwnerGone)
        server.pending[0].complete([framed(b"too late")])
        await until(lambda: not server.peers)
        assert await is_closed(reader)


@on_both_loops
async def test_connections_are_limited_in_total() -> None:
    async with serving(ReactorLimits(connections_max=2)) as server:
        first, _ = await server.connect(), await server.connect()
        refused, _ = await server.connect()
        assert await is_closed(refused)
        assert server.figures.connections_refused_total == 1
        first[1].close()
        await until(lambda: server.figures.connections_open == 1)
        assert await ask(await server.connect(), b"there is room again") == b"there is room again"


@on_both_loops
async def test_connections_are_limited_per_address() -> None:
    async with serving(ReactorLimits(connections_per_ip_max=1)) as server:
        first = await server.connect()
        refused, _ = await server.connect()
        assert await is_closed(refused)
        assert server.figures.connections_refused_per_ip_total == 1
        assert await ask(await server.connect("127.0.0.2"), b"another address") == b"another address"
        first[1].close()
        await until(lambda: server.figures.connections_open == 1)
        assert await ask(await server.connect(), b"the first is gone") == b"the first is gone"


@on_both_loops
async def test_one_connection_too_many_waits_until_another_goes() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(connections_max=2))
    async with serving(quotas=quotas) as server:
        first, _ = await server.connect(), await server.connect()
        reader, writer = await server.knock()
        writer.write(framed(b"is there room?"))
        await turns(50)
        assert server.figures.connections_open == 2
        server.clock.advance(300)
        assert server.acceptor.accept_blocked_ms_total == 300
        first[1].close()
        assert await reader.readexactly(18) == framed(b"is there room?")
        assert server.acceptor.accept_blocked_ms_total == 300
        quotas.check_invariants()


@on_both_loops
async def test_a_greater_bound_lets_those_in_who_wait() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(listeners={"TEST": ListenerLimits(connections_max=1)}))
    async with serving(quotas=quotas) as server:
        await server.connect()
        reader, writer = await server.knock()
        writer.write(framed(b"hello"))
        await turns(50)
        assert server.figures.connections_open == 1
        quotas.set_limits(ConnectionLimits())
        assert await reader.readexactly(9) == framed(b"hello")


@on_both_loops
async def test_connections_are_accepted_at_the_pace_that_is_allowed() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(creation_rate_max=2), window_ms=1_000)
    async with serving(quotas=quotas) as server:
        clients = [await server.knock() for _ in range(4)]
        for _, writer in clients:
            writer.write(framed(b"ping"))
        for reader, _ in clients[:3]:
            assert await reader.readexactly(8) == framed(b"ping")
        await turns(50)
        assert server.figures.connections_open == 3
        server.pass_ms(600)
        assert await clients[3][0].readexactly(8) == framed(b"ping")


@on_both_loops
async def test_an_address_that_comes_too_fast_is_closed_after_its_wait() -> None:
    quotas = ConnectionQuotas(
        ConnectionLimits(), rate_of=lambda address: 1 if address == "127.0.0.1" else None, window_ms=1_000
    )
    async with serving(quotas=quotas) as server:
        for _ in range(2):
            await server.connect()
        reader, _ = await server.knock()
        await until(lambda: server.figures.connections_refused_per_ip_rate_total == 1)
        assert await ask(await server.connect("127.0.0.2"), b"others are not held up") == b"others are not held up"
        assert not reader.at_eof()
        server.pass_ms(1_100)
        assert await is_closed(reader)
        assert server.figures.connections_open == 3


@on_both_loops
async def test_the_longest_idle_go_when_the_bound_falls_below_what_is_there() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(connections_max=3))
    async with serving(quotas=quotas) as server:
        first, second, third = [await server.connect() for _ in range(3)]
        for client in (second, first, third):
            server.clock.advance(10)
            await ask(client, b"ping")
        quotas.set_limits(ConnectionLimits(connections_max=1))
        close_longest_idle([server.acceptor], quotas.excess)
        assert await is_closed(second[0])
        assert await is_closed(first[0])
        assert await ask(third, b"still here") == b"still here"
        assert server.figures.closed_total[CloseReason.EXCESS] == 2


@on_both_loops
async def test_nobody_else_is_read_while_all_bytes_for_requests_are_in_use() -> None:
    async with serving(ReactorLimits(queued_bytes_max=100_000)) as server:
        large, small = await server.connect(), await server.connect()
        frame = framed(bytes(200_000))
        large[1].write(frame[:150_000])
        await until(lambda: server.figures.queue.is_full)
        small[1].write(framed(b"hello"))
        await until(lambda: server.figures.reading_pauses_total == 1)
        small[1].write(framed(b"hello again"))
        await turns(50)
        assert server.seen == [b"hello"], "what had come before it was known"
        server.clock.advance(70)
        large[1].write(frame[150_000:])
        assert await small[0].readexactly(9 + 15) == framed(b"hello", b"hello again")
        assert len(await large[0].readexactly(len(frame))) == len(frame)
        assert server.figures.queue.depleted_ms(1_000) == 70
        assert (server.figures.queue.bytes, server.figures.queue.requests) == (0, 0)


@on_both_loops
async def test_what_waits_for_the_processor_is_bounded_for_all() -> None:
    async with serving(ReactorLimits(queued_requests_max=50, requests_in_flight_max=10)) as server:
        reader, writer = await server.connect()
        requests = [b"%d" % number for number in range(1_000)]
        writer.write(framed(*requests))
        answers = framed(*requests)
        assert await reader.readexactly(len(answers)) == answers
        queue = server.figures.queue
        assert (queue.requests, queue.bytes, queue.full_total) == (0, 0, 1)
        assert queue.requests_max_seen == 990
        silent = await server.connect()
        silent[1].write(framed(*[b"later"] * 500))
        await until(lambda: server.figures.reading_pauses_total >= 2)
        assert queue.requests == 0, "who waits for others keeps nobody from being read"
        assert queue.bytes > 0


@on_both_loops
async def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
    async with serving(ReactorLimits(idle_ms_max=1_000)) as server:
        idle, busy = await server.connect(), await server.connect()
        waiting_reader, waiting_writer = await server.connect()
        waiting_writer.write(framed(b"later"))
        await until(lambda: bool(server.pending))
        for _ in range(3):
            server.pass_ms(400)
            assert await ask(busy, b"ping") == b"ping"
        assert await is_closed(idle[0])
        assert server.figures.closed_total[CloseReason.IDLE] == 1
        server.pending[0].complete([framed(b"answer")])
        assert await waiting_reader.readexactly(10) == framed(b"answer")


@on_both_loops
async def test_a_frame_that_is_begun_must_be_finished() -> None:
    async with serving(ReactorLimits(frame_ms_max=100)) as server:
        slow, busy = await server.connect(), await server.connect()
        slow[1].write(framed(b"never finished")[:-1])
        await until(lambda: server.figures.receiving_bytes > 0)
        server.pass_ms(90)
        assert await ask(busy, b"ping") == b"ping"
        server.pass_ms(30)
        assert await is_closed(slow[0])
        assert server.figures.closed_total[CloseReason.SLOW_SENDER] == 1
        assert await ask(busy, b"ping") == b"ping"


@on_both_loops
async def test_a_frame_begun_before_our_pause_must_be_finished_after_it() -> None:
    async with serving(ReactorLimits(frame_ms_max=100, requests_in_flight_max=1)) as server:
        reader, writer = await server.connect()
        writer.write(framed(b"later", b"never finished")[:-1])
        await until(lambda: server.figures.reading_pauses_total == 1)
        server.pass_ms(1_000)
        server.pending[0].complete([framed(b"answer")])
        assert await reader.readexactly(10) == framed(b"answer")
        assert server.figures.connections_open == 1
        server.pass_ms(150)
        assert await is_closed(reader)
        assert server.figures.closed_total[CloseReason.SLOW_SENDER] == 1


@on_both_loops
async def test_the_largest_unfinished_frame_goes_when_memory_is_short() -> None:
    async with serving(ReactorLimits(receiving_bytes_max=MEBIBYTE)) as server:
        large, small = await server.connect(), await server.connect()
        large[1].write(framed(bytes(MEBIBYTE))[: -MEBIBYTE // 4])
        await until(lambda: server.figures.receiving_bytes > MEBIBYTE // 2)
        small[1].write(framed(bytes(MEBIBYTE))[: MEBIBYTE // 2])
        assert await is_closed(large[0])
        assert server.figures.closed_total[CloseReason.MEMORY] == 1
        small[1].write(framed(bytes(MEBIBYTE))[MEBIBYTE // 2 :])
        assert len(await small[0].readexactly(MEBIBYTE + 4)) == MEBIBYTE + 4


@on_both_loops
async def test_the_unfinished_frames_of_one_address_have_a_bound_of_their_own() -> None:
    limits = ReactorLimits(receiving_bytes_max=4 * MEBIBYTE, receiving_bytes_per_ip_max=MEBIBYTE)
    async with serving(limits) as server:
        first, second = await server.connect(), await server.connect()
        first[1].write(framed(bytes(MEBIBYTE))[: -MEBIBYTE // 4])
        await until(lambda: server.figures.receiving_bytes > MEBIBYTE // 2)
        second[1].write(framed(bytes(MEBIBYTE))[: MEBIBYTE // 2])
        assert await is_closed(first[0])
        assert server.figures.closed_total[CloseReason.MEMORY] == 1
        second[1].write(framed(bytes(MEBIBYTE))[MEBIBYTE // 2 :])
        assert len(await second[0].readexactly(MEBIBYTE + 4)) == MEBIBYTE + 4
        assert not server.figures.receiving_bytes_by_ip


@on_both_loops
async def test_drain_answers_what_is_in_flight_and_accepts_nobody() -> None:
    async with serving() as server:
        idle, waiting = await server.connect(), await server.connect()
        waiting[1].write(framed(b"later"))
        await until(lambda: bool(server.pending))
        draining = asyncio.ensure_future(server.acceptor.drain())
        assert await is_closed(idle[0])
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", server.port)
        assert not draining.done()
        server.pending[0].complete([framed(b"answer")])
        assert await waiting[0].read() == framed(b"answer")
        await draining
        assert server.figures.closed_total[CloseReason.DRAINED] == 2


@on_both_loops
async def test_drain_cuts_off_what_is_not_answered_in_time() -> None:
    async with serving(ReactorLimits(drain_ms_max=500)) as server:
        reader, writer = await server.connect()
        writer.write(framed(b"later"))
        await until(lambda: bool(server.pending))
        draining = asyncio.ensure_future(server.acceptor.drain())
        await until(lambda: len(server.wheel) > 1)
        server.pass_ms(490)
        assert not draining.done()
        server.pass_ms(20)
        await draining
        assert await is_closed(reader)


@on_both_loops
async def test_a_peer_that_never_reads_cannot_hold_up_the_close() -> None:
    async with serving(ReactorLimits(closing_ms_max=200)) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(framed(*[b"mebibyte"] * 40))
            await turns(100)
            assert len(server.seen) < 30
            server.pass_ms(server.acceptor.limits.idle_ms_max)
            assert server.figures.closed_total[CloseReason.IDLE] == 1
            await turns(100)
            assert server.figures.connections_open == 1
            server.pass_ms(200)
            await until(lambda: server.figures.connections_open == 0)


@on_both_loops
async def test_what_the_kernel_holds_of_a_connection_can_be_bounded() -> None:
    async with serving(SMALL_IN_THE_KERNEL) as server:
        reader, writer = await server.connect()
        writer.write(framed(b"m", b"m"))
        frames = [await reader.readexactly(4 + MEBIBYTE) for _ in range(2)]
        assert frames == [framed(bytes(MEBIBYTE))] * 2
    plain = ReactorLimits()
    assert plain.send_buffer_bytes is plain.receive_buffer_bytes is None, "the kernel knows best"


@on_both_loops
async def test_an_address_in_use_is_an_error() -> None:
    async with serving() as server:
        with pytest.raises(OSError, match="in use"):
            await server.acceptor.listen("127.0.0.1", server.port)


@on_both_loops
async def test_a_name_with_several_addresses_gets_one_port() -> None:
    async with serving() as server:
        _, port = await server.acceptor.listen("localhost", 0)
        _, writer = await asyncio.open_connection("localhost", port)
        await until(lambda: server.figures.connections_accepted_total == 1)
        writer.close()


@on_both_loops
async def test_a_connection_that_ended_leaves_nothing_to_the_collector() -> None:
    async with serving() as server:
        client = await server.connect()
        await ask(client, b"hello")
        gc.collect()  # what other tests left
        gc.disable()
        try:
            client[1].close()
            await until(lambda: server.figures.connections_open == 0)
            await turns(5)  # the loop itself lets go of the transport
            assert not [each for each in gc.get_objects() if isinstance(each, Connection)]
        finally:
            gc.enable()


def test_an_idle_connection_costs_well_under_8_kib() -> None:
    async def measure() -> float:
        async with serving() as server:
            with ExitStack() as clients:
                tracemalloc.start()
                for _ in range(200):
                    clients.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                await until(lambda: server.figures.connections_open == 200)
                traced_bytes, _ = tracemalloc.get_traced_memory()
                tracemalloc.stop()
            return traced_bytes / 200

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(measure()) < 4 * 1024


@on_both_loops
async def test_a_connection_that_no_transport_has_yet_is_closed_at_a_stop() -> None:
    server, loop = Server(None), asyncio.get_running_loop()

    def admits(_address: str) -> bool:
        # Before the task that hands the socket over, which is thus cancelled before its first step.
        loop.call_soon(intake.close)
        return True

    intake = Intake(
        loop,
        "TEST",
        ConnectionQuotas(ConnectionLimits()),
        admits,
        clock=server.clock,
        wheel=server.wheel,
        limits=ReactorLimits(),
        figures=server.figures,
        waits=False,
    )
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    intake.add(listener, server.acceptor._plain)
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    assert await reader.read() == b""
    assert intake.left_total == intake.entered_total == 1
    writer.close()
