"""Fault switches, as a client that says exactly what it is told to say meets them."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from tests.support.waiting import until
from tests.unit.broker.wire_node import WireClient, batch_of, client_of

from hutong.broker.topics.lifetimes import STATE_GROUPS, data_groups
from hutong.foundation.errors import Refused
from hutong.server.configuration.loader import parse_address
from hutong.testing import EmbeddedNode, WaitFailed
from hutong.testing.disks.faults import FaultPlan
from hutong.testing.faults.switches import FaultSwitches
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest
from hutong.wire.kafka.error_codes import ErrorCode

CLIENT_ID = "test"  # of WireClient
NOW_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def running() -> Iterator[EmbeddedNode]:
    with EmbeddedNode(topics=["t"]) as node:
        yield node


@pytest.fixture
def node(running: EmbeddedNode) -> Iterator[EmbeddedNode]:
    running.delete_topic("t")
    running.create_topic("t")
    yield running
    running.faults.heal()


@pytest.fixture
async def client(node: EmbeddedNode) -> AsyncIterator[WireClient]:
    async with client_of(parse_address(node.bootstrap)) as client:
        await client.ask(MetadataRequest(), 9)  # it has said its name
        yield client


def batch(*values: bytes) -> bytes:
    return batch_of(*values, timestamp_ms=NOW_MS)


async def is_cut_off(client: WireClient) -> bool:
    try:
        return await client.is_closed()
    except ConnectionResetError:
        return True


# -- connections


async def test_new_connections_are_refused_and_open_ones_stay(node: EmbeddedNode, client: WireClient) -> None:
    with node.faults.refuse_connections() as refusing:
        for _ in range(2):
            async with client_of(parse_address(node.bootstrap)) as refused:
                assert await is_cut_off(refused)
        assert refusing.hits == 2
        assert (await client.produce(batch(b"1"))).error_code == 0
    async with client_of(parse_address(node.bootstrap)) as admitted:
        assert (await admitted.produce(batch(b"2"))).base_offset == 1


async def test_connections_of_one_client_are_cut_off(node: EmbeddedNode, client: WireClient) -> None:
    assert node.faults.drop_connections("another") == 0
    assert (await client.produce(batch(b"1"))).error_code == 0
    assert node.faults.drop_connections(CLIENT_ID) == 1
    assert await is_cut_off(client)


async def test_all_connections_are_cut_off(node: EmbeddedNode, client: WireClient) -> None:
    async with client_of(parse_address(node.bootstrap)) as other:
        await other.ask(MetadataRequest(), 9)
        assert node.faults.drop_connections() == 2
        assert await is_cut_off(client)
        assert await is_cut_off(other)


# -- answers


async def test_an_answer_that_is_lost_was_given_all_the_same(node: EmbeddedNode, client: WireClient) -> None:
    lost = node.faults.lose_answers(api="Produce")
    with contextlib.suppress(ConnectionResetError, asyncio.IncompleteReadError):
        await client.produce(batch(b"1"))
        pytest.fail("an answer came")
    assert lost.hits == 1
    async with client_of(parse_address(node.bootstrap)) as again:
        assert (await again.produce(batch(b"1"))).base_offset == 1
    assert [record.text for record in await node.aio.records("t")] == ["1", "1"]


async def test_answers_that_are_late_keep_their_order_and_leave_when_healed(
    node: EmbeddedNode, client: WireClient
) -> None:
    late = node.faults.delay_answers(3_600_000, api="Produce")
    producing = asyncio.ensure_future(client.produce(batch(b"1")))
    assert len(await node.aio.records("t", count=1)) == 1  # it is carried out at once
    client.send(MetadataRequest(), 9)
    assert not producing.done()
    assert late.hits == 1
    node.faults.heal()
    assert (await producing).base_offset == 0
    assert (await client.receive(3, 9)).error_code == 0


async def test_a_short_delay_passes_by_itself(node: EmbeddedNode, client: WireClient) -> None:
    loop = asyncio.get_running_loop()
    node.faults.delay_answers(50, times=1, client_id=CLIENT_ID)
    begun_s = loop.time()
    await client.ask(MetadataRequest(), 9)
    assert loop.time() - begun_s >= 0.049
    await client.ask(MetadataRequest(), 9)


async def test_requests_are_refused_so_many_times_and_not_carried_out(node: EmbeddedNode, client: WireClient) -> None:
    for _ in range(3):  # the third finds the short way of requests that repeat themselves
        assert (await client.produce(batch(b"before"))).error_code == 0
    refusing = node.faults.refuse_requests("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    for _ in range(2):
        answer = await client.produce(batch(b"refused"))
        assert (answer.index, answer.error_code) == (0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert (await client.produce(batch(b"after"))).base_offset == 3
    assert refusing.hits == 2
    assert {record.text for record in await node.aio.records("t")} == {"before", "after"}


async def test_a_produce_without_an_answer_is_refused_by_closing(node: EmbeddedNode, client: WireClient) -> None:
    node.faults.refuse_requests("Produce", "CORRUPT_MESSAGE")
    with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
        await client.produce(batch(b"x"), acks=0)
    assert await node.aio.records("t") == []


async def test_a_fault_for_one_client_spares_the_others(node: EmbeddedNode, client: WireClient) -> None:
    spared = node.faults.refuse_requests("Produce", client_id="another", times=None)
    assert (await client.produce(batch(b"1"))).error_code == 0
    assert spared.hits == 0
    struck = node.faults.refuse_requests("Fetch", 9, client_id=CLIENT_ID, times=None)
    assert (await client.fetch(0)).error_code == ErrorCode.REPLICA_NOT_AVAILABLE
    struck.heal()
    struck.heal()
    assert (await client.fetch(0)).error_code == 0


async def test_heartbeats_are_refused_at_the_top(node: EmbeddedNode, client: WireClient) -> None:
    node.faults.refuse_requests("Heartbeat", "REBALANCE_IN_PROGRESS")
    answer = await client.ask(HeartbeatRequest("g", 1, "m"), 3)
    assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS


async def test_helpers_work_beyond_a_broken_network(node: EmbeddedNode) -> None:
    node.faults.refuse_connections()
    node.faults.refuse_requests("Produce", times=None)
    await node.aio.produce("t", "x")
    assert len(await node.aio.records("t", count=1)) == 1


async def test_a_fault_that_strikes_is_waited_for(node: EmbeddedNode, client: WireClient) -> None:
    refusing = node.faults.refuse_connections()
    with pytest.raises(WaitFailed, match=r"the fault was to strike 1 time within 0\.01 s: 0 times"):
        await node.aio.wait_for_fault(refusing, timeout=0.01)
    async with client_of(parse_address(node.bootstrap)):
        await node.aio.wait_for_fault(refusing)
    with pytest.raises(RuntimeError, match=r"await node\.aio\.wait_for_fault"):
        node.wait_for_fault(refusing)


@pytest.mark.parametrize(
    ("throw", "told"),
    [
        (lambda node: node.faults.refuse_requests("Prodce"), "no API that this switch knows .did you mean Produce"),
        (lambda node: node.faults.refuse_requests("Metadata"), "no API that this switch knows"),
        (lambda node: node.faults.refuse_requests("Produce", "NOT_LEADER"), "no error of Kafka's"),
        (lambda node: node.faults.refuse_requests("Produce", 9999), "no error of Kafka's"),
        (lambda node: node.faults.lose_answers(api="fetch"), "did you mean Fetch"),
        (lambda node: node.faults.lose_answers(times=0), "once or more"),
        (lambda node: node.faults.delay_answers(-1), "cannot be delayed"),
        (lambda node: node.faults.fail_fsync("record"), "choose everything, records, offsets, topics"),
    ],
)
def test_a_wrong_switch_is_told(node: EmbeddedNode, throw: Callable[[EmbeddedNode], object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        throw(node)


# -- the disk


async def test_a_failed_flush_fails_what_waits_for_it_until_a_restart() -> None:
    with EmbeddedNode(topics=["t"]) as node:
        async with client_of(parse_address(node.bootstrap)) as client:
            assert (await client.produce(batch(b"sound"))).error_code == 0
            with node.faults.fail_fsync("records", times=1) as failing:
                assert (await client.produce(batch(b"lost"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert failing.hits == 1
            assert (await client.produce(batch(b"still broken"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        node.faults.heal()
        await node.aio.restart()
        async with client_of(parse_address(node.bootstrap)) as client:
            assert (await client.produce(batch(b"sound again"))).error_code == 0
        texts = [record.text for record in await node.aio.records("t")]
        assert (texts[0], texts[-1]) == ("sound", "sound again")


def test_records_are_in_all_groups_of_topics_and_in_no_other() -> None:
    plan = FaultPlan()
    switches = FaultSwitches(lambda work: pytest.fail(f"{work} is no matter of disks"), plan)
    groups = (*STATE_GROUPS, *data_groups(3))
    with switches.fail_fsync("records"):
        struck = [name for name in groups if plan.strike("flush", Path(f"/data/groups/{name}/0.log"))]
    assert struck == list(data_groups(3))


async def test_a_full_disk_takes_nothing_until_there_is_space() -> None:
    with EmbeddedNode(topics=["t"]) as node:
        node.produce("t", "before")
        with node.faults.fill_disk() as full:
            with pytest.raises(Refused, match="KAFKA_STORAGE_ERROR"):
                node.produce("t", "x" * 100_000)
            assert full.hits > 0
            assert [record.text for record in await node.aio.records("t")] == ["before"]

        def is_taken() -> bool:
            with contextlib.suppress(Refused):
                node.produce("t", "after")
                return True
            return False

        until(is_taken, between_s=0.01)  # the node looks for space by and by
        assert (await node.aio.records("t"))[-1].text == "after"


async def test_a_slow_flush_holds_back_answers_and_no_reader() -> None:
    with EmbeddedNode(topics=["t"]) as node:
        loop = asyncio.get_running_loop()
        node.faults.slow_fsync(60, "records", times=1)
        begun_s = loop.time()
        await node.aio.produce("t", "x")
        assert loop.time() - begun_s >= 0.059


def test_faults_outlive_a_restart() -> None:
    with EmbeddedNode(topics=["t"]) as node:
        node.faults.refuse_connections()
        fault = node.faults.refuse_requests("Produce", times=1)
        node.restart()
        asyncio.run(is_refused(node))
        node.faults.heal()
        assert fault.hits == 0


async def is_refused(node: EmbeddedNode) -> None:
    async with client_of(parse_address(node.bootstrap)) as client:
        assert await is_cut_off(client)


def test_switches_may_be_thrown_from_many_threads_at_once(node: EmbeddedNode) -> None:
    def throw() -> None:
        for _ in range(50):
            with node.faults.refuse_requests("Produce"), node.faults.slow_fsync(1):
                node.faults.drop_connections()

    threads = [threading.Thread(target=throw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    node.produce("t", "x")
    assert len(node.records("t", count=1)) == 1
