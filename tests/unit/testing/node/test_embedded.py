"""An embedded node as a test uses it: helpers that wait, what they say when nothing comes, its lives, what is left."""

import asyncio
import contextlib
import gc
import socket
import tempfile
import threading
import unittest
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.broker.wire_node import client_of

from hutong.foundation.errors import Refused, UsageError
from hutong.server.configuration.loader import parse_address
from hutong.testing import EmbeddedNode, Topic, WaitFailed
from hutong.wire.kafka.batch import records as batches
from hutong.wire.kafka.batch.compression import Compression


@pytest.fixture(scope="module")
def shared() -> Iterator[EmbeddedNode]:
    with EmbeddedNode() as node:
        yield node


@pytest.fixture
def topic(shared: EmbeddedNode, request: pytest.FixtureRequest) -> str:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    shared.create_topic(name, partitions=2)
    return name


def connect(node: EmbeddedNode) -> socket.socket:
    host, port = node.bootstrap.split(":")
    return socket.create_connection((host, int(port)), timeout=10)


# -- records


def test_a_record_comes_back_with_all_that_it_carried(shared: EmbeddedNode, topic: str) -> None:
    headers: list[tuple[str, str | bytes | None]] = [("trace", "abc"), ("trace", b"again"), ("none", None)]
    (sent,) = shared.produce(
        topic, '{"id": 7}', key="seven", headers=headers, partition=1, timestamp_ms=1_700_000_000_123
    )
    (record,) = shared.records(topic, count=1)
    assert record == sent
    assert (record.topic, record.partition, record.offset) == (topic, 1, 0)
    assert (record.key, record.value, record.timestamp_ms) == (b"seven", b'{"id": 7}', 1_700_000_000_123)
    assert record.headers == (("trace", b"abc"), ("trace", b"again"), ("none", None))
    assert (record.text, record.json(), record.header("trace"), record.header("no")) == (
        '{"id": 7}',
        {"id": 7},
        b"again",
        None,
    )


def test_records_are_given_partition_by_partition(shared: EmbeddedNode, topic: str) -> None:
    shared.produce(topic, "b1", "b2", partition=1)
    shared.produce(topic, "a1", None, partition=0)
    assert [record.value for record in shared.records(topic)] == [b"a1", None, b"b1", b"b2"]
    assert [record.text for record in shared.records(topic, partition=1)] == ["b1", "b2"]
    assert shared.records(topic, count=0) == shared.records(topic)


def test_equal_keys_lie_in_one_partition(shared: EmbeddedNode, topic: str) -> None:
    for value in ("1", "2", "3"):
        for key in ("a", "b", "c", "d"):
            shared.produce(topic, value, key=key)
    places: dict[bytes | None, set[int]] = {}
    for record in shared.records(topic, count=12):
        places.setdefault(record.key, set()).add(record.partition)
    assert [len(partitions) for partitions in places.values()] == [1, 1, 1, 1]


def test_records_that_come_later_are_waited_for(shared: EmbeddedNode, topic: str) -> None:
    def later() -> None:
        shared.wait_for_lag("nobody", topic, timeout=0)  # there is nothing: no lag
        shared.produce(topic, "first", partition=0)
        shared.produce(topic, "second", partition=1)

    helper = threading.Thread(target=later)
    helper.start()
    assert [record.text for record in shared.records(topic, count=2, timeout=10)] == ["first", "second"]
    helper.join()


def test_a_topic_that_comes_later_is_waited_for(shared: EmbeddedNode) -> None:
    helper = threading.Thread(target=lambda: shared.produce("comes-later", "x"))
    helper.start()
    assert len(shared.records("comes-later", count=1, timeout=10)) == 1
    helper.join()


def test_more_than_one_fetch_brings_is_read_whole(shared: EmbeddedNode, topic: str) -> None:
    big = bytes(900_000)
    for _ in range(12):
        shared.produce(topic, big, partition=0)
    assert len(shared.records(topic, count=12)) == 12


async def test_compressed_records_are_unpacked(shared: EmbeddedNode, topic: str) -> None:
    written = [batches.Record(timestamp_ms=1_700_000_000_000, value=b"packed " * 50) for _ in range(3)]
    async with client_of(parse_address(shared.bootstrap)) as client:
        batch = batches.build_batch(written, compression=Compression.GZIP)
        assert (await client.produce(batch, topic)).error_code == 0
    assert [record.value for record in await shared.aio.records(topic, count=3)] == [b"packed " * 50] * 3


