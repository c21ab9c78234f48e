"""Pipelines of served connections: the example of the page, pushes to others, faults, and answers nobody reads."""

import asyncio
import json
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trustme
from tests.unit.reactor.front.test_serving import on_both_loops
from tests.unit.rpc.scenes import until

from hutong import reactor
from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import Expired, OwnerGone
from hutong.reactor.figures import CloseReason
from hutong.reactor.front.inbox import INBOX_FRAMES_MAX
from hutong.reactor.front.piped import PipelineFraming
from hutong.reactor.pipeline.machine import OUTPUT_BYTES_MAX

HERE = "127.0.0.1:0"
EXAMPLE = Path(__file__).parents[4] / "docs" / "examples" / "key_value.py"


class Answers(reactor.PipelineHandler):
    def inbound(self, value: bytes, link: reactor.PipelineLink) -> None:
        if value == b"fault":
            raise ZeroDivisionError("a fault of ours")
        if value == b"close":
            link.pass_outbound(b"bye")
            link.pipeline.close()
        link.pass_outbound(value)


@on_both_loops
async def test_a_pipeline_answers_and_closes() -> None:
    async with reactor.serve(HERE, pipeline=lambda: [reactor.LineFrames(10), Answers()]) as server:
        async with reactor.connect(server.address) as connection:
            await connection.send(b"one\ntw")
            await connection.send(b"o\nclose\nthree\n")
            assert [line async for line in connection] == [b"one", b"two", b"bye"]
        async with reactor.connect(server.address) as connection:
            await connection.send(b"one\n", b"x" * 11)
            assert [line async for line in connection] == [b"one"]


@on_both_loops
async def test_a_fault_ends_its_connection_alone_and_loudly() -> None:
    faults: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))
    async with (
        reactor.serve(HERE, pipeline=lambda: [reactor.LineFrames(), Answers()]) as server,
        reactor.connect(server.address) as rude,
        reactor.connect(server.address) as other,
    ):
        await rude.send(b"fault\n")
        with pytest.raises(OwnerGone):
            await rude.receive()
        await other.send(b"hello\n")
        assert await other.receive() == b"hello"
    assert [type(fault) for fault in faults] == [ZeroDivisionError]


class Chat(reactor.PipelineHandler):
    """Sends each line to all others."""

    def __init__(self, members: list[reactor.PipelineLink]) -> None:
        self.members = members

    def event(self, event: object, link: reactor.PipelineLink) -> None:
        if isinstance(event, reactor.ConnectionOpened):
            self.members.append(link)
            link.pass_outbound(b"welcome")
        elif isinstance(event, reactor.ConnectionEnded):
            self.members.remove(link)

    def inbound(self, value: bytes, link: reactor.PipelineLink) -> None:
        for member in self.members:
            if member is not link:
                member.pipeline.send(value)


@on_both_loops
async def test_a_chat_sends_to_other_connections() -> None:
    members: list[reactor.PipelineLink] = []
    async with (
        reactor.serve(HERE, pipeline=lambda: [reactor.LineFrames(), Chat(members)]) as server,
        reactor.connect(server.address) as ann,
        reactor.connect(server.address) as bob,
    ):
        assert [await ann.receive(), await bob.receive()] == [b"welcome", b"welcome"]
        await ann.send(b"hello bob\n")
        assert await bob.receive() == b"hello bob"
        await bob.send(b"hello ann\n")
        assert await ann.receive() == b"hello ann"
    assert members == []


