"""Remoting behind pipelines of handlers: the same answers as without, holds, faults, and handlers that come and go."""

import asyncio
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.piping import frames, read_directly, read_piped
from tests.unit.remoting.test_front import HERE, on_both_loops
from tests.unit.rpc.scenes import until

from hutong import reactor, remoting
from hutong.foundation.errors import ProtocolError
from hutong.remoting import Command, CommandCodec
from hutong.wire.rocketmq.command import IS_RESPONSE, JSON, encode, encode_binary

ECHO, LIST, LATE, ASK, FAULT, NOTE = range(10, 16)


def echo(command: Command, channel: remoting.Channel) -> Command:
    return Command(0, body=command.body, fields=dict(command.ext()))


def whole_frame(command: Command, channel: remoting.Channel) -> list[reactor.Buffer]:
    return [encode_binary(0, command.opaque, IS_RESPONSE, b"", command.body)]


def late(command: Command, channel: remoting.Channel) -> remoting.Pending[remoting.ReadyAnswer]:
    pending: remoting.Pending[remoting.ReadyAnswer] = remoting.Pending()
    asyncio.get_running_loop().call_soon(lambda: pending.complete(Command(0, body=b"late")))
    return pending


def ask_back(command: Command, channel: remoting.Channel) -> remoting.Pending[remoting.ReadyAnswer]:
    pending: remoting.Pending[remoting.ReadyAnswer] = remoting.Pending()
    channel.invoke_then(
        Command(ECHO, body=b"who?"), 3_000, lambda answer: pending.complete(answer if type(answer) is Command else None)
    )
    return pending


def fault(command: Command, channel: remoting.Channel) -> Command:
    raise ZeroDivisionError("a fault of a processor")


PROCESSORS: dict[int, Any] = {ECHO: echo, LIST: whole_frame, LATE: late, ASK: ask_back, FAULT: fault}


def faults_of_the_loop() -> list[BaseException]:
    faults: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))
    return faults


@pytest.mark.parametrize("server_side", [None, frames])
@pytest.mark.parametrize("client_side", [None, frames])
def test_both_sides_ask_and_answer_with_and_without_pipelines(server_side: Any, client_side: Any) -> None:
    async def scenario() -> None:
        faults = faults_of_the_loop()
        async with (
            remoting.serve(HERE, PROCESSORS, pipeline=server_side) as server,
            remoting.connect(server.address, {ECHO: echo}, pipeline=client_side) as connection,
        ):
            answer = await connection.invoke(Command(ECHO, body=b"hello", fields={"a": "b"}, serialization=JSON))
            assert (bytes(answer.body), answer.ext(), answer.serialization) == (b"hello", {"a": "b"}, JSON)
            large = bytes(3 * 1024 * 1024)
            assert bytes((await connection.invoke(Command(LIST, body=large), timeout=20)).body) == large
            assert bytes((await connection.invoke(Command(LATE))).body) == b"late"
            assert bytes((await connection.invoke(Command(ASK))).body) == b"who?"
            assert (await connection.invoke(Command(FAULT))).code == 1
            assert (await connection.invoke(Command(99))).code == 3
            many = await asyncio.gather(*(connection.invoke(Command(ECHO, body=b"%d" % n)) for n in range(500)))
            assert [bytes(answer.body) for answer in many] == [b"%d" % n for n in range(500)]
        assert [type(each) for each in faults] == [ZeroDivisionError]

    asyncio.run(scenario())


# Handlers of programs: in front of the codec, and behind it.


class Compression(reactor.PipelineHandler):
    """Between framing and codec: frames are compressed."""

    def inbound(self, value: bytes, link: reactor.PipelineLink) -> None:
        stream = zlib.decompressobj()
        try:
            frame = stream.decompress(value, 1_000_000)
        except zlib.error as error:
            raise ProtocolError(f"not compressed: {error}") from None
        if stream.unconsumed_tail:
            raise ProtocolError("too large")
        link.pass_inbound(frame)

    def outbound(self, value: bytes, link: reactor.PipelineLink) -> None:
        link.pass_outbound(zlib.compress(value))


class Guard(reactor.PipelineHandler):
    """Behind the codec: lets nothing pass before the password, then removes itself."""

    def inbound(self, value: Command, link: reactor.PipelineLink) -> None:
        if value.ext().get("password") != "secret":
            link.pass_outbound(Command(16, value.opaque, IS_RESPONSE, remark="no permission"))
            link.pipeline.close()
            return
        link.remove()
        link.pass_inbound(value)