def test_what_is_missing_is_told_with_what_is_there(shared: EmbeddedNode, topic: str) -> None:
    shared.produce(topic, "x" * 200, *(str(number) for number in range(11)), key="k", headers={"h": "v"}, partition=0)
    with pytest.raises(WaitFailed) as failed:
        shared.records(topic, count=13, timeout=0.02)
    told = str(failed.value).splitlines()
    assert told[0] == f"13 records of {topic} did not come within 0.02 s; there are 12:"
    assert told[1].startswith(f"  {topic}/0@0 key=b'k' value=b'xxx")
    assert told[1].endswith("... h=b'v'")
    assert told[-1] == "  ... and 2 more"
    assert isinstance(failed.value, AssertionError)


def test_a_missing_topic_or_partition_is_told(shared: EmbeddedNode, topic: str) -> None:
    with pytest.raises(WaitFailed, match=rf"(?s)there is no topic odrers; there are.*{topic}"):
        shared.records("odrers", count=1, timeout=0.02)
    with pytest.raises(WaitFailed, match="has no partition 7, it has 2"):
        shared.records(topic, partition=7)
    with pytest.raises(Refused, match=f"cannot produce to {topic}/7: .*UNKNOWN_TOPIC_OR_PARTITION"):
        shared.produce(topic, "x", partition=7)
    with pytest.raises(TypeError, match="not dict: encode it first"):
        shared.produce(topic, {"id": 1})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one value"):
        shared.produce(topic)


def test_topics_are_made_described_and_deleted(shared: EmbeddedNode) -> None:
    shared.create_topic("made", partitions=3, config={"retention.ms": "1000"})
    assert shared.topics()["made"] == 3
    with pytest.raises(Refused, match=r"cannot create the topic made: .*TOPIC_ALREADY_EXISTS"):
        shared.create_topic("made")
    with pytest.raises(Refused, match="INVALID_CONFIG"):
        shared.create_topic("other", config={"retention.mss": "1"})
    shared.delete_topic("made")
    shared.delete_topic("made")
    assert "made" not in shared.topics()


@pytest.mark.parametrize("name", ["", "with space", "x" * 250, ".", "slash/es"])
def test_an_illegal_name_is_told_at_once(name: str) -> None:
    with pytest.raises(ValueError, match="is no name for a topic"):
        Topic(name)


@pytest.mark.parametrize("partitions", [0, -1, True, "3"])
def test_an_illegal_number_of_partitions_is_told_at_once(partitions: int) -> None:
    with pytest.raises(ValueError, match="whole number of partitions"):
        Topic("t", partitions)


# -- groups


def test_a_group_that_is_not_there_is_told(shared: EmbeddedNode, topic: str) -> None:
    with pytest.raises(WaitFailed) as failed:
        shared.wait_for_group("biling", members=2, timeout=0.02)
    assert str(failed.value).startswith("group biling was not Stable with 2 members within 0.02 s; it is Dead with 0")
    assert "no such group is known" in str(failed.value)
    shared.produce(topic, "1", "2", "3", partition=1)
    with pytest.raises(WaitFailed) as lagged:
        shared.wait_for_lag("biling", topic, 1, timeout=0.02)
    assert f"group biling did not come to a lag of 1 on {topic} within 0.02 s; it lags 3 records" in str(lagged.value)
    assert "partition 1: nothing committed, 0 to 3 are there" in str(lagged.value)
    with pytest.raises(ValueError, match="Stabel is no state of a group; did you mean Stable"):
        shared.wait_for_group("biling", state="Stabel")


# -- event loops


async def test_a_helper_that_waits_does_not_stop_the_loop_of_a_test(shared: EmbeddedNode, topic: str) -> None:
    with pytest.raises(RuntimeError, match=r"await node\.aio\.records\(\.\.\.\)"):
        shared.records(topic, count=1)
    waiting = asyncio.ensure_future(shared.aio.records(topic, count=2))
    await shared.aio.produce(topic, "1")
    shared.produce(topic, "2")
    assert len(await waiting) == 2
    with pytest.raises(WaitFailed):
        await shared.aio.wait_for_group("none", timeout=0.01)
    assert len(await shared.aio.wait_for_lag("none", topic, lag=2)) == 2


async def test_an_async_with_block() -> None:
    async with EmbeddedNode(topics=["orders"]) as node:
        await node.aio.produce("orders", "x")
        await node.aio.kill()
        assert not node.is_running
        await node.aio.start()
        await node.aio.restart()
        assert len(await node.aio.records("orders")) == 1
        await node.aio.stop()
        with pytest.raises(RuntimeError, match="not running"):
            await node.aio.records("orders")


