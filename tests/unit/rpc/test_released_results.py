"""References that services returned: released when their caller drops the last proxy."""

import gc
from collections.abc import AsyncIterator
from typing import Protocol

import pytest
from tests.unit.rpc.scenes import until

import hutong
from hutong.bus import DeliveryOptions, EventBus, Headers
from hutong.rpc import Rpc, connect, service, with_options
from hutong.rpc.calling.caller import Caller


@service("cell")
class Cell(Protocol):
    async def name(self) -> str: ...
    async def split(self) -> "list[Cell]": ...
    def count(self, upto: int) -> AsyncIterator[int]: ...
    async def counted(self, upto: int) -> AsyncIterator[int]: ...


@service("dish")
class Dish(Protocol):
    async def grow(self) -> Cell: ...


class Living:
    def __init__(self, names: list[str]) -> None:
        self.names = names  # of those that are open
        self._name = f"cell {len(names)}"
        names.append(self._name)

    async def name(self) -> str:
        return self._name

    async def split(self) -> "list[Living]":
        return [Living(self.names), Living(self.names)]

    async def count(self, upto: int) -> AsyncIterator[int]:
        for number in range(upto):
            assert self._name in self.names, "it was closed under its stream"
            yield number

    async def counted(self, upto: int) -> AsyncIterator[int]:
        return self.count(upto)

    async def aclose(self) -> None:
        self.names.remove(self._name)


class Glass:
    def __init__(self) -> None:
        self.names: list[str] = []

    async def grow(self) -> Living:
        return Living(self.names)


@pytest.fixture(params=["bus", "tcp"])
async def scene(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Caller, Glass, Rpc]]:
    glass = Glass()
    async with hutong.Node(rpc="127.0.0.1:0") as node:
        await node.rpc.bind(Dish, glass)
        if request.param == "bus":
            yield node.rpc, glass, node.rpc
            return
        assert node.rpc_address is not None
        async with connect(node.rpc_address) as client:
            yield client, glass, node.rpc


Scene = tuple[Caller, Glass, Rpc]


async def test_a_result_is_released_with_its_last_proxy(scene: Scene) -> None:
    caller, glass, rpc = scene
    cell = await caller.proxy(Dish).grow()
    same = with_options(cell, timeout=5)
    del cell
    assert await same.name() == "cell 0"
    name = same.name
    del same
    assert await name() == "cell 0"
    assert glass.names == ["cell 0"]
    del name
    await until(lambda: not glass.names)
    assert not rpc.temporaries.open


async def test_a_call_of_a_proxy_that_nobody_keeps(scene: Scene) -> None:
    caller, glass, _ = scene
    assert await (await caller.proxy(Dish).grow()).name() == "cell 0"
    await until(lambda: not glass.names)


async def test_each_of_several_results_is_released_by_itself(scene: Scene) -> None:
    caller, glass, _ = scene
    first, second = await (await caller.proxy(Dish).grow()).split()
    await until(lambda: glass.names == ["cell 1", "cell 2"])
    del first
    await until(lambda: glass.names == ["cell 2"])
    assert await second.name() == "cell 2"


async def test_a_stream_keeps_the_object_that_it_comes_from(scene: Scene) -> None:
    caller, glass, _ = scene
    dish = caller.proxy(Dish)
    for upto in (1, 500):
        assert [number async for number in (await dish.grow()).count(upto)] == list(range(upto))
        assert [number async for number in await (await dish.grow()).counted(upto)] == list(range(upto))
    gc.collect()
    await until(lambda: not glass.names)


async def test_no_report_goes_to_the_address_of_a_service(rpc: Rpc, bus: EventBus) -> None:
    """A peer chooses the address of what it returns: it must not have us call a service or a topic."""
    received: list[str] = []
    sent = Headers({"proxyaddr": "victim"})
    bus.consumer("dish", lambda message: message.reply(None, DeliveryOptions(headers=sent)))

    def answer(message: "hutong.bus.Message") -> None:
        received.append(message.headers.get("action") or "")
        message.reply("mine")

    bus.consumer("victim", answer)
    assert await (await rpc.proxy(Dish).grow()).name() == "mine"
    gc.collect()
    assert await rpc.call("victim", "after") == "mine"
    assert received == ["name", "after"]
