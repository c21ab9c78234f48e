"""What every coordinator does: in memory, and by a real ZooKeeper."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.support.zookeeper import running_zookeeper
from tests.unit.cluster.coordinator.listening import Listening, compare_and_set
from tests.unit.cluster.coordinator.scenes import CoordinatorScene, MemoryScene, ZooKeeperScene

from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper
from hutong.cluster.coordinator.port import Coordinator, NodeRegistration, SessionState
from hutong.foundation.errors import CoordinatorUnavailable, Refused, UsageError
from hutong.wire.kafka.error_codes import ErrorCode

DESCRIPTION = b'{"peer":{"host":"127.0.0.1","port":9094},"listeners":{}}'


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevelopmentZooKeeper]:
    yield from running_zookeeper(tmp_path_factory.mktemp("zookeeper"))


@pytest.fixture(params=["memory", pytest.param("zookeeper", marks=pytest.mark.fault)])
async def scene(request: pytest.FixtureRequest) -> AsyncIterator[CoordinatorScene]:
    is_memory = request.param == "memory"
    made: CoordinatorScene = MemoryScene() if is_memory else ZooKeeperScene(request.getfixturevalue("zookeeper"))
    yield made
    await made.close()


def registration(node: int, life: int = 0) -> NodeRegistration:
    return NodeRegistration(node, 1_000 * node + life, DESCRIPTION)


async def started(scene: CoordinatorScene, node: int, life: int = 0) -> tuple[Coordinator, Listening]:
    coordinator, heard = await scene.coordinator(node), Listening()
    await coordinator.start(registration(node, life), f"id-{node}", heard)
    await heard.until_state(SessionState.CONNECTED)
    return coordinator, heard


async def test_the_first_node_gives_the_cluster_its_id(scene: CoordinatorScene) -> None:
    first, second = await scene.coordinator(1), await scene.coordinator(2)
    assert await first.start(registration(1), "first", Listening()) == "first"
    assert await second.start(registration(2), "second", Listening()) == "first"
    await second.close()
    await first.close()
    third = await scene.coordinator(3)
    assert await third.start(registration(3), "third", Listening()) == "first"
    await third.close()


async def test_a_node_of_another_cluster_is_refused_before_it_registers(scene: CoordinatorScene) -> None:
    first, heard = await started(scene, 1)
    other = await scene.coordinator(2)
    with pytest.raises(UsageError, match=r"belongs to the cluster elsewhere, and .* has the cluster id-1"):
        await other.start(registration(2), "elsewhere", Listening(), may_join=False)
    await other.close()
    again = await scene.coordinator(2)
    assert await again.start(registration(2), "id-1", Listening(), may_join=False) == "id-1"
    await heard.until_members(1, 2)
    await again.close()
    await first.close()


async def test_nodes_hear_of_each_other(scene: CoordinatorScene) -> None:
    first, first_heard = await started(scene, 1)
    await first_heard.until_members(1)
    second, second_heard = await started(scene, 2)
    await first_heard.until_members(1, 2)
    await second_heard.until_members(1, 2)
    assert second_heard.members[1] == registration(1)
    await second.close()
    await first_heard.until_members(1)
    await first.close()


async def test_a_node_describes_itself_in_another_way(scene: CoordinatorScene) -> None:
    first, first_heard = await started(scene, 1)
    second, second_heard = await started(scene, 2)
    await first_heard.until_members(1, 2)
    second.describe(b'{"other":true}')
    for heard in (first_heard, second_heard):
        await heard.until(lambda heard: 2 in heard.members and heard.members[2].description == b'{"other":true}')
    await scene.expire(2)
    await second_heard.until(lambda heard: SessionState.LOST in heard.states)
    await second_heard.until_state(SessionState.CONNECTED)
    await second_heard.until(lambda heard: 2 in heard.members and heard.members[2].description == b'{"other":true}')
    await first.close()
    await second.close()


async def test_the_register_is_written_by_one_of_two(scene: CoordinatorScene) -> None:
    first, first_heard = await started(scene, 1)
    second, second_heard = await started(scene, 2)
    await first_heard.until(lambda heard: heard.register.version == 0)
    outcomes = await asyncio.gather(
        compare_and_set(first, 0, b"one"), compare_and_set(second, 0, b"two"), return_exceptions=True
    )
    [refused] = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
    [written] = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert refused.code == ErrorCode.INVALID_UPDATE_VERSION
    assert written.version == 1
    for heard in (first_heard, second_heard):
        await heard.until(lambda heard: heard.register == written)
    with pytest.raises(Refused):
        await compare_and_set(first, 2, b"from the future")
    assert (await compare_and_set(second, 1, b"next")).version == 2
    for heard in (first_heard, second_heard):
        await heard.until(lambda heard: heard.register.version == 2 and heard.register.value == b"next")
        assert heard.registers == sorted(heard.registers)
    await first.close()
    await second.close()


async def test_a_node_that_is_cut_off_for_a_moment_keeps_its_registration(scene: CoordinatorScene) -> None:
    first, first_heard = await started(scene, 1)
    second, second_heard = await started(scene, 2)
    await first_heard.until_members(1, 2)
    calls = first_heard.calls
    await scene.suspend(2)
    await second_heard.until_state(SessionState.SUSPENDED)
    with pytest.raises(CoordinatorUnavailable):
        await compare_and_set(second, 0, b"cut off")
    await scene.resume(2)
    await second_heard.until_state(SessionState.CONNECTED)
    assert second_heard.states == [SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.CONNECTED]
    assert first_heard.calls == calls, "nobody else has noticed"
    await first.close()
    await second.close()


async def test_what_was_missed_is_heard_after_a_cut(scene: CoordinatorScene) -> None:
    first, _ = await started(scene, 1)
    second, second_heard = await started(scene, 2)
    await scene.suspend(2)
    await second_heard.until_state(SessionState.SUSPENDED)
    third, _ = await started(scene, 3)
    await compare_and_set(first, 0, b"meanwhile")
    await scene.resume(2)
    await second_heard.until_members(1, 2, 3)
    await second_heard.until(lambda heard: heard.register.value == b"meanwhile")
    for coordinator in (first, second, third):
        await coordinator.close()


async def test_a_node_that_is_cut_off_for_long_registers_anew(scene: CoordinatorScene) -> None:
    first, first_heard = await started(scene, 1)
    second, second_heard = await started(scene, 2)
    await first_heard.until_members(1, 2)
    await scene.suspend(2)
    await first_heard.until_members(1)
    await scene.resume(2)
    await second_heard.until(lambda heard: SessionState.LOST in heard.states)
    await second_heard.until_state(SessionState.CONNECTED)
    await first_heard.until_members(1, 2)
    assert first_heard.members[2] == registration(2), "the same life of the same process"
    assert (await compare_and_set(second, 0, b"again")).version == 1
    await first.close()
    await second.close()


async def test_an_expired_session_is_begun_anew(scene: CoordinatorScene) -> None:
    first, first_heard = await started(scene, 1)
    second, second_heard = await started(scene, 2)
    await first_heard.until_members(1, 2)
    await scene.expire(2)
    await second_heard.until(lambda heard: SessionState.LOST in heard.states)
    await second_heard.until_state(SessionState.CONNECTED)
    await first_heard.until_members(1, 2)
    assert (await compare_and_set(second, 0, b"again")).version == 1
    await first.close()
    await second.close()


async def test_a_dead_process_leaves_its_number_to_the_next(scene: CoordinatorScene) -> None:
    first, first_heard = await started(scene, 1)
    _, second_heard = await started(scene, 2)
    await first_heard.until_members(1, 2)
    await scene.vanish(2)
    calls = second_heard.calls
    second, _ = await started(scene, 2, life=1)
    await first_heard.until(lambda heard: 2 in heard.members and heard.members[2] == registration(2, 1))
    await first.close()
    await second.close()
    assert second_heard.states[:2] == [SessionState.CONNECTED, SessionState.SUSPENDED][: len(second_heard.states)]
    assert second_heard.calls - calls <= 1


async def test_a_number_that_is_taken_is_refused(scene: CoordinatorScene) -> None:
    first, first_heard = await started(scene, 1)
    other = await scene.coordinator(1)
    with pytest.raises(UsageError, match=r"Another process is node 1 .*node\.id"):
        await other.start(registration(1, 1), "other", Listening())
    await other.close()
    assert first_heard.states == [SessionState.CONNECTED]
    assert (await compare_and_set(first, 0, b"mine")).version == 1
    await first.close()


async def test_sessions_survive_an_outage(scene: CoordinatorScene) -> None:
    first, first_heard = await started(scene, 1)
    second, second_heard = await started(scene, 2)
    await first_heard.until_members(1, 2)
    await compare_and_set(first, 0, b"before")
    await scene.stop()
    for heard in (first_heard, second_heard):
        await heard.until_state(SessionState.SUSPENDED)
    with pytest.raises(CoordinatorUnavailable):
        await compare_and_set(first, 1, b"during")
    await scene.start()
    for heard in (first_heard, second_heard):
        await heard.until_state(SessionState.CONNECTED)
        assert SessionState.LOST not in heard.states
    assert (await compare_and_set(second, 1, b"after")).version == 2
    await first_heard.until(lambda heard: heard.register.value == b"after")
    await first.close()
    await second.close()


async def test_one_that_dies_in_an_outage_is_gone_a_session_after_it(scene: CoordinatorScene) -> None:
    first, first_heard = await started(scene, 1)
    await started(scene, 2)
    await first_heard.until_members(1, 2)
    await scene.stop()
    await first_heard.until_state(SessionState.SUSPENDED)
    await scene.vanish(2)
    await scene.start()
    await first_heard.until_members(1)
    await first.close()


async def test_nothing_is_heard_after_a_close(scene: CoordinatorScene) -> None:
    first, _ = await started(scene, 1)
    second, second_heard = await started(scene, 2)
    outcomes: list[object] = []
    second.compare_and_set(0, b"late", outcomes.append)
    await second.close()
    assert len(outcomes) == 1, "it is settled before the close ends"
    calls = second_heard.calls
    heard = Listening()
    third = await scene.coordinator(3)
    await third.start(registration(3), "third", heard)
    await heard.until_members(1, 3)
    assert second_heard.calls == calls
    await first.close()
    await third.close()


async def test_a_start_can_be_given_up(scene: CoordinatorScene) -> None:
    first, _ = await started(scene, 1)
    other = await scene.coordinator(1)
    start = asyncio.create_task(other.start(registration(1, 1), "other", Listening()))
    await asyncio.sleep(0)
    start.cancel()
    await other.close()
    await asyncio.gather(start, return_exceptions=True)
    assert start.cancelled()
    await first.close()


async def test_a_coordinator_that_is_cut_off_can_be_closed(scene: CoordinatorScene) -> None:
    coordinator, heard = await started(scene, 1)
    await scene.suspend(1)
    await heard.until_state(SessionState.SUSPENDED)
    await coordinator.close()
    assert heard.states == [SessionState.CONNECTED, SessionState.SUSPENDED]
