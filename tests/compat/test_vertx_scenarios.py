"""Vert.x's own scenarios of a clustered bus, with two of its nodes (one of version 4, one of 5) and two of ours.

Each is named after the test of Vert.x that it follows. What one node and one of ours say to each other is in
`test_vertx_cluster`.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from tests.compat.vertx_talk import failure_of
from tests.support.driven_process import DrivenProcess
from tests.support.own_node import OwnNode
from tests.support.vertx_node import VERSIONS, VertxNode
from tests.support.waiting import turning_until
from tests.support.zookeeper import running_zookeeper
from tests.unit.bus.clustered.scenes import ClusterNode

import hutong
from hutong.bus import FailureType, Message, ReplyError
from hutong.bus.clustered.connections import AcceptedConnections
from hutong.bus.clustered.limits import ClusteredLimits
from hutong.bus.clustered.link import NodeLink
from hutong.bus.clustered.membership.zookeeper.opening import make_zookeeper_membership
from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper
from hutong.cluster.coordinator.zookeeper.address import parse_zookeeper_address
from hutong.cluster.coordinator.zookeeper.settings import ZooKeeperSettings
from hutong.foundation.clock import SystemClock
from hutong.runtime.verticles import Verticle
from hutong.wire.vertx.cluster_nodes import NodeInfo, RegistrationInfo, encode_node, encode_registration

pytestmark = pytest.mark.timeout(300)
PING_MS: Final = 50
PONG_MS: Final = 1_500  # a machine that is busy answers late
PINGS: Final = 3
OWN_ID: Final = "f3a6a4f8-7f1c-4b57-9d0a-5f1e7d1c2b3a"


@dataclass
class Four:
    """The nodes of one cluster. `theirs` have lived before and live on; `ours` are of the one test."""

    zookeeper: str
    theirs: list[VertxNode]
    ours: list[hutong.Node]

    async def until_consumers(self, address: str, count: int) -> None:
        """Wait until every node knows so many consumers of the address."""
        for node in self.theirs:
            await node.until_consumers(address, count)
        for own in self.ours:
            await turning_until(lambda own=own: turns(own, address) == count)  # type: ignore[misc]


def turns(node: hutong.Node, address: str) -> int:
    return sum([each.turns for each in node.bus._consumers.get(address, ())])


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevelopmentZooKeeper]:
    yield from running_zookeeper(tmp_path_factory.mktemp("zookeeper"))


@pytest.fixture(scope="module")
def theirs(zookeeper: DevelopmentZooKeeper) -> Iterator[list[VertxNode]]:
    settings = {"pingInterval": PING_MS}
    started = [VertxNode(zookeeper.address, version, settings=settings) for version in VERSIONS]
    yield [node.wait_until_ready() for node in started]
    for node in started:
        node.close()


@pytest.fixture
async def four(zookeeper: DevelopmentZooKeeper, theirs: list[VertxNode]) -> AsyncIterator[Four]:
    place = f"zk://{zookeeper.address}"
    async with hutong.Node(cluster=place) as first, hutong.Node(cluster=place) as second:
        made = Four(zookeeper.address, theirs, [first, second])
        await made.until_consumers("echo", len(VERSIONS))
        yield made


async def test_local_handler_not_visible_remotely(four: Four) -> None:
    for number, node in enumerate(four.theirs):
        await node.told("consume-locally", f"of-their-process-{number}")
    four.ours[0].bus.consumer("of-our-process", lambda message: message.body, local_only=True)
    # Registrations come in the order of their making, so these are the proof that the others were not announced.
    four.ours[0].bus.consumer("announced-later", lambda message: message.body)
    await four.until_consumers("announced-later", 1)
    for own in four.ours:
        for number in range(len(four.theirs)):
            failure = await failure_of(own.bus.request(f"of-their-process-{number}"))
            assert failure.failure_type is FailureType.NO_HANDLERS
    assert (await failure_of(four.ours[1].bus.request("of-our-process"))).failure_type is FailureType.NO_HANDLERS
    for node in four.theirs:
        assert (await node.ask("request", "of-our-process", 1))["failureType"] == "NO_HANDLERS"
    assert (await four.ours[0].bus.request("of-our-process", 1)).body == 1


async def test_local_consumer_never_gets_remote_publish(four: Four) -> None:
    seen: list[Any] = []
    for own in four.ours:
        own.bus.consumer("mixed", lambda message: seen.append(("hidden", message.body)), local_only=True)
        own.bus.consumer("mixed", lambda message: seen.append(("shown", message.body)))
    for node in four.theirs:
        await node.until_consumers("mixed", 2)
        await node.told("publish", "mixed", node.id)
    await turning_until(lambda: len(seen) == 4)
    assert {name for name, _ in seen} == {"shown"}
    for node in four.theirs:
        await node.told("consume-locally", "mixed-there")
        await node.told("consume", "mixed-there")
    await four.until_consumers("mixed-there", 2)
    before = [(await node.told("counts"))["mixed-there"] for node in four.theirs]
    four.ours[0].bus.publish("mixed-there", 1)
    # Behind the publication, over the same connection: what was to come has come.
    for _ in four.theirs:
        await four.ours[0].bus.request("echo")
    after = [(await node.told("counts"))["mixed-there"] for node in four.theirs]
    assert [new - old for old, new in zip(before, after, strict=True)] == [1, 1]
    for node in four.theirs:
        await node.told("unconsume", "mixed-there")


async def test_clustered_pong(four: Four, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle connection lives by pings: theirs, which ours answer, and ours, which theirs answer."""
    pings: list[int] = []
    plain = AcceptedConnections.request_received

    def counted(self: AcceptedConnections, frame: Any, peer: Any) -> Any:
        response = plain(self, frame, peer)
        if response:
            pings.append(peer.id)
        return response

    monkeypatch.setattr(AcceptedConnections, "request_received", counted)
    four.ours[0].bus.consumer("pinged", lambda message: message.body)
    for node in four.theirs:
        await node.until_consumers("pinged", 1)
        assert (await node.ask("request", "pinged", 1))["ok"]
    # Each pings over one connection, again and again.
    await turning_until(lambda: sum([pings.count(each) >= PINGS for each in set(pings)]) == len(four.theirs))


