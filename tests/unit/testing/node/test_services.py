"""Services of a test: from plain threads and from a loop, as often as the bus is new, and what is left of them."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Protocol

import pytest

from hutong.rpc import CallTimeout, NoService, OutcomeUnknown, service
from hutong.testing import EmbeddedNode, Services

WAIT_S = 10.0


@service("lamp")
class Lamp(Protocol):
    async def light(self, brightness: int = 1) -> str: ...
    async def burn(self) -> None: ...


class LampHere:
    """`lit` is set when `burn` has begun, which does not end by itself."""

    def __init__(self) -> None:
        self.lit = threading.Event()
        self.is_cancelled = False

    async def light(self, brightness: int = 1) -> str:
        return f"{brightness} on {threading.current_thread().name}"

    async def burn(self) -> None:
        self.lit.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.is_cancelled = True


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with EmbeddedNode() as node:
        yield node


@pytest.fixture
def services(node: EmbeddedNode) -> Iterator[Services]:
    yield node.rpc
    node.rpc.close()


def test_a_plain_thread_calls(services: Services) -> None:
    services.bind(Lamp, LampHere())
    assert services.result(services.proxy(Lamp).light, 3) == "3 on hutong-node"


async def test_a_loop_of_the_test_calls_and_may_not_be_blocked(services: Services) -> None:
    services.bind(Lamp, LampHere())
    lamp = services.proxy(Lamp)
    assert await asyncio.gather(*(lamp.light(number) for number in range(10))) == [
        f"{number} on hutong-node" for number in range(10)
    ]
    with pytest.raises(RuntimeError, match=r"await proxy\.light\(\.\.\.\)"):
        services.result(lamp.light, 1)


def test_a_call_that_takes_too_long_is_given_up(services: Services) -> None:
    lamp = LampHere()
    services.bind(Lamp, lamp)
    with pytest.raises(CallTimeout):
        services.result(services.proxy(Lamp, timeout=0.02).burn)


def test_an_unbound_service_has_ended_its_calls(services: Services) -> None:
    lamp = LampHere()
    binding = services.bind(Lamp, lamp)
    burning = services.rpc.go_from_thread(services.proxy(Lamp).burn)
    assert lamp.lit.wait(WAIT_S)
    services.unbind(binding)
    assert lamp.is_cancelled
    with pytest.raises(OutcomeUnknown):
        burning.result(WAIT_S)
    with pytest.raises(NoService):
        services.result(services.proxy(Lamp).light)


def test_a_new_bus_has_new_services(node: EmbeddedNode) -> None:
    first = node.rpc
    assert node.rpc is first
    lamp = LampHere()
    binding = first.bind(Lamp, lamp)
    node.run(node.close_bus())
    assert not binding.is_bound
    second = node.rpc
    assert second is not first
    with pytest.raises(NoService):
        second.result(second.proxy(Lamp).light)
    second.bind(Lamp, lamp)
    assert second.result(second.proxy(Lamp).light) == "1 on hutong-node"


def test_services_outlive_the_broker(node: EmbeddedNode, services: Services) -> None:
    services.bind(Lamp, LampHere())
    node.kill()
    assert services.result(services.proxy(Lamp).light) == "1 on hutong-node"
    node.start()
