"""Flow control of consumers, by the names of Vert.x's scenarios: demand, buffering, discarding, iterating."""

import asyncio
import logging

import pytest
from tests.unit.bus.scenes import Seen, turns

from hutong.bus import EventBus, FailureType, Message, ReplyError
from hutong.foundation.errors import UsageError


async def test_pause_resume_message_stream(bus: EventBus) -> None:
    seen = Seen()
    consumer = bus.consumer("address", seen)
    bus.send("address", 0)
    await seen.wait_for(1)
    consumer.pause()
    for index in range(1, 11):
        bus.send("address", index)
    await turns()
    assert seen.items == [0]
    consumer.resume()
    bus.send("address", 11)
    assert await seen.wait_for(12) == list(range(12))


async def test_pause_fetch_message_stream(bus: EventBus) -> None:
    seen = Seen()
    consumer = bus.consumer("address", seen)
    consumer.pause()
    for index in range(10):
        bus.send("address", index)
    await turns()
    consumer.fetch(2)
    await turns(10)
    assert seen.items == [0, 1]
    consumer.fetch(1).fetch(2)
    await turns(10)
    assert seen.items == [0, 1, 2, 3, 4]
    consumer.fetch(10)
    await turns(20)
    for index in range(10, 20):
        bus.send("address", index)
    await turns(20)
    assert seen.items == list(range(15)), "five were there, so five more may come"
    with pytest.raises(ValueError, match="one message or more"):
        consumer.fetch(0)


async def test_pause_in_handler(bus: EventBus) -> None:
    seen = Seen()

    def handle(message: Message) -> None:
        seen(message)
        consumer.pause()

    consumer = bus.consumer("address", handle)
    for index in range(3):
        bus.send("address", index)
    for count in range(1, 4):
        await turns(10)
        assert seen.items == list(range(count)), "what is on its way already is held as well"
        consumer.resume()


async def test_unregister_consumer_discard_pending_messages(bus: EventBus) -> None:
    seen, discarded, ended = Seen(), Seen(), Seen()
    consumer = bus.consumer("address", seen)
    consumer.discard_handler = discarded
    consumer.end_handler = lambda: ended.note("end")
    consumer.pause()
    for index in range(5):
        bus.send("address", index)
    await turns()
    bus.send("address", 5)
    await consumer.unregister()
    await consumer.unregister()
    await ended.wait_for(1)
    await turns()
    consumer.resume()
    await turns()
    assert discarded.items in ([5, 0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5])
    assert seen.items == []
    assert consumer.discarded_total == 6


async def test_unregister_in_handler(bus: EventBus) -> None:
    seen = Seen()

    def handle(message: Message) -> None:
        seen(message)
        consumer.unregister()

    consumer = bus.consumer("address", handle)
    for index in range(5):
        bus.send("address", index)
    await turns()
    assert seen.items == [0]
    with pytest.raises(ReplyError, match="no handlers"):
        await bus.request("address")


async def test_early_timeout_when_max_buffered_messages_exceeded(bus: EventBus) -> None:
    consumer = bus.consumer("address", lambda message: message.reply(), max_buffered_messages=0)
    consumer.pause()
    with pytest.raises(ReplyError, match="its buffer of 0 was full") as caught:
        await bus.request("address")
    assert caught.value.failure_type is FailureType.TIMEOUT
    consumer.resume()
    await bus.request("address")


async def test_early_timeout_on_handler_unregistration(bus: EventBus) -> None:
    consumer = bus.consumer("address", lambda message: message.reply())
    consumer.pause()
    buffered = bus.request("address")
    await turns()
    on_its_way = bus.request("address")
    consumer.unregister()
    for reply in (buffered, on_its_way):
        with pytest.raises(ReplyError, match="unregistered") as caught:
            await reply
        assert caught.value.failure_type is FailureType.TIMEOUT


async def test_a_full_buffer_discards_and_says_so_once(bus: EventBus, caplog: pytest.LogCaptureFixture) -> None:
    seen = Seen()
    consumer = bus.consumer("address", seen, max_buffered_messages=3)
    consumer.pause()
    with caplog.at_level(logging.WARNING, "hutong.bus"):
        for index in range(10):
            bus.send("address", index)
        await turns()
    assert len(caplog.records) == 1
    assert "paused consumer of 'address'" in caplog.text
    consumer.resume()
    assert await seen.wait_for(3) == [0, 1, 2]
    assert consumer.discarded_total == 7