async def test_clustered_pong_to_ours(four: Four, monkeypatch: pytest.MonkeyPatch) -> None:
    address = parse_zookeeper_address(f"zk://{four.zookeeper}")
    membership: Any = make_zookeeper_membership(address, ZooKeeperSettings(), SystemClock())
    limits = ClusteredLimits(ping_interval_ms=PING_MS, ping_reply_ms_max=PONG_MS)
    own = ClusterNode(OWN_ID, membership, limits)
    await own.start()
    pongs: list[str] = []
    plain = own.clustered.pong_received

    def counted(link: NodeLink) -> None:
        pongs.append(link.node)
        plain(link)

    monkeypatch.setattr(own.clustered, "pong_received", counted)
    await own.until_receivers("echo", len(four.theirs))
    for _ in four.theirs:
        await own.bus.request("echo")
    peers = [own.clustered._links[node.id].peer for node in four.theirs]
    await turning_until(lambda: all(pongs.count(node.id) >= PINGS for node in four.theirs))
    assert peers == [own.clustered._links[node.id].peer for node in four.theirs]
    await own.close()


async def test_connect_failure_fails_the_write(four: Four) -> None:
    """An entry of a node that nobody can connect to: the sender hears of it, and what ours wait for has its reason."""
    from kazoo.client import KazooClient

    ghost = KazooClient(four.zookeeper)
    await asyncio.to_thread(ghost.start)
    nowhere = encode_node(NodeInfo("127.0.0.1", free_port()))
    consumer = encode_registration(RegistrationInfo(OWN_ID, 1))
    await asyncio.to_thread(ghost.create, f"/io.vertx/cluster/nodes/{OWN_ID}", nowhere, ephemeral=True)
    path = f"/io.vertx/__vertx.subs/haunted/{OWN_ID}-1"
    await asyncio.to_thread(ghost.create, path, consumer, ephemeral=True, makepath=True)
    await four.until_consumers("haunted", 1)
    failure = await failure_of(four.ours[0].bus.request("haunted"))
    assert failure.failure_type is FailureType.ERROR
    assert "cannot be connected to" in failure.message
    # It has left the rounds, though its entry is there.
    assert (await failure_of(four.ours[0].bus.request("haunted"))).failure_type is FailureType.NO_HANDLERS
    for node in four.theirs:
        assert not (await node.ask("send", "haunted", 1))["ok"]
    await asyncio.to_thread(ghost.stop)
    ghost.close()
    await four.until_consumers("haunted", 0)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_subs_removed_for_a_closed_and_for_a_killed_node(four: Four) -> None:
    started = [VertxNode(four.zookeeper, version) for version in VERSIONS]
    own = [OwnNode(four.zookeeper), OwnNode(four.zookeeper)]
    for passing in (*started, *own):
        await asyncio.to_thread(passing.wait_until_ready)
        await passing.told("consume", "passing")
    await four.until_consumers("passing", 4)
    for closed in (started[0], own[0]):
        await asyncio.to_thread(closed.close)
    await four.until_consumers("passing", 2)
    for killed in (started[1], own[1]):
        await asyncio.to_thread(killed.kill)
    # Ours know by the connection where they have one; here they have none, so both wait for the session.
    await four.until_consumers("passing", 0)
    for asking in four.ours:
        assert (await failure_of(asking.bus.request("passing"))).failure_type is FailureType.NO_HANDLERS
    for node in four.theirs:
        assert (await node.ask("request", "passing", 1))["failureType"] == "NO_HANDLERS"


