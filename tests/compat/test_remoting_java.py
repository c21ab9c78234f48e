"""RocketMQ's own remoting (Java, Netty) as the client of our server and as the server of our client."""

import asyncio
import pathlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trustme
import uvloop
from tests.support.maven import java_program

from hutong import remoting
from hutong.foundation.clock import SystemClock
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Pending
from hutong.reactor.tls.server_contexts import server_context
from hutong.remoting.channels.answers import Answer, ReadyAnswer
from hutong.remoting.channels.channel import Channel
from hutong.remoting.client import RemotingClient
from hutong.remoting.errors import RemotingTimeout
from hutong.remoting.server import RemotingServer, TlsMode
from hutong.runtime.loops.timers import LoopTimers
from hutong.wire.rocketmq.command import BINARY, JSON, Command

ARTIFACT = "org.apache.rocketmq:rocketmq-remoting:5.3.3"
SOURCE = pathlib.Path(__file__).parent / "remoting_peer" / "RemotingPeer.java"
ECHO, NEVER, ASK_BACK, NOTED, NOTED_COUNT = range(10, 15)
FORMS = {"JSON": JSON, "ROCKETMQ": BINARY}
WORDS = "grüß dich"
CLIENT_S_MAX = 90.0  # less than the timeout of a test, which does not say how far the client came
NO_FIELDS = {"JSON": "{}", "ROCKETMQ": "null"}  # as Java has decoded them


@pytest.fixture(scope="session")
def peer() -> list[str]:
    return java_program("remoting", SOURCE, ARTIFACT)


class Side:
    """The work of our side, which is that of Java's."""

    def __init__(self) -> None:
        self.noted = 0

    def register(self, side: RemotingServer | RemotingClient) -> None:
        side.register(ECHO, self.echo)
        side.register(NEVER, lambda command, channel: None)
        side.register(ASK_BACK, self.ask_back)
        side.register(NOTED, self.note)
        side.register(NOTED_COUNT, self.count)

    def echo(self, command: Command, _: Channel) -> Answer:
        return self.answer(command, command.body)

    def answer(self, command: Command, body: object) -> Command:
        form = "JSON" if command.serialization == JSON else "ROCKETMQ"
        return Command(0, body=body, remark=f"heard {command.ext()['say']}", fields={"form": form})  # type: ignore[arg-type]

    def note(self, _: Command, __: Channel) -> Answer:
        self.noted += 1
        return None

    def count(self, command: Command, _: Channel) -> Answer:
        return self.answer(command, b"%d" % self.noted)

    def ask_back(self, command: Command, channel: Channel) -> Answer:
        question = Command(ECHO, body=b"and you", fields={"say": WORDS}, serialization=command.serialization)

        pending: Pending[ReadyAnswer] = Pending()

        def answered(answer: object) -> None:
            assert isinstance(answer, Command)
            pending.complete(self.answer(command, told_of(answer).encode()))

        channel.invoke_then(question, 3_000, answered)
        return pending


def told_of(answer: Command) -> str:
    """As the Java program tells of an answer."""
    form = "JSON" if answer.serialization == JSON else "ROCKETMQ"
    fields = ", ".join(f"{name}={value}" for name, value in answer.ext().items())
    return f"{answer.code}|{answer.remark}|{form}|{{{fields}}}|{bytes(answer.body).decode()}"


def heard(form: str, body: str, *, answered_in: str | None = None) -> str:
    """The answer of the other side. Java's is always JSON; ours has the form of the question."""
    return f"0|heard {WORDS}|{answered_in or form}|{{form={form}}}|{body}"


@asynccontextmanager
async def sides() -> AsyncIterator[tuple[RemotingServer, RemotingClient]]:
    loop, clock = asyncio.get_running_loop(), SystemClock()
    wheel = TimerWheel(clock.monotonic_ms())
    timers = LoopTimers(loop, wheel, clock)
    server = RemotingServer(loop, clock=clock, wheel=wheel)
    client = RemotingClient(loop, clock=clock, wheel=wheel)
    Side().register(server)
    Side().register(client)
    try:
        yield server, client
    finally:
        await client.close()
        await server.close(0)
        timers.close()


