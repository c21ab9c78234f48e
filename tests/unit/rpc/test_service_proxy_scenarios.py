"""The scenarios of Vert.x's service proxies, by the names of their tests: from a proxy, and over the TCP bridge.

The client of the bridge is a socket that says the convention's frames by itself, as clients in other languages do.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol

import pytest
from tests.support.bridge import BridgedBus, RawClient, bridged_bus

from hutong.bus import EventBus
from hutong.rpc import (
    CallFailed,
    CallTimeout,
    DispatchFailed,
    NoService,
    Rpc,
    ServiceError,
    ServiceFault,
    service,
    with_options,
)
from hutong.runtime.runtime import Runtime

ADDRESS = "someaddress"


class MyServiceError(ServiceError):
    code = 25


@service(ADDRESS, errors=[MyServiceError])
class Scenes(Protocol):
    """What Vert.x calls TestService."""

    async def failing_call(self, value: str) -> str: ...
    async def long_delivery(self) -> None: ...


class Played:
    """Fails as it is told, and delivers once it is `released`."""

    def __init__(self) -> None:
        self.released = asyncio.Event()

    async def failing_call(self, value: str) -> str:
        if value == "Fail subclass":
            raise MyServiceError("Something failed", debug_info={"extra": "very important"})
        if value == "Fail with cause":
            raise ServiceError("The call failed", code=15, debug_info={"cause": "none"}) from KeyError("deep below")
        if value == "Fault":
            raise KeyError("deep below")
        raise ServiceError("Call has failed", code=3)

    async def long_delivery(self) -> None:
        await self.released.wait()


@pytest.fixture
async def scenes(rpc: Rpc) -> AsyncIterator[Scenes]:
    played = Played()
    await rpc.bind(Scenes, played, debug_info=True)
    yield rpc.proxy(Scenes)
    played.released.set()


class Bridged:
    """The same service behind a bridge, and one that clients of the bridge may not reach."""

    def __init__(self, bridged: BridgedBus) -> None:
        self.bridged = bridged
        self.port = bridged.port
        self._rpc: Rpc = bridged.thread.run(self._bind())

    async def _bind(self) -> Rpc:
        rpc = Rpc(self.bridged.bus, self.bridged.runtime)
        await rpc.bind(Scenes, Played(), debug_info=True)
        await rpc.bind(Scenes, Played(), address="local.scenes")
        return rpc

    def close(self) -> None:
        self.bridged.thread.run(self._unbind())

    async def _unbind(self) -> None:
        await self._rpc.close(grace=0)


@pytest.fixture(scope="module")
def behind() -> Iterator[Bridged]:
    with bridged_bus({"bridge.permit_in": (ADDRESS, "nobody")}) as running:
        behind = Bridged(running)
        try:
            yield behind
        finally:
            behind.close()


def told(behind: Bridged, action: str | None, body: Any, address: str = ADDRESS, **headers: str) -> dict[str, Any]:
    """What the client of the bridge is told of its call; where it was asked is left out."""
    if action is not None:
        headers["action"] = action
    with RawClient(behind.port) as client:
        answer = client.ask(type="send", address=address, replyAddress="r", headers=headers, body=body)
    assert answer.pop("address") == "r"
    answer.pop("sourceAddress", None)
    assert isinstance(answer, dict)
    return answer


def failed(code: int, kind: str, message: str) -> dict[str, Any]:
    return {"type": "err", "failureCode": code, "failureType": kind, "message": message}


class TestErrorHandling:
    async def test_a_proxy(self, scenes: Scenes) -> None:
        with pytest.raises(ServiceError, match=r"^Call has failed$") as caught:
            await scenes.failing_call("Fail")
        assert (type(caught.value), caught.value.code, caught.value.debug_info) == (ServiceError, 3, None)

    async def test_a_subclass(self, scenes: Scenes) -> None:
        with pytest.raises(MyServiceError, match=r"^Something failed$") as caught:
            await scenes.failing_call("Fail subclass")
        assert (caught.value.code, caught.value.debug_info) == (25, {"extra": "very important"})

    def test_a_client_of_the_bridge(self, behind: Bridged) -> None:
        answers = [told(behind, "failing_call", {"value": value}) for value in ("Fail", "Fail subclass")]
        assert answers == [
            failed(3, "RECIPIENT_FAILURE", "Call has failed"),
            failed(25, "RECIPIENT_FAILURE", "Something failed"),
        ]


class TestCauseErrorHandling:
    async def test_what_the_service_says_itself_stays(self, scenes: Scenes) -> None:
        with pytest.raises(ServiceError, match=r"^The call failed$") as caught:
            await scenes.failing_call("Fail with cause")
        assert caught.value.code == 15
        assert caught.value.debug_info is not None
        assert caught.value.debug_info["cause"] == "none"

    async def test_a_fault_tells_of_its_cause(self, scenes: Scenes, failures: list[BaseException]) -> None:
        with pytest.raises(ServiceFault) as caught:
            await scenes.failing_call("Fault")
        assert caught.value.code == -1
        assert caught.value.debug_info is not None
        assert set(caught.value.debug_info) == {"causeName", "causeMessage", "causeStackTrace"}
        assert caught.value.debug_info["causeName"] == "builtins.KeyError"
        assert [type(error) for error in failures] == [KeyError]

    def test_a_client_of_the_bridge(self, behind: Bridged) -> None:
        answer = told(behind, "failing_call", {"value": "Fault"})
        assert (answer["failureCode"], answer["failureType"]) == (-1, "RECIPIENT_FAILURE")
        assert "deep below" in answer["message"]
        assert [type(error) for error in behind.bridged.errors] == [KeyError]


class TestInvalidAction:
    @pytest.mark.parametrize("action", ["failingCall", "", "__class__", "failing_call "])
    async def test_one_that_there_is_not(self, rpc: Rpc, scenes: Scenes, action: str) -> None:
        with pytest.raises(DispatchFailed, match="action") as caught:
            await rpc.call(ADDRESS, action, {"value": "x"})
        assert caught.value.code == 500

    @pytest.mark.parametrize("action", [None, "", "failingCall"])
    def test_a_client_of_the_bridge(self, behind: Bridged, action: str | None) -> None:
        answer = told(behind, action, {"value": "x"})
        assert (answer["failureCode"], answer["failureType"]) == (500, "RECIPIENT_FAILURE")
        assert "action" in answer["message"]

    @pytest.mark.parametrize("body", [None, [], "value", {}, {"value": 1}, {"value": "x", "more": 1}])
    def test_arguments_that_do_not_fit(self, behind: Bridged, body: Any) -> None:
        answer = told(behind, "failing_call", body)
        assert (answer["failureCode"], answer["failureType"]) == (500, "RECIPIENT_FAILURE")


class TestTimeoutIsNoServiceException:
    async def test_a_proxy(self, scenes: Scenes, bus: EventBus) -> None:
        with pytest.raises(CallTimeout) as caught:
            await with_options(scenes, timeout=0.02).long_delivery()
        assert isinstance(caught.value, CallFailed)
        assert not isinstance(caught.value, ServiceError)
        assert bus.replies_waiting == 0

    def test_a_client_of_the_bridge(self, behind: Bridged) -> None:
        answer = told(behind, "long_delivery", {}, timeout="20")
        assert (answer["failureCode"], answer["failureType"]) == (-1, "TIMEOUT")


class TestLocalServiceUnreachable:
    async def test_from_another_bus(self, scenes: Scenes, runtime: Runtime) -> None:
        async with EventBus(runtime) as other:
            with pytest.raises(NoService) as caught:
                await Rpc(other, runtime).proxy(Scenes).failing_call("x")
        assert not isinstance(caught.value, ServiceError)

    def test_a_client_of_the_bridge_without_permission(self, behind: Bridged) -> None:
        assert told(behind, "failing_call", {"value": "x"}, "local.scenes") == failed(-1, "ERROR", "access_denied")

    def test_a_client_of_the_bridge_where_nobody_is_bound(self, behind: Bridged) -> None:
        assert told(behind, "failing_call", {"value": "x"}, "nobody")["failureType"] == "NO_HANDLERS"
