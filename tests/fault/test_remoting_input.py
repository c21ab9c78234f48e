"""What peers do to remoting that they should not: garbage, lies, too much, and not reading. Others are unhurt."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, ParamSpec

import pytest
import uvloop
from tests.support.piping import Piping, piping  # noqa: F401

from hutong.foundation.clock import SystemClock
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Pending
from hutong.reactor.figures import CloseReason
from hutong.reactor.limits import ReactorLimits
from hutong.remoting.channels.answers import SYSTEM_BUSY, Answer, ReadyAnswer
from hutong.remoting.channels.channel import Channel
from hutong.remoting.client import RemotingClient
from hutong.remoting.errors import RemotingSendFailed, TooManyRequests
from hutong.remoting.limits import RemotingLimits
from hutong.remoting.server import RemotingServer
from hutong.runtime.loops.timers import LoopTimers
from hutong.wire.rocketmq.command import FRAME_BYTES_MAX, IS_ONEWAY, IS_RESPONSE, JSON, Command, encode_binary

pytestmark = [pytest.mark.fault, pytest.mark.usefixtures("piping")]
ECHO, NEVER, LARGE = 10, 11, 12
KIBIBYTE, MEBIBYTE = 1 << 10, 1 << 20
SMALL = RemotingLimits(
    unsent_bytes_max=MEBIBYTE,
    unsent_oneway_max=100,
    unsent_answer_bytes_max=2 * MEBIBYTE,
    unanswered_max=10,
    reactor=ReactorLimits(
        frame_bytes_max=FRAME_BYTES_MAX,
        unsent_bytes_max=64 * KIBIBYTE,
        send_buffer_bytes=64 * KIBIBYTE,
        receive_buffer_bytes=64 * KIBIBYTE,
    ),
)


P = ParamSpec("P")


def on_uvloop(scenario: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @wraps(scenario)
    def test(*words: P.args, **named: P.kwargs) -> None:
        uvloop.run(scenario(*words, **named))

    return test


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until the condition holds; the test's timeout is the bound."""
    loop = asyncio.get_running_loop()
    met = loop.create_future()

    def look() -> None:
        if condition():
            met.set_result(None)
        else:
            loop.call_later(0.001, look)

    look()
    await met


def ask_all(channel: Channel, count: int) -> None:
    for _ in range(count):
        channel.oneway(Command(NEVER))


