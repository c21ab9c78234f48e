"""One cluster of real nodes of Vert.x 3 and ours, through a real ZooKeeper: both talk in every way they can.

The node's consumers are those that `java_vertx3/DrivenNode.java` begins with. Vert.x 3 registers a node once for each
address, whichever number of consumers it has.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives import serialization
from tests.compat.vertx_talk import VertxTalk, addresses, failure_of
from tests.support.pem_files import PemFiles
from tests.support.vertx3_node import Vertx3Node
from tests.support.waiting import turning_until
from tests.support.zookeeper import running_zookeeper

import hutong
from hutong.bus import FailureType, Message
from hutong.bus.clustered import ClusterTls
from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper
from hutong.foundation.errors import UsageError
from hutong.wire.vertx.cluster_nodes import NodeInfo
from hutong.wire.vertx.vertx3_nodes import PlaceRegistration, encode_place

pytestmark = pytest.mark.timeout(120)
SESSION_MS_OF_DOOMED: Final = 10_000  # as much as the server grants: 20 ticks
PLACES: Final = "/io.vertx/syncMap/__vertx.haInfo"
SUBSCRIPTIONS: Final = "/io.vertx/asyncMultiMap/__vertx.subs"


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevelopmentZooKeeper]:
    yield from running_zookeeper(tmp_path_factory.mktemp("zookeeper"))


@pytest.fixture(scope="module")
def theirs(zookeeper: DevelopmentZooKeeper) -> Iterator[Vertx3Node]:
    node = Vertx3Node(zookeeper.address).wait_until_ready()
    yield node
    node.close()


def our_node(zookeeper: DevelopmentZooKeeper) -> hutong.Node:
    return hutong.Node(cluster=f"zk://{zookeeper.address}", cluster_wire_version=1)


@pytest.fixture
async def ours(zookeeper: DevelopmentZooKeeper, theirs: Vertx3Node) -> AsyncIterator[hutong.Node]:
    async with our_node(zookeeper) as node:
        await turning_until(lambda: "echo" in addresses(node))
        yield node
    await theirs.until(lambda: node.cluster_node not in theirs.ask_now("nodes")["body"], "its entry is gone")


async def in_zookeeper(zookeeper: DevelopmentZooKeeper, work: Any) -> Any:
    """What `work(client)` finds, on a thread."""
    from kazoo.client import KazooClient

    def ask() -> Any:
        client = KazooClient(zookeeper.address)
        client.start()
        try:
            return work(client)
        finally:
            client.stop()
            client.close()

    return await asyncio.to_thread(ask)


class TestTalk(VertxTalk):
    """Between a node of Vert.x 3 and one of ours."""


async def test_their_entries_have_the_bytes_that_ours_have(
    ours: hutong.Node, theirs: Vertx3Node, zookeeper: DevelopmentZooKeeper
) -> None:
    await ours.bus.consumer("bytes", lambda message: None).ready()
    place = PlaceRegistration(theirs.id, NodeInfo("127.0.0.1", theirs.port))
    entry = await in_zookeeper(zookeeper, lambda client: client.get(f"{SUBSCRIPTIONS}/echo/{place.name}")[0])
    assert entry == encode_place(place)
    [name] = await in_zookeeper(zookeeper, lambda client: client.get_children(f"{SUBSCRIPTIONS}/bytes"))
    assert name == f"{ours.cluster_node}:{ours.cluster_address}"

    def infos(client: Any) -> tuple[bytes, bytes]:
        own, other = (client.get(f"{PLACES}/{node}")[0] for node in (ours.cluster_node, theirs.id))
        return own, other

    own, other = await in_zookeeper(zookeeper, infos)
    assert (
        own.partition(b'{"')[0][:-2]
        == other.replace(theirs.id.encode(), str(ours.cluster_node).encode()).partition(b'{"')[0][:-2]
    )  # up to the length of the JSON


TYPED: Final[list[tuple[str, Any, Any]]] = [
    ("null", None, None), ("byte", -7, -7), ("boolean", False, False), ("short", 300, 300), ("int", 5, 5),
    ("long", 5, 5), ("float", 1.5, 1.5), ("double", 2.5, 2.5), ("string", "ü", "ü"), ("char", "ä", "ä"),
    ("buffer", "ab", b"ab"), ("bytearray", "ab", b"ab"), ("jsonobject", {"a": 1}, {"a": 1}),
    ("jsonarray", [1, None], [1, None]),
]  # fmt: skip


async def test_their_codecs_come_here(ours: hutong.Node, theirs: Vertx3Node) -> None:
    seen: list[tuple[str, Any]] = []

    def note_codec(message: Message) -> str:
        seen.append((message.codec_name, message.body))
        return "seen"

    await ours.bus.consumer("typed", note_codec).ready()
    await theirs.until_consumers("typed", 1)
    for codec, value, _ in TYPED:
        assert (await theirs.ask("request-codec", "typed", [codec, value]))["body"] == "seen"
    assert seen == [(codec, body) for codec, _, body in TYPED]


async def test_an_answer_is_asked_back(ours: hutong.Node, theirs: Vertx3Node) -> None:
    got: list[Any] = []
    ours.bus.consumer("asked-back", lambda message: got.append(message.body))
    await theirs.until_consumers("asked-back", 1)
    await theirs.ask("ask-back", "asking")
    await turning_until(lambda: "asking" in addresses(ours))
    reply = await ours.bus.request("asking", 1)
    assert reply.body == "and you?"
    reply.reply("fine")
    await turning_until(lambda: got == ["fine"])
    await theirs.ask("unconsume", "asking")


async def test_sends_and_publications_both_ways(ours: hutong.Node, theirs: Vertx3Node) -> None:
    seen: list[Any] = []

    def note(name: object, message: Message) -> None:
        seen.append((name, message.body, message.is_send))

    for number in range(2):
        ours.bus.consumer("shared", partial(note, number))
    await theirs.ask("consume", "shared")
    await theirs.until_consumers("shared", 2)
    await turning_until(lambda: len(ours.bus._consumers["shared"]) == 3)
    before = (await theirs.told("counts")).get("shared", 0)
    # Their node has one turn, and each consumer here one.
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
    # Theirs gives each node one turn.
    for _ in range(4):
        await theirs.ask("send", "shared", "one")
    await turning_until(lambda: len(seen) == 2)
    assert sorted(seen) == [(0, "one", True), (1, "one", True)]
    seen.clear()
    assert (await theirs.ask("publish", "shared", "theirs"))["ok"]
    await turning_until(lambda: len(seen) == 2)
    assert sorted(seen) == [(0, "theirs", False), (1, "theirs", False)]
    assert (await theirs.ask("unconsume", "shared"))["ok"]


async def test_a_burst_comes_in_order(ours: hutong.Node, theirs: Vertx3Node) -> None:
    got: list[int] = []
    ours.bus.consumer("burst", lambda message: got.append(message.body))
    await theirs.until_consumers("burst", 1)
    await theirs.ask("burst", "burst", 20_000)
    await turning_until(lambda: len(got) == 20_000)
    assert got == list(range(20_000))


async def test_unregistered_means_no_handlers_on_both_sides(ours: hutong.Node, theirs: Vertx3Node) -> None:
    first, second = (ours.bus.consumer("ours-alone", lambda message: 1) for _ in range(2))
    await theirs.until_consumers("ours-alone", 1)
    first.unregister()
    assert (await theirs.ask("request", "ours-alone", 1))["body"] == 1
    second.unregister()
    await theirs.until_consumers("ours-alone", 0)
    assert (await theirs.ask("request", "ours-alone", 1))["failureType"] == "NO_HANDLERS"
    await theirs.ask("consume", "theirs-alone")
    await turning_until(lambda: "theirs-alone" in addresses(ours))
    assert (await ours.bus.request("theirs-alone", 5)).body == 5
    await theirs.ask("unconsume", "theirs-alone")
    await turning_until(lambda: "theirs-alone" not in addresses(ours))
    assert (await failure_of(ours.bus.request("theirs-alone", 5))).failure_type is FailureType.NO_HANDLERS


async def test_a_removed_registration_of_ours_is_written_again(
    ours: hutong.Node, theirs: Vertx3Node, zookeeper: DevelopmentZooKeeper
) -> None:
    """Nodes of Vert.x remove those of nodes that they do not know (yet)."""
    await ours.bus.consumer("removed", lambda message: "still here").ready()
    path = f"{SUBSCRIPTIONS}/removed/{ours.cluster_node}:{ours.cluster_address}"
    before = await in_zookeeper(zookeeper, lambda client: client.exists(path).czxid)
    await in_zookeeper(zookeeper, lambda client: client.delete(path))
    await in_zookeeper(zookeeper, lambda client: client.delete(f"{PLACES}/{ours.cluster_node}"))

    def is_back(client: Any) -> bool:
        while (found := client.exists(path)) is None or not client.exists(f"{PLACES}/{ours.cluster_node}"):
            client.sync(path)
        return bool(found.czxid > before)

    assert await in_zookeeper(zookeeper, is_back)
    await theirs.until_consumers("removed", 1)
    assert (await theirs.ask("request", "removed", 1))["body"] == "still here"


async def test_two_of_ours_talk_as_well(ours: hutong.Node, zookeeper: DevelopmentZooKeeper) -> None:
    async with our_node(zookeeper) as other:
        await other.bus.consumer("of-another", lambda message: message.body).ready()
        await turning_until(lambda: "of-another" in addresses(ours))
        assert (await ours.bus.request("of-another", {"a": 1})).body == {"a": 1}


async def test_shared_data_is_refused(ours: hutong.Node) -> None:
    with pytest.raises(UsageError, match=r"not shared in a cluster of Vert\.x 3"):
        await ours.bus.shared.counter("hits").increment()


def write_as_pkcs8(path: Path) -> None:
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    form = serialization.PrivateFormat.PKCS8
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))


@pytest.mark.thorough
async def test_both_ways_are_encrypted(zookeeper: DevelopmentZooKeeper, tmp_path: Path) -> None:
    """Those without TLS are in the same cluster, and cannot be reached."""
    of_theirs = PemFiles(tmp_path / "theirs", "127.0.0.1")
    write_as_pkcs8(of_theirs.key)  # the only form of such a key that Vert.x 3 reads
    of_ours = PemFiles(tmp_path / "ours", "127.0.0.1", authority=of_theirs.authority)
    encrypted = Vertx3Node(zookeeper.address, tls=of_theirs)
    try:
        await asyncio.to_thread(encrypted.wait_until_ready)
        await encrypted.ask("consume", "encrypted-echo")
        tls = ClusterTls(of_ours.certificate, of_ours.ca, of_ours.key, client_auth="required")
        cluster = f"zk://{zookeeper.address}"
        async with hutong.Node(cluster=cluster, cluster_wire_version=1, cluster_tls=tls) as node:
            node.bus.consumer("our-encrypted", lambda message: message.body)
            await encrypted.until_consumers("our-encrypted", 1)
            await turning_until(lambda: "encrypted-echo" in addresses(node))
            assert (await node.bus.request("encrypted-echo", {"a": [1, None]})).body == {"a": [1, None]}
            assert (await encrypted.ask("request", "our-encrypted", {"b": 2}))["body"] == {"b": 2}
    finally:
        await asyncio.to_thread(encrypted.close)


DOOMED: Final = """
import asyncio, sys, hutong

async def main():
    async with hutong.Node(cluster=sys.argv[1], cluster_wire_version=1) as node:
        node.bus.consumer("ours-doomed", lambda message: message.body)
        print(node.cluster_node, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_killed_node_of_ours(zookeeper: DevelopmentZooKeeper, theirs: Vertx3Node, ours: hutong.Node) -> None:
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

    def until_forgotten(client: Any) -> None:
        while client.exists(f"{PLACES}/{node}"):
            client.sync(PLACES)

    # Theirs leave it to nodes of its own group.
    await in_zookeeper(zookeeper, until_forgotten)


async def test_a_killed_node_of_theirs(ours: hutong.Node, theirs: Vertx3Node, zookeeper: DevelopmentZooKeeper) -> None:
    """The last test: the entries of the dead stay for its session."""
    started = Vertx3Node(zookeeper.address, session_ms=SESSION_MS_OF_DOOMED)
    other = await asyncio.to_thread(started.wait_until_ready)
    await other.ask("consume", "doomed")
    await turning_until(lambda: "doomed" in addresses(ours))
    await turning_until(lambda: len(ours.bus._consumers["blackhole"]) == 2)
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
