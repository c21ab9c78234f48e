"""Remoting in a few lines: both sides ask and answer, mistakes are named, and the examples run."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from hutong import remoting
from hutong.remoting.work.driver import ContextPlace
from hutong.runtime import Runtime
from hutong.runtime.threads.offload import ThreadOffload

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
HERE = "127.0.0.1:0"
ECHO, BACK = 10, 11


def on_both_loops(scenario: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[str], None]:
    def test(loop: str) -> None:
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(scenario())

    test.__name__ = scenario.__name__
    return pytest.mark.parametrize("loop", LOOPS)(test)


def echo(command: remoting.Command, channel: remoting.Channel) -> remoting.Command:
    return remoting.Command(0, body=command.body)


@on_both_loops
async def test_both_sides_ask_and_answer() -> None:
    heard = asyncio.Event()

    def back(command: remoting.Command, channel: remoting.Channel) -> None:
        channel.oneway(remoting.Command(BACK))

    def note(command: remoting.Command, channel: remoting.Channel) -> None:
        heard.set()

    async with (
        remoting.serve(HERE, {ECHO: echo, BACK: back}) as server,
        remoting.connect(server.address, {BACK: note}) as connection,
    ):
        answer = await connection.invoke(remoting.Command(ECHO, body=b"hello"), timeout=10)
        assert bytes(answer.body) == b"hello"
        await connection.oneway(remoting.Command(BACK))
        await heard.wait()
        assert (await connection.channel()).is_open
        assert (await connection.invoke(remoting.Command(99))).code == 3
        assert server.remoting.reactor_figures.connections_open == 1


@on_both_loops
async def test_a_lost_connection_is_made_again() -> None:
    async with remoting.serve(HERE, {ECHO: echo}) as server, remoting.connect(server.address) as connection:
        closed = asyncio.Event()
        connection.remoting.add_listener(lambda event: closed.set() if event.kind.name == "CLOSE" else None)
        server.remoting.channels[0].close()
        await closed.wait()
        assert (await connection.invoke(remoting.Command(ECHO))).code == 0


@on_both_loops
async def test_a_processor_on_a_thread_and_one_in_a_context() -> None:
    async def later(command: remoting.Command, channel: remoting.Channel) -> remoting.Command:
        await asyncio.sleep(0)
        return remoting.Command(0, body=b"later")

    def blocking(command: remoting.Command, channel: remoting.Channel) -> remoting.Command:
        return remoting.Command(0, body=threading.current_thread().name.encode())

    threads = ThreadOffload(asyncio.get_running_loop(), 1, "blocking")
    try:
        async with remoting.serve(HERE, {}) as server, remoting.connect(server.address) as connection:
            server.register(1, blocking, server.executor("blocking", threads, wait=5))
            assert bytes((await connection.invoke(remoting.Command(1))).body).startswith(b"blocking")
            async with Runtime() as runtime:
                place = ContextPlace(runtime.context(), asyncio.get_running_loop())
                server.register(2, later, server.executor("later", place))
                assert bytes((await connection.invoke(remoting.Command(2))).body) == b"later"
    finally:
        threads.close()


@on_both_loops
async def test_a_port_in_use_and_a_server_that_is_not_there() -> None:
    async with remoting.serve(HERE, {ECHO: echo}) as server:
        with pytest.raises(OSError, match="in use by another program"):
            async with remoting.serve(server.address, {}):
                pass
    with pytest.raises(remoting.RemotingConnectFailed, match=f"nothing listens at {server.address}"):
        async with remoting.connect(server.address):
            pass


@on_both_loops
async def test_a_connection_outside_of_its_block() -> None:
    connection = remoting.connect("127.0.0.1:9")
    with pytest.raises(remoting.RemotingConnectFailed, match="use `async with`"):
        await connection.invoke(remoting.Command(ECHO))


async def coroutine(command: remoting.Command, channel: remoting.Channel) -> remoting.Command:
    return remoting.Command(0)


@on_both_loops
async def test_an_answer_that_cannot_be_sent_is_the_requests_fault_alone() -> None:
    faults: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))
    wrong: Any = {
        1: lambda command, channel: remoting.Command(0, body="text"),  # type: ignore[arg-type]
        2: lambda command, channel: remoting.Command(0, fields={"a": 1}),  # type: ignore[dict-item]
        3: lambda command, channel: remoting.Command("0"),  # type: ignore[arg-type]
        4: lambda command, channel: remoting.Command(1 << 40),
        5: lambda command, channel: remoting.Command(0, body=bytes(remoting.FRAME_BYTES_MAX)),
        6: lambda command, channel: "text",
        7: lambda command, channel: asyncio.sleep(0),
    }
    async with remoting.serve(HERE, {**wrong, ECHO: echo}) as server, remoting.connect(server.address) as connection:
        for code in wrong:
            assert (await connection.invoke(remoting.Command(code))).code == 1
            assert (await connection.invoke(remoting.Command(ECHO))).code == 0
        assert server.remoting.reactor_figures.connections_accepted_total == 1
    assert len(faults) == len(wrong)
    assert "not a Command, a list of buffers, a Pending or None" in str(faults[-1])


@on_both_loops
async def test_what_is_asked_must_be_a_command_that_fits() -> None:
    commands: list[tuple[Any, str]] = [
        (b"x", "a Command is sent, such as"),
        (remoting.Command(10, body="x"), "the body of a command is bytes, not str"),  # type: ignore[arg-type]
        (remoting.Command(10, fields={"a": 1}), "ext fields are text by name"),  # type: ignore[dict-item]
    ]
    async with remoting.serve(HERE, {ECHO: echo}) as server, remoting.connect(server.address) as connection:
        for command, text in commands:
            with pytest.raises(TypeError, match=text):
                await connection.invoke(command)
            with pytest.raises(TypeError, match=text):
                await connection.oneway(command)
        with pytest.raises(ValueError, match="is no number of 32 bits"):
            await connection.invoke(remoting.Command(1 << 40))
        # By the channel itself the encoder finds it, and nothing is awaited then.
        channel = await connection.channel()
        with pytest.raises(TypeError):
            channel.invoke(commands[1][0])
        assert connection.remoting.awaited == 0
        with pytest.raises(TypeError, match="a number of seconds"):
            await connection.invoke(remoting.Command(ECHO), timeout="3")  # type: ignore[arg-type]
        assert (await connection.invoke(remoting.Command(ECHO))).code == 0


def test_mistakes_are_found_before_anything_is_opened() -> None:
    with pytest.raises(TypeError, match="code 7 is a coroutine function: register it inside the block"):
        remoting.serve(HERE, {7: coroutine})
    wrong: Any = {7: b"no function"}
    with pytest.raises(TypeError, match="code 7 is a function"):
        remoting.connect("127.0.0.1:9876", wrong)
    with pytest.raises(ValueError, match="write HOST:PORT"):
        remoting.connect("localhost")
    options: list[tuple[Any, dict[str, Any], str]] = [
        ([echo], {}, "a dict of functions by request code"),
        ({"10": echo}, {}, "a request code is a number, not '10'"),
        ({}, {"tls": "server.pem"}, "tls is an ssl.SSLContext"),
        ({}, {"limits": 5}, r"limits are RemotingLimits\(...\), not 5"),
    ]
    for processors, named, text in options:
        with pytest.raises(TypeError, match=text):
            remoting.serve(HERE, processors, **named)
        with pytest.raises(TypeError, match=text):
            remoting.connect("127.0.0.1:9876", processors, **named)
    with pytest.raises(TypeError, match="mode is a TlsMode"):
        remoting.serve(HERE, {}, mode="permissive")  # type: ignore[arg-type]


def test_the_examples_speak_to_each_other_and_to_a_plain_socket() -> None:
    """The server of the page, asked by the page's client, and by the JSON that RocketMQ's clients send first."""
    words = [sys.executable, str(EXAMPLES / "remoting_server.py"), HERE]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            address = server.stdout.readline().strip()
            host, _, port = address.rpartition(":")
            header = json.dumps({"code": ECHO, "language": "JAVA", "version": 475, "opaque": 7, "flag": 0}).encode()
            size = len(header).to_bytes(4, "big")
            with socket.create_connection((host, int(port))) as plain, plain.makefile("rb") as answers:
                plain.sendall((4 + len(header) + 5).to_bytes(4, "big") + size + header + b"hello")
                frame = answers.read(int.from_bytes(answers.read(4), "big"))
                end = 4 + int.from_bytes(frame[1:4], "big")
                answer = json.loads(frame[4:end])
                assert (answer["code"], answer["opaque"], answer["flag"], frame[end:]) == (0, 7, 1, b"hello")
            words = [sys.executable, str(EXAMPLES / "remoting_client.py"), address]
            assert subprocess.check_output(words, text=True, timeout=60) == "b'hello'\n"
            server.terminate()
            assert server.wait() == 0
        finally:
            server.kill()
