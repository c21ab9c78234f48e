"""One cluster of a real Vert.x node and ours, through a real ZooKeeper: both talk to each other in every way they can.

Each test runs with Vert.x 4 and with Vert.x 5. The node's consumers are those that `DrivenNode.java` begins with.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, Final, Protocol

import pytest
from tests.compat.vertx_talk import VertxTalk, addresses, failure_of
from tests.support.vertx_node import VERSIONS, VertxNode
from tests.support.waiting import turning_until
from tests.support.zookeeper import running_zookeeper

import hutong
from hutong.bus import FailureType, Message
from hutong.cli import main
from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper
from hutong.rpc import NoService, ServiceError, service
from hutong.wire.vertx.cluster_nodes import NodeInfo, RegistrationInfo, encode_node, encode_registration

pytestmark = pytest.mark.timeout(300)
SESSION_MS_OF_DOOMED: Final = 10_000  # as much as the server grants: 20 ticks


@service("calculator")
class Calculator(Protocol):
    """As in Calculator.java."""

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


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda version: f"vertx-{version}")
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory, version: str) -> Iterator[DevelopmentZooKeeper]:
    """One for each version: the last test of a version leaves a node that is dead, and known until its session ends."""
    yield from running_zookeeper(tmp_path_factory.mktemp(f"zookeeper-{version}"))


@pytest.fixture(scope="module")
def theirs(zookeeper: DevelopmentZooKeeper, version: str) -> Iterator[VertxNode]:
    """A Vert.x node that lives through all tests of its version."""
    node = VertxNode(zookeeper.address, version).wait_until_ready()
    yield node
    node.close()


@pytest.fixture
async def ours(zookeeper: DevelopmentZooKeeper, theirs: VertxNode) -> AsyncIterator[hutong.Node]:
    async with hutong.Node(cluster=f"zk://{zookeeper.address}") as node:
        await turning_until(lambda: "echo" in addresses(node))
        yield node

    await theirs.until(lambda: node.cluster_node not in theirs.ask_now("nodes")["body"], "its entry is gone")


class TestTalk(VertxTalk):
    """Between a node of Vert.x 4 or 5 and one of ours."""


async def test_their_entries_have_the_bytes_that_ours_have(theirs: VertxNode, zookeeper: DevelopmentZooKeeper) -> None:
    from kazoo.client import KazooClient

    client = KazooClient(zookeeper.address)
    await asyncio.to_thread(client.start)
    entry, _ = await asyncio.to_thread(client.get, f"/io.vertx/cluster/nodes/{theirs.id}")
    assert entry == encode_node(NodeInfo("127.0.0.1", theirs.port))
    names = await asyncio.to_thread(client.get_children, "/io.vertx/__vertx.subs/echo")
    [name] = [each for each in names if each.startswith(theirs.id)]
    content, _ = await asyncio.to_thread(client.get, f"/io.vertx/__vertx.subs/echo/{name}")
    assert content == encode_registration(RegistrationInfo(theirs.id, int(name.removeprefix(f"{theirs.id}-"))))
    await asyncio.to_thread(client.stop)
    client.close()


@pytest.mark.parametrize(
    "body", ["text ü😀", "", 1, 2**40, 1.5, True, None, {"a": [1, None, {"b": "ä"}]}, [1, "x"]], ids=repr
)
async def test_their_bodies_come_back_from_our_echo(ours: hutong.Node, theirs: VertxNode, body: Any) -> None:
    ours.bus.consumer("our-echo", lambda message: message.reply(message.body))
    await theirs.until_consumers("our-echo", 1)
    answer = await theirs.ask("request", "our-echo", body)
    assert answer["ok"], answer
    assert answer.get("body") == body


def note(seen: list[Any], name: object, message: Message) -> None:
    seen.append((name, message.body, message.is_send))


async def test_sends_and_publications_both_ways(ours: hutong.Node, theirs: VertxNode) -> None:
    seen: list[Any] = []
    for number in range(2):
        ours.bus.consumer("shared", partial(note, seen, number))
    await theirs.ask("consume", "shared")
    await theirs.until_consumers("shared", 3)
    await turning_until(lambda: len(ours.bus._consumers["shared"]) == 3)
    before = (await theirs.told("counts")).get("shared", 0)
    # Each consumer has one turn of three, wherever it is.
    for body in range(6):
        ours.bus.send("shared", body)
    await turning_until(lambda: len(seen) == 4)
    assert sorted(number for number, _, _ in seen) == [0, 0, 1, 1]
    await theirs.until(lambda: theirs.ask_now("counts")["body"].get("shared", 0) == before + 2, "two sends")
    seen.clear()
    ours.bus.publish("shared", "ours")
    await theirs.until(lambda: theirs.ask_now("counts")["body"]["shared"] == before + 3, "a publication")
    assert sorted(seen) == [(0, "ours", False), (1, "ours", False)]
    seen.clear()
    assert (await theirs.ask("publish", "shared", "theirs"))["ok"]
    await turning_until(lambda: len(seen) == 2)
    assert sorted(seen) == [(0, "theirs", False), (1, "theirs", False)]
    assert (await theirs.ask("unconsume", "shared"))["ok"]


async def test_services_both_ways(ours: hutong.Node, theirs: VertxNode) -> None:
    proxy = ours.rpc.proxy(Calculator)
    assert await proxy.add(20, 22) == 42
    assert await proxy.describe({"x": [1]}) == {"size": 1, "subject": {"x": [1]}}
    with pytest.raises(ServiceError) as caught:
        await proxy.refuse(17, "not today")
    assert (caught.value.code, caught.value.message, caught.value.debug_info) == (17, "not today", {"asked": 17})
    await ours.rpc.bind(Calculator, PythonCalculator(), address="our-calculator")
    await theirs.until_consumers("our-calculator", 1)
    assert (await theirs.ask("add", "our-calculator", [20, 22]))["body"] == 42
    assert (await theirs.ask("describe", "our-calculator", {"x": 1}))["body"] == {"size": 1, "subject": {"x": 1}}
    refused = await theirs.ask("refuse", "our-calculator", [17, "not today"])
    assert (refused["failureCode"], refused["message"], refused["debugInfo"]) == (17, "not today", {"asked": 17})


async def test_unregistered_means_no_handlers_on_both_sides(ours: hutong.Node, theirs: VertxNode) -> None:
    consumer = ours.bus.consumer("ours-alone", lambda message: 1)
    await theirs.until_consumers("ours-alone", 1)
    assert (await theirs.ask("request", "ours-alone", 1))["body"] == 1
    consumer.unregister()
    await theirs.until_consumers("ours-alone", 0)
    assert (await theirs.ask("request", "ours-alone", 1))["failureType"] == "NO_HANDLERS"
    await theirs.ask("consume", "theirs-alone")
    await turning_until(lambda: "theirs-alone" in addresses(ours))
    assert (await ours.bus.request("theirs-alone", 5)).body == 5
    await theirs.ask("unconsume", "theirs-alone")
    await turning_until(lambda: "theirs-alone" not in addresses(ours))
    assert (await failure_of(ours.bus.request("theirs-alone", 5))).failure_type is FailureType.NO_HANDLERS
    with pytest.raises(NoService):
        await ours.rpc.proxy(Calculator, address="theirs-alone").add(1, 2)


async def test_local_only_consumers_are_hidden(ours: hutong.Node, theirs: VertxNode) -> None:
    seen: list[Any] = []
    ours.bus.consumer("half-hidden", lambda message: seen.append(("hidden", message.body)), local_only=True)
    ours.bus.consumer("half-hidden", lambda message: seen.append(("shown", message.body)))
    ours.bus.consumer("hidden", lambda message: 1, local_only=True)
    await theirs.until_consumers("half-hidden", 1)
    assert (await theirs.ask("consumers", "hidden"))["body"] == []
    for _ in range(2):
        await theirs.ask("send", "half-hidden", "sent")
    await theirs.ask("publish", "half-hidden", "published")
    await turning_until(lambda: len(seen) == 3)
    assert {name for name, _ in seen} == {"shown"}


async def test_commands_see_and_reach_their_node(
    ours: hutong.Node, theirs: VertxNode, zookeeper: DevelopmentZooKeeper, capsys: pytest.CaptureFixture[str]
) -> None:
    async def ran(*words: str) -> list[Any]:
        """The JSON values that a command of ours prints."""
        assert await asyncio.to_thread(main.run, ["bus", *words, "--cluster", f"zk://{zookeeper.address}"]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    found = {row["node"]: row["address"] for row in await ran("nodes", "--json")}
    assert found[ours.cluster_node] == ours.cluster_address
    assert found[theirs.id].endswith(f":{theirs.port}")
    listening = {row["address"]: row["nodes"] for row in await ran("addresses", "--json")}
    assert listening["echo"] == [theirs.id]
    assert await ran("request", "echo", '{"a": [1, null]}') == [{"a": [1, None]}]
    await theirs.ask("consume", "commanded")
    await turning_until(lambda: "commanded" in addresses(ours))
    before = (await theirs.told("counts")).get("commanded", 0)
    assert await ran("send", "commanded", "1") == await ran("publish", "commanded", "2") == []
    await theirs.until(lambda: theirs.ask_now("counts")["body"].get("commanded", 0) == before + 2, "two messages")
    await theirs.ask("unconsume", "commanded")


DOOMED: Final = """
import asyncio, sys, hutong

