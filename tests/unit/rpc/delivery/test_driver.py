"""Services that remember: bound and called over a bus, with a table in memory."""

import asyncio
from typing import Any, Protocol

import pytest
from tests.unit.rpc.delivery.stage import MemoryTable
from tests.unit.rpc.scenes import until

import hutong
from hutong.bus import EventBus
from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import CorruptData, StorageError, UsageError
from hutong.rpc import (
    Deduplication,
    Delivery,
    DispatchFailed,
    NotExecuted,
    OutcomeUnknown,
    RequestExpired,
    RequestIdReused,
    ResultNotKept,
    Rpc,
    ServiceError,
    connect,
    new_request_id,
    service,
    with_options,
)
from hutong.rpc.delivery.driver import CallMemory
from hutong.rpc.delivery.messages import MemorySettings
from hutong.runtime.contexts.contexts import ContextKind
from hutong.runtime.runtime import Runtime


class OutOfStock(ServiceError):
    code = 17


@service("orders", errors=[OutOfStock])
class Orders(Protocol):
    async def place(self, item: str) -> int: ...
    async def slow(self) -> str: ...
    async def large(self, size: int) -> str: ...


class Shop:
    def __init__(self) -> None:
        self.placed: list[str] = []
        self.gate = asyncio.Event()
        self.entered = asyncio.Event()

    async def place(self, item: str) -> int:
        self.placed.append(item)
        if item == "none":
            raise OutOfStock("there is none")
        return len(self.placed)

    async def slow(self) -> str:
        self.placed.append("slow")
        self.entered.set()
        await self.gate.wait()
        return "done"

    async def large(self, size: int) -> str:
        self.placed.append("large")
        return "x" * size


SETTINGS = MemorySettings(outcome_bytes_max=1_000)


class Scene:
    def __init__(self, rpc: Rpc, runtime: Runtime) -> None:
        self.rpc = rpc
        self.runtime = runtime
        self.shop = Shop()
        self.table = MemoryTable()
        self.orders = rpc.proxy(Orders, delivery=Delivery.DEDUPLICATED)

    def memory(self, **more: Any) -> CallMemory:
        return CallMemory(self.table, self.runtime.clock, self.runtime.wheel, SETTINGS, **more)

    async def bind(self, **more: Any) -> CallMemory:
        memory = self.memory()
        self.binding = await self.rpc.bind(Orders, self.shop, memory=memory, **more)
        return memory

    async def again(self) -> CallMemory:
        """Another process takes the place, with what is stored."""
        await self.binding.unbind(grace=0)
        self.table = MemoryTable(self.table.rows)
        return await self.bind()

    def own(self, request_id: str) -> Orders:
        return self.orders.with_options(request_id=request_id)  # type: ignore[attr-defined, no-any-return]


@pytest.fixture
async def scene(rpc: Rpc, runtime: Runtime) -> Scene:
    return Scene(rpc, runtime)


async def test_a_request_asked_twice_is_executed_once_and_answered_alike(scene: Scene) -> None:
    memory = await scene.bind()
    request = new_request_id()
    assert await scene.own(request).place("apple") == 1
    assert await scene.own(request).place("apple") == 1
    assert await scene.orders.place("pear") == 2
    assert scene.shop.placed == ["apple", "pear"]
    assert (memory.executed_total, memory.replayed_total, memory.waiting) == (2, 1, 0)


async def test_an_id_that_has_been_used_for_another_call_executes_nothing(scene: Scene) -> None:
    memory = await scene.bind()
    request = new_request_id()
    assert await scene.own(request).place("apple") == 1
    for _ in range(2):
        with pytest.raises(RequestIdReused, match="an earlier call of 'place'"):
            await scene.own(request).slow()
        with pytest.raises(RequestIdReused):
            await scene.own(request).place("pear")
        assert await scene.own(request).place("apple") == 1
        memory = await scene.again()
    assert scene.shop.placed == ["apple"]
    assert memory.waiting == 0


async def test_a_caller_over_a_connection_has_a_share_of_the_memory(scene: Scene) -> None:
    async with hutong.Node(rpc="127.0.0.1:0") as node:
        table = MemoryTable()
        memory = CallMemory(table, node.runtime.clock, node.runtime.wheel, MemorySettings(calls_max=8))
        await node.rpc.bind(Orders, scene.shop, memory=memory)
        assert node.rpc_address is not None
        async with connect(node.rpc_address) as client:
            orders = client.proxy(Orders)
            for number in range(2):
                assert await with_options(orders, request_id=new_request_id()).place("apple") == number + 1
            with pytest.raises(NotExecuted, match="calls_max of one caller is 2"):
                await with_options(orders, request_id=new_request_id()).place("apple")
        assert await with_options(node.rpc.proxy(Orders), request_id=new_request_id()).place("apple") == 3