class Scene:
    def __init__(self) -> None:
        self.loop, clock = asyncio.get_running_loop(), SystemClock()
        wheel = TimerWheel(clock.monotonic_ms())
        self.timers = LoopTimers(self.loop, wheel, clock)
        self.server = RemotingServer(self.loop, clock=clock, wheel=wheel, limits=SMALL, pipeline=Piping.make)
        self.client = RemotingClient(self.loop, clock=clock, wheel=wheel, limits=SMALL, pipeline=Piping.make)
        self.never_count = 0
        self.server.register(ECHO, self.echo)
        self.server.register(NEVER, self.never)
        self.server.register(LARGE, self.large)
        self.address = ""
        self.port = 0

    def echo(self, command: Command, _: Channel) -> Answer:
        return [encode_binary(0, command.opaque, IS_RESPONSE, b"", command.body)]

    def never(self, _: Command, __: Channel) -> Answer:
        self.never_count += 1
        return None

    def large(self, command: Command, _: Channel) -> Answer:
        return [encode_binary(0, command.opaque, IS_RESPONSE, b"", bytes(256 * KIBIBYTE))]

    async def raw(self, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        return reader, writer

    async def is_well(self) -> bool:
        return bytes((await self.client.invoke(self.address, Command(ECHO, body=b"well"))).body) == b"well"


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    _, made.port = await made.server.listen("127.0.0.1", 0)
    made.address = f"127.0.0.1:{made.port}"
    assert await made.is_well()
    try:
        yield made
    finally:
        await made.client.close()
        assert made.client.awaited == 0
        await made.server.close(0)
        assert made.server.awaited == 0
        assert not made.server.channels
        assert made.server.reactor_figures.receiving_bytes == 0
        made.timers.close()


GOOD = encode_binary(ECHO, 1, 0, b"", b"body")


def altered(at: int, form: str, value: int) -> bytes:
    frame = bytearray(GOOD)
    struct.pack_into(form, frame, at, value)
    return bytes(frame)


BROKEN = {
    "text": b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    "frame of 16 MiB and a byte": struct.pack(">I", FRAME_BYTES_MAX + 1),
    "frame of 4 GiB": b"\xff\xff\xff\xff",
    "empty frame": bytes(4),
    "header longer than its frame": altered(4, ">I", 1 << 24 | 1_000),
    "header shorter than it is": altered(4, ">I", 1 << 24 | 3),
    "negative remark": altered(21, ">i", -1),
    "remark longer than the header": altered(21, ">i", 1_000_000),
    "negative ext fields": altered(25, ">i", -1),
    "ext fields longer than the header": altered(25, ">i", 0x7FFFFFFF),
    "unknown form": altered(4, ">I", 9 << 24 | 21),
    "JSON that is none": struct.pack(">II", 8, JSON << 24 | 4) + b"{{{{",
}


@pytest.mark.parametrize("kind", BROKEN)
@on_uvloop
async def test_broken_bytes_close_their_own_connection(kind: str) -> None:
    async with scene() as it:
        reader, writer = await it.raw(GOOD + BROKEN[kind])
        answered = await reader.read()
        assert answered[-4:] == b"body"  # what came before is answered
        writer.close()
        assert it.server.reactor_figures.closed_total[CloseReason.PROTOCOL_ERROR] == 1
        assert await it.is_well()


@on_uvloop
async def test_the_largest_frame_passes() -> None:
    async with scene() as it:
        body = bytes(FRAME_BYTES_MAX - 25)
        answer = await it.client.invoke(it.address, Command(ECHO, body=body), 30_000)
        assert len(answer.body) == len(body)
        with pytest.raises(ValueError, match="are allowed"):
            await it.client.invoke(it.address, Command(ECHO, body=body + b"x"))
        assert await it.is_well()


@on_uvloop
async def test_answers_nobody_asked_for_are_counted_and_dropped() -> None:
    async with scene() as it:
        reader, writer = await it.raw(
            b"".join(encode_binary(0, opaque, IS_RESPONSE) for opaque in (0, 1, -1, 2**31 - 1, -(2**31))) + GOOD
        )
        assert (await reader.readexactly(len(GOOD)))[-4:] == b"body"
        writer.close()
        assert it.server.figures.unasked_total == 5


@on_uvloop
async def test_a_close_with_requests_pending_fails_them_all_at_once() -> None:
    async with scene() as it:
        channel = await it.client.connect(it.address)
        asked = [channel.invoke(Command(NEVER), 60_000) for _ in range(1_000)]
        await until(lambda: it.never_count == 1_000)
        it.server.channels[0].close()
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(outcome, RemotingSendFailed) for outcome in outcomes)
        assert it.client.awaited == 0
        assert await it.is_well()


@on_uvloop
async def test_a_connection_that_is_reset_fails_what_is_pending() -> None:
    async with scene() as it:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = f"127.0.0.1:{listener.getsockname()[1]}"
            channel = await it.client.connect(address)
            there, _ = listener.accept()
            asked = [channel.invoke(Command(NEVER), 60_000) for _ in range(10)]
            there.setblocking(False)
            assert await it.loop.sock_recv(there, 1) == b"\0"
            there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            there.close()
            outcomes = await asyncio.gather(*asked, return_exceptions=True)
            assert all(isinstance(outcome, RemotingSendFailed) for outcome in outcomes)


@on_uvloop
async def test_half_a_connection_is_one_that_has_ended() -> None:
    async with scene() as it:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            channel = await it.client.connect(f"127.0.0.1:{listener.getsockname()[1]}")
            there, _ = listener.accept()
            asked = channel.invoke(Command(NEVER), 60_000)
            there.shutdown(socket.SHUT_WR)
            with pytest.raises(RemotingSendFailed):
                await asked
            there.close()


@on_uvloop
async def test_a_peer_that_does_not_read_its_answers_is_held_and_bounded() -> None:
    async with scene() as it:
        requests = b"".join(encode_binary(LARGE, opaque, 0) for opaque in range(200))
        reader, writer = await it.raw(b"")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(requests)
        await until(lambda: any(channel.is_slowed and channel._answering_is_held for channel in it.server.channels))
        (channel,) = [channel for channel in it.server.channels if channel.is_slowed]
        assert channel.peer.unsent_bytes() < SMALL.unsent_answer_bytes_max + MEBIBYTE
        assert await it.is_well()
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        answer_bytes = 29 + 256 * KIBIBYTE
        assert len(await reader.readexactly(200 * answer_bytes)) == 200 * answer_bytes
        writer.close()