async def main():
    async with hutong.Node(cluster=sys.argv[1]) as node:
        node.bus.consumer("ours-doomed", lambda message: message.body)
        print(node.cluster_node, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_killed_node_of_ours(zookeeper: DevelopmentZooKeeper, theirs: VertxNode, ours: hutong.Node) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DOOMED, f"zk://{zookeeper.address}", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    node = (await process.stdout.readline()).decode().strip()
    await theirs.until_consumers("ours-doomed", 1)
    await turning_until(lambda: "ours-doomed" in addresses(ours))
    assert (await theirs.ask("request", "ours-doomed", "x"))["body"] == "x"
    assert (await ours.bus.request("ours-doomed", "x")).body == "x"
    process.kill()
    await process.wait()
    # Ours know at once, theirs with the session.
    await turning_until(lambda: "ours-doomed" not in addresses(ours))
    assert node in (await theirs.ask("nodes"))["body"]
    await theirs.until_consumers("ours-doomed", 0)
    assert (await theirs.ask("request", "ours-doomed", "x"))["failureType"] == "NO_HANDLERS"


async def test_a_killed_node_of_theirs(
    ours: hutong.Node, theirs: VertxNode, zookeeper: DevelopmentZooKeeper, version: str
) -> None:
    """The last test of a version: the entries of the dead stay for its session."""
    started = VertxNode(zookeeper.address, version, session_ms=SESSION_MS_OF_DOOMED)
    other = await asyncio.to_thread(started.wait_until_ready)
    await other.ask("consume", "doomed")
    await turning_until(lambda: "doomed" in addresses(ours))
    assert (await ours.bus.request("doomed", 1)).body == 1
    got = [ours.bus.request("blackhole", timeout=60.0) for _ in range(4)]  # two of them at the one that dies
    failures = [asyncio.ensure_future(failure_of(reply)) for reply in got]
    # They have arrived, as they were sent before this one.
    assert (await ours.bus.request("doomed", 2)).body == 2
    await asyncio.to_thread(other.kill)
    await turning_until(lambda: "doomed" not in addresses(ours))
    await turning_until(lambda: sum([each.done() for each in failures]) == 2)
    # The session of the dead has not ended.
    assert other.id in (await theirs.ask("nodes"))["body"]
    assert {each.result().failure_type for each in failures if each.done()} == {FailureType.ERROR}
    assert (await failure_of(ours.bus.request("doomed", 1))).failure_type is FailureType.NO_HANDLERS
    for each in failures:
        each.cancel()
