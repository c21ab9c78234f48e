"""Servers and connections of a few lines, on asyncio's loop and on uvloop: their answers, mistakes, and bounds."""

import asyncio
import os
import signal
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import trustme
import uvloop

from hutong import reactor
from hutong.foundation.errors import Expired, LimitExceeded, OwnerGone
from hutong.reactor.front.inbox import INBOX_FRAMES_MAX, INBOX_WAITS_MAX, FrameInbox
from hutong.remoting.limits import RemotingLimits

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
HERE = "127.0.0.1:0"


def on_both_loops(scenario: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[str], None]:
    def test(loop: str) -> None:
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(scenario())

    test.__name__ = scenario.__name__
    return pytest.mark.parametrize("loop", LOOPS)(test)


def echo(line: bytes, peer: reactor.Peer) -> bytes:
    return line + b"\n"


@on_both_loops
async def test_a_function_answers_lines() -> None:
    async with reactor.serve(HERE, echo) as server, reactor.connect(server.address) as connection:
        await connection.send(b"he", b"llo\nsecond\r\n")
        assert [await connection.receive(), await connection.receive(timeout=10)] == [b"hello", b"second"]
        assert server.acceptor.figures.connections_open == 1


@on_both_loops
async def test_an_answer_may_be_buffers_pending_or_none() -> None:
    def answer(line: bytes, peer: reactor.Peer) -> reactor.Response:
        if line == b"later":
            pending = reactor.PendingResponse()
            asyncio.get_running_loop().call_soon(lambda: pending.complete([b"late", b"r\n"]))
            return pending
        return None if line == b"none" else [line, b"\n"]

    async with reactor.serve(HERE, answer) as server, reactor.connect(server.address) as connection:
        await connection.send(b"later\nnone\nlast\n")
        assert [await connection.receive(), await connection.receive()] == [b"later", b"last"]


@on_both_loops
async def test_a_handler_with_state_and_another_framing() -> None:
    class Names:
        def __init__(self) -> None:
            self.closed = asyncio.Event()

        def connection_opened(self, peer: reactor.Peer) -> None:
            peer.session = b"opened "

        def request_received(self, frame: reactor.Buffer, peer: reactor.Peer) -> reactor.Response:
            answer = peer.session + bytes(frame)
            return [len(answer).to_bytes(4, "big"), answer]

        def connection_closed(self, peer: reactor.Peer) -> None:
            self.closed.set()

    names = Names()
    async with reactor.serve(HERE, names, framing=reactor.LengthPrefixedFraming) as server:
        async with reactor.connect(server.address, framing=reactor.LengthPrefixedFraming) as connection:
            await connection.send((3).to_bytes(4, "big"), b"ann")
            assert await connection.receive() == b"opened ann"
        await names.closed.wait()


@on_both_loops
async def test_a_port_in_use_is_named_with_the_remedy() -> None:
    async with reactor.serve(HERE, echo) as server:
        with pytest.raises(OSError, match=f"{server.address} is in use by another program"):
            async with reactor.serve(server.address, echo):
                pass
        async with reactor.connect(server.address) as connection:  # the first is not harmed
            await connection.send(b"hello\n")
            assert await connection.receive() == b"hello"


@on_both_loops
async def test_nothing_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ConnectionRefusedError, match=f"nothing listens at {address}"):
            async with reactor.connect(address):
                pass


async def coroutine(line: bytes, peer: reactor.Peer) -> bytes:
    return line


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        (coroutine, "coroutine is a coroutine function"),
        (FrameInbox, "FrameInbox is a class: give an object of it"),
        (socket.socket, "socket is a class"),
        (b"x", "a handler is a function"),
    ],
)
def test_a_wrong_handler_is_refused_before_it_serves(handler: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        reactor.serve(HERE, handler)


def test_a_wrong_address_is_refused_before_it_serves() -> None:
    with pytest.raises(ValueError, match="write HOST:PORT"):
        reactor.serve("localhost", echo)
    with pytest.raises(ValueError, match="write HOST:PORT"):
        reactor.connect("localhost")


@pytest.mark.parametrize("address", [7000, ("127.0.0.1", 7000), None])
def test_an_address_that_is_no_text_is_named(address: Any) -> None:
    with pytest.raises(TypeError, match="an address is text, HOST:PORT"):
        reactor.serve(address, echo)
    with pytest.raises(TypeError, match="an address is text, HOST:PORT"):
        reactor.connect(address)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tls": "server.pem"}, "tls is an ssl.SSLContext, not 'server.pem'"),
        ({"limits": {"connections_max": 5}}, r"limits are ReactorLimits\(...\), not {'connections_max': 5}"),
        ({"limits": RemotingLimits()}, r"not RemotingLimits\(...\)"),
        ({"framing": reactor.LineFraming(10)}, "give the class"),
    ],
)
def test_options_of_another_kind_are_named(options: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        reactor.serve(HERE, echo, **options)
    with pytest.raises(TypeError, match=text):
        reactor.connect("127.0.0.1:9", **options)


@on_both_loops
async def test_times_and_buffers_of_another_kind_are_named() -> None:
    wrong: Any = "3"
    with pytest.raises(TypeError, match="timeout is a number of seconds"):
        reactor.connect("127.0.0.1:9", timeout=wrong)
    async with reactor.serve(HERE, echo) as server, reactor.connect(server.address) as connection:
        with pytest.raises(TypeError, match="timeout is a number of seconds"):
            await connection.receive(timeout=wrong)
        with pytest.raises(TypeError, match="bytes are sent, not str: encode '3'"):
            await connection.send(wrong)
        with pytest.raises(TypeError, match="grace is a number of seconds"):
            await server.close(wrong)
        await connection.send(b"alive\n")


@on_both_loops
async def test_answers_of_another_kind_end_the_connection_loudly() -> None:
    faults: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))
    answers: list[Any] = [5, {}, (b"x",), True, asyncio.sleep(0)]
    for wrong in answers:
        async with (
            reactor.serve(HERE, lambda line, peer, wrong=wrong: wrong) as server,  # type: ignore[misc]
            reactor.connect(server.address) as connection,
        ):
            await connection.send(b"hello\n")
            with pytest.raises(OwnerGone):
                await connection.receive()
    assert [str(fault).rpartition("not with ")[2] for fault in faults] == ["int", "dict", "tuple", "bool", "coroutine"]