@on_both_loops
async def test_short_questions_for_long_answers_wait_for_the_reader() -> None:
    long = bytes(OUTPUT_BYTES_MAX // 2 - 4)
    made: list[Any] = []

    class Long(reactor.PipelineHandler):
        def inbound(self, value: bytes, link: reactor.PipelineLink) -> None:
            made.append(value)
            link.pass_outbound(long)

    limits = reactor.ReactorLimits(frame_bytes_max=OUTPUT_BYTES_MAX)
    async with (
        reactor.serve(HERE, pipeline=lambda: [reactor.LengthFrames(), Long()]) as server,
        reactor.connect(server.address, framing=reactor.LengthPrefixedFraming, limits=limits) as connection,
    ):
        await connection.send(b"\0\0\0\1q" * 400)  # 50 MiB of answers
        assert await connection.receive() == long
        assert len(made) < 400
        for _ in range(399):
            assert len(await connection.receive()) == len(long)
        assert len(made) == 400


class Lookup(reactor.PipelineHandler):
    """Answers each line later, and takes no other meanwhile."""

    def __init__(self) -> None:
        self.now = 0

    def inbound(self, value: bytes, link: reactor.PipelineLink) -> None:
        self.now += 1
        assert self.now == 1, "nothing passes while it is held"
        link.pipeline.hold()
        self.task = asyncio.get_running_loop().create_task(self.answer(value, link))

    async def answer(self, value: bytes, link: reactor.PipelineLink) -> None:
        await asyncio.sleep(0)
        link.pass_outbound(b"looking")
        await asyncio.sleep(0)
        link.pass_outbound(value)
        self.now -= 1
        link.pipeline.release()


@on_both_loops
async def test_a_handler_that_waits_holds_the_lines_behind() -> None:
    async with (
        reactor.serve(HERE, pipeline=lambda: [reactor.LineFrames(), Lookup()]) as server,
        reactor.connect(server.address) as connection,
    ):
        await connection.send(b"".join(b"%d\n" % n for n in range(50)), b"hal")
        for n in range(50):
            assert [await connection.receive(), await connection.receive()] == [b"looking", b"%d" % n]
        await connection.send(b"f\n")
        assert [await connection.receive(), await connection.receive()] == [b"looking", b"half"]


@on_both_loops
async def test_a_connection_that_ends_while_it_is_held_leaves_nothing_behind() -> None:
    ended = asyncio.Event()

    class Holds(reactor.PipelineHandler):
        def inbound(self, value: bytes, link: reactor.PipelineLink) -> None:
            link.pipeline.hold()

        def event(self, event: object, link: reactor.PipelineLink) -> None:
            if isinstance(event, reactor.ConnectionEnded):
                link.pass_outbound(b"late")
                link.pipeline.release()
                ended.set()

    async with reactor.serve(HERE, pipeline=lambda: [reactor.LineFrames(), Holds()]) as server:
        async with reactor.connect(server.address) as connection:
            await connection.send(b"1\n2\n3\n")
            await until(lambda: server.acceptor.figures.reading_pauses_total)
        # A held connection is not read: it ends with the server, at the latest.
        await server.close(0)
        assert ended.is_set()
        assert server.acceptor.figures.connections_open == 0


@on_both_loops
async def test_plain_and_tls_on_one_port() -> None:
    authority = trustme.CA()
    inside, outside = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(inside)
    authority.configure_trust(outside)

    def choose(first: bytes) -> list[reactor.PipelineHandler]:
        return [reactor.TlsHandler(inside)] if reactor.is_tls(first) else []

    def handlers() -> list[reactor.PipelineHandler]:
        return [reactor.SniffHandler(choose), reactor.LineFrames(), Answers()]

    long = b"x" * 100_000
    async with reactor.serve(HERE, pipeline=handlers) as server:
        for tls in (None, outside):
            async with reactor.connect(server.address, tls=tls) as connection:
                await connection.send(b"hello\n", long, b"\nclose\n")
                assert [line async for line in connection] == [b"hello", long, b"bye"]
        # One that does not trust the certificate fails alone.
        with pytest.raises(ssl.SSLCertVerificationError):
            async with reactor.connect(server.address, tls=ssl.create_default_context()):
                pass
        async with reactor.connect(server.address, tls=outside) as connection:
            await connection.send(b"again\n")
            assert await connection.receive() == b"again"


@on_both_loops
async def test_what_is_begun_and_not_continued_has_the_deadline_of_a_frame() -> None:
    """Half of a sniff, of a handshake, of a line: others go on."""
    inside = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(inside)

    def choose(first: bytes) -> list[reactor.PipelineHandler] | None:
        if reactor.is_tls(first):
            return [reactor.TlsHandler(inside)]
        return [] if len(first) > 3 else None

    def handlers() -> list[reactor.PipelineHandler]:
        return [reactor.SniffHandler(choose), reactor.LineFrames(), Answers()]

    limits = reactor.ReactorLimits(frame_ms_max=40)
    async with (
        reactor.serve(HERE, pipeline=handlers, limits=limits) as server,
        reactor.connect(server.address) as good,
    ):
        for half in (b"abc", b"\x16\x03\x01\x02\x00\x01", b"half a line"):
            async with reactor.connect(server.address) as slow:
                await slow.send(half)
                assert [line async for line in slow] == []
        await good.send(b"whole\n")
        assert await good.receive() == b"whole"
        assert server.acceptor.figures.closed_total[CloseReason.SLOW_SENDER] == 3


@on_both_loops
async def test_an_idle_connection_gets_a_farewell_and_is_closed() -> None:
    class Ends(reactor.PipelineHandler):
        def event(self, event: object, link: reactor.PipelineLink) -> None:
            if isinstance(event, reactor.IdleEvent):
                link.pass_outbound(b"bye")
                link.pipeline.close()

    def handlers() -> list[reactor.PipelineHandler]:
        return [reactor.IdleHandler(0.02), reactor.LineFrames(), Ends()]

    async with reactor.serve(HERE, pipeline=handlers) as server, reactor.connect(server.address) as connection:
        assert [line async for line in connection] == [b"bye"]


@on_both_loops
async def test_a_fault_in_a_timer_ends_the_connection_loudly() -> None:
    faults: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))

    class Faulty(reactor.PipelineHandler):
        def event(self, event: object, link: reactor.PipelineLink) -> None:
            if isinstance(event, reactor.IdleEvent):
                raise ZeroDivisionError

    def handlers() -> list[reactor.PipelineHandler]:
        return [reactor.IdleHandler(0.02), Faulty()]

    async with reactor.serve(HERE, pipeline=handlers) as server, reactor.connect(server.address) as connection:
        assert [line async for line in connection] == []
    assert [type(fault) for fault in faults] == [ZeroDivisionError]


