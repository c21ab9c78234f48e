"""The contexts in which handlers and replies run, by the names of Vert.x's scenarios."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial

import pytest
from tests.unit.bus.scenes import Seen, turns

from hutong.bus import Consumer, DeliveryOptions, EventBus, Message, ReplyError
from hutong.foundation.clock import SystemClock
from hutong.runtime.contexts.contexts import Context, ContextKind, current_context
from hutong.runtime.runtime import Runtime
from hutong.runtime.verticles import DeploymentOptions, Verticle

KINDS = list(ContextKind)


async def test_contexts_publish(bus: EventBus, runtime: Runtime) -> None:
    seen = Seen()
    contexts = [runtime.context() for _ in range(5)]
    for context in contexts:
        bus.consumer("address", lambda message: seen.note(current_context()), context=context)
    bus.publish("address")
    assert set(await seen.wait_for(5)) == set(contexts)


async def test_a_consumer_runs_where_it_was_made(bus: EventBus, runtime: Runtime) -> None:
    seen = Seen()
    context = runtime.context()

    def make(_: None) -> None:
        consumer = bus.consumer("address", lambda message: seen.note(current_context()))
        assert consumer.context is context

    context.run(make, None)
    await turns()
    bus.send("address")
    assert await seen.wait_for(1) == [context]


class Echo(Verticle):
    """Says where it was started, and where it handles."""

    def __init__(self, bus: EventBus, seen: Seen) -> None:
        self._bus = bus
        self._seen = seen

    async def start(self) -> None:
        self._bus.consumer("echo", self._handle)

    def _handle(self, message: Message) -> None:
        assert self.context.is_current
        self._seen.note(threading.get_ident())
        message.reply(message.body)


async def test_in_verticle(bus: EventBus, runtime: Runtime) -> None:
    await deploy_and_ask(bus, runtime, ContextKind.EVENT_LOOP)


async def test_in_worker_verticle(bus: EventBus, runtime: Runtime) -> None:
    await deploy_and_ask(bus, runtime, ContextKind.WORKER)


async def deploy_and_ask(bus: EventBus, runtime: Runtime, kind: ContextKind) -> None:
    seen = Seen()
    deployment = await runtime.deploy(partial(Echo, bus, seen), DeploymentOptions(kind=kind))
    reply = await bus.request("echo", "hello")
    assert reply.body == "hello"
    assert (seen.items == [threading.get_ident()]) == (kind is ContextKind.EVENT_LOOP)
    await runtime.undeploy(deployment)
    with pytest.raises(ReplyError, match="no handlers"):
        await bus.request("echo")


@pytest.mark.parametrize("kind", KINDS)
async def test_requests_from_every_kind_of_context(bus: EventBus, runtime: Runtime, kind: ContextKind) -> None:
    seen = Seen()
    bus.consumer("echo", lambda message: message.reply(message.body))
    context = runtime.context(kind)

    async def ask(_: None) -> None:
        first = await bus.request("echo", 1)
        assert current_context() is context
        results = await asyncio.gather(bus.request("echo", 2), bus.request("echo", 3))
        with pytest.raises(ReplyError):
            await bus.request("nowhere")
        seen.note([first.body, *[message.body for message in results]])

    context.run(ask, None)
    assert await seen.wait_for(1) == [[1, 2, 3]]


@pytest.mark.parametrize("kind", KINDS)
async def test_then_is_called_in_the_context_of_the_request(bus: EventBus, runtime: Runtime, kind: ContextKind) -> None:
    seen = Seen()
    context = runtime.context(kind)
    bus.consumer("echo", lambda message: message.reply(message.body))

    def ask(_: None) -> None:
        bus.request("echo").then(lambda outcome: seen.note(context.is_current))
        bus.request("nowhere").then(lambda outcome: seen.note(context.is_current))

    context.run(ask, None)
    assert await seen.wait_for(2) == [True, True]


@pytest.mark.parametrize("is_intercepted", [False, True])
async def test_a_worker_may_block_on_a_reply(bus: EventBus, runtime: Runtime, is_intercepted: bool) -> None:
    seen = Seen()
    if is_intercepted:
        bus.add_inbound_interceptor(lambda delivery: delivery.next())
    bus.consumer("echo", lambda message: message.reply(message.body))
    runtime.context(ContextKind.WORKER).run(lambda _: seen.note(bus.request("echo", 1).result(10).body), None)
    assert await seen.wait_for(1) == [1]


async def test_a_worker_may_block_on_a_reply_that_has_arrived_before(bus: EventBus, runtime: Runtime) -> None:
    """An interceptor of the reply waits for the worker's thread, which is about to block for the reply."""
    seen, answered = Seen(), threading.Event()

    def answer(message: Message) -> None:
        message.reply(message.body)
        answered.set()

    def ask(_: None) -> None:
        reply = bus.request("echo", 1)
        assert answered.wait(10)
        seen.note(reply.result(10).body)

    bus.add_inbound_interceptor(lambda delivery: delivery.next())
    bus.consumer("echo", answer)
    runtime.context(ContextKind.WORKER).run(ask, None)
    assert await seen.wait_for(1) == [1]