async def test_send_no_context(four: Four) -> None:
    """A thousand messages of a plain thread come in their order."""
    seen: list[int] = []
    four.ours[0].bus.consumer("burst", lambda message: seen.append(message.body))
    for node in four.theirs:
        await node.until_consumers("burst", 1)
        await node.told("burst", "burst", 1_000)
        await turning_until(lambda: len(seen) == 1_000)
        assert seen == list(range(1_000))
        seen.clear()
    for node in four.theirs:
        address = f"burst-{node.id}"
        await node.told("collect", address)
        await four.until_consumers(address, 1)
        await asyncio.to_thread(burst, four.ours[1], address)
        # Behind them, over the same connection: as many as there are nodes, since each has its turn.
        for _ in four.theirs:
            await four.ours[1].bus.request("echo")
        assert await node.told("collected", address) == {"count": 1_000, "disorders": 0}


def burst(node: hutong.Node, address: str) -> None:
    for number in range(1_000):
        node.bus.send(address, number)


async def test_preserve_order_on_contexts(four: Four) -> None:
    """The first messages to an address wait for a look-up and a connection, and later ones do not overtake them."""
    seen: list[int] = []
    for sender, node in enumerate(four.theirs):
        consumer = four.ours[0].bus.consumer(f"fresh-{sender}", lambda message: seen.append(message.body))
        await consumer.ready()
        # That it has come there is not waited for: the first sends look the address up.
        told = await node.told("flood", consumer.address, [sender, 500, "send"])
        await turning_until(lambda told=told: len(seen) == 500 - told["failed"])  # type: ignore[misc]
        assert seen == sorted(seen)
        seen.clear()