@on_both_loops
async def test_a_fault_at_the_opening_or_the_end_leaves_nothing_behind() -> None:
    faults: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))

    class Faulty(reactor.PipelineHandler):
        def __init__(self, fault: type) -> None:
            self.fault = fault

        def event(self, event: object, link: reactor.PipelineLink) -> None:
            if isinstance(event, self.fault):
                raise ZeroDivisionError

    for fault in (reactor.ConnectionOpened, reactor.ConnectionEnded):
        async with reactor.serve(HERE, pipeline=lambda fault=fault: [Faulty(fault)]) as server:  # type: ignore[misc]
            async with reactor.connect(server.address) as connection:
                if fault is reactor.ConnectionOpened:
                    assert [line async for line in connection] == []
            await server.close(0)
            assert server.acceptor.figures.connections_open == 0
    assert [type(fault) for fault in faults] == [ZeroDivisionError] * 2


# Clients.


def json_lines() -> list[reactor.PipelineHandler]:
    return [reactor.LineFrames(), reactor.JsonCodec()]


@on_both_loops
async def test_a_client_sends_and_receives_values() -> None:
    async with (
        reactor.serve(HERE, pipeline=lambda: [reactor.LineFrames(), Answers()]) as server,
        reactor.connect(server.address, pipeline=json_lines) as connection,
    ):
        await connection.send({"a": [1]}, "two")
        assert [await connection.receive(), await connection.receive(timeout=10)] == [{"a": [1]}, "two"]
        # What the codec cannot encode is refused here, and the connection lives.
        with pytest.raises(TypeError):
            await connection.send(object())
        # A handler is exchanged while it runs.
        connection.pipeline.remove("JsonCodec")
        await connection.send(b"raw")
        assert await connection.receive() == b"raw"
        with pytest.raises(Expired, match="no frame from"):
            await connection.receive(timeout=0)
        await connection.send(b"close")
        assert [value async for value in connection] == [b"bye"]
        with pytest.raises(OwnerGone, match="has ended"):
            await connection.send(b"late")


