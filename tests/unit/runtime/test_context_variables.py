"""Context variables: a function that runs elsewhere for a caller has the caller's, and leaves none behind."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from typing import Any

import pytest

from hutong.bus import Delivery, EventBus, Message
from hutong.foundation.clock import SystemClock
from hutong.runtime.contexts.contexts import Context, ContextKind, current_context
from hutong.runtime.runtime import Runtime

USER: ContextVar[str] = ContextVar("user", default="nobody")
TRACE: ContextVar[str] = ContextVar("trace", default="none")
KINDS = pytest.mark.parametrize("kind", ContextKind)
Noted = tuple[str, Context | None]


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(SystemClock(), event_loops=2) as runtime:
        yield runtime


@pytest.fixture
async def bus(runtime: Runtime) -> AsyncIterator[EventBus]:
    async with EventBus(runtime) as bus:
        yield bus


def who(_: object = None) -> Noted:
    found = USER.get(), current_context()
    USER.set("the handler")
    return found


async def who_later(_: object = None) -> Noted:
    await asyncio.sleep(0)
    return who()


@KINDS
@pytest.mark.parametrize("function", [who, who_later])
@pytest.mark.parametrize("loop", [0, 1])
async def test_a_call_has_its_callers_variables(runtime: Runtime, kind: ContextKind, function: Any, loop: int) -> None:
    context = runtime.context(kind, loop=loop)
    for name in ("ann", "bob"):
        USER.set(name)
        assert await context.call(function) == (name, context)
        assert USER.get() == name


@KINDS
@pytest.mark.parametrize("is_ordered", [True, False])
async def test_blocking_work_has_its_callers_variables(runtime: Runtime, kind: ContextKind, is_ordered: bool) -> None:
    context = runtime.context(kind)
    USER.set("ann")
    assert await context.execute_blocking(who, ordered=is_ordered) == ("ann", context)

    async def within() -> Noted:
        USER.set("bob")
        return await context.execute_blocking(who, ordered=is_ordered)

    assert await context.call(within) == ("bob", context)


async def test_variables_of_the_context_itself_are_seen_below_those_of_the_caller(runtime: Runtime) -> None:
    context = runtime.context()
    context.run(TRACE.set, "of the context")
    context.run(USER.set, "of the context")
    assert await context.call(lambda: (TRACE.get(), USER.get())) == ("of the context", "of the context")
    USER.set("ann")
    assert await context.call(lambda: (TRACE.get(), USER.get())) == ("of the context", "ann")


@KINDS
@pytest.mark.parametrize("is_coroutine", [False, True])
async def test_a_timer_has_the_variables_it_was_set_in(runtime: Runtime, kind: ContextKind, is_coroutine: bool) -> None:
    context = runtime.context(kind)
    noted: asyncio.Queue[Noted] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def note() -> None:
        loop.call_soon_threadsafe(noted.put_nowait, who())

    async def note_later() -> None:
        note()

    USER.set("ann")
    timer = context.set_periodic(0.001, note_later if is_coroutine else note)
    USER.set("bob")
    assert [await noted.get() for _ in range(2)] == [("ann", context)] * 2
    timer.cancel()


async def from_context(context: Context, name: str, function: Callable[[], Any]) -> Any:
    """Call the function in the context, where the variable has that value."""

    async def within() -> Any:
        USER.set(name)
        found = function()
        return await found if hasattr(type(found), "__await__") else found

    return await context.call(within)


@KINDS
@pytest.mark.parametrize("is_coroutine", [False, True])
@pytest.mark.parametrize("way", ["send", "publish", "request", "sender", "publisher"])
async def test_a_bus_handler_has_its_senders_variables(
    runtime: Runtime, bus: EventBus, kind: ContextKind, is_coroutine: bool, way: str
) -> None:
    noted: asyncio.Queue[Noted] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def note(message: Message) -> str:
        loop.call_soon_threadsafe(noted.put_nowait, who())
        return "reply"

    async def note_later(message: Message) -> str:
        await asyncio.sleep(0)
        return note(message)

    receiver = runtime.context(kind, name="receiver")
    handlers = 2 if way.startswith("publish") else 1
    for _ in range(handlers):
        bus.consumer("who", note_later if is_coroutine else note, context=receiver)
    ways: dict[str, Callable[[], Any]] = {
        "send": lambda: bus.send("who", 1),
        "publish": lambda: bus.publish("who", 1),
        "request": lambda: bus.request("who", 1),
        "sender": lambda: bus.sender("who").write(1),
        "publisher": lambda: bus.publisher("who").write(1),
    }
    sender = runtime.context(name="sender")
    for name in ("ann", "bob"):
        await from_context(sender, name, ways[way])
        assert [await noted.get() for _ in range(handlers)] == [(name, receiver)] * handlers
    USER.set("outside")
    await asyncio.sleep(0)
    bus.send("who", 1)
    assert await noted.get() == ("outside", receiver)


async def test_a_sender_without_variables_gives_none(runtime: Runtime, bus: EventBus) -> None:
    noted: asyncio.Queue[Noted] = asyncio.Queue()
    receiver = runtime.context(loop=0)
    bus.consumer("who", lambda message: noted.put_nowait((USER.get(), current_context())), context=receiver)
    sender = runtime.context(loop=0)
    await from_context(sender, "ann", lambda: bus.send("who", 1))
    sender.run(lambda body: bus.send("who", body), 1)
    assert [await noted.get() for _ in range(2)] == [("ann", receiver), ("nobody", receiver)]


async def test_a_message_that_waited_for_demand_brings_its_senders_variables(runtime: Runtime, bus: EventBus) -> None:
    noted: asyncio.Queue[Noted] = asyncio.Queue()
    receiver = runtime.context(loop=0)
    consumer = bus.consumer("who", context=receiver)
    consumer.pause()
    for name in ("ann", "bob"):
        await from_context(runtime.context(loop=0), name, lambda: bus.send("who", 1))
    USER.set("who resumes")
    consumer.handler(lambda message: noted.put_nowait(who()))
    consumer.resume()
    assert [await noted.get() for _ in range(2)] == [("ann", receiver), ("bob", receiver)]


async def test_a_message_that_an_interceptor_lets_go_later_brings_them_too(runtime: Runtime, bus: EventBus) -> None:
    receiver = runtime.context(loop=0)
    noted: asyncio.Queue[Noted] = asyncio.Queue()

    def later(delivery: Delivery) -> None:
        assert USER.get() == "ann"
        threading.Thread(target=delivery.next).start()

    bus.add_inbound_interceptor(later)
    bus.consumer("who", lambda message: noted.put_nowait(who()), context=receiver)
    await from_context(runtime.context(loop=0), "ann", lambda: bus.send("who", 1))
    assert await noted.get() == ("ann", receiver)


@pytest.mark.parametrize("is_within", [False, True])
async def test_a_callback_has_the_variables_of_who_asked_for_it(
    runtime: Runtime, bus: EventBus, is_within: bool
) -> None:
    noted: asyncio.Queue[Noted] = asyncio.Queue()
    requester = runtime.context(loop=0) if is_within else None

    def answer(message: Message) -> str:
        USER.set("the replier")
        return "reply"

    bus.consumer("who", answer)

    def ask() -> None:
        bus.request("who").then(lambda outcome: noted.put_nowait(who()))

    if requester is not None:
        await from_context(requester, "ann", ask)
    else:
        USER.set("ann")
        ask()
    assert await noted.get() == ("ann", requester)


async def test_a_callback_outside_of_contexts_has_none_of_the_repliers(bus: EventBus) -> None:
    noted: asyncio.Queue[Noted] = asyncio.Queue()
    bus.consumer("who", lambda message: USER.set("the replier") and "reply")
    bus.request("who").then(lambda outcome: noted.put_nowait(who()))
    assert await noted.get() == ("nobody", None)