async def test_local_only_does_not_apply_to_replies(four: Four) -> None:
    heard: list[Any] = []
    four.ours[0].bus.consumer("asked-back", lambda message: heard.append(message.body))
    for node in four.theirs:
        await node.until_consumers("asked-back", 1)
        await node.told("ask-back", f"ask-back-{node.id}")
        await turning_until(lambda node=node: turns(four.ours[1], f"ask-back-{node.id}") == 1)  # type: ignore[misc]
        question = await four.ours[1].bus.request(f"ask-back-{node.id}")
        assert question.body == "and you?"
        question.reply("fine")
        await turning_until(lambda: heard)
        assert heard.pop() == "fine"

    def ask_back(message: Message) -> None:
        message.reply("local", hutong.bus.DeliveryOptions(local_only=True))

    four.ours[0].bus.consumer("answers-locally", ask_back)
    for node in four.theirs:
        await node.until_consumers("answers-locally", 1)
        assert (await node.ask("request", "answers-locally", 1))["body"] == "local"


async def test_retry_after_a_stale_connection(four: Four, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that was lost is opened anew by the next message."""
    accepted: list[Any] = []
    plain = AcceptedConnections.connection_opened

    def noted(self: AcceptedConnections, peer: Any) -> None:
        accepted.append(peer)
        plain(self, peer)

    monkeypatch.setattr(AcceptedConnections, "connection_opened", noted)
    four.ours[0].bus.consumer("stale", lambda message: message.body)
    cluster = clustered_of(four.ours[0])
    for node in four.theirs:
        await node.until_consumers("stale", 1)
        assert (await node.ask("request", "stale", 1))["body"] == 1
    for _ in four.theirs:
        await four.ours[0].bus.request("echo")
    for peer in accepted:
        peer.close()
    for link in cluster._links.values():
        if link.peer is not None:
            link.peer.close()
    for node in four.theirs:
        # What is written into the old one is lost, and Vert.x then waits for its timeout.
        await node.told("options", body={"timeout": 500})
        await node.until(lambda node=node: node.ask_now("request", "stale", 2).get("body") == 2, "an answer")  # type: ignore[misc]
        await node.told("options", body={})
    # Connections so young count as refused: nobody is sent to before a probe.
    await four.until_consumers("echo", len(four.theirs))
    for _ in range(2 * len(four.theirs)):
        assert (await four.ours[0].bus.request("echo", 3)).body == 3


def clustered_of(node: hutong.Node) -> Any:
    return node.bus._registrations.listener


async def test_multi_headers(four: Four) -> None:
    found: list[Any] = []
    four.ours[0].bus.consumer("many-headers", lambda message: found.append(list(message.headers.items())))
    for node in four.theirs:
        await node.until_consumers("many-headers", 1)
        await node.told("options", body={"pairs": [["a", "1"], ["b", "2"], ["a", "3"]]})
        await node.told("send", "many-headers", 1)
        await node.told("options", body={})
    await turning_until(lambda: len(found) == 2)
    # Vert.x keeps the values of one name in order, and names where they were first.
    assert [sorted(each) for each in found] == [[("a", "1"), ("a", "3"), ("b", "2")]] * 2


async def test_unregistration_means_no_handlers_on_both_nodes(four: Four) -> None:
    consumer = four.ours[0].bus.consumer("for-a-while", lambda message: message.body)
    await four.until_consumers("for-a-while", 1)
    assert (await four.ours[1].bus.request("for-a-while", 1)).body == 1
    await consumer.unregister()
    await four.until_consumers("for-a-while", 0)
    for node in four.theirs:
        assert (await node.ask("request", "for-a-while", 1))["failureType"] == "NO_HANDLERS"
    for own in four.ours:
        assert (await failure_of(own.bus.request("for-a-while"))).failure_type is FailureType.NO_HANDLERS
    await four.theirs[0].told("consume", "for-a-while")
    await four.until_consumers("for-a-while", 1)
    await four.theirs[0].told("unconsume", "for-a-while")
    await four.until_consumers("for-a-while", 0)
    assert (await four.theirs[1].ask("request", "for-a-while", 1))["failureType"] == "NO_HANDLERS"


class LastWords(Verticle):
    """Asks somebody while it is stopped."""

    def __init__(self, node: hutong.Node, heard: list[Any]) -> None:
        self._node = node
        self._heard = heard

    async def stop(self) -> None:
        for _ in VERSIONS:
            self._heard.append((await self._node.bus.request("echo", "farewell")).body)


async def test_messaging_in_stop(four: Four) -> None:
    heard: list[Any] = []
    async with hutong.Node(cluster=f"zk://{four.zookeeper}") as leaving:
        await turning_until(lambda: turns(leaving, "echo") == len(VERSIONS))
        await leaving.runtime.deploy(lambda: LastWords(leaving, heard))
    assert heard == ["farewell"] * len(VERSIONS)
    last: list[Any] = []

    def note(message: Message) -> str:
        last.append(message.body)
        return "noted"

    four.ours[0].bus.consumer("last-words", note)
    started = [VertxNode(four.zookeeper, version) for version in VERSIONS]
    for version, node in zip(VERSIONS, started, strict=True):
        await asyncio.to_thread(node.wait_until_ready)
        await node.until_consumers("last-words", 1)
        await node.told("last-words", "last-words", version)
        await asyncio.to_thread(node.close)
    assert last == list(VERSIONS)


class OwnCodec:
    """A codec of a user; `name` says whether the other side has one of that name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def encode(self, body: str) -> bytes:
        return body.upper().encode()

    def decode(self, data: bytes) -> str:
        return data.decode()

    def transform(self, body: str) -> str:
        return body.upper()


async def test_unknown_codec_means_error(four: Four) -> None:
    own = four.ours[0]
    own.bus.consumer("decoding", lambda message: message.reply(message.body))
    own.bus.register_codec(OwnCodec("of-python-alone"))
    for _ in four.theirs:
        failure = await failure_of(own.bus.request("echo", "x", codec="of-python-alone"))
        assert failure.failure_type is FailureType.ERROR
    for node in four.theirs:
        await node.until_consumers("decoding", 1)
        await node.told("options", body={"codecName": "shouting"})
        assert (await node.ask("request", "decoding", "quiet"))["failureType"] == "ERROR"
    own.bus.register_codec(OwnCodec("shouting"))
    for node in four.theirs:
        assert (await node.ask("request", "decoding", "quiet"))["body"] == "QUIET"
        await node.told("options", body={})
        assert (await own.bus.request("echo", "quiet", codec="shouting")).body == "QUIET"


async def test_kill_of_two(four: Four) -> None:
    """Survivors answer each other, and the addresses of the dead have no handlers in the end."""
    doomed: list[DrivenProcess] = [VertxNode(four.zookeeper, "5"), OwnNode(four.zookeeper)]
    for dying in doomed:
        await asyncio.to_thread(dying.wait_until_ready)
        await dying.told("consume", "of-the-dead")
    four.ours[0].bus.consumer("of-the-living", lambda message: message.body)
    await four.until_consumers("of-the-living", 1)
    await four.until_consumers("of-the-dead", 2)
    for dying in doomed:
        await asyncio.to_thread(dying.kill)
    for node in four.theirs:
        assert (await node.ask("request", "of-the-living", 1))["body"] == 1
    for own in four.ours:
        with contextlib.suppress(ReplyError):  # the first to find out that they are gone
            await own.bus.request("of-the-dead")
        assert (await own.bus.request("of-the-living", 2)).body == 2
    await four.until_consumers("of-the-dead", 0)
    for node in four.theirs:
        assert (await node.ask("request", "of-the-dead", 1))["failureType"] == "NO_HANDLERS"
    for own in four.ours:
        assert (await failure_of(own.bus.request("of-the-dead"))).failure_type is FailureType.NO_HANDLERS
        assert (await own.bus.request("echo", 3)).body == 3