async def lines_of(words: list[str]) -> list[str]:
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    lines: list[str] = []
    try:
        async with asyncio.timeout(CLIENT_S_MAX):
            while line := await process.stdout.readline():
                lines.append(line.decode().rstrip("\n"))
            await process.wait()
    except TimeoutError:
        pytest.fail(f"{words[-4:]} has not ended after {CLIENT_S_MAX:g} s; it has printed {lines}")
    finally:
        if process.returncode is None:  # else its threads outlive the test
            process.kill()
            await process.wait()
    assert process.returncode == 0, lines
    return lines


def expected(form: str) -> list[str]:
    return [
        f"sync {heard(form, 'sync')}",
        "async 200",
        f"noted {heard(form, '5')}",
        f"back {heard(form, heard(form, 'and you', answered_in='JSON'))}",
        f"unknown 3|request type 999 not supported|{form}|{NO_FIELDS[form]}|",
        "timeout RemotingTimeoutException",
        "large 3000000",
    ]


@pytest.mark.parametrize(("form", "tls"), [("JSON", "plain"), ("ROCKETMQ", "plain"), ("ROCKETMQ", "tls")])
def test_a_java_client(peer: list[str], form: str, tls: str, tmp_path: pathlib.Path) -> None:
    """Both kinds of connection on one permissive listener."""
    trustme.CA().issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")

    async def scenario() -> None:
        async with sides() as (server, _):
            host, port = await server.listen(
                "127.0.0.1", 0, tls=server_context(tmp_path / "server.pem"), mode=TlsMode.PERMISSIVE
            )
            words = [*peer, "client", f"{host}:{port}", form, *(["tls"] if tls == "tls" else [])]
            assert await lines_of(words) == expected(form)
            assert server.reactor_figures.connections_accepted_total >= 1
            assert server.awaited == 0

    uvloop.run(scenario())


@pytest.mark.parametrize("form", FORMS)
def test_a_java_client_of_a_server_of_few_lines(peer: list[str], form: str) -> None:
    async def scenario() -> None:
        async with remoting.serve("127.0.0.1:0", {}) as server:
            Side().register(server.remoting)
            assert await lines_of([*peer, "client", server.address, form]) == expected(form)

    uvloop.run(scenario())


@pytest.mark.parametrize("form", FORMS)
def test_a_java_server(peer: list[str], form: str) -> None:
    async def scenario() -> None:
        process = await asyncio.create_subprocess_exec(
            *peer, "server", form, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            port = int((await process.stdout.readline()).split()[1])
            async with sides() as (_, client):
                await ask_everything(client, f"127.0.0.1:{port}", form)
                assert client.awaited == 0
        finally:
            process.kill()
            process.stdin.close()
            await process.wait()

    uvloop.run(scenario())


async def ask_everything(client: RemotingClient, address: str, form: str) -> None:
    def question(code: int, body: bytes = b"") -> Command:
        return Command(code, body=body, fields={"say": WORDS}, serialization=FORMS[form])

    assert told_of(await client.invoke(address, question(ECHO, b"first"), 10_000)) == heard(
        form, "first", answered_in="JSON"
    )
    answers = await asyncio.gather(*(client.invoke(address, question(ECHO, b"%d" % n), 10_000) for n in range(200)))
    assert [bytes(answer.body) for answer in answers] == [b"%d" % n for n in range(200)]
    for _ in range(5):
        await client.oneway(address, question(NOTED))
    loop = asyncio.get_running_loop()
    seen = await client.invoke(address, question(NOTED_COUNT), 10_000)
    while bytes(seen.body) != b"5":  # its processors run on several threads
        seen = await client.invoke(address, question(NOTED_COUNT), 10_000)
    asked_back = heard(form, heard(form, "and you"), answered_in="JSON")
    assert told_of(await client.invoke(address, question(ASK_BACK), 10_000)) == asked_back
    unknown = await client.invoke(address, question(999), 10_000)
    assert (unknown.code, (unknown.remark or "").strip()) == (3, "request type 999 not supported")
    with pytest.raises(RemotingTimeout):
        await client.invoke(address, question(NEVER), 100)
    large = await client.invoke(address, question(ECHO, bytes(3_000_000)), 20_000)
    assert len(large.body) == 3_000_000
    answer = await loop.run_in_executor(None, client.invoke_sync, address, question(ECHO, b"from a thread"), 10_000)
    assert told_of(answer) == heard(form, "from a thread", answered_in="JSON")