@pytest.mark.parametrize("kind", [ContextKind.WORKER, ContextKind.EVENT_LOOP])
async def test_stay_on_worker_thread_after_resume(bus: EventBus, runtime: Runtime, kind: ContextKind) -> None:
    seen = Seen()
    context = runtime.context(kind)
    consumer = bus.consumer("address", lambda message: seen.note(context.is_current), context=context)
    consumer.pause()
    for _ in range(5):
        bus.send("address")
    await turns()
    consumer.resume()
    assert await seen.wait_for(5) == [True] * 5


async def test_close_hook(bus: EventBus, runtime: Runtime) -> None:
    ended = Seen()
    context = runtime.context()
    consumers = [bus.consumer(f"address {number}", lambda message: None, context=context) for number in range(3)]
    for consumer in consumers:
        consumer.end_handler = lambda: ended.note("end")
    outcome = Seen()
    context.run(lambda _: bus.request("address 0").then(outcome.note), None)
    await turns()
    await context.close()
    assert not any(consumer.is_registered for consumer in consumers)
    assert ended.items == ["end"] * 3
    assert bus.replies_waiting == 0
    for number in range(3):
        with pytest.raises(ReplyError, match="no handlers"):
            await bus.request(f"address {number}")


async def test_consumers_that_come_and_go_leave_nothing(bus: EventBus, runtime: Runtime) -> None:
    context = runtime.context()
    for _ in range(100):
        bus.consumer("address").unregister()
        bus.consumer("address", context=context).unregister()
    await turns()
    assert len(bus._states) == 1, "that of the context that is still there"
    assert not bus._consumers
    assert not bus._rounds


def in_thread(work: Callable[[], object]) -> "asyncio.Future[object]":
    return asyncio.get_running_loop().run_in_executor(None, work)


async def test_a_plain_thread_sends_requests_and_consumes(bus: EventBus) -> None:
    seen = Seen()

    def work() -> object:
        consumer = bus.consumer("from thread", seen)
        bus.consumer("echo", lambda message: message.reply(message.body))
        bus.send("from thread", 1)
        bus.publish("from thread", 2)
        assert bus.request("echo", 3).result(10).body == 3
        with pytest.raises(ReplyError, match="no handlers"):
            bus.request("nowhere").result(10)
        with pytest.raises(ReplyError, match="in time"):
            bus.request("from thread", 4, DeliveryOptions(timeout=0.01)).result(10)
        late = bus.request("from thread", 5)
        with pytest.raises(TimeoutError, match="nothing came"):
            late.result(0.01)
        assert late.cancel()
        return consumer

    consumer = await in_thread(work)
    assert isinstance(consumer, Consumer)
    assert await seen.wait_for(4) == [1, 2, 4, 5]


