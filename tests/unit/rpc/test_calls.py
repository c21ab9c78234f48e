"""Calls of methods over the bus: arguments, results, failures."""

import asyncio
import concurrent.futures
import gc
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from tests.unit.rpc.scenes import Line, OutOfStock, Shop, Store, until

from hutong.bus import EventBus
from hutong.rpc import (
    BadReply,
    CallFailed,
    CallTimeout,
    Delivery,
    DispatchFailed,
    NoService,
    Rpc,
    ServiceError,
    ServiceFault,
    with_options,
)
from hutong.runtime.runtime import Runtime


async def test_a_proxy_calls(rpc: Rpc) -> None:
    await rpc.bind(Shop, Store())
    shop = rpc.proxy(Shop)
    assert await shop.add(1, 2) == 3
    assert await shop.add(a=5) == 6
    assert [await shop.add(number) for number in range(5)] == [1, 2, 3, 4, 5]


async def test_a_call_between_two_attempts_ends_with_its_caller(rpc: Rpc) -> None:
    call = rpc.go(rpc.proxy(Shop, delivery=Delivery.AT_LEAST_ONCE).add, 1)
    await until(lambda: rpc._reliability.waits.parked_total == 2)  # for the silence, then for nobody being bound
    await rpc.close()
    with pytest.raises(CallFailed, match="the Rpc is closed"):
        await call


async def test_values_arrive_as_their_types(rpc: Rpc) -> None:
    await rpc.bind(Shop, Store())
    shop = rpc.proxy(Shop)
    at = datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert await shop.buy(Line("tea", 2), at=at) == Line("tea at 2020-01-02 03:04:05+00:00", 2)
    number = UUID(int=7)
    assert await shop.price(number, b"\xff\x00") == {f"{number} b'\\xff\\x00'": Decimal("1.50")}


async def test_a_declared_error_is_raised_as_its_class(rpc: Rpc) -> None:
    await rpc.bind(Shop, Store())
    with pytest.raises(OutOfStock, match="only 10 of tea") as caught:
        await rpc.proxy(Shop).buy(Line("tea", 11))
    assert (caught.value.code, caught.value.debug_info) == (17, {"left": 10})


async def test_any_other_code_is_a_service_error(rpc: Rpc) -> None:
    await rpc.bind(Shop, Store())
    with pytest.raises(ServiceError, match="not today") as caught:
        await rpc.proxy(Shop).refuse(42, "not today")
    assert type(caught.value) is ServiceError
    assert (caught.value.code, caught.value.debug_info) == (42, {"asked": 42})


async def test_a_fault_is_told_without_what_the_exception_says(rpc: Rpc, failures: list[BaseException]) -> None:
    await rpc.bind(Shop, Store())
    with pytest.raises(ServiceFault) as caught:
        await rpc.proxy(Shop).fail("secret")
    assert caught.value.message == "the implementation of 'fail' raised KeyError"
    assert (caught.value.code, caught.value.debug_info) == (-1, None)
    assert [repr(error) for error in failures] == ["KeyError('secret')"]


async def test_a_fault_is_told_with_its_cause_where_that_is_wanted(rpc: Rpc, failures: list[BaseException]) -> None:
    await rpc.bind(Shop, Store(), debug_info=True)
    with pytest.raises(ServiceFault, match="secret") as caught:
        await rpc.proxy(Shop).fail("secret")
    info = caught.value.debug_info
    assert info is not None
    assert (info["causeName"], info["causeMessage"]) == ("builtins.KeyError", "'secret'")
    assert "raise KeyError(message)" in info["causeStackTrace"][-1]
    assert len(failures) == 1


@pytest.mark.parametrize(
    ("action", "arguments", "said"),
    [
        ("add", {}, "add: the argument 'a' is missing"),
        ("add", {"a": "1"}, "add: the argument 'a' is wrong: Expected int, got str"),
        ("add", {"a": 1, "b": None}, "add: the argument 'b' is wrong: Expected int, got null"),
        ("add", {"a": 1, "c": 1}, "add: there is no parameter 'c'"),
        ("buy", {"line": {"item": 1}}, "buy: the argument 'line' is wrong: Expected str, got int (at line.item)"),
        ("ad", {}, "Invalid action: ad"),
    ],
)
async def test_wrong_arguments_and_actions(
    rpc: Rpc, action: str, arguments: dict[str, object], said: str, failures: list[BaseException]
) -> None:
    await rpc.bind(Shop, Store())
    with pytest.raises(DispatchFailed) as caught:
        await rpc.call("shop", action, arguments)
    assert (caught.value.code, caught.value.message) == (500, said)
    assert not failures


async def test_arguments_that_do_not_fit_are_a_type_error_at_once(rpc: Rpc) -> None:
    with pytest.raises(TypeError, match="'a'"):
        await rpc.proxy(Shop).add()  # type: ignore[call-arg]


async def test_a_result_that_cannot_be_sent(rpc: Rpc) -> None:
    await rpc.bind(Shop, Store())
    with pytest.raises(
        DispatchFailed, match="the result of 'unsendable' cannot be sent: Encoding objects of type object"
    ):
        await rpc.proxy(Shop).unsendable()


async def test_a_result_that_is_not_what_the_signature_says(rpc: Rpc) -> None:
    await rpc.bind(Shop, Store())
    with pytest.raises(
        BadReply, match="the answer to 'wrong' is not what its signature says: Expected `int`, got `str`"
    ):
        await rpc.proxy(Shop).wrong()


