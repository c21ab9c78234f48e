"""Client and server over real sockets, on asyncio's loop and on uvloop: asking and answering both ways."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop
from tests.support.piping import Piping, piping  # noqa: F401

from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import Expired, HutongError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.numbered import NumberedWait
from hutong.foundation.waiting.pending import Pending
from hutong.remoting.channels.answers import NOT_SUPPORTED, SUCCESS, SYSTEM_BUSY, SYSTEM_ERROR, Answer, ReadyAnswer
from hutong.remoting.channels.channel import FRAMES_TOGETHER, Channel
from hutong.remoting.channels.hooks import AclCheck, AclHook
from hutong.remoting.client import RemotingClient
from hutong.remoting.errors import (
    AbortProcess,
    RemotingConnectFailed,
    RemotingSendFailed,
    RemotingTimeout,
    TooManyRequests,
)
from hutong.remoting.limits import CLIENT_LIMITS, RemotingLimits
from hutong.remoting.server import RemotingServer
from hutong.runtime.loops.timers import LoopTimers
from hutong.wire.rocketmq.command import IS_RESPONSE, JSON, Command, encode_binary

pytestmark = pytest.mark.usefixtures("piping")
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
ECHO, LATE, NEVER, FAULT, ASK_BACK, NOTED, TEXT = range(10, 17)


def on_both_loops(scenario: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[str], None]:
    def test(loop: str) -> None:
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(scenario())

    test.__name__ = scenario.__name__
    return pytest.mark.parametrize("loop", LOOPS)(test)


class Pair:
    """A server with some processors, and a client, on one manual clock."""

    def __init__(self, limits: RemotingLimits, server_limits: RemotingLimits) -> None:
        self.loop = asyncio.get_running_loop()
        self.clock = ManualClock()
        self.wheel = TimerWheel(0)
        self.server = RemotingServer(
            self.loop, clock=self.clock, wheel=self.wheel, limits=server_limits, pipeline=Piping.make
        )
        self.client = RemotingClient(
            self.loop,
            clock=self.clock,
            wheel=self.wheel,
            limits=limits,
            chance=lambda: 0.0,
            pipeline=Piping.make,
        )
        self.owed: list[tuple[Command, Pending[ReadyAnswer]]] = []
        self.noted: asyncio.Queue[bytes] = asyncio.Queue()
        self.came = asyncio.Event()
        self.address = ""
        for code, process in {
            ECHO: self.echo,
            LATE: self.late,
            NEVER: self.never,
            FAULT: self.fault,
            ASK_BACK: self.ask_back,
            NOTED: self.note,
            TEXT: self.text,
        }.items():
            self.server.register(code, process)

    def echo(self, command: Command, _: Channel) -> Answer:
        return [encode_binary(SUCCESS, command.opaque, IS_RESPONSE, command.ext_block or b"", command.body)]

    def late(self, command: Command, _: Channel) -> Answer:
        pending: Pending[ReadyAnswer] = Pending()
        self.owed.append((command, pending))
        self.came.set()
        return pending

    def never(self, _: Command, __: Channel) -> Answer:
        self.came.set()
        return None

    def fault(self, _: Command, __: Channel) -> Answer:
        raise ZeroDivisionError("a fault of ours")

    def ask_back(self, _: Command, channel: Channel) -> Answer:
        pending: Pending[ReadyAnswer] = Pending()

        def answered_back(answer: Command | HutongError) -> None:
            assert isinstance(answer, Command)
            pending.complete(Command(SUCCESS, body=bytes(answer.body) + b" asked"))

        channel.invoke_then(Command(ECHO, body=b"and you"), 3_000, answered_back)
        return pending

    def note(self, command: Command, _: Channel) -> Answer:
        self.noted.put_nowait(bytes(command.body))
        return [b"dropped, if it is oneway"]

    def text(self, command: Command, _: Channel) -> Answer:
        return Command(SUCCESS, fields={"heard": command.ext().get("say", "")}, remark="as text")

    def pass_ms(self, milliseconds: int) -> None:
        for _ in range(milliseconds // 10):
            self.clock.advance(10)
            self.wheel.advance(self.clock.monotonic_ms())

    async def invoke(self, code: int, body: bytes = b"", **more: Any) -> Command:
        return await self.client.invoke(self.address, Command(code, body=body, **more))

    def ask(self, code: int, body: bytes = b"") -> "asyncio.Future[Command]":
        """The same over the connection that stands: sent when this returns."""
        return self.client.channels[0].invoke(Command(code, body=body))

    async def end(self, side: RemotingClient | RemotingServer) -> None:
        ending = asyncio.ensure_future(side.close(0))
        await asyncio.sleep(0)
        self.pass_ms(10)
        await ending

    async def close(self) -> None:
        assert self.client.awaited == 0
        await self.end(self.client)
        await self.end(self.server)
        assert not self.client.channels
        assert not self.server.channels


@asynccontextmanager
async def pair(
    limits: RemotingLimits = CLIENT_LIMITS, server_limits: RemotingLimits = CLIENT_LIMITS
) -> AsyncIterator[Pair]:
    made = Pair(limits, server_limits)
    host, port = await made.server.listen("127.0.0.1", 0)
    made.address = f"{host}:{port}"
    try:
        yield made
    finally:
        await made.close()


@on_both_loops
async def test_invoke_answers_and_one_connection_serves_all() -> None:
    async with pair() as it:
        answers = await asyncio.gather(*(it.invoke(ECHO, b"%d" % number) for number in range(100)))
        assert [bytes(answer.body) for answer in answers] == [b"%d" % number for number in range(100)]
        assert all(answer.is_response and answer.code == SUCCESS for answer in answers)
        assert len(it.client.channels) == len(it.server.channels) == 1


@on_both_loops
async def test_answers_come_in_any_order() -> None:
    async with pair() as it:
        late = [asyncio.ensure_future(it.invoke(LATE, b"%d" % number)) for number in range(3)]
        while len(it.owed) < 3:
            it.came.clear()
            await it.came.wait()
        assert bytes((await it.invoke(ECHO, b"first")).body) == b"first"
        for command, pending in reversed(it.owed):
            pending.complete(Command(SUCCESS, body=bytes(command.body) * 2))
        assert [bytes((await answer).body) for answer in late] == [b"00", b"11", b"22"]
        assert it.server.channels[0].unanswered == 0


@on_both_loops
async def test_json_is_answered_in_json() -> None:
    async with pair() as it:
        answer = await it.invoke(TEXT, fields={"say": "hello"}, serialization=JSON)
        assert (answer.serialization, answer.ext(), answer.remark) == (JSON, {"heard": "hello"}, "as text")
        answer = await it.invoke(TEXT, fields={"say": "hello"})
        assert (answer.serialization != JSON, answer.ext(), answer.remark) == (True, {"heard": "hello"}, "as text")


@on_both_loops
async def test_the_server_asks_its_client() -> None:
    async with pair() as it:
        it.client.register(ECHO, it.echo)
        assert bytes((await it.invoke(ASK_BACK)).body) == b"and you asked"


@on_both_loops
async def test_oneway_is_not_answered() -> None:
    async with pair() as it:
        await it.client.oneway(it.address, Command(NOTED, body=b"by the way"))
        assert await it.noted.get() == b"by the way"
        await it.client.oneway(it.address, Command(TEXT))
        await it.invoke(ECHO)
        assert it.client.figures.unasked_total == 0


@on_both_loops
async def test_what_the_node_answers_by_itself() -> None:
    async with pair() as it:
        told: list[dict[str, Any]] = []
        it.loop.set_exception_handler(lambda _, context: told.append(context))
        answer = await it.invoke(999)
        assert (answer.code, answer.remark) == (NOT_SUPPORTED, "request type 999 not supported")
        answer = await it.invoke(FAULT)
        assert (answer.code, answer.remark) == (SYSTEM_ERROR, "ZeroDivisionError: a fault of ours")
        assert isinstance(told[0]["exception"], ZeroDivisionError)
        it.server.register(ECHO, it.echo, rejects=lambda: True)
        answer = await it.invoke(ECHO)
        assert answer.code == SYSTEM_BUSY
        assert (answer.remark or "").startswith("[REJECTREQUEST]")
        it.server.register(None, it.echo)
        assert (await it.invoke(999, b"default")).body == b"default"


@on_both_loops
async def test_no_answer_in_time() -> None:
    async with pair() as it:
        await it.client.connect(it.address)
        asked = asyncio.ensure_future(it.client.invoke(it.address, Command(NEVER), 1_000))
        await it.came.wait()
        it.pass_ms(990)
        assert it.client.awaited == 1
        it.pass_ms(200)
        with pytest.raises(RemotingTimeout):
            await asked


@on_both_loops
async def test_an_answer_that_comes_too_late_is_dropped() -> None:
    async with pair() as it:
        await it.client.connect(it.address)
        asked = asyncio.ensure_future(it.client.invoke(it.address, Command(LATE), 1_000))
        await it.came.wait()
        it.pass_ms(1_200)
        with pytest.raises(RemotingTimeout):
            await asked
        _, pending = it.owed[0]
        pending.complete(Command(SUCCESS))
        await it.invoke(ECHO)
        assert it.client.figures.unasked_total == 1


@on_both_loops
async def test_an_invocation_that_is_cancelled_is_forgotten() -> None:
    async with pair() as it:
        channel = await it.client.connect(it.address)
        asked = channel.invoke(Command(NEVER), 1_000)
        await it.came.wait()
        asked.cancel()
        it.pass_ms(2_000)
        assert it.client.awaited == 0


@on_both_loops
async def test_a_connection_that_ends_fails_what_is_asked_at_once_and_is_made_again() -> None:
    async with pair() as it:
        asked = [asyncio.ensure_future(it.invoke(NEVER)) for _ in range(10)]
        await it.came.wait()
        it.server.channels[0].close()
        for invocation in asked:
            with pytest.raises(RemotingSendFailed):
                await invocation
        assert it.client.awaited == 0
        assert (await it.invoke(ECHO, b"again")).body == b"again"


@on_both_loops
async def test_nobody_listens_and_the_back_off() -> None:
    async with pair() as it:
        address, port = it.address, int(it.address.split(":")[1])
        await it.end(it.server)
        with pytest.raises(RemotingConnectFailed):
            await it.invoke(ECHO)
        with pytest.raises(RemotingConnectFailed, match="tried again in 100 ms"):
            await it.invoke(ECHO)
        it.server = RemotingServer(it.loop, clock=it.clock, wheel=it.wheel)
        it.server.register(ECHO, it.echo)
        await it.server.listen("127.0.0.1", port)
        it.pass_ms(100)
        answers = await asyncio.gather(*(it.client.invoke(address, Command(ECHO)) for _ in range(5)))
        assert len(answers) == 5


@on_both_loops
async def test_clients_that_failed_together_do_not_come_again_together() -> None:
    async with pair() as it:
        address = it.address
        await it.end(it.server)
        pauses = set()
        for _ in range(10):
            client = RemotingClient(it.loop, clock=it.clock, wheel=it.wheel)
            for _ in range(2):
                with pytest.raises(RemotingConnectFailed) as failed:
                    await client.invoke(address, Command(ECHO))
            pauses.add(int(str(failed.value).split()[-2]))
            await client.close()
        assert len(pauses) > 1
        assert 50 <= min(pauses) <= max(pauses) <= 100


@on_both_loops
async def test_no_address() -> None:
    async with pair() as it:
        for address, text in {
            "": "is no address: write HOST:PORT",
            "host": "is no address",
            "host:": "is no address",
            "host:port": "is no address",
            "host:0": "has port 0",
            "host:65536": "has port 65536",
            ":1": "has no host",
            "::1:9876": "write an IPv6 address in brackets",
        }.items():
            with pytest.raises(ValueError, match=text):
                await it.client.invoke(address, Command(ECHO))


@on_both_loops
async def test_permits() -> None:
    async with pair(RemotingLimits(invocations_max=2)) as it:
        channel = await it.client.connect(it.address)
        asked = [channel.invoke(Command(LATE)) for _ in range(2)]
        with pytest.raises(TooManyRequests, match="invocations_max is 2"):
            channel.invoke(Command(LATE))
        with pytest.raises(TooManyRequests):
            await it.invoke(ECHO)
        while len(it.owed) < 2:
            it.came.clear()
            await it.came.wait()
        for _, pending in it.owed:
            pending.complete(Command(SUCCESS))
        await asyncio.gather(*asked)
        await it.invoke(ECHO)


@on_both_loops
async def test_a_command_that_cannot_be_sent_leaves_nothing() -> None:
    async with pair() as it:
        channel = await it.client.connect(it.address)
        with pytest.raises(ValueError):
            channel.invoke(Command(ECHO, language=1_000))
        assert it.client.awaited == 0


class Noted(NumberedWait[Command]):
    def __init__(self) -> None:
        self.outcome: asyncio.Future[Command | HutongError] = asyncio.get_running_loop().create_future()

    def end(self, outcome: Command | HutongError) -> None:
        self.outcome.set_result(outcome)


@on_both_loops
async def test_the_shortest_way() -> None:
    async with pair() as it:
        channel = await it.client.connect(it.address)
        first, second, third = Noted(), Noted(), Noted()
        opaques = {channel.begin(ECHO, b"", b"x", 1_000, first), channel.begin(NEVER, b"", b"", 1_000, second)}
        assert len(opaques) == 2
        outcome = await first.outcome
        assert isinstance(outcome, Command)
        assert (outcome.body, outcome.opaque in opaques) == (b"x", True)
        it.pass_ms(1_200)
        assert isinstance(await second.outcome, Expired)
        channel.begin(NEVER, b"", b"", 1_000, third)
        channel.close()
        assert isinstance(await third.outcome, RemotingSendFailed)
        after = Noted()
        channel.begin(ECHO, b"", b"", 1_000, after)
        assert isinstance(await after.outcome, RemotingSendFailed)


@on_both_loops
async def test_what_is_asked_in_one_turn_leaves_in_parcels_and_who_asks_alone_is_not_kept_waiting() -> None:
    async with pair() as it:
        channel = await it.client.connect(it.address)
        figures = it.client.reactor_figures
        many = [Noted() for _ in range(2 * FRAMES_TOGETHER)]
        for wait in many:
            channel.begin(ECHO, b"", b"x", 1_000, wait)
        assert figures.writes_total == 2
        for wait in many:
            await wait.outcome
        alone, again = Noted(), Noted()
        channel.begin(ECHO, b"", b"x", 1_000, alone)  # others may follow
        assert figures.writes_total == 2
        await alone.outcome
        channel.begin(ECHO, b"", b"x", 1_000, again)  # none did
        assert figures.writes_total == 4
        await again.outcome


@on_both_loops
async def test_from_other_threads() -> None:
    async with pair() as it:
        await it.client.connect(it.address)
        answers: list[Command] = []
        errors: list[Exception] = []

        def ask() -> None:
            for _ in range(10):
                answer = it.client.invoke_sync(it.address, Command(ECHO))
                answers.append(answer)
            try:
                it.client.invoke_sync("127.0.0.1:nowhere", Command(ECHO))
            except ValueError as error:
                errors.append(error)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        assert len(answers) == 40
        assert len(errors) == 4
        with pytest.raises(RuntimeError, match="block the loop"):
            it.client.invoke_sync(it.address, Command(ECHO))


@on_both_loops
async def test_callbacks() -> None:
    async with pair() as it:
        outcomes: asyncio.Queue[Command | HutongError] = asyncio.Queue()
        for _ in range(2):  # before there is a connection, and with it
            it.client.invoke_then(it.address, Command(ECHO, body=b"x"), 1_000, outcomes.put_nowait)
            answer = await outcomes.get()
            assert isinstance(answer, Command)
        it.client.invoke_then(it.address, Command(NEVER), 1_000, outcomes.put_nowait)
        await it.came.wait()
        it.pass_ms(1_200)
        assert isinstance(await outcomes.get(), RemotingTimeout)
        await it.end(it.server)
        with pytest.raises(RemotingConnectFailed):
            await it.invoke(ECHO)
        it.client.invoke_then(it.address, Command(ECHO), 1_000, outcomes.put_nowait)
        assert isinstance(await outcomes.get(), RemotingConnectFailed)


class Refusing:
    """A hook that notes what it sees, and refuses one code."""

    def __init__(self, refused: int = -1) -> None:
        self.seen: list[tuple[str, int]] = []
        self._refused = refused

    def before(self, address: str, request: Command) -> None:
        self.seen.append(("before", request.code))
        if request.code == self._refused:
            raise AbortProcess(77, "not today")

    def after(self, address: str, request: Command, answer: Command) -> None:
        self.seen.append(("after", request.code))


@on_both_loops
async def test_hooks_of_a_server() -> None:
    async with pair() as it:
        hook = Refusing(NOTED)
        it.server.add_hook(hook)
        assert (await it.invoke(TEXT)).code == SUCCESS
        refused = await it.invoke(NOTED)
        assert (refused.code, refused.remark) == (77, "not today")
        assert it.noted.empty()
        assert hook.seen == [("before", TEXT), ("after", TEXT), ("before", NOTED), ("after", NOTED)]


@on_both_loops
async def test_hooks_of_a_client() -> None:
    async with pair() as it:
        hook = Refusing(NOTED)
        it.client.add_hook(hook)
        assert (await it.invoke(TEXT)).code == SUCCESS
        for ask in (it.invoke(NOTED), it.client.oneway(it.address, Command(NOTED))):
            with pytest.raises(AbortProcess) as refused:
                await ask
            assert refused.value.code == 77
        assert hook.seen == [("before", TEXT), ("after", TEXT), ("before", NOTED), ("before", NOTED)]
        assert it.noted.empty()


@on_both_loops
async def test_signed_requests() -> None:
    async with pair() as it:
        it.server.add_hook(AclCheck({"ann": "secret"}))
        assert (await it.invoke(TEXT)).code == 16
        it.client.add_hook(AclHook("ann", "secret"))
        assert (await it.invoke(TEXT, b"body", fields={"say": "hello"})).ext() == {"heard": "hello"}
        it.client.add_hook(AclHook("ann", "another secret"))
        assert (await it.invoke(TEXT)).code == 16


def test_timers_are_driven_by_the_loop_in_earnest() -> None:
    """The whole on the machine's clock, as a program has it."""
    from hutong.foundation.clock import SystemClock

    async def scenario() -> None:
        loop, clock = asyncio.get_running_loop(), SystemClock()
        wheel = TimerWheel(clock.monotonic_ms())
        timers = LoopTimers(loop, wheel, clock)
        server = RemotingServer(loop, clock=clock, wheel=wheel)
        client = RemotingClient(loop, clock=clock, wheel=wheel)
        server.register(NEVER, lambda command, channel: None)
        host, port = await server.listen("127.0.0.1", 0)
        with pytest.raises(RemotingTimeout):
            await client.invoke(f"{host}:{port}", Command(NEVER), 50)
        await client.close()
        await server.close()
        timers.close()

    uvloop.run(scenario())
