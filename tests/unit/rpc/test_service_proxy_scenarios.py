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
    closes,
    service,
    with_options,
)
from hutong.runtime.runtime import Runtime

ADDRESS = "someaddress"
IDLE_MS = 30


class MyServiceError(ServiceError):
    code = 25


@service("connection")
class Connection(Protocol):
    """The `TestConnection` of Vert.x."""

    async def insert(self, name: str) -> str: ...
    @closes
    async def close(self) -> str: ...


@service(ADDRESS, errors=[MyServiceError])
class Scenes(Protocol):
    """The `TestService` of Vert.x."""

    async def failing_call(self, value: str) -> str: ...
    async def long_delivery(self) -> None: ...
    async def create_connection(self, name: str) -> Connection: ...


class Opened:
    """A connection. `ended` is set when it has been closed, by its caller or for being idle."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ended = asyncio.Event()

    async def insert(self, name: str) -> str:
        return f"{name} into {self.name}"

    async def close(self) -> str:
        return f"{self.name} is closed"

    async def aclose(self) -> None:
        self.ended.set()


class Played:
    """Fails as it is told, and delivers once it is `released`."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.connections: list[Opened] = []

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

    async def create_connection(self, name: str) -> Opened:
        self.connections.append(Opened(name))
        return self.connections[-1]


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
        self.played = Played()  # at "impatient"
        self._rpcs: list[Rpc] = bridged.thread.run(self._bind())

    async def _bind(self) -> list[Rpc]:
        bus, runtime = self.bridged.bus, self.bridged.runtime
        rpc, impatient = Rpc(bus, runtime), Rpc(bus, runtime, reference_idle_time=IDLE_MS / 1_000)
        await rpc.bind(Scenes, Played(), debug_info=True)
        await rpc.bind(Scenes, Played(), address="local.scenes")
        await impatient.bind(Scenes, self.played, address="impatient")
        return [rpc, impatient]

    def close(self) -> None:
        for rpc in self._rpcs:
            self.bridged.thread.run(rpc.close(grace=0))


@pytest.fixture(scope="module")
def behind() -> Iterator[Bridged]:
    uuids = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # where connections are
    with bridged_bus({"bridge.permit_in": (ADDRESS, "nobody", "impatient", uuids)}) as running:
        behind = Bridged(running)
        try:
            yield behind
        finally:
            behind.close()


def told(behind: Bridged, action: str | None, body: Any, address: str = ADDRESS, **headers: str) -> dict[str, Any]:
    """The reply that the client of the bridge gets, without the address of its request."""
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


class TestConnectionTimeout:
    async def test_one_that_is_closed(self, scenes: Scenes) -> None:
        connection = await scenes.create_connection("foo")
        assert await connection.insert("x") == "x into foo"
        assert await connection.close() == "foo is closed"
        with pytest.raises(NoService) as caught:
            await connection.insert("x")
        assert not isinstance(caught.value, ServiceError)

    async def test_one_that_is_idle(self, bus: EventBus, runtime: Runtime) -> None:
        played = Played()
        async with Rpc(bus, runtime, reference_idle_time=IDLE_MS / 1_000) as rpc:
            await rpc.bind(Scenes, played)
            connection = await rpc.proxy(Scenes).create_connection("foo")
            await played.connections[0].ended.wait()
            with pytest.raises(NoService):
                await connection.insert("x")

    def test_a_client_of_the_bridge(self, behind: Bridged) -> None:
        opened = told(behind, "create_connection", {"name": "foo"})
        address = opened["headers"]["proxyaddr"]
        assert told(behind, "insert", {"name": "x"}, address)["body"] == "x into foo"
        assert told(behind, "close", {}, address)["body"] == "foo is closed"
        assert told(behind, "insert", {"name": "x"}, address)["failureType"] == "NO_HANDLERS"

    def test_a_client_of_the_bridge_that_is_idle(self, behind: Bridged) -> None:
        opened = told(behind, "create_connection", {"name": "foo"}, "impatient")
        behind.bridged.thread.run(behind.played.connections[0].ended.wait())
        answer = told(behind, "insert", {"name": "x"}, opened["headers"]["proxyaddr"])
        assert (answer["failureCode"], answer["failureType"]) == (-1, "NO_HANDLERS")


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
