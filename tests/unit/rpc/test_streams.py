"""Streams: pulled as far as they are read, closed when the reader stops."""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

import pytest
from tests.unit.rpc.scenes import Shop, Store, until

from hutong.bus import EventBus
from hutong.rpc import (
    CallFailed,
    DispatchFailed,
    NoService,
    OutcomeUnknown,
    Rpc,
    ServiceError,
    current_call,
    service,
    with_options,
)
from hutong.rpc.calling.stream_reader import BATCH_DEFAULT
from hutong.runtime.contexts.contexts import ContextKind
from hutong.runtime.runtime import Runtime


@service("source")
class Source(Protocol):
    async def opened(self, upto: int) -> AsyncIterator[int]: ...
    def failing(self, after: int) -> AsyncIterator[int]: ...
    def quiet(self) -> AsyncIterator[str]: ...
    def header(self) -> AsyncIterator[str]: ...
    def none(self) -> AsyncIterator[int]: ...


class Numbers:
    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.ended: list[str] = []

    async def opened(self, upto: int) -> AsyncIterator[int]:
        async def numbers() -> AsyncIterator[int]:
            for number in range(upto):
                await asyncio.sleep(0)
                yield number

        return numbers()

    async def failing(self, after: int) -> AsyncIterator[int]:
        for number in range(after):
            yield number
        raise ServiceError("no more", code=7)

    async def quiet(self) -> AsyncIterator[str]:
        yield "first"
        try:
            await self.gate.wait()
        finally:
            self.ended.append("quiet")
        yield "second"

    async def header(self) -> AsyncIterator[str]:
        for _ in range(2):
            await asyncio.sleep(0)
            yield current_call().headers.get("who") or ""

    def none(self) -> AsyncIterator[int]:
        return 3  # type: ignore[return-value]


def parked(rpc: Rpc, bus: EventBus) -> int:
    return len(rpc.temporaries.waits) + len(rpc.temporaries.open) + bus.replies_waiting


@pytest.mark.parametrize("count", [0, 1, BATCH_DEFAULT, BATCH_DEFAULT + 1, 1_000])
async def test_all_items_in_order(rpc: Rpc, bus: EventBus, count: int) -> None:
    store = Store()
    await rpc.bind(Shop, store)
    assert [item async for item in rpc.proxy(Shop).count(count)] == list(range(count))
    await until(lambda: not parked(rpc, bus))
    assert store.ended == ["count"]


async def test_a_stream_that_is_awaited_first(rpc: Rpc) -> None:
    await rpc.bind(Source, Numbers())
    stream = await rpc.proxy(Source).opened(200)
    assert [item async for item in stream] == list(range(200))


async def test_the_producer_is_not_far_ahead_of_its_reader(rpc: Rpc, bus: EventBus) -> None:
    store = Store()
    await rpc.bind(Shop, store)
    read = 0
    async for _ in rpc.proxy(Shop).count(1_000_000):
        read += 1
        for _ in range(5):
            await asyncio.sleep(0)
        assert store.counted < read + 2 * BATCH_DEFAULT
        if read == 300:
            break
    await until(lambda: store.ended == ["count"])
    await until(lambda: not parked(rpc, bus))


async def test_leaving_the_loop_closes_the_generator_where_it_waits(rpc: Rpc, bus: EventBus) -> None:
    numbers = Numbers()
    await rpc.bind(Source, numbers)
    async for item in rpc.proxy(Source).quiet():
        assert item == "first"
        break
    await until(lambda: numbers.ended == ["quiet"])
    await until(lambda: not parked(rpc, bus))


async def test_a_reader_that_is_cancelled_closes_the_generator(rpc: Rpc, bus: EventBus) -> None:
    numbers = Numbers()
    await rpc.bind(Source, numbers)
    seen: list[str] = []

    async def read() -> None:
        async for item in rpc.proxy(Source).quiet():
            seen.append(item)  # noqa: PERF401

    task = asyncio.get_running_loop().create_task(read())
    await until(lambda: seen)
    task.cancel()
    await until(lambda: numbers.ended == ["quiet"])
    await until(lambda: not parked(rpc, bus))