class Credentials(reactor.PipelineHandler):
    """The client's side: into the first command."""

    def outbound(self, value: Command, link: reactor.PipelineLink) -> None:
        value.fields = {**value.ext(), "password": "secret"}
        link.pass_outbound(value)
        link.remove()


@on_both_loops
async def test_compression_in_front_of_the_codec_and_a_guard_behind_it() -> None:
    made: list[reactor.PipelineHandler] = []

    def compressed(*last: reactor.PipelineHandler) -> list[reactor.PipelineHandler]:
        made.extend(last)
        return [reactor.LengthFrames(), Compression(), CommandCodec(), *last]

    async with remoting.serve(HERE, PROCESSORS, pipeline=lambda: compressed(Guard())) as server:
        async with remoting.connect(server.address, pipeline=compressed) as stranger:
            answer = await stranger.invoke(Command(ECHO))
            assert (answer.code, answer.remark) == (16, "no permission")
            assert len(server.remoting.channels) <= 1  # it was closed, or is being closed
        async with remoting.connect(server.address, pipeline=lambda: compressed(Credentials())) as friend:
            answers = await asyncio.gather(*(friend.invoke(Command(ECHO, body=b"x" * n)) for n in range(3)))
            assert [len(answer.body) for answer in answers] == [0, 1, 2]
            # Made again for a connection that is made again: the new one has a guard, and credentials, of its own.
            count, closed = len(made), asyncio.Event()
            friend.remoting.add_listener(lambda event: closed.set() if event.kind.name == "CLOSE" else None)
            (await friend.channel()).close()
            await closed.wait()
            assert (await friend.invoke(Command(ECHO))).code == 0
            assert len(made) == count + 2
        # Without compression nothing is understood, and only that connection ends.
        async with remoting.connect(server.address) as plain:
            with pytest.raises(remoting.RemotingSendFailed):
                await plain.invoke(Command(ECHO))


class Faulty(reactor.PipelineHandler):
    """Fails at the command or the answer that asks for it."""

    def inbound(self, value: Command, link: reactor.PipelineLink) -> None:
        if bytes(value.body) == b"in":
            raise ZeroDivisionError("inbound")
        link.pass_inbound(value)

    def outbound(self, value: Command, link: reactor.PipelineLink) -> None:
        if bytes(value.body) == b"out":
            raise ZeroDivisionError("outbound")
        link.pass_outbound(value)


@on_both_loops
async def test_a_handler_that_fails_ends_its_connection_alone_and_loudly() -> None:
    faults = faults_of_the_loop()
    async with (
        remoting.serve(HERE, PROCESSORS, pipeline=lambda: [*frames(), Faulty()]) as server,
        remoting.connect(server.address) as other,
    ):
        for body in (b"in", b"out"):
            async with remoting.connect(server.address) as rude:
                with pytest.raises(remoting.RemotingSendFailed):
                    await rude.invoke(Command(ECHO, body=body), timeout=10)
        # The asking side's own handler: the caller learns it by the end of the connection.
        async with remoting.connect(server.address, pipeline=lambda: [*frames(), Faulty()]) as rude:
            with pytest.raises(remoting.RemotingSendFailed):
                await rude.invoke(Command(ECHO, body=b"out"), timeout=10)
            # And is connected again.
            assert (await rude.invoke(Command(ECHO), timeout=10)).code == 0
        assert (await other.invoke(Command(ECHO))).code == 0
    assert [str(each) for each in faults] == ["inbound", "outbound", "outbound"]


@on_both_loops
async def test_a_missing_codec_and_a_pipeline_that_cannot_be_made_are_loud() -> None:
    faults = faults_of_the_loop()
    wrong: Any = lambda: [reactor.LengthFrames]  # noqa: E731
    async with remoting.serve(HERE, PROCESSORS, pipeline=lambda: [reactor.LengthFrames()]) as server:
        async with remoting.connect(server.address) as connection:
            with pytest.raises(remoting.RemotingSendFailed):
                await connection.invoke(Command(ECHO))
        with pytest.raises(remoting.RemotingConnectFailed):
            async with remoting.connect(server.address, pipeline=wrong):
                pass
    assert "put a CommandCodec() behind a LengthFrames()" in str(faults[0])
    assert "give an object of it, LengthFrames()" in str(faults[1])
    with pytest.raises(TypeError, match="a function that makes the handlers"):
        remoting.serve(HERE, {}, pipeline=frames())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="CommandCodec is a handler"):
        remoting.connect("127.0.0.1:9", pipeline=CommandCodec)  # type: ignore[arg-type]