@on_both_loops
async def test_a_client_keeps_a_connection_alive_and_says_goodbye() -> None:
    class Ping(reactor.PipelineHandler):
        def event(self, event: object, link: reactor.PipelineLink) -> None:
            if isinstance(event, reactor.IdleEvent):
                link.pass_outbound(b"ping")
            link.pass_event(event)

        def closing(self, link: reactor.PipelineLink) -> None:
            link.pass_outbound(b"bye")

    heard: asyncio.Queue[bytes] = asyncio.Queue()

    def hear(line: bytes, peer: reactor.Peer) -> None:
        heard.put_nowait(line)

    def handlers() -> list[reactor.PipelineHandler]:
        return [reactor.IdleHandler(0.01), reactor.LineFrames(), Ping()]

    async with reactor.serve(HERE, hear) as server, reactor.connect(server.address, pipeline=handlers) as connection:
        assert [await heard.get(), await heard.get()] == [b"ping", b"ping"]
        connection.pipeline.close()
        assert [line async for line in connection] == []
        while (line := await heard.get()) == b"ping":
            pass
        assert line == b"bye"


@on_both_loops
async def test_values_that_nobody_takes_stop_the_reading_and_none_is_lost() -> None:
    count = 10 * INBOX_FRAMES_MAX
    async with (
        reactor.serve(HERE, echo_line) as server,
        reactor.connect(server.address, pipeline=json_lines) as connection,
    ):
        for start in range(0, count, 100):
            await connection.send(*range(start, min(start + 100, count)))
        inbox = connection._entered()
        while len(inbox) < INBOX_FRAMES_MAX:
            await inbox.wait_for_change()
        assert connection.pipeline.is_held
        assert len(inbox) == INBOX_FRAMES_MAX
        assert [await connection.receive() for _ in range(count)] == list(range(count))
        assert not connection.pipeline.is_held


@on_both_loops
async def test_large_values_count_by_the_bytes_that_came() -> None:
    large = "x" * 300_000
    async with (
        reactor.serve(HERE, echo_line) as server,
        reactor.connect(server.address, pipeline=json_lines) as connection,
    ):

        async def send_much() -> None:
            for _ in range(40):
                await connection.send(large)

        sending = asyncio.ensure_future(send_much())
        inbox = connection._entered()
        while not connection.pipeline.is_held:
            await inbox.wait_for_change()
        assert len(inbox) <= 5
        assert [await connection.receive() for _ in range(40)] == [large] * 40
        await sending


@on_both_loops
async def test_a_fault_in_what_came_is_named_to_the_client() -> None:
    async with reactor.serve(HERE, lambda line, peer: b"no json\n") as server:
        async with reactor.connect(server.address, pipeline=json_lines) as connection:
            await connection.send(1)
            with pytest.raises(OwnerGone, match="has ended: no valid JSON"):
                await connection.receive()
        limits = reactor.ReactorLimits(frame_bytes_max=3)
        async with reactor.connect(server.address, limits=limits) as connection:
            await connection.send(b"1\n")
            with pytest.raises(OwnerGone, match="has ended: a line of more than 3 bytes"):
                await connection.receive()


