"""Tables in compacted topics: read whole at a start, written by one owner, whatever happens to node and owner."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from bench.raw_client import create_topic
from tests.support.confluent import producer, send
from tests.support.node import Node

from hutong.bus.durable import table as table_module
from hutong.bus.durable.kafka import KafkaLog
from hutong.bus.durable.outcomes import PublishFailed
from hutong.bus.durable.table import CLAIM_KEY, CompactedTable, TableLost
from hutong.foundation.errors import CorruptData, HutongError, UsageError

pytestmark = pytest.mark.timeout(60)
Open = Callable[[str], "asyncio.Future[tuple[CompactedTable, dict[bytes, bytes | None]]]"]


class Tables:
    """Opens tables, and closes what was opened."""

    def __init__(self, bootstrap: str) -> None:
        self._log = KafkaLog(bootstrap, settings={"reconnect.backoff.max.ms": 200, "log_level": 0})
        self._opened: list[CompactedTable] = []

    async def open(self, topic: str) -> tuple[CompactedTable, dict[bytes, bytes]]:
        rows: dict[bytes, bytes] = {}

        def apply(key: bytes, value: bytes | None) -> None:
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value

        table = self._log.table(topic)
        await table.open(apply)
        self._opened.append(table)
        return table, rows

    async def close(self) -> None:
        for table in self._opened:
            await table.close()
        await self._log.close()


def put(table: CompactedTable, key: bytes, value: bytes | None) -> "asyncio.Future[None]":
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def settled(error: HutongError | None) -> None:
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    table.put(key, value, settled)
    return future


@pytest.fixture
async def tables(bootstrap: str) -> AsyncIterator[Tables]:
    tables = Tables(bootstrap)
    yield tables
    await tables.close()


async def test_what_was_put_is_there_when_the_table_is_opened_again(tables: Tables, name: str) -> None:
    table, rows = await tables.open(name)
    assert rows == {}
    await asyncio.gather(*[put(table, b"%d" % (number % 100), b"%d" % number) for number in range(3_000)])
    await put(table, b"7", None)
    await table.close()
    again, rows = await tables.open(name)
    assert rows == {b"%d" % key: b"%d" % (2_900 + key) for key in range(100) if key != 7}
    assert again.epoch == table.epoch + 1


async def test_a_new_owner_fences_the_one_before(tables: Tables, name: str) -> None:
    first, _ = await tables.open(name)
    await put(first, b"a", b"1")
    second, rows = await tables.open(name)
    assert rows == {b"a": b"1"}
    with pytest.raises(TableLost, match="another owner"):
        await put(first, b"a", b"2")
    with pytest.raises(TableLost):
        put(first, b"b", b"3")
    await put(second, b"c", b"4")
    await put(second, b"c", b"5")
    assert second.failure is None, "what the first wrote too late does not trouble the second"


async def test_of_two_that_open_at_once_one_stays(tables: Tables, name: str) -> None:
    opened = [table for table, _ in await asyncio.gather(*[tables.open(name) for _ in range(4)])]
    outcomes = await asyncio.gather(*[put(table, b"k", b"v") for table in opened], return_exceptions=True)
    lost = [outcome for outcome in outcomes if outcome is not None]
    assert [type(each) for each in lost] == [TableLost] * 3


async def test_a_table_outlives_a_killed_node(own_node: Node) -> None:
    tables = Tables(own_node.address)
    table, _ = await tables.open("table")
    await put(table, b"a", b"1")
    own_node.kill()
    late = put(table, b"b", b"2")
    await asyncio.to_thread(own_node.start)
    await late
    _, rows = await tables.open("table")
    assert rows == {b"a": b"1", b"b": b"2"}
    await tables.close()


async def test_a_topic_that_would_forget_is_refused(tables: Tables, bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, records=0)
    with pytest.raises(UsageError, match="compact"):
        await tables.open(name)


async def test_a_topic_of_several_partitions_is_refused(tables: Tables, bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, records=0, partitions=2)
    with pytest.raises(UsageError, match="partitions"):
        await tables.open(name)


async def test_a_claim_that_is_none_is_told(tables: Tables, bootstrap: str, name: str) -> None:
    table, _ = await tables.open(name)
    await table.close()
    send(producer(bootstrap), name, [b"me"], key=CLAIM_KEY)
    with pytest.raises(CorruptData):
        await tables.open(name)


async def test_keys_and_values_have_bounds(tables: Tables, name: str) -> None:
    table, _ = await tables.open(name)
    for key, value in ((b"", b""), (CLAIM_KEY, b""), (b"k", bytes(1 << 20))):
        with pytest.raises(ValueError, match="key"):
            table.put(key, value, lambda _: None)
    await put(table, b"k", bytes(960 << 10))


async def test_a_table_takes_large_values_on_a_node_whose_topics_do_not(tmp_path: Path) -> None:
    with Node(tmp_path, "log.max_message_bytes=65536") as node:
        tables = Tables(node.address)
        table, _ = await tables.open("table")
        await put(table, b"k", bytes(500 << 10))
        _, rows = await tables.open("table")
        assert rows == {b"k": bytes(500 << 10)}
        await tables.close()


async def test_a_log_that_cannot_be_reached_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "REQUEST_S_MAX", 0.3)
    log = KafkaLog("127.0.0.1:1", settings={"log_level": 0})
    with pytest.raises(PublishFailed):
        await log.table("t").open(lambda _key, _value: None)
    await log.close()