@on_both_loops
async def test_a_block_is_entered_once() -> None:
    server = reactor.serve(HERE, echo)
    async with server:
        pass
    await server.close()
    with pytest.raises(RuntimeError, match="make another one"):
        await server.__aenter__()


@on_both_loops
async def test_an_answer_of_text_ends_the_connection_loudly() -> None:
    faults: list[BaseException] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: faults.append(context["exception"]))
    wrong: Any = lambda line, peer: line.decode()  # noqa: E731
    async with reactor.serve(HERE, wrong) as server, reactor.connect(server.address) as connection:
        await connection.send(b"hello\n")
        with pytest.raises(OwnerGone):
            await connection.receive()
    assert "encode 'hello'" in str(faults[0])


@on_both_loops
async def test_a_line_too_long_ends_its_connection_alone() -> None:
    limits = reactor.ReactorLimits(frame_bytes_max=10)
    async with (
        reactor.serve(HERE, echo, limits=limits) as server,
        reactor.connect(server.address) as rude,
        reactor.connect(server.address) as other,
    ):
        await rude.send(b"x" * 11)
        assert [frame async for frame in rude] == []
        with pytest.raises(OwnerGone):
            await rude.send(b"more\n")
        await other.send(b"hello\n")
        assert await other.receive() == b"hello"


@on_both_loops
async def test_a_client_that_does_not_take_its_frames_stops_the_reading_and_loses_none() -> None:
    count = 3 * INBOX_FRAMES_MAX
    async with reactor.serve(HERE, echo) as server, reactor.connect(server.address) as connection:
        await connection.send(b"".join(b"%d\n" % n for n in range(count)))
        inbox = connection._entered()
        while len(inbox) < INBOX_FRAMES_MAX:
            await inbox.wait_for_change()
        assert len(inbox) == INBOX_FRAMES_MAX
        assert [await connection.receive() for _ in range(count)] == [b"%d" % n for n in range(count)]


@on_both_loops
async def test_a_sender_waits_for_a_server_that_does_not_read() -> None:
    held: list[reactor.Peer] = []

    def hold(line: bytes, peer: reactor.Peer) -> reactor.Response:
        if not held:
            held.append(peer)
            return reactor.HELD
        return None

    async with reactor.serve(HERE, hold) as server, reactor.connect(server.address) as connection:

        async def send_much() -> None:
            for _ in range(400):
                await connection.send(b"x" * 65_535 + b"\n")

        sending = asyncio.get_running_loop().create_task(send_much())
        inbox = connection._entered()
        while not inbox.is_paused:
            await inbox.wait_for_change()
        assert not sending.done()
        held[0].release()
        await sending


@on_both_loops
async def test_a_silent_server_and_a_closed_connection() -> None:
    async with reactor.serve(HERE, lambda line, peer: None) as server:
        connection = reactor.connect(server.address)
        with pytest.raises(OwnerGone, match="use `async with`"):
            await connection.send(b"early\n")
        async with connection:
            with pytest.raises(Expired, match="no frame from"):
                await connection.receive(timeout=0)
        with pytest.raises(OwnerGone):
            await connection.receive()


@on_both_loops
async def test_several_tasks_wait_and_one_more_than_the_bound_is_refused() -> None:
    async with reactor.serve(HERE, echo) as server, reactor.connect(server.address) as connection:
        tasks = [asyncio.ensure_future(connection.receive()) for _ in range(INBOX_WAITS_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(LimitExceeded, match="INBOX_WAITS_MAX"):
            await connection.receive()
        # A cancelled wait neither takes a frame nor ends the others.
        tasks.pop().cancel()
        await connection.send(b"".join(b"%d\n" % n for n in range(len(tasks))))
        assert sorted(await asyncio.gather(*tasks)) == sorted(b"%d" % n for n in range(len(tasks)))
        late = asyncio.ensure_future(connection.receive())
        await asyncio.sleep(0)
        await server.close(0)
        with pytest.raises(OwnerGone, match="has ended"):
            await late


@on_both_loops
async def test_tls() -> None:
    authority = trustme.CA()
    inside, outside = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(inside)
    authority.configure_trust(outside)
    async with (
        reactor.serve(HERE, echo, tls=inside) as server,
        reactor.connect(server.address, tls=outside) as connection,
    ):
        await connection.send(b"secret\n")
        assert await connection.receive() == b"secret"


@on_both_loops
async def test_a_signal_ends_the_serving() -> None:
    async with reactor.serve(HERE, echo) as server:
        loop = asyncio.get_running_loop()
        serving = loop.create_task(server.serve_until_signal())
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        await serving


def test_outside_of_the_main_thread_it_serves_until_it_is_cancelled() -> None:
    async def serve() -> None:
        async with reactor.serve(HERE, echo) as server:
            serving = asyncio.get_running_loop().create_task(server.serve_until_signal())
            await asyncio.sleep(0)
            assert not serving.done()
            serving.cancel()
            await asyncio.wait([serving])
            assert serving.cancelled()

    asyncio.run(asyncio.to_thread(asyncio.run, serve()))
