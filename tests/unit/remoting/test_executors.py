"""Processors away from the loop: threads, contexts, queues that are full or old, and what is answered then."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.remoting.test_remoting import ECHO, Pair, on_both_loops, pair

from hutong.foundation.errors import ProtocolError
from hutong.foundation.waiting.pending import Pending
from hutong.remoting.channels.answers import SUCCESS, SYSTEM_BUSY, SYSTEM_ERROR, Answer, ReadyAnswer
from hutong.remoting.channels.channel import Channel
from hutong.remoting.errors import RemotingSendFailed
from hutong.remoting.work.driver import LATE_MS, ContextPlace, Executor
from hutong.runtime.contexts.contexts import ContextKind
from hutong.runtime.runtime import Runtime
from hutong.runtime.threads.offload import ThreadOffload
from hutong.wire.rocketmq.command import Command

SLOW = 50


class HeldPlace:
    """A place where work waits for the test."""

    def __init__(self) -> None:
        self.held: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def submit(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        self.held.append((work, then))

    def release(self) -> None:
        work, then = self.held.pop(0)
        then(work())


def executor(it: Pair, place: Any, **more: Any) -> Executor:
    return Executor("slow ones", place, clock=it.clock, wheel=it.wheel, **more)


def thread_name(_: Command, __: Channel) -> Answer:
    return Command(SUCCESS, remark=threading.current_thread().name)


@on_both_loops
async def test_worker_threads() -> None:
    async with pair() as it:
        await it.client.connect(it.address)
        offload = ThreadOffload(it.loop, 2, "slow")
        it.server.register(SLOW, thread_name, executor(it, offload, workers=2))
        answers = await asyncio.gather(*(it.invoke(SLOW) for _ in range(50)))
        assert {answer.remark for answer in answers} <= {"slow-0", "slow-1"}
        offload.close()
        assert it.server.channels[0].unanswered == 0


@on_both_loops
async def test_contexts_and_coroutines() -> None:
    async with pair() as it, Runtime(blocked_limits=None) as runtime:

        async def process(command: Command, _: Channel) -> Answer:
            await asyncio.sleep(0)
            if command.body == b"fault":
                raise ZeroDivisionError("a fault of ours")
            return Command(SUCCESS, remark=threading.current_thread().name)

        it.loop.set_exception_handler(lambda _, __: None)
        for kind, name in ((ContextKind.EVENT_LOOP, "MainThread"), (ContextKind.WORKER, "hutong-worker")):
            place = ContextPlace(runtime.context(kind), it.loop)
            it.server.register(SLOW, process, executor(it, place, workers=10))
            assert ((await it.invoke(SLOW)).remark or "").startswith(name)
            assert (await it.invoke(SLOW, b"fault")).remark == "ZeroDivisionError: a fault of ours"
            it.server.register(SLOW, thread_name, executor(it, place, workers=10))
            assert ((await it.invoke(SLOW)).remark or "").startswith(name)


@on_both_loops
async def test_a_queue_that_is_full_is_told() -> None:
    async with pair() as it:
        await it.client.connect(it.address)
        place = HeldPlace()
        it.server.register(SLOW, it.echo, executor(it, place, queue_max=1))
        first, second = it.ask(SLOW, b"1"), it.ask(SLOW, b"2")
        refused = await it.invoke(SLOW, b"3")
        assert refused.code == SYSTEM_BUSY
        assert (refused.remark or "").startswith("[OVERLOAD]")
        assert it.server.figures.overloads_total == 1
        place.release()
        assert (await first).body == b"1"
        place.release()
        assert (await second).body == b"2"


@on_both_loops
async def test_a_queue_grows_old() -> None:
    async with pair() as it:
        await it.client.connect(it.address)
        place = HeldPlace()
        slow = executor(it, place, wait_ms_max=200)
        it.server.register(SLOW, it.echo, slow)
        first, second = it.ask(SLOW, b"1"), it.ask(SLOW, b"2")
        await it.invoke(ECHO)
        assert len(slow.queue) == 1
        it.pass_ms(190)
        assert len(slow.queue) == 1
        it.pass_ms(20)
        aged = await second
        assert aged.code == SYSTEM_BUSY
        assert (aged.remark or "").startswith("[TIMEOUT_CLEAN_QUEUE]")
        place.release()
        assert (await first).body == b"1"
        assert slow.queue.aged_total == 1


@on_both_loops
async def test_a_loop_that_was_late_sends_nobody_away_at_once() -> None:
    async with pair() as it:
        await it.client.connect(it.address)
        place = HeldPlace()
        slow = executor(it, place, wait_ms_max=200)
        it.server.register(SLOW, it.echo, slow)
        asked = [it.ask(SLOW, b"%d" % number) for number in range(3)]
        await it.invoke(ECHO)
        it.clock.advance(1_000)
        it.wheel.advance(it.clock.monotonic_ms())
        assert len(slow.queue) == 2
        place.release()
        assert (await asked[0]).body == b"0"
        it.pass_ms(LATE_MS + 10)
        assert (await asked[2]).code == SYSTEM_BUSY
        place.release()
        assert (await asked[1]).body == b"1"


@on_both_loops
async def test_an_executor_that_closes_answers_for_what_waits() -> None:
    async with pair() as it:
        await it.client.connect(it.address)
        place = HeldPlace()
        slow = executor(it, place, wait_ms_max=200)
        it.server.register(SLOW, it.echo, slow)
        asked = [it.ask(SLOW, b"%d" % number) for number in range(2)]
        await it.invoke(ECHO)
        slow.close()
        assert (await asked[1]).code == SYSTEM_BUSY
        place.release()
        assert (await asked[0]).body == b"0"


@on_both_loops
async def test_a_peer_that_has_gone_is_not_answered() -> None:
    async with pair() as it:
        await it.client.connect(it.address)
        place = HeldPlace()
        it.server.register(SLOW, it.echo, executor(it, place))
        asked = it.ask(SLOW)
        await it.invoke(ECHO)
        it.client.channels[0].close()
        with pytest.raises(RemotingSendFailed):
            await asked
        place.release()
        assert (await it.invoke(ECHO, b"x")).body == b"x"


@on_both_loops
async def test_what_a_processor_must_not_do() -> None:
    async with pair() as it:
        await it.client.connect(it.address)
        it.loop.set_exception_handler(lambda _, __: None)

        async def coroutine(_: Command, __: Channel) -> Answer:
            return None

        it.server.register(SLOW, coroutine)  # inline, where nobody awaits it
        answer = await it.invoke(SLOW)
        assert (answer.code, answer.remark) == (
            SYSTEM_ERROR,
            "TypeError: a processor returned coroutine, not a Command, a list of buffers, a Pending or None",
        )


@on_both_loops
async def test_bytes_that_break_the_protocol_close_the_connection_from_anywhere() -> None:
    async with pair() as it:
        await it.client.connect(it.address)

        def process(_: Command, __: Channel) -> Answer:
            raise ProtocolError("broken")

        for where in (None, executor(it, HeldPlace())):
            it.server.register(SLOW, process, where)
            await it.client.connect(it.address)
            asked = it.ask(SLOW)
            if where is not None:
                await it.invoke(ECHO)
                _, then = where._place.held.pop()  # type: ignore[union-attr]
                then(ProtocolError("broken"))
            with pytest.raises(RemotingSendFailed):
                await asked


@on_both_loops
async def test_a_later_answer_that_will_not_come() -> None:
    async with pair() as it:
        await it.client.connect(it.address)

        def process(_: Command, __: Channel) -> Answer:
            pending: Pending[ReadyAnswer] = Pending()
            it.loop.call_soon(pending.complete, None)
            return pending

        it.server.register(SLOW, process)
        channel = await it.client.connect(it.address)
        asked = channel.invoke(Command(SLOW))
        await it.invoke(ECHO)
        await it.invoke(ECHO)
        assert it.server.channels[0].unanswered == 0
        asked.cancel()
        it.pass_ms(5_000)


@on_both_loops
async def test_a_place_that_takes_nothing_is_told_of() -> None:
    async with pair() as it:
        await it.client.connect(it.address)
        offload = ThreadOffload(it.loop, 1, "slow")
        slow = executor(it, offload)
        it.server.register(SLOW, it.echo, slow)
        assert (await it.ask(SLOW, b"x")).body == b"x"
        offload.close()
        for _ in range(3):
            answer = await it.ask(SLOW)
            assert (answer.code, slow.queue.running) == (SYSTEM_BUSY, 0)
