"""Flow control of producers, by the names of Vert.x's scenarios; and that no way of ending a message loses a credit."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest
from tests.unit.bus.scenes import Seen, turns

from hutong.bus import BusClosed, Delivery, EventBus, FailureType, Message, ReplyError
from hutong.bus.delivery.producer import WRITES_HELD_MAX
from hutong.foundation.errors import LimitExceeded
from hutong.runtime.runtime import Runtime


async def test_pause_consumer(bus: EventBus) -> None:
    seen, drained = Seen(), Seen()
    consumer = bus.consumer("address", seen)
    consumer.pause()
    producer = bus.sender("address", write_queue_max=10).drain_handler(lambda: drained.note("drained"))
    written = 0
    while not producer.is_full:
        producer.write(written)
        written += 1
    assert written == 10
    await turns()
    assert drained.items == []
    consumer.resume()
    await drained.wait_for(1)
    assert not producer.is_full
    assert seen.items[:5] == list(range(5))


async def test_no_consumer(bus: EventBus) -> None:
    drained = Seen()
    producer = bus.sender("nowhere", write_queue_max=5).drain_handler(lambda: drained.note("drained"))
    for index in range(10):
        with pytest.raises(ReplyError, match="no handlers for address 'nowhere'"):
            await producer.write(index)
    await turns()
    assert not producer.is_full
    assert drained.items == []


async def test_send_write_handler_no_consumer(bus: EventBus) -> None:
    with pytest.raises(ReplyError) as caught:
        await bus.sender("nowhere").write("body")
    assert caught.value.failure_type is FailureType.NO_HANDLERS


async def test_resume_paused_producer(bus: EventBus) -> None:
    seen = Seen()
    consumer = bus.consumer("address", seen)
    consumer.pause()
    producer = bus.sender("address", write_queue_max=10)
    count = 0
    while not producer.is_full:
        producer.write(count)
        count += 1
    for _ in range(10):
        producer.write(count)
        count += 1
    consumer.resume()
    assert await seen.wait_for(20) == list(range(20)), "in order, though half of them were held"


async def test_writing_in_a_loop_goes_as_fast_as_the_recipient(bus: EventBus) -> None:
    seen = Seen()
    gate = asyncio.Event()

    async def slowly(message: Message) -> None:
        await gate.wait()
        seen(message)

    bus.consumer("address", slowly)
    producer = bus.sender("address", write_queue_max=4)
    written = 0

    async def write() -> None:
        nonlocal written
        for index in range(20):
            await producer.write(index)
            written += 1

    writing = asyncio.get_running_loop().create_task(write())
    await turns(50)
    assert written == 4, "a coroutine has handled its message at its end"
    gate.set()
    await writing
    assert await seen.wait_for(20) == list(range(20))


async def test_publisher_waits_for_every_recipient(bus: EventBus) -> None:
    first, second, drained = Seen(), Seen(), Seen()
    slow = bus.consumer("address", first)
    bus.consumer("address", second)
    slow.pause()
    producer = bus.publisher("address", write_queue_max=2).drain_handler(lambda: drained.note("drained"))
    producer.write({"n": 1})
    producer.write({"n": 2})
    await second.wait_for(2)
    await turns()
    assert producer.is_full
    slow.resume()
    await drained.wait_for(1)
    assert first.items == second.items == [{"n": 1}, {"n": 2}]


async def _handled(bus: EventBus, runtime: Runtime) -> None:
    bus.consumer("address", lambda message: None)


async def _raising(bus: EventBus, runtime: Runtime) -> None:
    bus.consumer("address", lambda message: 1 / 0)


async def _coroutine_raising(bus: EventBus, runtime: Runtime) -> None:
    async def broken(message: Message) -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    bus.consumer("address", broken)


async def _kept(bus: EventBus, runtime: Runtime) -> None:
    kept: list[Message] = []
    bus.consumer("address", kept.append)
    runtime.kept = kept  # type: ignore[attr-defined]


async def _discarded(bus: EventBus, runtime: Runtime) -> None:
    consumer = bus.consumer("address", max_buffered_messages=0)
    consumer.discard_handler = runtime.__dict__.setdefault("kept", []).append
    consumer.pause()


async def _unregistered(bus: EventBus, runtime: Runtime) -> None:
    consumer = bus.consumer("address").pause()
    asyncio.get_running_loop().call_later(0.001, consumer.unregister)


async def _unregistered_on_the_way(bus: EventBus, runtime: Runtime) -> None:
    consumer = bus.consumer("address", lambda message: None)

    def unregister(delivery: Delivery) -> None:
        delivery.next()
        consumer.unregister()

    bus.add_outbound_interceptor(unregister)


async def _context_closed(bus: EventBus, runtime: Runtime) -> None:
    context = runtime.context()
    bus.consumer("address", context=context).pause()
    closing = asyncio.get_running_loop().create_task(context.close())
    closing.add_done_callback(lambda _: None)
    runtime.closing = closing  # type: ignore[attr-defined]


async def _intercepted(bus: EventBus, runtime: Runtime) -> None:
    bus.consumer("address", lambda message: None)
    bus.add_inbound_interceptor(lambda delivery: None)


async def _intercepted_outbound(bus: EventBus, runtime: Runtime) -> None:
    bus.consumer("address", lambda message: None)
    bus.add_outbound_interceptor(lambda delivery: 1 / 0)


async def _iterated(bus: EventBus, runtime: Runtime) -> None:
    consumer = bus.consumer("address")

    async def iterate() -> None:
        async for message in consumer:
            runtime.__dict__.setdefault("kept", []).append(message)

    runtime.iterating = asyncio.get_running_loop().create_task(iterate())  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "scene",
    [
        _handled,
        _raising,
        _coroutine_raising,
        _kept,
        _discarded,
        _unregistered,
        _unregistered_on_the_way,
        _context_closed,
        _intercepted,
        _intercepted_outbound,
        _iterated,
    ],
)
@pytest.mark.parametrize("kind", ["sender", "publisher"])
async def test_credits_cannot_leak(
    bus: EventBus, runtime: Runtime, failures: list[BaseException], scene: Callable[..., object], kind: str
) -> None:
    await scene(bus, runtime)  # type: ignore[misc]
    producer = getattr(bus, kind)("address", write_queue_max=4)
    for index in range(4):
        producer.write(index).then(lambda outcome: None)
    async with asyncio.timeout(30):
        while producer._credits_given - len(producer._returned):
            await turns()
    assert not producer.is_full
    if (iterating := runtime.__dict__.get("iterating")) is not None:
        iterating.cancel()
        await turns()


async def test_a_producer_holds_only_so_much(bus: EventBus) -> None:
    consumer = bus.consumer("address").pause()
    producer = bus.sender("address", write_queue_max=1)
    producer.write(0)
    held = [producer.write(index) for index in range(WRITES_HELD_MAX)]
    with pytest.raises(LimitExceeded, match="writes_held_max"):
        producer.write("too much")
    producer.close()
    with pytest.raises(BusClosed, match="has been closed"):
        await held[0]
    consumer.unregister()
    await turns()
    with pytest.raises(ReplyError, match="no handlers"):
        await producer.write("again")


async def test_what_a_cancelled_writer_wrote_is_not_sent(bus: EventBus) -> None:
    seen = Seen()
    consumer = bus.consumer("address", seen).pause()
    producer = bus.sender("address", write_queue_max=1)
    producer.write("first")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await producer.write("cancelled")
    last = producer.write("last")
    consumer.resume()
    await last
    assert await seen.wait_for(2) == ["first", "last"]


async def test_a_body_is_taken_as_it_is_when_written(bus: EventBus) -> None:
    seen = Seen()
    consumer = bus.consumer("address", seen).pause()
    producer = bus.sender("address", write_queue_max=1)
    body = {"n": 1}
    writes = [producer.write(body), producer.write(body)]
    body["n"] = 2
    with pytest.raises(TypeError, match="no codec"):
        producer.write(object())
    consumer.resume()
    for write in writes:
        await write
    assert await seen.wait_for(2) == [{"n": 1}, {"n": 1}]


async def test_a_write_queue_has_room(bus: EventBus) -> None:
    for make in (bus.sender, bus.publisher):
        with pytest.raises(ValueError, match="write_queue_max"):
            make("address", write_queue_max=0)


async def test_writers_on_threads_keep_their_own_order(bus: EventBus) -> None:
    seen = Seen()
    bus.consumer("address", seen)
    producer = bus.sender("address", write_queue_max=16)

    def write(name: int) -> None:
        for index in range(200):
            producer.write([name, index]).result(10)

    await asyncio.gather(*[asyncio.to_thread(partial(write, name)) for name in range(3)])
    items = await seen.wait_for(600)
    for name in range(3):
        assert [item[1] for item in items if item[0] == name] == list(range(200))  # type: ignore[index]
