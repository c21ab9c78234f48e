"""Bindings: where implementations run, how they end, what is counted of them."""

import asyncio
import contextvars
import threading
import time
from typing import Any, Protocol

import pytest
from tests.unit.rpc.scenes import Shop, Store, until

import hutong
from hutong.bus import DeliveryOptions, EventBus, Headers
from hutong.foundation.errors import UsageError
from hutong.rpc import (
    CallFailed,
    DispatchFailed,
    IncomingCall,
    NoService,
    OutcomeUnknown,
    Rpc,
    ServiceError,
    current_call,
    service,
)
from hutong.rpc.call import Done
from hutong.rpc.delivery_port import Execute
from hutong.rpc.serving.discovery import Discovery, NoSuchService
from hutong.runtime.contexts.contexts import ContextKind, current_context
from hutong.runtime.runtime import Runtime

COLOUR: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")


@service("where")
class Where(Protocol):
    async def who(self) -> str: ...
    async def paint(self, colour: str, pause: bool) -> list[str]: ...
    async def in_time(self, pause: bool) -> str: ...
    async def header(self) -> str: ...


class Here:
    def __init__(self, name: str = "") -> None:
        self.name = name
        self.threads: set[int] = set()

    async def who(self) -> str:
        self.threads.add(threading.get_ident())
        return self.name or str(current_context())

    async def paint(self, colour: str, pause: bool) -> list[str]:
        seen = [COLOUR.get()]
        token = COLOUR.set(colour)
        if pause:
            await asyncio.sleep(0)
        seen.append(COLOUR.get())
        if not pause:
            return seen
        COLOUR.reset(token)  # which only works in the same variables
        return seen

    async def in_time(self, pause: bool) -> str:
        async with asyncio.timeout(0.01 if pause else 10), asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(60 if pause else 0))
        return "in time"

    async def header(self) -> str:
        return current_call().headers.get("who") or ""


class Blocking:
    """Plain methods, for a worker."""

    def who(self) -> str:
        time.sleep(0.001)
        return f"{current_context()} {current_call().action}"

    def paint(self, colour: str, pause: bool) -> list[str]:
        raise ServiceError("no colour", code=5)

    async def in_time(self, pause: bool) -> str:
        await asyncio.sleep(0)
        return str(current_context())

    def header(self) -> str:
        return current_call().headers.get("who") or ""


async def test_a_service_has_a_context_of_its_own(rpc: Rpc) -> None:
    await rpc.bind(Where, Here())
    assert await rpc.proxy(Where).who() == "<event loop context service Where>"


async def test_a_service_runs_where_it_is_told_to(rpc: Rpc, runtime: Runtime) -> None:
    await rpc.bind(Where, Here(), context=runtime.context(name="mine"))
    assert await rpc.proxy(Where).who() == "<event loop context mine>"


async def test_a_worker_may_block(rpc: Rpc, runtime: Runtime) -> None:
    await rpc.bind(Where, Blocking(), context=runtime.context(ContextKind.WORKER, name="hands"))
    where = rpc.proxy(Where, headers={"who": "me"})
    assert await where.who() == "<worker context hands> who"
    assert await where.header() == "me"
    assert await where.in_time(False) == "<worker context hands>"
    with pytest.raises(ServiceError, match="no colour"):
        await where.paint("red", False)


async def test_an_event_loop_may_not_block(rpc: Rpc, runtime: Runtime) -> None:
    with pytest.raises(UsageError, match=r"Blocking.who is not async.*worker context"):
        await rpc.bind(Where, Blocking())
    with pytest.raises(UsageError, match="an event loop or a worker"):
        await rpc.bind(Where, Here(), context=runtime.context(ContextKind.MULTI_WORKER))


async def test_an_implementation_has_every_method_with_its_parameters(rpc: Rpc) -> None:
    class Half:
        async def who(self) -> str:
            return ""

    class Other(Here):
        async def paint(self, color: str, pause: bool) -> list[str]:
            return []

    with pytest.raises(UsageError, match=r"Half.paint is missing, and Where promises it: paint\(colour: str"):
        await rpc.bind(Where, Half())
    with pytest.raises(UsageError, match=r"Other.paint cannot be called by the names of its parameters"):
        await rpc.bind(Where, Other())


async def test_parameters_may_come_in_another_order(rpc: Rpc) -> None:
    class Turned(Here):
        async def paint(self, pause: bool, colour: str, more: int = 3) -> list[str]:  # type: ignore[override]
            return [colour, str(pause), str(more)]

    await rpc.bind(Where, Turned())
    assert await rpc.proxy(Where).paint("red", True) == ["red", "True", "3"]


async def test_several_bindings_are_called_in_turn(rpc: Rpc) -> None:
    for name in "abc":
        await rpc.bind(Where, Here(name))
    assert [await rpc.proxy(Where).who() for _ in range(6)] == list("abcabc")
    assert [(entry.address, entry.instances) for entry in rpc.services()] == [("where", 3)]