async def test_an_answer_outlives_the_service(scene: Scene) -> None:
    await scene.bind()
    request, failing = new_request_id(), new_request_id()
    await scene.own(request).place("apple")
    with pytest.raises(OutOfStock):
        await scene.own(failing).place("none")
    await scene.again()
    assert await scene.own(request).place("apple") == 1
    with pytest.raises(OutOfStock, match="there is none"):
        await scene.own(failing).place("none")
    assert scene.shop.placed == ["apple", "none"]


async def test_duplicates_wait_for_the_call_in_progress(scene: Scene) -> None:
    memory = await scene.bind()
    request = new_request_id()
    first = scene.rpc.go(scene.own(request).slow)
    await scene.shop.entered.wait()
    others = [scene.rpc.go(scene.own(request).slow) for _ in range(3)]
    await until(lambda: memory.waited_total == 3)
    scene.shop.gate.set()
    assert await asyncio.gather(first, *others) == ["done"] * 4
    assert scene.shop.placed == ["slow"]
    assert memory.waiting == 0


async def test_a_call_begun_before_the_service_ended_has_an_unknown_outcome(scene: Scene) -> None:
    await scene.bind()
    request = new_request_id()
    first = scene.rpc.go(scene.own(request).slow)
    await scene.shop.entered.wait()
    rows = dict(scene.table.rows)
    scene.shop.gate.set()
    await first
    scene.table.rows = rows
    await scene.again()
    with pytest.raises(OutcomeUnknown):
        await scene.own(request).slow()
    assert scene.shop.placed == ["slow"]


async def test_nothing_is_executed_before_its_start_is_stored(scene: Scene) -> None:
    await scene.bind()
    scene.table.is_held = True
    placing = scene.rpc.go(scene.orders.place, "apple")
    await until(lambda: scene.table.writes)
    assert scene.shop.placed == []
    scene.table.settle()
    await until(lambda: scene.table.writes)
    assert scene.shop.placed == ["apple"]
    assert not placing.done()
    scene.table.settle()
    assert await placing == 1


async def test_what_could_not_be_stored_is_tried_again_by_the_caller(scene: Scene) -> None:
    await scene.bind()
    scene.table.is_held = True
    placing = scene.rpc.go(scene.orders.place, "apple")
    await until(lambda: scene.table.writes)
    scene.table.settle(StorageError("no"))
    scene.table.is_held = False
    assert await placing == 1
    assert scene.shop.placed == ["apple"]
    once = scene.orders.with_options(retries=0)  # type: ignore[attr-defined]
    scene.table.is_held = True
    placing = scene.rpc.go(once.place, "pear")
    await until(lambda: scene.table.writes)
    scene.table.settle(StorageError("no"))
    with pytest.raises(NotExecuted):
        await placing
    assert scene.shop.placed == ["apple"]


async def test_a_memory_that_others_have_taken_over_executes_nothing(scene: Scene) -> None:
    await scene.bind()
    scene.table.failure = StorageError("another owner")
    with pytest.raises(NotExecuted):
        await scene.orders.with_options(retries=0).place("apple")  # type: ignore[attr-defined]
    assert scene.shop.placed == []


async def test_a_result_that_is_too_large_is_answered_once(scene: Scene) -> None:
    await scene.bind()
    request = new_request_id()
    assert len(await scene.own(request).large(2_000)) == 2_000
    with pytest.raises(ResultNotKept):
        await scene.own(request).large(2_000)
    assert scene.shop.placed == ["large"]


async def test_wrong_arguments_are_remembered_as_such(scene: Scene) -> None:
    await scene.bind()
    request = new_request_id()
    for _ in range(2):
        with pytest.raises(DispatchFailed):
            await scene.rpc.call("orders", "place", {"item": 3}, delivery=Delivery.DEDUPLICATED, request_id=request)
    assert scene.shop.placed == []