@on_uvloop
async def test_a_peer_that_does_not_read_is_not_asked_without_bounds() -> None:
    async with scene() as it:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            channel = await it.client.connect(f"127.0.0.1:{listener.getsockname()[1]}")
            there, _ = listener.accept()
            asked: list[asyncio.Future[Command]] = []
            body = bytes(64 * KIBIBYTE)
            with pytest.raises(TooManyRequests, match="unsent_bytes_max"):
                asked.extend(channel.invoke(Command(NEVER, body=body), 60_000) for _ in range(1_000))
            assert channel.peer.unsent_bytes() <= SMALL.unsent_bytes_max
            assert channel.awaited == len(asked)
            await until(lambda: channel._is_congested)
            with pytest.raises(TooManyRequests, match="unsent_oneway_max"):
                ask_all(channel, 1_000)
            there.close()
            outcomes = await asyncio.gather(*asked, return_exceptions=True)
            assert all(isinstance(outcome, RemotingSendFailed) for outcome in outcomes)


@on_uvloop
async def test_two_sides_that_ask_more_than_buffers_hold_do_not_wait_for_each_other() -> None:
    async with scene() as it:
        it.client.register(ECHO, it.echo)
        here = await it.client.connect(it.address)
        (there,) = it.server.channels
        body = bytes(14 * KIBIBYTE)
        asked = [channel.invoke(Command(ECHO, body=body), 60_000) for channel in (here, there) for _ in range(64)]
        answers = await asyncio.gather(*asked)
        assert all(len(answer.body) == len(body) for answer in answers)


@on_uvloop
async def test_a_peer_that_is_owed_too_much_is_not_read() -> None:
    async with scene() as it:
        owed: list[Pending[ReadyAnswer]] = []

        def later(_: Command, __: Channel) -> Answer:
            owed.append(Pending())
            return owed[-1]

        it.server.register(NEVER, later)
        channel = await it.client.connect(it.address)
        asked = [channel.invoke(Command(NEVER), 60_000) for _ in range(50)]
        await until(lambda: len(owed) == SMALL.unanswered_max)
        for done in range(50):
            await until(lambda done=done: len(owed) > done)  # type: ignore[misc]
            assert len(owed) - done <= SMALL.unanswered_max
            owed[done].complete(Command(0))
        await asyncio.gather(*asked)
        assert it.server.channels[0].unanswered == 0


@on_uvloop
async def test_a_flood_of_oneway_requests_of_unknown_codes_is_not_answered() -> None:
    async with scene() as it:
        reader, writer = await it.raw(
            b"".join(encode_binary(999, opaque, IS_ONEWAY) for opaque in range(10_000)) + GOOD
        )
        assert (await reader.readexactly(len(GOOD)))[-4:] == b"body"
        writer.close()


@on_uvloop
async def test_requests_that_ask_back_do_not_wait_for_each_other() -> None:
    async with scene() as it:
        it.client.register(ECHO, it.echo)

        def ask_back(_: Command, channel: Channel) -> Answer:
            pending: Pending[ReadyAnswer] = Pending()

            def answered(answer: object) -> None:
                assert isinstance(answer, Command)
                pending.complete(Command(0))

            channel.invoke_then(Command(ECHO), 60_000, answered)
            return pending

        it.server.register(NEVER, ask_back)
        channel = await it.client.connect(it.address)
        answers = await asyncio.gather(*(channel.invoke(Command(NEVER), 60_000) for _ in range(200)))
        codes = [answer.code for answer in answers]
        assert codes.count(0) >= SMALL.unanswered_max
        assert codes.count(0) + codes.count(SYSTEM_BUSY) == 200
        assert it.server.channels[0].unanswered == 0


@on_uvloop
async def test_who_is_held_is_read_again_when_it_is_asked() -> None:
    async with scene() as it:
        it.client.register(ECHO, it.echo)
        owed: list[Pending[ReadyAnswer]] = []

        def later(_: Command, __: Channel) -> Answer:
            owed.append(Pending())
            return owed[-1]

        it.server.register(NEVER, later)
        channel = await it.client.connect(it.address)
        (there,) = it.server.channels
        asked = [channel.invoke(Command(NEVER), 60_000) for _ in range(20)]
        await until(lambda: there._answering_is_held)
        assert (await there.invoke(Command(ECHO, body=b"x"), 60_000)).body == b"x"
        for pending in owed:
            pending.complete(Command(0))
        codes = [answer.code for answer in await asyncio.gather(*asked)]
        assert (codes.count(0), codes.count(SYSTEM_BUSY)) == (10, 10)
