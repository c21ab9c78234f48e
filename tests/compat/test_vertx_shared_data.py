"""Counters, locks and maps that a real Vert.x node and ours share, through a real ZooKeeper."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.support.vertx_shared import MOSTLY_5, SharedVertxNode
from tests.support.zookeeper import running_zookeeper

import hutong
from hutong.bus.envelope.java_objects import JavaSerialized
from hutong.bus.shared.names import Key

pytestmark = [pytest.mark.timeout(120), pytest.mark.compat]
RAW = b"\x00\xff\x01"
ENCODED = base64.b64encode(RAW).decode()


@pytest.fixture(scope="module", params=MOSTLY_5)
def theirs(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[SharedVertxNode]:
    """A Vert.x node that lives through all tests of its version, with a ZooKeeper of its own."""
    for zookeeper in running_zookeeper(tmp_path_factory.mktemp("zookeeper")):
        node = SharedVertxNode(zookeeper.address, request.param).wait_until_ready()
        yield node
        node.close()


@pytest.fixture
async def ours(theirs: SharedVertxNode) -> AsyncIterator[hutong.Node]:
    async with hutong.Node(cluster=f"zk://{theirs.zookeeper}") as node:
        yield node


async def test_a_counter_is_one_for_both(ours: hutong.Node, theirs: SharedVertxNode) -> None:
    counter = ours.bus.shared.counter("hits")
    assert await theirs.ask("get", "hits") == 0
    assert await counter.increment() == 1
    assert await theirs.ask("increment", "hits") == 2
    assert await theirs.ask("add", "hits", value=-(2**40)) == 2 - 2**40
    assert await counter.get() == 2 - 2**40
    assert await theirs.ask("compareAndSet", "hits", expected=2 - 2**40, value=7) is True
    assert await counter.compare_and_set(7, 8)
    assert not await counter.compare_and_set(7, 9)
    assert await theirs.ask("get", "hits") == 8
    # Whoever is first makes the entry.
    assert await theirs.ask("increment", "visits") == 1
    assert await ours.bus.shared.counter("visits").add(5) == 6
    assert await ours.bus.shared.counter("votes").compare_and_set(0, 3)
    assert await theirs.ask("get", "votes") == 3


async def test_additions_of_both_at_the_same_time_are_all_counted(ours: hutong.Node, theirs: SharedVertxNode) -> None:
    counter = ours.bus.shared.counter("contended")
    await asyncio.gather(
        *[counter.increment() for _ in range(50)],
        asyncio.to_thread(lambda: [theirs.ask_now("increment", "contended") for _ in range(50)]),
    )
    assert await counter.get() == await theirs.ask("get", "contended") == 100


async def test_a_lock_of_theirs_keeps_us_out(ours: hutong.Node, theirs: SharedVertxNode) -> None:
    await theirs.ask("lock", "door", timeout=5_000)
    with pytest.raises(hutong.Expired):
        await ours.bus.shared.lock("door", timeout_ms=100).acquire()
    waiting = ours.bus.shared.lock("door", timeout_ms=30_000).acquire()
    await theirs.ask("unlock", "door")
    await (await waiting).release()


async def test_a_lock_of_ours_keeps_them_out(ours: hutong.Node, theirs: SharedVertxNode) -> None:
    async with ours.bus.shared.lock("gate"):
        with pytest.raises(RuntimeError, match="get lock exception"):
            await theirs.ask("lock", "gate", timeout=100)
    await theirs.ask("lock", "gate", timeout=5_000)
    await theirs.ask("unlock", "gate")


async def test_a_lock_of_a_killed_node_of_theirs_is_free(ours: hutong.Node, theirs: SharedVertxNode) -> None:
    doomed = await asyncio.to_thread(SharedVertxNode(theirs.zookeeper, theirs.version).wait_until_ready)
    await doomed.ask("lock", "shaft", timeout=5_000)
    waiting = ours.bus.shared.lock("shaft", timeout_ms=60_000).acquire()
    await asyncio.to_thread(doomed.kill)
    await (await waiting).release()


@pytest.mark.parametrize(
    ("value", "java", "shown"),
    [
        ("text ü😀\0", "java.lang.String", "text ü😀\0"),
        ("long" * 20_000, "java.lang.String", "long" * 20_000),
        (5, "java.lang.Integer", 5),
        (-(2**31), "java.lang.Integer", -(2**31)),
        (2**31, "java.lang.Long", 2**31),
        (1.5, "java.lang.Double", 1.5),
        (True, "java.lang.Boolean", True),
        (False, "java.lang.Boolean", False),
        (RAW, "io.vertx.core.buffer.impl.BufferImpl", ENCODED),
        ({"a": [1, None, {"b": "ä"}]}, "io.vertx.core.json.JsonObject", {"a": [1, None, {"b": "ä"}]}),
        ([1, "x"], "io.vertx.core.json.JsonArray", [1, "x"]),
    ],
    ids=lambda value: repr(value)[:20],
)
async def test_they_read_what_we_put(
    ours: hutong.Node, theirs: SharedVertxNode, value: Any, java: str, shown: Any
) -> None:
    await ours.bus.shared.map("prices").put("key", value)
    assert await theirs.ask("read", "prices", key="key") == shown
    assert theirs.value_class == java


@pytest.mark.parametrize(
    ("codec", "value", "java"),
    [
        ("byte", 7, "java.lang.Byte"),
        ("short", 7, "java.lang.Short"),
        ("int", 7, "java.lang.Integer"),
        ("long", 7, "java.lang.Long"),
        ("float", 1.5, "java.lang.Float"),
        ("double", 7, "java.lang.Double"),
        ("char", "ä", "java.lang.Character"),
        ("bytearray", RAW, "[B"),
        ("buffer", RAW, "io.vertx.core.buffer.impl.BufferImpl"),
        ("string", "s", "java.lang.String"),
    ],
)
async def test_they_read_what_we_put_by_a_codec(
    ours: hutong.Node, theirs: SharedVertxNode, codec: str, value: Any, java: str
) -> None:
    await ours.bus.shared.map("typed", codec=codec).put("key", value)
    assert await theirs.ask("read", "typed", key="key") == (ENCODED if value == RAW else value)
    assert theirs.value_class == java


@pytest.mark.parametrize(
    ("given", "kind", "found"),
    [
        ("text ü😀\0", "", "text ü😀\0"),
        ("long" * 20_000, "", "long" * 20_000),
        (5, "", 5),
        (5, "long", 5),
        (5, "short", 5),
        (-5, "byte", -5),
        (1.5, "float", 1.5),
        (1.5, "", 1.5),
        ("ä", "char", "ä"),
        (True, "", True),
        (ENCODED, "bytes", RAW),
        (ENCODED, "buffer", RAW),
        ({"a": [1, None]}, "", {"a": [1, None]}),
        ([1, "x"], "", [1, "x"]),
    ],
    ids=lambda value: repr(value)[:20],
)
async def test_we_read_what_they_put(
    ours: hutong.Node, theirs: SharedVertxNode, given: Any, kind: str, found: Any
) -> None:
    await theirs.ask("put", "prices", key="key", value=given, type=kind)
    value = await ours.bus.shared.map("prices").get("key")
    assert value == found
    assert type(value) is type(found)


async def test_what_only_java_reads_comes_back_as_it_was(ours: hutong.Node, theirs: SharedVertxNode) -> None:
    await theirs.ask("put", "times", key="key", value="2020-01-01T00:00:00Z", type="instant")
    value = await ours.bus.shared.map("times").get("key")
    assert isinstance(value, JavaSerialized)
    await ours.bus.shared.map("times").put("copy", value)
    assert await theirs.ask("read", "times", key="copy") == "2020-01-01T00:00:00Z"
    assert theirs.value_class == "java.time.Instant"


async def test_keys_come_and_go_both_ways(ours: hutong.Node, theirs: SharedVertxNode) -> None:
    prices = ours.bus.shared.map("keys")
    keys: list[Key] = ["rice", "a/b", "ü😀", 5, 2**40]
    for key in keys:
        await prices.put(key, 1)
    assert {str(key) for key in await theirs.ask("keys", "keys")} == {str(key) for key in keys}
    assert await theirs.ask("size", "keys") == len(keys)
    assert await theirs.ask("remove", "keys", key="a/b") == 1
    assert await theirs.ask("remove", "keys", key=5) == 1
    await theirs.ask("put", "keys", key="tea", value=2)
    assert set(await prices.keys()) == {"rice", "ü😀", 2**40, "tea"}
    await prices.clear()
    assert await theirs.ask("keys", "keys") == []
    await theirs.ask("put", "keys", key="tea", value=2)
    assert await prices.items() == {"tea": 2}
    await theirs.ask("clear", "keys")
    assert await prices.size() == 0
    await prices.put("tea", 3)
    assert await theirs.ask("read", "keys", key="tea") == 3


async def test_values_are_compared_by_both(ours: hutong.Node, theirs: SharedVertxNode) -> None:
    owners = ours.bus.shared.map("owners")
    assert await theirs.ask("putIfAbsent", "owners", key="door", value="theirs") is None
    assert await owners.put_if_absent("door", "ours") == "theirs"
    assert await owners.replace("door", "ours") == "theirs"
    assert await theirs.ask("replace", "owners", key="door", value={"a": 1}) == "ours"
    assert await owners.replace_if_present("door", {"a": 1}, {"a": 2})
    assert await theirs.ask("replaceIfPresent", "owners", key="door", expected={"a": 2}, value=3) is True
    assert not await owners.remove_if_present("door", 2)
    assert await owners.remove_if_present("door", 3)
    assert await theirs.ask("read", "owners", key="door") is None