async def test_instances_are_called_in_turn(rpc: Rpc) -> None:
    binding = await rpc.bind(Where, Here(), instances=2)
    assert sorted([await rpc.proxy(Where).who() for _ in range(4)]) == [
        "<event loop context service Where 0>",
        "<event loop context service Where 0>",
        "<event loop context service Where 1>",
        "<event loop context service Where 1>",
    ]
    assert binding.statistics.instances == 2
    assert binding.statistics.methods[0].requests_total == 4
    with pytest.raises(UsageError, match="instances"):
        await rpc.bind(Where, Here(), instances=0)


async def test_context_variables_of_calls_are_apart(rpc: Rpc) -> None:
    await rpc.bind(Where, Here())
    where = rpc.proxy(Where)
    for _ in range(3):
        for pause in (False, True):
            assert await where.paint("red", pause) == ["none", "red"]
    together = await asyncio.gather(*[where.paint(f"c{n}", n % 2 == 0) for n in range(20)])
    assert together == [["none", f"c{n}"] for n in range(20)]


async def test_the_first_step_of_a_call_has_a_task(rpc: Rpc, failures: list[BaseException]) -> None:
    await rpc.bind(Where, Here())
    where = rpc.proxy(Where)
    for _ in range(3):
        assert await where.in_time(False) == "in time"
        with pytest.raises(CallFailed, match="'in_time' raised TimeoutError"):
            await where.in_time(True)
        assert await where.who() == "<event loop context service Where>"
    assert [type(error) for error in failures] == [TimeoutError] * 3


async def test_a_call_that_cancels_its_task_and_never_waits_harms_no_other(rpc: Rpc) -> None:
    class Rash(Here):
        async def who(self) -> str:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            return "rash"

    await rpc.bind(Where, Rash())
    where = rpc.proxy(Where)
    await where.paint("red", False)
    await where.paint("red", True)
    for _ in range(3):
        rash, painted, timed = rpc.go(where.who), rpc.go(where.paint, "red", True), rpc.go(where.in_time, False)
        assert (await rash, await painted, await timed) == ("rash", ["none", "red"], "in time")


async def test_unbinding_waits_for_calls_under_way(rpc: Rpc) -> None:
    store = Store()
    binding = await rpc.bind(Shop, store)
    call = rpc.go(rpc.proxy(Shop).wait, "a")
    await until(lambda: store.begun)
    ending = asyncio.get_running_loop().create_task(binding.unbind())
    await asyncio.sleep(0)
    assert (binding.in_flight, binding.is_bound) == (1, False)
    with pytest.raises(NoService):
        await rpc.proxy(Shop).add(1)
    assert not ending.done()
    store.gates["a"].set()
    assert await call == "a"
    await ending
    await binding.unbind()


async def test_unbinding_with_a_grace_cancels_what_is_left(rpc: Rpc) -> None:
    store = Store()
    binding = await rpc.bind(Shop, store)
    calls = [rpc.go(rpc.proxy(Shop).wait, name) for name in "ab"]
    await until(lambda: len(store.begun) == 2)
    await binding.unbind(grace=0)
    for call in calls:
        with pytest.raises(OutcomeUnknown, match="closed while it executed 'wait'"):
            await call