async def test_an_error_comes_behind_the_items_before_it(rpc: Rpc, bus: EventBus) -> None:
    await rpc.bind(Source, Numbers())
    stream = rpc.proxy(Source).failing(100)
    assert [await anext(stream) for _ in range(100)] == list(range(100))
    with pytest.raises(ServiceError, match="no more") as caught:
        await anext(stream)
    assert caught.value.code == 7
    await until(lambda: not parked(rpc, bus))


async def test_a_quiet_stream_is_no_time_out(rpc: Rpc) -> None:
    numbers = Numbers()
    await rpc.bind(Source, numbers)
    stream = with_options(rpc.proxy(Source), timeout=0.5).quiet()
    assert await anext(stream) == "first"
    asyncio.get_running_loop().call_later(1.0, numbers.gate.set)
    assert await anext(stream) == "second"


async def test_a_generator_knows_its_call(rpc: Rpc) -> None:
    await rpc.bind(Source, Numbers())
    assert [item async for item in rpc.proxy(Source, headers={"who": "me"}).header()] == ["me", "me"]


async def test_what_is_no_stream(rpc: Rpc) -> None:
    await rpc.bind(Source, Numbers())
    with pytest.raises(DispatchFailed, match="'none' returned a int where a stream is promised"):
        await anext(rpc.proxy(Source).none())


async def test_arguments_of_a_stream_are_looked_at_when_it_is_called(rpc: Rpc) -> None:
    with pytest.raises(TypeError, match="upto"):
        rpc.proxy(Shop).count()  # type: ignore[call-arg]
    with pytest.raises(NoService):
        await anext(rpc.proxy(Shop).count(1))


async def test_a_stream_nobody_reads_is_closed(bus: EventBus, runtime: Runtime) -> None:
    numbers = Numbers()
    async with Rpc(
        bus, runtime, reference_idle_time=0.3
    ) as rpc:  # long enough to be read first, however busy the machine
        await rpc.bind(Source, numbers)
        stream = rpc.proxy(Source).quiet()
        assert await anext(stream) == "first"
        await stream.aclose()  # type: ignore[attr-defined]
        await until(lambda: not parked(rpc, bus))
        answered = rpc.go("source", "quiet", {})  # by name, so that nobody reads
        await answered
        await until(lambda: not parked(rpc, bus), pause=0.005)  # by its timer


async def test_streams_end_with_their_binding(rpc: Rpc, bus: EventBus) -> None:
    numbers = Numbers()
    binding = await rpc.bind(Source, numbers)
    stream = rpc.proxy(Source).quiet()
    assert await anext(stream) == "first"
    await binding.unbind()
    with pytest.raises(CallFailed):  # its request for more is discarded
        await anext(stream)
    assert numbers.ended == ["quiet"]
    await until(lambda: not parked(rpc, bus))


async def test_a_stream_that_is_closed_before_its_end_fails(rpc: Rpc, bus: EventBus) -> None:
    numbers = Numbers()
    binding = await rpc.bind(Source, numbers)
    stream = rpc.proxy(Source).quiet()
    assert await anext(stream) == "first"
    more = asyncio.ensure_future(anext(stream))
    for _ in range(20):  # until its request for more waits at the service
        await asyncio.sleep(0)
    await binding.unbind()
    with pytest.raises(OutcomeUnknown, match="the stream was closed before its end"):
        await more
    assert numbers.ended == ["quiet"]
    await until(lambda: not parked(rpc, bus))


async def test_streams_of_a_worker(rpc: Rpc, runtime: Runtime) -> None:
    await rpc.bind(Source, Numbers(), context=runtime.context(ContextKind.WORKER))
    assert [item async for item in await rpc.proxy(Source).opened(500)] == list(range(500))
