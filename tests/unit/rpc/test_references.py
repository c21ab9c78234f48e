"""References: a method that returns a service gives a proxy of it, until it is closed or idle."""

from random import Random
from uuid import UUID

import pytest
from tests.unit.rpc.scenes import Shop, Store, until

from hutong.bus import DeliveryOptions, EventBus, Headers
from hutong.foundation.waiting.table import Owner
from hutong.rpc import DispatchFailed, NoService, Rpc
from hutong.rpc.call import IncomingCall, Outcome
from hutong.runtime.runtime import Runtime


async def test_a_reference_is_a_proxy(rpc: Rpc) -> None:
    await rpc.bind(Shop, Store())
    shop = rpc.proxy(Shop)
    first, second = await shop.open(10), await shop.open(20)
    assert await first.fetch(2) == [10, 11]
    assert await second.fetch(2) == [20, 21]
    assert await first.fetch(2) == [12, 13]


async def test_a_method_that_closes_ends_it(rpc: Rpc, bus: EventBus) -> None:
    store = Store()
    await rpc.bind(Shop, store)
    cursor = await rpc.proxy(Shop).open(5)
    assert await cursor.finish() == 5
    await until(lambda: store.cursors[0].is_closed)
    with pytest.raises(NoService):
        await cursor.fetch(1)
    assert not rpc.temporaries.open
    assert not len(rpc.temporaries.waits)


async def test_the_addresses_of_references_are_as_random_as_what_makes_them(bus: EventBus, runtime: Runtime) -> None:
    async with Rpc(bus, runtime, random=Random(5)) as rpc:
        await rpc.bind(Shop, Store())
        cursor = await rpc.proxy(Shop).open(5)
        expected = UUID(int=Random(5).getrandbits(128), version=4)
        assert [each.address for each in rpc.temporaries.open] == [str(expected)]
        assert str(expected) in repr(cursor)


async def test_an_idle_reference_is_closed(bus: EventBus, runtime: Runtime) -> None:
    store = Store()
    async with Rpc(bus, runtime, reference_idle_time=0.03) as rpc:
        await rpc.bind(Shop, store)
        cursor = await rpc.proxy(Shop).open(5)
        await until(lambda: store.cursors[0].is_closed, pause=0.005)  # by its timer
        with pytest.raises(NoService):
            await cursor.fetch(1)


async def test_a_reference_ends_with_the_connection_of_its_caller(rpc: Rpc) -> None:
    store, owner, told = Store(), Owner(), list[Outcome]()
    binding = await rpc.bind(Shop, store)

    class Call(IncomingCall):
        def arguments(self, kind: type) -> object:  # type: ignore[override]
            return kind(3)

    binding.dispatchers[0].submit(Call("shop", "open", peer="connection", owner=owner), told.append)
    await until(lambda: told)
    ((header, address),) = told[0].headers
    assert header == "proxyaddr"
    assert rpc.find(address) is not None
    await until(lambda: len(owner))
    owner.end()
    await until(lambda: store.cursors[0].is_closed)
    assert rpc.find(address) is None


async def test_the_address_is_told_in_a_header(rpc: Rpc, bus: EventBus) -> None:
    await rpc.bind(Shop, Store())
    reply = await bus.request("shop", {"start": 1}, DeliveryOptions(headers=Headers({"action": "open"})))
    assert reply.body is None
    address = reply.headers.get("proxyaddr")
    assert address is not None
    assert len(address) == 36
    fetched = await bus.request(address, {"count": 2}, DeliveryOptions(headers=Headers({"action": "fetch"})))
    assert fetched.body == [1, 2]


async def test_what_is_no_reference(rpc: Rpc, failures: list[BaseException]) -> None:
    class Broken(Store):
        async def open(self, start: int) -> None:  # type: ignore[override]
            return None

    await rpc.bind(Shop, Broken())
    with pytest.raises(DispatchFailed, match="'open' returned what is no Cursor: NoneType"):
        await rpc.proxy(Shop).open(1)