async def test_nobody_there(rpc: Rpc) -> None:
    with pytest.raises(NoService, match="no handlers for address 'shop'"):
        await rpc.proxy(Shop).add(1)


async def test_a_time_out_is_no_service_error(rpc: Rpc, bus: EventBus) -> None:
    store = Store()
    await rpc.bind(Shop, store)
    with pytest.raises(CallTimeout) as caught:
        await with_options(rpc.proxy(Shop), timeout=0.02).wait("late")
    assert not isinstance(caught.value, ServiceError)
    assert bus.replies_waiting == 0
    store.gates["late"].set()  # what comes now, nobody waits for


async def test_who_is_cancelled_abandons_the_call(rpc: Rpc, bus: EventBus) -> None:
    store = Store()
    await rpc.bind(Shop, store)
    task = asyncio.get_running_loop().create_task(rpc.proxy(Shop).wait("given up"))
    await until(lambda: store.begun)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bus.replies_waiting == 0
    store.gates["given up"].set()


async def test_headers_are_the_implementations_to_see(rpc: Rpc) -> None:
    await rpc.bind(Shop, Store())
    shop = rpc.proxy(Shop, headers={"who": "me"})
    assert await shop.header("who") == ["me"]
    assert await with_options(shop, headers={"Who": "you", "more": "x"}).header("WHO") == ["you"]
    assert await with_options(shop, headers={"more": "x"}).header("more") == ["x"]
    assert await shop.header("more") == []


async def test_several_calls_wait_side_by_side(rpc: Rpc) -> None:
    store = Store()
    await rpc.bind(Shop, store)
    shop = rpc.proxy(Shop)
    for _ in range(3):
        calls = [rpc.go(with_options(shop, headers={"who": f"number {n}"}).wait, f"w{n}") for n in range(4)]
        await until(lambda: len(store.begun) == 4)
        for name in reversed(store.begun):
            store.gates[name].set()
        assert [await call for call in calls] == [f"number {n}" for n in range(4)]
        store.begun.clear()
        store.gates.clear()


@pytest.mark.parametrize("is_by_name", [False, True])
async def test_a_go_that_fails_and_that_nobody_asks_is_told_to_the_context(
    rpc: Rpc, runtime: Runtime, failures: list[BaseException], is_by_name: bool
) -> None:
    await rpc.bind(Shop, Store())
    told: list[BaseException] = []
    context = runtime.context()
    context.exception_handler = told.append

    async def fire_and_forget() -> None:
        if is_by_name:
            going = rpc.go("shop", "refuse", {"code": 42, "message": "not today"})
        else:
            going = rpc.go(rpc.proxy(Shop).refuse, 42, "not today")
        await asyncio.wait([going])  # which does not ask for its outcome

    await context.call(fire_and_forget)
    gc.collect()
    assert [str(error) for error in told] == ["not today"]
    assert failures == []


async def test_a_go_that_fails_outside_of_contexts_is_told_to_the_loop(rpc: Rpc) -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    await asyncio.wait([rpc.go("nowhere", "refuse")])
    gc.collect()
    assert [type(context["exception"]) for context in told] == [NoService]
    assert "never retrieved" in told[0]["message"]


async def test_a_go_that_fails_and_is_asked_or_cancelled_is_told_to_nobody(
    rpc: Rpc, runtime: Runtime, failures: list[BaseException]
) -> None:
    await rpc.bind(Shop, Store())
    told: list[object] = []
    context = runtime.context()
    context.exception_handler = told.append
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))

    async def ask() -> None:
        with pytest.raises(ServiceError):
            await rpc.go(rpc.proxy(Shop).refuse, 42, "not today")
        rpc.go(rpc.proxy(Shop).refuse, 42, "not today").cancel()
        await asyncio.wait([rpc.go(rpc.proxy(Shop).add, 1, 2)])

    await context.call(ask)
    await ask()
    gc.collect()
    assert told == failures == []


@pytest.mark.parametrize("in_context", [False, True])
async def test_a_failed_call_from_a_thread_that_nobody_asks_for_is_reported(
    rpc: Rpc, runtime: Runtime, in_context: bool
) -> None:
    await rpc.bind(Shop, Store())
    reported: list[BaseException] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: reported.append(context["exception"]))
    context = runtime.context()
    context.exception_handler = reported.append

    def fire_and_forget() -> None:
        going = rpc.go_from_thread("shop", "refuse", {"code": 42, "message": "not today"})
        concurrent.futures.wait([going])  # which does not ask for its outcome

    await (context.execute_blocking(fire_and_forget) if in_context else asyncio.to_thread(fire_and_forget))
    await asyncio.sleep(0)
    gc.collect()
    await asyncio.sleep(0)
    assert [str(error) for error in reported] == ["not today"]


async def test_a_call_from_a_thread_that_is_asked_for_or_cancelled_is_not_reported(rpc: Rpc) -> None:
    store = Store()
    await rpc.bind(Shop, store)
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))

    def ask() -> None:
        refused = rpc.go_from_thread("shop", "refuse", {"code": 42, "message": "not today"})
        assert str(refused.exception()) == "not today"
        waiting = rpc.go_from_thread("shop", "wait", {"name": "a"})
        assert waiting.cancel()
        with pytest.raises(concurrent.futures.CancelledError):
            waiting.result()

    await asyncio.to_thread(ask)
    await asyncio.sleep(0)
    gc.collect()
    await asyncio.sleep(0)
    assert reported == []
    store.gates["a"].set()  # the service goes on without its caller: unbinding would wait for it
