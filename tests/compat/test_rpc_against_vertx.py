"""Services called by Vert.x: its client of the TCP bridge calls ours, and a service that it generates says the same.

Where the words of a failure are the Java runtime's, only code and type are compared; docs/rpc.md says where ours refuse
what Vert.x would carry out with other arguments than it was given.
"""

import json
import subprocess
from collections.abc import Iterator
from typing import Any, Final, Protocol

import pytest
from tests.compat.test_bridge_against_vertx import PEER, vertx_port
from tests.support.bridge import RawClient, bridged_bus

from hutong.rpc import Rpc, ServiceError, service

__all__ = ["vertx_port"]  # a fixture
ADDRESS: Final = "calculator"
SAME: Final[list[tuple[dict[str, Any], Any]]] = [
    ({"action": "add"}, {"a": 1, "b": 2}),
    ({"ACTION": "add"}, {"a": 1, "b": 2}),
    ({"action": "describe"}, {"subject": {"x": 1, "y": [1, {"z": None}]}}),
    ({"action": "refuse"}, {"code": 42, "message": "no"}),
    ({"action": "refuse"}, {"code": -1, "message": "ü"}),
    ({"action": "refuse"}, {"code": 500, "message": ""}),
    ({"action": "nope"}, {}),
    ({"action": "nope"}, {"a": 1}),
    ({}, {"a": 1, "b": 2}),
]
SAME_BUT_FOR_THE_WORDS: Final[list[tuple[dict[str, Any], Any]]] = [
    ({"action": "add"}, {"a": "1", "b": 2}),
    ({"action": "add"}, {"a": 1}),
    ({"action": "add"}, {"a": None, "b": 2}),
    ({"action": "add"}, {}),
    ({"action": "add"}, None),
    ({"action": "add"}, [1, 2]),
    ({"action": "add"}, "text"),
    ({"action": "describe"}, {"subject": 5}),
]


@service(ADDRESS)
class Calculator(Protocol):
    """As the peer's Calculator.java."""

    async def add(self, a: int, b: int) -> int: ...
    async def describe(self, subject: dict[str, Any]) -> dict[str, Any]: ...
    async def refuse(self, code: int, message: str) -> str: ...


class PythonCalculator:
    async def add(self, a: int, b: int) -> int:
        return a + b

    async def describe(self, subject: dict[str, Any]) -> dict[str, Any]:
        return {"size": len(subject), "subject": subject}

    async def refuse(self, code: int, message: str) -> str:
        raise ServiceError(message, code=code, debug_info={"asked": code})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with bridged_bus() as bus:

        async def bind() -> Rpc:
            rpc = Rpc(bus.bus, bus.runtime)
            await rpc.bind(Calculator, PythonCalculator())
            return rpc

        rpc = bus.thread.run(bind())
        yield bus.port
        bus.thread.run(rpc.close())
        assert not bus.errors


def answer(port: int, headers: dict[str, Any], body: Any) -> bytes:
    with RawClient(port) as client:
        client.send(type="send", address=ADDRESS, replyAddress="r", headers=headers, body=body)
        return client.receive_bytes()


@pytest.mark.parametrize(("headers", "body"), SAME)
def test_both_services_say_the_same(vertx_port: int, port: int, headers: dict[str, Any], body: Any) -> None:
    assert answer(port, headers, body) == answer(vertx_port, headers, body)


@pytest.mark.parametrize(("headers", "body"), SAME_BUT_FOR_THE_WORDS)
def test_both_services_refuse(vertx_port: int, port: int, headers: dict[str, Any], body: Any) -> None:
    ours, theirs = json.loads(answer(port, headers, body)), json.loads(answer(vertx_port, headers, body))
    assert ours.pop("message") != theirs.pop("message")
    assert ours == theirs
    assert (ours["failureCode"], ours["failureType"]) == (500, "RECIPIENT_FAILURE")


def test_a_java_client_gets_results_and_failures(vertx_port: int, port: int) -> None:
    """Its own processes, all at once: Java takes their time."""
    calls = [("add", '{"a": 20, "b": 22}'), ("refuse", '{"code": 17, "message": "not today"}'), ("nope", "{}")]
    asked = {
        (call, at): subprocess.Popen(
            [PEER, "bridge-client", "127.0.0.1", str(at), ADDRESS, *call], stdout=subprocess.PIPE, text=True
        )
        for call in calls
        for at in (port, vertx_port)
    }
    said = {key: json.loads(process.communicate(timeout=60)[0]) for key, process in asked.items()}
    for call in calls:
        theirs, ours = said[call, vertx_port], said[call, port]
        for one in (theirs, ours):
            one.pop("address", None)  # each client chose its own for the reply
        assert ours == theirs
    assert said[calls[0], port]["body"] == 42
    refused = said[calls[1], port]
    assert (refused["failureCode"], refused["failureType"], refused["message"]) == (
        17,
        "RECIPIENT_FAILURE",
        "not today",
    )
    assert said[calls[2], port]["message"] == "Invalid action: nope"