async def test_a_service_that_remembers_nothing_refuses_who_needs_it_to(scene: Scene) -> None:
    await scene.rpc.bind(Orders, scene.shop)
    with pytest.raises(DispatchFailed, match="deduplicate"):
        await scene.orders.place("apple")
    assert scene.shop.placed == []
    plain = scene.orders.with_options(delivery=Delivery.AT_LEAST_ONCE)  # type: ignore[attr-defined]
    assert await plain.place("apple") == 1


async def test_who_gives_no_request_id_is_executed_as_ever(scene: Scene) -> None:
    memory = await scene.bind()
    plain = scene.rpc.proxy(Orders)
    assert [await plain.place("a"), await plain.place("a")] == [1, 2]
    assert (memory.executed_total, scene.table.rows) == (0, {})


@pytest.mark.parametrize("headers", [{"request-id": "17"}, {"request-id": new_request_id(), "acked-below": "-1"}])
async def test_headers_that_make_no_sense_are_refused(scene: Scene, headers: dict[str, str]) -> None:
    await scene.bind()
    with pytest.raises(DispatchFailed):
        await scene.rpc.proxy(Orders, headers=headers).place("apple")
    assert scene.shop.placed == []


async def test_an_id_that_is_too_old_is_refused(scene: Scene) -> None:
    await scene.bind()
    with pytest.raises(RequestExpired):
        await scene.own("0" * 12 + "7" + "0" * 19 + "/0").place("apple")
    assert scene.shop.placed == []


async def test_acknowledged_calls_are_deleted(scene: Scene) -> None:
    memory = await scene.bind()
    for _ in range(500):
        await scene.orders.place("apple")
    assert memory.machine.holdings.calls <= 70
    assert len(scene.table.rows) <= 150


async def test_workers_share_one_memory(scene: Scene) -> None:
    class Blocking:
        placed: int = 0

        def place(self, item: str) -> int:
            Blocking.placed += 1
            return Blocking.placed

        def slow(self) -> str:
            return ""

        def large(self, size: int) -> str:
            return ""

    memory = scene.memory()
    worker = scene.runtime.context(ContextKind.WORKER)
    await scene.rpc.bind(Orders, Blocking(), memory=memory, context=worker, instances=3)
    requests = [new_request_id() for _ in range(20)]
    first = await asyncio.gather(*[scene.own(each).place("a") for each in requests for _ in range(3)])
    assert sorted(first) == sorted(list(range(1, 21)) * 3)
    assert Blocking.placed == 20
    assert memory.waiting == 0


async def test_too_many_that_wait_are_refused(scene: Scene) -> None:
    memory = scene.memory(waiting_max=2)
    await scene.rpc.bind(Orders, scene.shop, memory=memory)
    request = new_request_id()
    waiting = [scene.rpc.go(scene.own(request).slow) for _ in range(2)]
    await until(lambda: memory.waiting == 2)
    with pytest.raises(NotExecuted, match="rpc_waiting_max"):
        await scene.orders.with_options(retries=0, request_id=request).slow()  # type: ignore[attr-defined]
    scene.shop.gate.set()
    assert await asyncio.gather(*waiting) == ["done"] * 2


async def test_a_memory_that_cannot_be_read_is_not_opened(scene: Scene) -> None:
    scene.table.rows = {b"c/1": b"?"}
    with pytest.raises(CorruptData):
        await scene.bind()
    assert scene.table.is_closed


async def test_a_bus_without_a_log_has_no_place_for_a_memory(scene: Scene) -> None:
    with pytest.raises(UsageError, match="no log"):
        await scene.rpc.bind(Orders, scene.shop, deduplicate=Deduplication())


@pytest.mark.parametrize("wrong", [{"keep_for": 1.0}, {"clock_skew": 3_000.0}, {"calls": 0}, {"result_bytes": 1 << 20}])
def test_bounds_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Deduplication(**wrong)


async def test_callers_on_other_loops_try_again_as_well(scene: Scene, bus: EventBus) -> None:
    async with Runtime(SystemClock(), event_loops=2) as runtime, EventBus(runtime) as other, Rpc(other, runtime) as rpc:
        table, shop = MemoryTable(), Shop()
        memory = CallMemory(table, runtime.clock, runtime.wheel)
        await rpc.bind(Orders, shop, memory=memory, context=runtime.context())
        contexts = [runtime.context() for _ in range(2)]
        orders = rpc.proxy(Orders, delivery=Delivery.DEDUPLICATED)
        results = await asyncio.gather(
            *[context.call(lambda: orders.place("apple")) for context in contexts for _ in range(10)]
        )
        assert sorted(results) == list(range(1, 21))
