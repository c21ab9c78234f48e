"""What others may have in the ZooKeeper of a cluster of Vert.x 3: their nodes, entries of no use, and lost ones."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from tests.support.zookeeper import running_zookeeper
from tests.unit.bus.clustered.membership_scenes import Hearing, Vertx3Scene

from hutong.bus.clustered.membership.vertx3.layout import Vertx3Paths, decode_info, encode_info
from hutong.bus.shared.values import encode_pair
from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper
from hutong.foundation.errors import ProtocolError, UsageError
from hutong.wire.vertx.cluster_nodes import NodeInfo
from hutong.wire.vertx.vertx3_nodes import PlaceRegistration, encode_place

pytestmark = pytest.mark.timeout(60)
OWN = NodeInfo("127.0.0.1", 1)
THEIRS = PlaceRegistration("t-1", NodeInfo("10.0.0.7", 7000))
REAL_INFO = bytes.fromhex(
    "00aced000573720036696f2e76657274782e7370692e636c75737465722e7a6f6f6b65657065722e696d706c2e5a4b53796e634d6170244b"
    "657956616c75655a9e1a0049694c7a0200024c00036b65797400124c6a6176612f6c616e672f4f626a6563743b4c000576616c756571007e"
    "0001787074002433306535356132312d306435362d343663652d386333642d6465633235653065343361337400557b227665727469636c65"
    "73223a5b5d2c2267726f7570223a225f5f44495341424c45445f5f222c227365727665725f6964223a7b22686f7374223a223132372e302e"
    "302e31222c22706f7274223a34343138337d7d"
)


def test_the_information_on_a_real_node() -> None:
    assert decode_info(REAL_INFO) == (NodeInfo("127.0.0.1", 44183), False)
    assert decode_info(encode_info("n", OWN)) == (OWN, True)
    assert decode_info(encode_pair("n", '{"verticles":[],"group":"__DISABLED__"}')) == (None, False)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"group":1}', '{"group":"g","server_id":7}', '{"group":"g","server_id":{"host":"h"}}',
        '{"group":"g","server_id":{"host":"h","port":0}}', '{"group":"g","server_id":{"host":"h","port":65536}}',
        '{"group":"g","server_id":{"host":"","port":1}}', '{"group":"g","server_id":{"host":"h","port":"1"}}',
        '{"group":"g","server_id":{"host":"' + 300 * "h" + '","port":1}}', '{"group":"g","x":' + 10_000 * "[",
    ],
)  # fmt: skip
def test_other_information_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        decode_info(encode_pair("n", text))


@pytest.mark.parametrize(
    "data", [b"", b"\0", REAL_INFO[:-1], REAL_INFO + b"x", REAL_INFO.replace(b"KeyValue", b"KeyValu3")]
)
def test_what_is_no_pair_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_info(data)


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevelopmentZooKeeper]:
    yield from running_zookeeper(tmp_path_factory.mktemp("zookeeper"))


class Others:
    """All that other programs write, below one root."""

    def __init__(self, scene: Vertx3Scene) -> None:
        from kazoo.client import KazooClient

        self.scene = scene
        self.paths = Vertx3Paths(scene.path)
        self._client = KazooClient(scene.server.address)

    async def do(self, work: Callable[[Any], Any]) -> Any:
        return await asyncio.to_thread(work, self._client)

    async def create(self, path: str, content: bytes) -> None:
        await self.do(lambda client: client.create(path, content, makepath=True))

    async def register(self, address: str, name: str, content: bytes) -> None:
        await self.create(f"{self.paths.address(address)}/{name}", content)

    async def until_made_again(self, path: str, *parents: str) -> None:
        """Remove an entry, and these behind it in the same step; and wait until it is there anew."""

        def remove(client: Any) -> int:
            before: int = client.exists(path).czxid
            transaction = client.transaction()
            for each in (path, *parents):
                transaction.delete(each)
            assert transaction.commit() == [True] * (1 + len(parents))
            return before

        before = await self.do(remove)
        await self.until(lambda client: (found := client.exists(path)) is not None and found.czxid > before)

    async def until(self, condition: Callable[[Any], bool]) -> None:
        """Wait until it is so; each question is one to the server."""

        def ask(client: Any) -> None:
            while not condition(client):
                client.sync(self.paths.root)

        await self.do(ask)

    async def __aenter__(self) -> "Others":
        await self.do(lambda client: client.start())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.do(lambda client: (client.stop(), client.close()))


@pytest.fixture
async def others(zookeeper: DevelopmentZooKeeper) -> AsyncIterator[Others]:
    scene = Vertx3Scene(zookeeper)
    async with Others(scene) as made:
        yield made
    await scene.close()


async def started(others: Others) -> tuple[Any, Hearing]:
    membership, heard = await others.scene.membership("a-1"), Hearing()
    await membership.start("a-1", OWN, heard)
    return membership, heard


@pytest.mark.fault
async def test_entries_of_no_use_are_passed_over(others: Others, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "hutong.cluster")
    await others.create(others.paths.node("t-1"), b"t-1")
    for address in ("x", "y"):
        await others.register(address, THEIRS.name, encode_place(THEIRS))
        await others.register(address, "of-java", bytes.fromhex("00aced000570"))
        await others.register(address, "t-1:10.0.0.8:7000", encode_place(THEIRS))
    await others.create(others.paths.place("t-1"), b"nonsense")
    _, heard = await started(others)
    # Where it listens is known from its registration.
    assert dict(heard.nodes) == {"127.0.0.1:1": OWN, "10.0.0.7:7000": THEIRS.info}
    assert heard.counts == {address: {"10.0.0.7:7000": 1} for address in ("x", "y")}
    said = [record.getMessage() for record in caplog.records if "passed over" in record.getMessage()]
    assert len(said) == 2  # each name once
    assert any("has the name 't-1:10.0.0.8:7000'" in text for text in said)
    assert any("no registration of Vert.x 3" in text for text in said)


@pytest.mark.fault
async def test_a_node_without_consumers_is_known_by_its_information(others: Others) -> None:
    _, heard = await started(others)
    await others.create(others.paths.node("t-1"), b"t-1")
    await others.create(others.paths.place("t-1"), encode_pair("t-1", '{"group":"g"}'))
    await others.do(lambda client: client.set(others.paths.place("t-1"), encode_info("t-1", THEIRS.info)))
    await heard.until_nodes("127.0.0.1:1", "10.0.0.7:7000")
    await others.do(lambda client: client.delete(others.paths.node("t-1")))
    await heard.until_nodes("127.0.0.1:1")
    # It was one of ours, which was killed: nobody else would remove it.
    await others.until(lambda client: client.exists(others.paths.place("t-1")) is None)


@pytest.mark.fault
async def test_what_is_removed_behind_a_node_is_written_again(others: Others) -> None:
    a, heard = await started(others)
    a.announce("x", 1)
    a.announce("x", 2)
    await heard.until(lambda heard: heard.numbers == {1, 2})
    own = f"{others.paths.address('x')}/a-1:127.0.0.1:1"
    place = others.paths.place("a-1")
    for path in (own, place, others.paths.node("a-1")):
        await others.until_made_again(path)
    # The first node of Vert.x does so, where it finds no other.
    await others.until_made_again(place, others.paths.places)
    a.withdraw("x", 1)
    a.withdraw("x", 2)
    await others.until(lambda client: client.exists(others.paths.address("x")) is None)
    await a.close()
    assert await others.do(lambda client: client.get_children(others.paths.places)) == []


@pytest.mark.fault
async def test_shared_entries_are_refused(others: Others) -> None:
    a, _ = await started(others)
    entries = a.entries
    for asked in (
        entries.read("counters/x"),
        entries.create("counters/x", b""),
        entries.create_own("locks/x", "lock"),
        entries.change([]),
    ):
        with pytest.raises(UsageError, match="are not shared"):
            await asked