# -- lives


@pytest.mark.parametrize("in_folder", [False, True])
def test_records_and_port_outlive_stops_and_deaths(in_folder: bool, tmp_path: Path) -> None:
    with EmbeddedNode(topics=[Topic("orders", 3)], data_dir=tmp_path if in_folder else None) as node:
        bootstrap = node.bootstrap
        node.produce("orders", "1", partition=2)
        node.restart()
        node.produce("orders", "2", partition=2)
        node.kill()
        with pytest.raises(ConnectionRefusedError):
            connect(node)
        with pytest.raises(RuntimeError, match="not running"):
            node.records("orders")
        node.start()
        node.produce("orders", "3", partition=2)
        node.stop()
        node.start().start()
        assert [record.text for record in node.records("orders")] == ["1", "2", "3"]
        assert node.bootstrap == bootstrap
        assert node.topics() == {"orders": 3}
    assert (tmp_path / "hutong.json").exists() == in_folder


def test_a_death_leaves_no_mark_of_a_clean_close(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedNode(topics=["orders"], data_dir=tmp_path) as node:
        node.restart()
        assert "not closed cleanly" not in caplog.text
        node.produce("orders", "x")
        node.kill()
        node.start()
        assert "not closed cleanly" in caplog.text


def test_clients_are_cut_off_by_a_death() -> None:
    with EmbeddedNode() as node, connect(node) as client:
        node.produce("t", "the connection is accepted by now")
        node.kill()
        client.settimeout(10)
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""


def test_a_port_is_kept_while_nobody_listens() -> None:
    with EmbeddedNode() as node:
        port = int(node.bootstrap.split(":")[1])
        node.stop()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))


def test_use_outside_of_its_time_is_told() -> None:
    node = EmbeddedNode()
    for use in (lambda: node.bootstrap, node.topics, node.stop, node.faults.refuse_connections):
        with pytest.raises(RuntimeError, match=r"not (open|running)"):
            use()
    node.close()
    with node:
        node.close()
        node.close()


def test_a_wrong_setting_is_told_at_once() -> None:
    with pytest.raises(UsageError, match=r"Unknown setting log\.retention_mss .*did you mean log\.retention_ms"):
        EmbeddedNode(settings={"log.retention_mss": "1"})
    with pytest.raises(UsageError, match=r"kafka\.listen is the embedded node's own"):
        EmbeddedNode(settings={"kafka.listen": "127.0.0.1:9092"})


def test_settings_hold() -> None:
    with EmbeddedNode(settings={"topic.default_partitions": "4"}) as node:
        node.produce("made-by-use", "x")
        assert node.topics() == {"made-by-use": 4}


def test_the_environment_of_a_developer_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUTONG_KAFKA_LISTEN", "192.0.2.1:1")
    monkeypatch.setenv("HUTONG_NO_SUCH_SETTING", "1")
    with EmbeddedNode() as node:
        assert node.topics() == {}


# -- what is left


def interrupted_with_a_client(clients: list[socket.socket]) -> None:
    with EmbeddedNode(topics=["t"]) as node:
        clients.append(connect(node))
        node.faults.delay_answers(60_000)
        node.faults.slow_fsync(5)
        raise KeyboardInterrupt


def test_nothing_is_left_behind_whatever_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))  # apart from other processes
    threads = set(threading.enumerate())
    clients: list[socket.socket] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted_with_a_client(clients)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="Cannot use the data folder"):
        EmbeddedNode(data_dir=tmp_path / "file").start()
    with EmbeddedNode(data_dir=tmp_path / "one") as first:
        second = EmbeddedNode(data_dir=tmp_path / "one")
        with pytest.raises(UsageError, match="in use by another node"):
            second.start()
        second.close()
        first.kill()
    clients[0].settimeout(10)
    assert clients[0].recv(1) == b""
    clients[0].close()
    gc.collect()  # a socket or a folder that was dropped warns here, and a warning is an error
    assert set(threading.enumerate()) == threads
    assert list(temporary.iterdir()) == []


class UnittestUsers(unittest.TestCase):
    """The way of unittest."""

    def setUp(self) -> None:
        self.node = EmbeddedNode(topics=["orders"]).start()
        self.addCleanup(self.node.close)

    def test_a_record_arrives(self) -> None:
        self.node.produce("orders", "x")
        self.assertEqual(self.node.records("orders", count=1)[0].text, "x")  # noqa: PT009  # their way
