"""The batches that hold the records of a page: found in few reads, from memory and from the disk."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.confluent import producer, send
from tests.unit.console.scene import ConsoleClient

from hutong.console.records.batches import BatchSearch
from hutong.foundation.errors import HutongError, Refused, StorageError
from hutong.server.http import own_batches
from hutong.testing import EmbeddedNode
from hutong.wire.kafka.batch.compression import Compression
from hutong.wire.kafka.batch.records import BatchHeader, Record, build_batch, parse_batch_header
from hutong.wire.kafka.error_codes import ErrorCode

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def batch(base_offset: int, count: int, compression: Compression = Compression.NONE) -> bytes:
    return build_batch([Record(value=b"v")] * count, base_offset=base_offset, compression=compression)


def header(base_offset: int, count: int) -> BatchHeader:
    return parse_batch_header(batch(base_offset, count))


def test_a_search_reads_on_where_a_read_has_ended() -> None:
    search = BatchSearch([25, 3, 12, 4])
    search.receive([header(0, 5), header(5, 5), header(10, 5)])
    assert [each.base_offset for each in search.found] == [0, 10]
    search.receive([header(20, 10)])
    assert (search.next_offset, [each.base_offset for each in search.found]) == (None, [0, 10, 20])


def test_a_search_ends_where_batches_are_gone() -> None:
    search = BatchSearch([1, 2, 9, 30])
    search.receive([header(8, 5)])
    assert [each.base_offset for each in search.found] == [8]
    search.receive([])
    assert search.next_offset is None
    assert BatchSearch([]).next_offset is None


@pytest.fixture
def packed(client: ConsoleClient, node: EmbeddedNode) -> str:
    """A topic with three records of each codec, each three in one batch."""
    if "packed" not in node.topics():
        node.create_topic("packed", partitions=1)
        for codec in CODECS:
            source = producer(node.bootstrap, compression_type=codec, linger_ms=1_000)
            send(source, "packed", [b"the same words again and again" * 20] * 3)
    return "packed"


def test_each_record_has_the_compression_of_its_batch(client: ConsoleClient, packed: str) -> None:
    page = client.value("GET", f"/api/topics/{packed}/messages?from=oldest")
    assert [each["batch"]["compression"] for each in page["records"]] == [codec for codec in CODECS for _ in range(3)]
    assert page["batches_missing"] == []
    one = client.value("GET", f"/api/topics/{packed}/messages/0/13")
    assert one["batch"]["compression"] == "zstd"
    assert (one["batch"]["first_offset"], one["batch"]["last_offset"], one["batch"]["records_count"]) == (12, 14, 3)
    assert 61 < one["batch"]["size_bytes"] < 600
    assert one["batch"]["is_transactional"] is False


def test_batches_that_left_memory_come_from_the_disk(tmp_path: Path) -> None:
    with EmbeddedNode(data_dir=tmp_path, settings={"console.listen": "127.0.0.1:0"}) as node:
        node.create_topic("t", partitions=1)
        send(producer(node.bootstrap, compression_type="gzip"), "t", [b"x" * 500] * 5)
        node.restart()
        page = ConsoleClient(node).begin().value("GET", "/api/topics/t/messages")
    assert {each["batch"]["compression"] for each in page["records"]} == {"gzip"}


class Log:
    """Batches of one record each, in memory; `outcome` is what reads raise."""

    def __init__(self, outcome: HutongError | None = None) -> None:
        self.outcome = outcome
        self.reads: list[int] = []

    def read(self, offset: int, max_bytes: int) -> Any:
        self.reads.append(offset)
        if self.outcome is not None:
            raise self.outcome
        return SimpleNamespace(buffers=[memoryview(batch(offset, 1, Compression.LZ4))])


def broker(log: Log, *, is_here: bool = True, leader: int = 2) -> Any:
    standing = SimpleNamespace(is_led_here=is_here, is_followed_here=False)
    partition = SimpleNamespace(index=0, log=log, standing=standing, leader=leader, check_online=lambda: None)
    topic = SimpleNamespace(partition=lambda index: partition if index == 0 else None)
    return cast(Any, SimpleNamespace(topics=SimpleNamespace(get=lambda name: topic if name == "t" else None)))


async def test_the_reads_of_a_page_are_bounded() -> None:
    log = Log()
    seen = await own_batches.own_batches(broker(log), "t", {0: range(0, 1_000, 2)})
    assert len(log.reads) == len(seen.batches) == own_batches.READS_MAX
    assert {each.compression for each in seen.batches} == {"lz4"}
    assert seen.missing == [own_batches._TOO_MANY]


@pytest.mark.parametrize(
    ("leader", "told"),
    [
        (2, "This node has no copy of partition 0: the console of node 2 shows its batches."),
        (-1, "Partition 0 has no leader now, and this node has no copy of it."),
    ],
)
async def test_a_partition_that_is_elsewhere_is_named(leader: int, told: str) -> None:
    log = Log()
    seen = await own_batches.own_batches(broker(log, is_here=False, leader=leader), "t", {0: [1]})
    assert (seen.missing, seen.batches, log.reads) == ([told], [], [])


async def test_what_cannot_be_read_has_its_reason() -> None:
    seen = await own_batches.own_batches(broker(Log(StorageError("the disk is gone"))), "t", {0: [1, 2]})
    assert seen.missing == ["Partition 0 could not be read: the disk is gone"]
    gone = Log(Refused(ErrorCode.OFFSET_OUT_OF_RANGE))
    seen = await own_batches.own_batches(broker(gone), "t", {0: [1, 2]})
    assert (seen.missing, gone.reads) == ([], [1, 2])
    assert (await own_batches.own_batches(broker(gone), "other", {0: [1]})).missing == ["The topic was deleted."]