@on_both_loops
async def test_a_fault_of_a_clients_handler_ends_its_connection_loudly() -> None:
    faults: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))
    async with (
        reactor.serve(HERE, echo_line) as server,
        reactor.connect(server.address, pipeline=lambda: [reactor.LineFrames(), Answers()]) as connection,
    ):
        await connection.send(b"fault")
        with pytest.raises(OwnerGone):
            await connection.receive()
    assert [type(fault) for fault in faults] == [ZeroDivisionError]


@on_both_loops
async def test_a_pipeline_that_cannot_be_made_ends_its_connection_alone_and_loudly() -> None:
    faults: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))
    is_broken = True

    def handlers() -> list[Any]:
        return [reactor.LineFrames, Answers()] if is_broken else [reactor.LineFrames(), Answers()]

    async with reactor.serve(HERE, pipeline=handlers) as server:
        async with reactor.connect(server.address) as connection:
            assert [line async for line in connection] == []
        with pytest.raises(TypeError, match="give an object of it"):
            async with reactor.connect(server.address, pipeline=handlers):
                pass
        is_broken = False
        async with reactor.connect(server.address) as connection:
            await connection.send(b"one\n")
            assert await connection.receive() == b"one"
    assert {type(fault) for fault in faults} == {TypeError}


def echo_line(line: bytes, peer: reactor.Peer) -> bytes:
    return line + b"\n"


async def coroutine() -> list[reactor.PipelineHandler]:
    return []


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ([reactor.LineFrames()], "a function that makes the handlers"),
        (reactor.LineFrames, "LineFrames is a handler: write pipeline=lambda"),
        (coroutine, "coroutine is a coroutine function"),
    ],
)
def test_what_cannot_make_handlers_is_refused_at_once(wrong: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        reactor.serve(HERE, pipeline=wrong)
    with pytest.raises(TypeError, match=text):
        reactor.connect("127.0.0.1:9", pipeline=wrong)


def test_a_connection_has_a_framing_or_a_pipeline() -> None:
    both: Any = {"framing": reactor.LineFraming, "pipeline": json_lines}
    with pytest.raises(TypeError, match="give one of them"):
        reactor.connect("127.0.0.1:9", **both)


def test_a_server_has_a_handler_or_a_pipeline() -> None:
    with pytest.raises(TypeError, match="a handler"):
        reactor.serve(HERE)
    with pytest.raises(TypeError, match="give one of them"):
        reactor.serve(HERE, lambda line, peer: None, pipeline=list)


def test_a_read_that_only_continues_a_frame_does_not_renew_its_deadline() -> None:
    framing = PipelineFraming(100, [reactor.LineFrames(), Answers()], ManualClock())
    assert framing.receive_data(b"one\ntw") == [b""]
    framing.pipeline.data_to_send()
    assert framing.receive_data(b"o") == []
    assert framing.bytes_held == 3
    assert framing.receive_data(b"\n") == [b""]
    assert framing.bytes_held == 0


def test_the_example_of_the_page() -> None:
    words = [sys.executable, str(EXAMPLE), HERE]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            host, _, port = server.stdout.readline().split()[-1].rpartition(":")
            with socket.create_connection((host, int(port))) as client, client.makefile("rb") as lines:
                client.sendall(b'{"set":"a","to":[1]}\n{"get":"a"}\nnonsense\n{"get":1}\n')
                answers = [json.loads(lines.readline()) for _ in range(4)]
            assert answers[:2] == [{"set": "a"}, {"value": [1]}]
            assert answers[2]["error"].startswith("no valid JSON")
            assert answers[3] == {"error": "neither get nor set, or no room"}
            words = [sys.executable, str(EXAMPLE.with_name("key_value_client.py")), f"{host}:{port}"]
            done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
            assert done.stdout.splitlines() == ["{'set': 'a'}", "{'value': [1]}"]
            server.terminate()
            assert server.wait() == 0
        finally:
            server.kill()