async def test_a_reply_asked_for_elsewhere_may_be_awaited_and_blocked_on(bus: EventBus) -> None:
    bus.consumer("echo", lambda message: message.reply(message.body))
    from_thread = await in_thread(lambda: bus.request("echo", 1))
    assert (await from_thread).body == 1  # type: ignore[misc]
    from_loop = bus.request("echo", 2)
    assert (await in_thread(lambda: from_loop.result(10))).body == 2  # type: ignore[attr-defined]
    from_loop = bus.request("echo", 3)
    await from_loop
    assert (await in_thread(from_loop.result)).body == 3  # type: ignore[attr-defined]


async def test_another_event_loop_asks_and_iterates(bus: EventBus) -> None:
    bus.consumer("echo", lambda message: message.reply(message.body))

    async def elsewhere() -> list[object]:
        replies = [(await bus.request("echo", index)).body for index in range(50)]
        with pytest.raises(ReplyError, match="in time"):
            await bus.request("silent", options=DeliveryOptions(timeout=0.01))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await bus.request("silent")
        async with bus.consumer("here") as consumer:
            for index in range(5):
                bus.send("here", index)
            async for message in consumer:
                replies.append(message.body)
                if message.body == 4:
                    break
        return replies

    bus.consumer("silent", lambda message: None)
    assert await in_thread(lambda: asyncio.run(elsewhere())) == [*range(50), *range(5)]
    assert await in_thread(lambda: asyncio.run(elsewhere())) == [*range(50), *range(5)]
    loops = [key for key in bus._states if isinstance(key, asyncio.AbstractEventLoop)]
    assert len(loops) <= 2, "loops that have ended are forgotten"


async def test_the_reply_to_a_loop_that_has_ended_is_dropped(bus: EventBus, failures: list[BaseException]) -> None:
    requests: list[Message] = []
    bus.consumer("late", requests.append)

    async def ask() -> None:
        bus.request("late", options=DeliveryOptions(timeout=0.02))
        bus.request("late", options=DeliveryOptions(timeout=0.02)).then(print)

    await in_thread(lambda: asyncio.run(ask()))
    await turns()
    requests[0].reply("too late")
    async with asyncio.timeout(30):
        while bus.replies_waiting:
            await turns()
    assert failures == []


async def test_registration_race(failures: list[BaseException]) -> None:
    """Publishes from several threads, while consumers come and go on several loops: who stays misses nothing."""
    async with Runtime(SystemClock(), event_loops=3) as runtime, EventBus(runtime) as bus:
        count, writers = 300, 3
        stayed = [Seen() for _ in range(3)]
        for seen in stayed:
            bus.consumer("address", seen, context=runtime.context())
        is_over = threading.Event()

        def churn() -> None:
            while not is_over.is_set():
                consumers = [bus.consumer("address", lambda message: None) for _ in range(3)]
                for consumer in consumers:
                    consumer.unregister()

        def write(name: int) -> None:
            for index in range(count):
                bus.publish("address", [name, index])

        churning = [in_thread(churn) for _ in range(2)]
        await asyncio.gather(*[in_thread(partial(write, name)) for name in range(writers)])
        for seen in stayed:
            items = await seen.wait_for(count * writers)
            for name in range(writers):
                assert [item[1] for item in items if item[0] == name] == list(range(count))  # type: ignore[index]
        is_over.set()
        await asyncio.gather(*churning)
        assert [len(consumers) for consumers in bus._consumers.values()] == [3]


async def test_requests_across_loops_and_threads_find_their_own(failures: list[BaseException]) -> None:
    async with Runtime(SystemClock(), event_loops=3) as runtime, EventBus(runtime) as bus:
        for kind in KINDS:
            bus.consumer("echo", lambda message: message.reply(message.body), context=runtime.context(kind))
        seen = Seen()

        async def ask(context: Context) -> None:
            for index in range(100):
                reply = await bus.request("echo", [context.name, index])
                assert reply.body == [context.name, index]
            seen.note(context.name)

        contexts = [runtime.context(kind) for kind in KINDS for _ in range(3)]
        for context in contexts:
            context.run(ask, context)

        def block() -> None:
            assert [bus.request("echo", index).result(10).body for index in range(100)] == list(range(100))

        await asyncio.gather(*[in_thread(block) for _ in range(3)])
        await seen.wait_for(len(contexts))
        assert bus.replies_waiting == 0
