"""Pipelines of served connections: the example of the page, pushes to others, faults, and answers nobody reads."""

import asyncio
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.reactor.front.test_serving import on_both_loops

from hutong import reactor
from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import OwnerGone
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
            server.terminate()
            assert server.wait() == 0
        finally:
            server.kill()