class Forgetful:
    """A memory that notes what it is told."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def open(self) -> None:
        self.calls.append("open")

    def begin_call(self, call: IncomingCall, execute: Execute, done: Done) -> None:
        self.calls.append(call.action)
        execute(done)

    async def close(self) -> None:
        assert asyncio.get_running_loop() is not None
        self.calls.append("close")


@pytest.mark.parametrize("kind", [ContextKind.EVENT_LOOP, ContextKind.WORKER])
async def test_a_binding_ends_with_its_context(rpc: Rpc, runtime: Runtime, kind: ContextKind) -> None:
    context, memory = runtime.context(kind, name="mine"), Forgetful()
    binding = await rpc.bind(Where, Here(), context=context, memory=memory)
    assert await rpc.proxy(Where).who()
    await context.close()
    with pytest.raises(NoService):
        await rpc.proxy(Where).who()
    assert rpc.services() == []
    assert memory.calls == ["open", "who", "close"]
    await binding.unbind()
    assert memory.calls == ["open", "who", "close"]


@pytest.mark.parametrize("address", ["topic:orders", "__hutong.reply.7", "x" * 1_025])
async def test_addresses_where_no_service_can_be(rpc: Rpc, address: str) -> None:
    with pytest.raises(UsageError, match="address"):
        await rpc.bind(Where, Here(), address=address)
    assert rpc.services() == []


async def test_binding_again_after_unbinding(rpc: Rpc) -> None:
    for _ in range(3):
        async with await rpc.bind(Where, Here("again")):
            assert await rpc.proxy(Where).who() == "again"
        assert rpc.find("where") is None


async def test_what_is_counted(rpc: Rpc) -> None:
    store = Store()
    binding = await rpc.bind(Shop, store)
    shop = rpc.proxy(Shop)
    await shop.add(1)
    with pytest.raises(ServiceError):
        await shop.refuse(42, "no")
    with pytest.raises(DispatchFailed):
        await rpc.call("shop", "nothing")
    call = rpc.go(shop.wait, "a")
    await until(lambda: store.begun)
    figures = {method.name: method for method in binding.statistics.methods}
    assert (figures["add"].requests_total, figures["add"].errors_total, figures["add"].in_flight) == (1, 0, 0)
    assert (figures["refuse"].errors_total, figures["refuse"].last_error) == (1, "42: no")
    assert figures["wait"].in_flight == 1
    assert figures["wait"].processing_ms_average == 0
    assert binding.statistics.unknown_actions_total == 1
    store.gates["a"].set()
    await call
    assert binding.statistics.methods[5].processing_ms_average >= 0
    assert rpc.statistics() == [binding.statistics]


async def test_discovery_is_a_service(rpc: Rpc) -> None:
    await rpc.bind(Shop, Store())
    discovery = rpc.proxy(Discovery)
    (entry,) = await discovery.services()
    assert (entry.address, entry.name, entry.version, entry.instances) == ("shop", "Shop", "1.2", 1)
    assert entry.actions[:2] == ["add", "buy"]
    details = await discovery.describe("shop")
    add = details.methods[0]
    assert (add.signature, add.kind, add.documentation) == ("add(a: int, b: int = 1) -> int", "unary", "The sum.")
    assert add.arguments_schema["$defs"]["add"]["required"] == ["a"]
    assert add.result_schema == {"type": "integer"}
    assert [(error.code, error.name) for error in details.errors] == [(17, "OutOfStock")]
    await rpc.proxy(Shop).add(1)
    (figures,) = await discovery.statistics()
    assert figures.methods[0].requests_total == 1
    assert await discovery.statistics("elsewhere") == []
    with pytest.raises(NoSuchService, match="elsewhere"):
        await discovery.describe("elsewhere")


async def test_go_by_name_and_by_method(rpc: Rpc) -> None:
    await rpc.bind(Shop, Store())
    shop = rpc.proxy(Shop)
    first, second = rpc.go(shop.add, 1, b=2), rpc.go("shop", "add", {"a": 5})
    assert (await second, await first) == (6, 3)
    failing = rpc.go(shop.refuse, 42, "no")
    with pytest.raises(ServiceError, match="no"):
        await failing
    with pytest.raises(UsageError, match="takes a method of a proxy"):
        rpc.go(Store().add, 1)
    assert await rpc.call("shop", "add", {"a": 1}, result=float) == 2.0


async def test_go_from_a_thread(rpc: Rpc) -> None:
    await rpc.bind(Shop, Store())
    shop = rpc.proxy(Shop)

    def work() -> list[Any]:
        return [rpc.go_from_thread(shop.add, 1).result(30), rpc.go_from_thread("shop", "add", {"a": 2}).result(30)]

    assert await asyncio.to_thread(work) == [2, 3]


async def test_a_message_without_a_reply_is_executed(rpc: Rpc, bus: EventBus) -> None:
    store = Store()
    await rpc.bind(Shop, store)
    bus.send("shop", {"name": "a"}, DeliveryOptions(headers=Headers({"action": "wait"})))
    await until(lambda: store.begun)
    store.gates["a"].set()


async def test_services_on_another_event_loop(failures: list[BaseException]) -> None:
    async with hutong.Node(event_loops=2) as node:
        here, store = Here(), Store()
        there = node.runtime.context(loop=1)
        await node.rpc.bind(Where, here, context=there)
        await node.rpc.bind(Shop, store, context=there)
        where, shop = node.rpc.proxy(Where), node.rpc.proxy(Shop)
        assert len({await where.who() for _ in range(3)}) == 1
        assert here.threads
        assert here.threads.isdisjoint({threading.get_ident()})
        assert await asyncio.gather(*[where.paint(f"c{n}", True) for n in range(20)]) == [
            ["none", f"c{n}"] for n in range(20)
        ]
        assert [number async for number in shop.count(300)] == list(range(300))
        cursor = await shop.open(3)
        assert await cursor.fetch(2) == [3, 4]
        assert await cursor.finish() == 5
        elsewhere = node.runtime.context(loop=1)
        assert await elsewhere.call(lambda: where.in_time(False)) == "in time"


async def test_a_node_has_services() -> None:
    async with hutong.Node() as node:
        await node.rpc.bind(Where, Here("node"))
        assert await node.rpc.proxy(Where).who() == "node"
        assert node.rpc is node.rpc