@on_both_loops
async def test_a_peer_that_is_owed_too_much_is_not_read_and_loses_nothing() -> None:
    limits = remoting.RemotingLimits(unanswered_max=2)
    owed: list[remoting.Pending[remoting.ReadyAnswer]] = []
    came = asyncio.Event()

    def owe(command: Command, channel: remoting.Channel) -> remoting.Pending[remoting.ReadyAnswer]:
        owed.append(remoting.Pending())
        came.set()
        return owed[-1]

    async with (
        remoting.serve(HERE, {LATE: owe}, limits=limits, pipeline=frames) as server,
        remoting.connect(server.address) as connection,
    ):
        asked = [asyncio.ensure_future(connection.invoke(Command(LATE), timeout=30)) for _ in range(9)]
        answered = 0
        while answered < 9:
            await came.wait()
            came.clear()
            assert 1 <= len(owed) - answered <= 2
            while answered < len(owed):
                owed[answered].complete(Command(0, body=b"%d" % answered))
                answered += 1
        assert [bytes((await each).body) for each in asked] == [b"%d" % n for n in range(9)]


@on_both_loops
async def test_answers_that_nobody_reads_stop_the_reading() -> None:
    """The bound on unsent answers holds behind a pipeline as it does without one."""
    limits = remoting.RemotingLimits(unsent_answer_bytes_max=256 * 1024)
    begun = 0
    body = bytes(100_000)

    def long_answer(command: Command, channel: remoting.Channel) -> Command:
        nonlocal begun
        begun += 1
        return Command(0, body=body)

    async with remoting.serve(HERE, {ECHO: long_answer}, limits=limits, pipeline=frames) as server:
        host, port = server.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1)
        count = 1_000
        writer.write(b"".join(encode_binary(ECHO, n, 0) for n in range(count)))
        await writer.drain()
        # Nothing is read until the server holds the next request.
        await until(lambda: any(channel._answering_is_held for channel in server.remoting.channels))
        assert begun < count
        for _ in range(count):
            size = int.from_bytes(await reader.readexactly(4), "big")
            await reader.readexactly(size)
        assert begun == count
        writer.close()


# Without sockets: any bytes, cut anywhere, have the same commands and the same end as without a pipeline.


def commands() -> st.SearchStrategy[bytes]:
    command = st.builds(
        Command,
        st.sampled_from([ECHO, NOTE]),
        opaque=st.integers(0, 9),
        body=st.binary(max_size=60),
        remark=st.none() | st.text(max_size=5),
        fields=st.none() | st.dictionaries(st.text("ab", min_size=1), st.text(max_size=3), max_size=2),
        serialization=st.integers(0, 1),
    )
    return command.map(lambda each: b"".join(map(bytes, encode(each))))


@given(
    st.lists(commands() | st.binary(max_size=40), max_size=6).map(b"".join),
    st.lists(st.integers(0, 400)),
    st.booleans(),
)
def test_any_bytes_have_the_same_commands_answers_and_end(data: bytes, cuts: list[int], holds: bool) -> None:
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    assert read_piped(data, bounds, holds) == read_directly(data)


@pytest.mark.parametrize("wrong", [b"bytes", {"code": 1}])
def test_what_is_sent_behind_the_codec_must_be_a_command(wrong: Any) -> None:
    pipeline = reactor.ConnectionPipeline(frames())
    with pytest.raises(TypeError, match="commands are sent behind a CommandCodec, not a"):
        pipeline.send(wrong)


def test_the_codec_is_its_own_reverse() -> None:
    make: Callable[[], list[reactor.PipelineHandler]] = frames
    sender = reactor.ConnectionPipeline(make())
    sender.send(Command(7, 9, body=b"x" * 100_000, fields={"a": "b"}))
    kept: list[Command] = []

    class Keep(reactor.PipelineHandler):
        def inbound(self, value: Command, link: reactor.PipelineLink) -> None:
            kept.append(value)

    receiver = reactor.ConnectionPipeline([*make(), Keep()])
    receiver.receive_data(b"".join(map(bytes, sender.data_to_send())), 0)
    assert (kept[0].code, kept[0].opaque, len(kept[0].body), kept[0].ext()) == (7, 9, 100_000, {"a": "b"})
