"""What counters, locks and maps do: in memory, and by a real ZooKeeper."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.support.waiting import turning_until
from tests.support.zookeeper import running_zookeeper
from tests.unit.bus.clustered.membership_scenes import MembershipScene, MemoryScene, ZooKeeperScene
from tests.unit.bus.shared.scenes import SharingNode, SharingScene

from hutong.bus import EventBus
from hutong.bus.envelope.java_objects import ClusterSerializable, JavaSerialized
from hutong.bus.shared.names import KEY_BYTES_MAX, NAME_BYTES_MAX, Key
from hutong.bus.shared.port import CONTENT_BYTES_MAX, CreateEntry, RemoveEntry, WriteEntry
from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper
from hutong.cluster.coordinator.port import SessionState
from hutong.foundation.errors import (
    CoordinatorUnavailable,
    Expired,
    HutongError,
    LimitExceeded,
    OwnerGone,
    ProtocolError,
    UsageError,
)
from hutong.runtime.contexts.contexts import ContextKind
from hutong.runtime.runtime import Runtime

pytestmark = pytest.mark.timeout(60)


class PatientScene(ZooKeeperScene):
    """Sessions that outlast a busy machine: no call here is made twice."""

    SESSION_MS = 10_000


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevelopmentZooKeeper]:
    yield from running_zookeeper(tmp_path_factory.mktemp("zookeeper"))


@pytest.fixture(params=["memory", pytest.param("zookeeper", marks=pytest.mark.fault)])
async def scene(request: pytest.FixtureRequest) -> AsyncIterator[SharingScene]:
    is_memory = request.param == "memory"
    made: MembershipScene = MemoryScene() if is_memory else PatientScene(request.getfixturevalue("zookeeper"))
    async with SharingScene(made) as shared:
        yield shared


# -- counters


async def test_a_counter_is_one_for_all(scene: SharingScene) -> None:
    a, b = await scene.pair()
    ours, theirs = a.shared.counter("hits"), b.shared.counter("hits")
    assert await ours.get() == 0
    assert await ours.increment() == 1
    assert await theirs.add(41) == 42
    assert await theirs.add(-50) == -8
    assert await ours.get() == -8
    assert await a.shared.counter("others").get() == 0


async def test_additions_at_the_same_time_are_all_counted(scene: SharingScene) -> None:
    a, b = await scene.pair()
    values = await asyncio.gather(*[node.shared.counter("hits").increment() for _ in range(20) for node in (a, b)])
    assert sorted(values) == list(range(1, 41))


async def test_a_counter_is_compared_and_set(scene: SharingScene) -> None:
    a, b = await scene.pair()
    counter = a.shared.counter("version")
    assert not await counter.compare_and_set(1, 5)
    assert await counter.compare_and_set(0, 5)
    outcomes = await asyncio.gather(
        *[node.shared.counter("version").compare_and_set(5, value) for node, value in ((a, 6), (b, 7))]
    )
    assert sorted(outcomes) == [False, True]
    assert await counter.get() in (6, 7)


async def test_a_counter_has_64_bits(scene: SharingScene) -> None:
    a = await scene.node("a-1")
    counter = a.shared.counter("hits")
    assert await counter.add((1 << 63) - 1) == (1 << 63) - 1
    with pytest.raises(LimitExceeded, match="counter_max"):
        await counter.increment()
    assert await counter.get() == (1 << 63) - 1
    with pytest.raises(ValueError, match="64 bits"):
        counter.add(1 << 63)
    with pytest.raises(TypeError, match="an int, not bool"):
        counter.add(True)


@pytest.mark.parametrize("content", [b"\x00", bytes(9), b"twelve bytes"])
async def test_a_counter_of_other_bytes_is_refused(scene: SharingScene, content: bytes) -> None:
    a = await scene.node("a-1")
    assert await a.entries.create("counters/hits", content)
    counter = a.shared.counter("hits")
    for asked in (counter.get, counter.increment, lambda: counter.compare_and_set(0, 1)):
        with pytest.raises(ProtocolError, match=f"has {len(content)} bytes, which are no number"):
            await asked()


# -- locks


async def test_a_lock_has_one_holder(scene: SharingScene) -> None:
    a, b = await scene.pair()
    within: list[str] = []

    async def use(node: SharingNode) -> None:
        async with node.shared.lock("door"):
            within.append(node.name)
            assert await node.shared.counter("inside").increment() == 1
            await node.shared.counter("inside").add(-1)
            within.append(node.name)

    await asyncio.gather(*[use(node) for node in (a, b, a, b)])
    assert len(within) == 8
    assert within[::2] == within[1::2]


async def test_who_waits_for_a_lock_too_long_is_refused(scene: SharingScene) -> None:
    a, b = await scene.pair()
    async with a.shared.lock("door"):
        with pytest.raises(Expired, match="'door' did not come free within 50 ms"):
            await b.shared.lock("door", timeout_ms=50).acquire()
    # Nothing of the attempt is left.
    async with b.shared.lock("door") as held:
        assert not held.is_lost
    assert await a.entries.names("locks/door/leases") in ([], None)
    assert await a.entries.names("locks/door/locks") in ([], None)


async def test_a_lock_of_a_dead_node_is_free(scene: SharingScene) -> None:
    a, b = await scene.pair()
    held = await a.shared.lock("door").acquire()
    waiting = b.shared.lock("door", timeout_ms=30_000).acquire()
    await scene.scene.expire("a-1")
    theirs = await waiting
    await held.lost()
    assert held.is_lost
    assert not theirs.is_lost
    assert (a.shared.figures.locks_held, a.shared.figures.locks_lost_total) == (0, 1)
    assert (b.shared.figures.locks_held, b.shared.figures.locks_lost_total) == (1, 0)
    # A late release of the lost one does no harm to the other.
    await held.release()
    await scene.until_reached(a)
    with pytest.raises(Expired):
        await a.shared.lock("door", timeout_ms=50).acquire()
    await theirs.release()
    assert a.shared.figures.locks_held == b.shared.figures.locks_held == 0


async def test_operations_are_counted_with_those_that_fail(scene: SharingScene) -> None:
    a, b = await scene.pair()
    await a.shared.counter("hits").increment()
    async with b.shared.lock("door"):
        with pytest.raises(Expired):
            await a.shared.lock("door", timeout_ms=50).acquire()
    figures = a.shared.figures
    assert (figures.operations_total, figures.failed_total, figures.under_way) == (2, 1, 0)


async def test_a_block_whose_lock_was_lost_says_so(scene: SharingScene) -> None:
    a = await scene.node("a-1")

    async def lose() -> None:
        async with a.shared.lock("door") as held:
            lost = held.lost()
            await scene.scene.expire("a-1")
            await lost

    with pytest.raises(OwnerGone, match="the lock 'door' was lost before it was released"):
        await lose()


async def test_a_lock_is_lost_when_its_node_leaves(scene: SharingScene) -> None:
    a = await scene.node("a-1")
    held = await a.shared.lock("door").acquire()
    lost = held.lost()
    await a.membership.close()
    await lost
    assert held.is_lost


async def test_tasks_may_use_one_lock_object(scene: SharingScene) -> None:
    a = await scene.node("a-1")
    lock = a.shared.lock("door")
    first_has_lost_it, second_has_it = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with lock as held:
            lost = held.lost()
            await scene.scene.expire("a-1")
            await lost
            first_has_lost_it.set()
            await second_has_it.wait()

    async def second() -> None:
        await first_has_lost_it.wait()
        await scene.until_reached(a)
        async with lock as held:
            second_has_it.set()
            with pytest.raises(OwnerGone, match="was lost"):
                await losing
            assert not held.is_lost

    losing = asyncio.ensure_future(first())
    await second()


async def test_a_lock_can_be_awaited_lost_until_it_is_released(scene: SharingScene) -> None:
    a = await scene.node("a-1")
    async with a.shared.lock("door") as held:
        lost = held.lost()
    for asked in (lost, held.lost()):
        with pytest.raises(OwnerGone, match="has been released"):
            await asked


async def test_what_is_given_up_during_a_cut_is_removed_afterwards(scene: SharingScene) -> None:
    a, b = await scene.pair()
    held = await a.shared.lock("door").acquire()
    await scene.cut(a)
    await held.release()
    with pytest.raises(Expired):
        await b.shared.lock("door", timeout_ms=50).acquire()
    await scene.heal(a)
    await (await b.shared.lock("door", timeout_ms=30_000).acquire()).release()


async def test_a_lock_that_nobody_waits_for_any_more_is_released(scene: SharingScene) -> None:
    a, b = await scene.pair()
    held = await b.shared.lock("door").acquire()
    waiting = a.shared.lock("door").acquire()
    waiting.cancel()
    await held.release()
    await (await b.shared.lock("door").acquire()).release()


# -- maps


@pytest.mark.parametrize(
    "value",
    [
        "text ü😀\0", "", "long" * 20_000, 0, -1, 2**31, -(2**63), 1.5, True, False, b"", b"\x00\xff", {},
        {"a": [1, None]}, [], [1, "x"],
        ClusterSerializable("com.shop.Cart", b"123"), JavaSerialized(b"\xac\xed\x00\x05sr"),
    ],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
async def test_values_of_a_map_are_seen_by_all(scene: SharingScene, value: Any) -> None:
    a, b = await scene.pair()
    await a.shared.map("prices").put("key", value)
    found = await b.shared.map("prices").get("key")
    assert found == value
    assert type(found) is type(value)


async def test_keys_come_and_go(scene: SharingScene) -> None:
    a, b = await scene.pair()
    ours, theirs = a.shared.map("prices"), b.shared.map("prices")
    assert (await theirs.keys(), await theirs.size(), await theirs.items()) == ([], 0, {})
    keys: list[Key] = ["rice", "", "a/b", "ü😀", 5, -(2**40)]
    for number, key in enumerate(keys):
        await ours.put(key, number)
    assert set(await theirs.keys()) == set(keys)
    assert await theirs.items() == {key: number for number, key in enumerate(keys)}
    assert await theirs.size() == len(keys)
    assert await theirs.remove("a/b") == 2
    assert await theirs.remove("a/b") is None
    assert await ours.get("a/b") is None
    assert await a.shared.map("others").size() == 0
    await theirs.clear()
    assert await ours.keys() == []
    await ours.put("rice", 1)
    assert await theirs.keys() == ["rice"]


async def test_values_are_replaced_and_put_where_none_is(scene: SharingScene) -> None:
    a, b = await scene.pair()
    ours, theirs = a.shared.map("prices"), b.shared.map("prices")
    assert await ours.replace("rice", 1) is None
    assert await ours.get("rice") is None
    assert await ours.put_if_absent("rice", 1) is None
    assert await theirs.put_if_absent("rice", 2) == 1
    assert await theirs.replace("rice", 3) == 1
    assert not await ours.replace_if_present("rice", 1, 9)
    assert await ours.replace_if_present("rice", 3, 4)
    assert not await theirs.replace_if_present("tea", 3, 4)
    assert not await theirs.remove_if_present("rice", 3)
    assert await theirs.remove_if_present("rice", 4)
    assert await ours.get("rice") is None


async def test_of_those_that_put_where_none_is_one_wins(scene: SharingScene) -> None:
    a, b = await scene.pair()
    found = await asyncio.gather(
        *[node.shared.map("owners").put_if_absent("door", node.name) for _ in range(5) for node in (a, b)]
    )
    winner = await a.shared.map("owners").get("door")
    assert sorted(found, key=str) == [None] + [winner] * 9 or sorted(found, key=str) == [winner] * 9 + [None]


@pytest.mark.parametrize("codec", ["byte", "short", "int", "long", "float", "double", "char", "bytearray", "string"])
async def test_a_map_may_have_values_of_one_type_of_java(scene: SharingScene, codec: str) -> None:
    a = await scene.node("a-1")
    value: Any = {"char": "ä", "bytearray": b"12", "string": "s", "float": 1.5, "double": 2.5}.get(codec, 7)
    prices = a.shared.map("prices", codec=codec)
    await prices.put("key", value)
    assert await prices.get("key") == value
    with pytest.raises((TypeError, ValueError)):
        prices.put("key", {})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("AKztAAV0AAJrMA==", b""),
        ("AKztAAV0AAJrMA==", b"\x02"),
        ("AKztAAV0AAJrMA==", b"\x00\xac\xed\x00\x05t\x00\x09abc"),
        ("AKztAAV0AAJrMA==", b"\x01\x00\x1dio.vertx.core.json.JsonObject\x00\x00\x00\x05\x00\x00\x00\x01["),
    ],
)
async def test_values_that_no_map_has_written_are_refused(scene: SharingScene, name: str, content: bytes) -> None:
    a = await scene.node("a-1")
    assert await a.entries.create(f"asyncMap/prices/{name}", content)
    prices = a.shared.map("prices")
    assert await prices.keys() == ["k0"]
    for asked in (lambda: prices.get("k0"), lambda: prices.put_if_absent("k0", 1), prices.items):
        with pytest.raises(ProtocolError):
            await asked()
    # It can be written over.
    await prices.put("k0", 1)
    assert await prices.get("k0") == 1


@pytest.mark.parametrize("name", ["no base64!", "ü", "AAAA", "AKztAAVzcgARamF2YS5sYW5nLkJvb2xlYW4="])
async def test_keys_that_no_map_has_written_are_refused(scene: SharingScene, name: str) -> None:
    a = await scene.node("a-1")
    assert await a.entries.create(f"asyncMap/prices/{name}", b"")
    with pytest.raises(ProtocolError):
        await a.shared.map("prices").keys()


# -- bounds


async def test_values_and_keys_have_bounds(scene: SharingScene) -> None:
    a, b = await scene.pair()
    prices = a.shared.map("prices")
    largest = "x" * (CONTENT_BYTES_MAX - 14)
    await prices.put("k" * (KEY_BYTES_MAX - 8), largest)
    assert await b.shared.map("prices").get("k" * (KEY_BYTES_MAX - 8)) == largest
    with pytest.raises(LimitExceeded, match="value_bytes_max"):
        prices.put("key", largest + "x")
    with pytest.raises(LimitExceeded, match="key_bytes_max"):
        prices.put("k" * (KEY_BYTES_MAX - 7), 1)
    with pytest.raises(LimitExceeded, match="name_bytes_max"):
        a.shared.map("n" * (NAME_BYTES_MAX + 1))
    for value in (None, object(), {1, 2}, 2**63):
        with pytest.raises((TypeError, ValueError)):
            prices.put("key", value)
    for key in (None, True, 1.5, b"k"):
        with pytest.raises(TypeError, match="a key of a shared map"):
            prices.get(key)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cannot have the codec 'ping'"):
        a.shared.map("prices", codec="ping")
    with pytest.raises(ValueError, match="at least 1"):
        a.shared.lock("door", timeout_ms=0)


@pytest.mark.parametrize("name", ["", "a/b", ".", "..", "zookeeper", "a\x00"])
async def test_names_that_zookeeper_cannot_keep_are_refused(name: str) -> None:
    async with Runtime(blocked_limits=None) as runtime, EventBus(runtime) as bus:
        for make in (bus.shared.counter, bus.shared.lock, bus.shared.map):
            with pytest.raises(UsageError, match="cannot be the name of a shared"):
                make(name)


# -- entries, which all of it is made of


async def test_changes_are_made_together_or_not_at_all(scene: SharingScene) -> None:
    a, b = await scene.pair()
    assert await a.entries.create("x/one", b"1")
    assert await a.entries.create("x/two", b"2")
    assert not await b.entries.change([WriteEntry("x/one", b"9", 0), RemoveEntry("x/two", 7)])
    assert not await b.entries.change([WriteEntry("x/one", b"9", 0), CreateEntry("x/two", b"9"), RemoveEntry("x/two")])
    assert await a.entries.read("x/one") == (b"1", 0)
    assert await b.entries.change(
        [CreateEntry("x/new", b""), RemoveEntry("x/new"), WriteEntry("x/one", b"9", 0), RemoveEntry("x/two", 0)]
    )
    assert await a.entries.read("x/one") == (b"9", 1)
    assert await a.entries.names("x") == ["one"]


async def test_watches_tell_of_the_next_change(scene: SharingScene) -> None:
    a, b = await scene.pair()
    assert await a.entries.create("x/one", b"1")
    names, content = asyncio.Event(), asyncio.Event()
    assert await b.entries.names("x", names.set) == ["one"]
    assert await b.entries.read("x/one", content.set) == (b"1", 0)
    assert await a.entries.write("x/one", b"2")
    await content.wait()
    assert not names.is_set()
    assert await a.entries.create("x/two", b"")
    await names.wait()


# -- faults


async def test_a_node_that_is_cut_off_says_so_and_goes_on_afterwards(scene: SharingScene) -> None:
    a, b = await scene.pair()
    await a.shared.counter("hits").increment()
    await scene.cut(a)
    for asked in (
        a.shared.counter("hits").get,
        a.shared.lock("door").acquire,
        lambda: a.shared.map("prices").put("rice", 1),
    ):
        with pytest.raises(CoordinatorUnavailable):
            await asked()
    assert await b.shared.counter("hits").increment() == 2
    await scene.heal(a)
    assert await a.shared.counter("hits").increment() == 3


async def test_a_request_at_the_moment_of_a_cut_is_answered(scene: SharingScene) -> None:
    """kazoo keeps it for the next connection, which may never come."""
    a = await scene.node("a-1")
    entries: Any = a.entries
    connection = getattr(entries, "_client", None)
    if connection is None:
        pytest.skip("in memory nothing is under way")
    lost = asyncio.Event()
    loop = asyncio.get_running_loop()
    connection.add_listener(lambda state: loop.call_soon_threadsafe(lost.set))
    changed = entries.session_changed
    entries.session_changed = lambda *news: None  # it has not heard yet
    await scene.scene.cut("a-1")
    await lost.wait()
    asked = asyncio.ensure_future(a.shared.counter("hits").increment())
    await turning_until(lambda: entries._asked)
    changed(connection, SessionState.SUSPENDED)
    with pytest.raises(CoordinatorUnavailable, match="the connection with ZooKeeper has ended"):
        await asked


async def test_a_node_that_has_left_says_so(scene: SharingScene) -> None:
    a = await scene.node("a-1")
    await a.membership.close()
    with pytest.raises(OwnerGone, match="has left the cluster"):
        await a.shared.counter("hits").get()


async def test_a_bus_alone_shares_within_its_process() -> None:
    async with Runtime(blocked_limits=None) as runtime, EventBus(runtime) as bus:
        assert await bus.shared.counter("hits").increment() == 1
        async with bus.shared.lock("door"):
            await bus.shared.map("prices").put("rice", [1])
        assert await bus.shared.map("prices").get("rice") == [1]


async def test_handlers_on_threads_may_block_for_it() -> None:
    async with Runtime(blocked_limits=None) as runtime, EventBus(runtime) as bus:
        context = runtime.context(ContextKind.WORKER, name="worker")
        bus.consumer("count", lambda message: bus.shared.counter("hits").increment().result(10), context=context)
        assert (await bus.request("count")).body == 1


async def test_a_bus_that_is_closed_ends_those_that_wait() -> None:
    async with Runtime(blocked_limits=None) as runtime:
        bus = EventBus(runtime)
        await bus.shared.lock("door").acquire()
        waiting = bus.shared.lock("door").acquire()
        await bus.close()
        with pytest.raises(HutongError):
            await waiting