async def test_a_consumer_without_a_handler_keeps_what_comes(bus: EventBus) -> None:
    seen = Seen()
    consumer = bus.consumer("address")
    bus.send("address", 1)
    await turns()
    consumer.handler(seen)
    bus.send("address", 2)
    assert await seen.wait_for(2) == [1, 2]
    consumer.handler(None)
    bus.send("address", 3)
    await turns()
    other = Seen()
    consumer.handler(other)
    assert await other.wait_for(1) == [3]
    assert seen.items == [1, 2]


async def test_iterating_takes_one_at_a_time_and_ends_with_the_registration(bus: EventBus) -> None:
    consumer = bus.consumer("address", max_buffered_messages=3)
    taken: list[object] = []

    async def iterate() -> str:
        async for message in consumer:
            taken.append(message.body)
            message.reply(message.body)
            if message.body == "last":
                consumer.unregister()
        return "ended"

    iterating = asyncio.get_running_loop().create_task(iterate())
    for index in range(10):
        assert (await bus.request("address", index)).body == index
    bus.send("address", "last")
    assert await iterating == "ended"
    assert taken == [*range(10), "last"]
    assert [message async for message in consumer] == []


async def test_iterating_is_back_pressure(bus: EventBus) -> None:
    async with bus.consumer("address", max_buffered_messages=2) as consumer:
        iterator = aiter(consumer)
        for index in range(5):
            bus.send("address", index)
        await turns()
        assert consumer.discarded_total == 3
        assert [(await anext(iterator)).body for _ in range(2)] == [0, 1]
        bus.send("address", 5)
        assert (await anext(iterator)).body == 5
    assert not consumer.is_registered
    with pytest.raises(StopAsyncIteration):
        await anext(iterator)


async def test_an_interrupted_iteration_loses_no_message(bus: EventBus) -> None:
    consumer = bus.consumer("address")
    iterator = aiter(consumer)
    for moment in range(8):
        waiting = asyncio.get_running_loop().create_task(anext(iterator))
        await turns(3)
        bus.send("address", moment)
        await turns(moment)
        was_cancelled = waiting.cancel()
        try:
            message = await waiting
        except asyncio.CancelledError:
            message = await anext(iterator)
        assert message.body == moment
        assert was_cancelled or moment > 0


async def test_closing_the_bus_ends_an_iteration(bus: EventBus) -> None:
    consumer = bus.consumer("address")

    async def iterate() -> list[Message]:
        return [message async for message in consumer]

    iterating = asyncio.get_running_loop().create_task(iterate())
    await turns()
    await bus.close()
    assert await iterating == []


async def test_messages_of_one_sender_keep_their_order_through_pauses(bus: EventBus) -> None:
    seen = Seen()
    consumer = bus.consumer("address", seen, max_buffered_messages=10_000)
    for index in range(2_000):
        bus.send("address", index)
        if index % 7 == 0:
            consumer.pause()
        if index % 11 == 0:
            consumer.fetch(3)
        if index % 13 == 0:
            consumer.resume()
            await asyncio.sleep(0)
    consumer.resume()
    assert await seen.wait_for(2_000) == list(range(2_000))


async def test_a_consumer_is_a_decorator_of_functions_and_coroutines(bus: EventBus) -> None:
    @bus.consumer("function")
    def function(message: Message) -> str:
        return f"function {message.body}"

    @bus.consumer("coroutine")
    async def coroutine(message: Message) -> str:
        await asyncio.sleep(0)
        return f"coroutine {message.body}"

    assert (await bus.request("function", 1)).body == "function 1"
    assert (await bus.request("coroutine", 2)).body == "coroutine 2"
    assert function.__name__ == "function"  # and not a consumer


async def test_a_decorator_takes_what_came_before_it(bus: EventBus) -> None:
    seen = Seen()
    consumer = bus.consumer("a")
    bus.send("a", 1)
    await turns()
    assert consumer(seen) is seen
    assert await seen.wait_for(1) == [1]


async def test_a_consumer_decorates_one_handler(bus: EventBus) -> None:
    consumer = bus.consumer("a")
    consumer(print)
    with pytest.raises(UsageError, match="has a handler already"):
        consumer(print)
    with pytest.raises(UsageError, match="has a handler already"):
        bus.consumer("b", print)(print)


async def test_a_consumer_in_a_loop_is_no_decorator(bus: EventBus) -> None:
    consumer = bus.consumer("a")
    aiter(consumer)
    with pytest.raises(UsageError, match="has a handler already"):
        consumer(print)


async def test_only_what_can_be_called_is_decorated(bus: EventBus) -> None:
    with pytest.raises(TypeError, match="int is not callable"):
        bus.consumer("a")(5)  # type: ignore[type-var]
