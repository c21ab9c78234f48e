"""Reading while a broker restarts, and around transactions, as a Spark worker reads, without a session."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.raw_client import create_topic
from tests.support.confluent import producer, send
from tests.support.node import Node

from hutong.pipelines.source.options import source_options

RECORD_COUNT = 5_000


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error tells Spark's workers to hide tracebacks: not beyond the test."""
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    monkeypatch.setenv("PYSPARK_HUTONG_ERRORS", "quiet")


def read(bootstrap: str, topic: str, **more: str) -> Iterator[dict[str, Any]]:
    """The rows of a batch query, one task after another."""
    from hutong.pipelines.source.readers import BatchReader

    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "columns": "offset,value"} | more
    reader = BatchReader(source_options(given, streaming=False))
    for task in reader.partitions():
        for batch in reader.read(task):
            yield from batch.to_pylist()


def test_a_task_goes_on_where_it_was_when_the_broker_comes_back(tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        create_topic(node.address, "t", records=0)
        send(producer(node.address, batch_num_messages=100), "t", [b"%d" % one for one in range(RECORD_COUNT)])
        rows = read(node.address, "t", **{"kafka.max.partition.fetch.bytes": "4000"})
        found = [next(rows)]
        node.kill()
        back = threading.Thread(target=node.start)  # the reader meets a closed door first
        back.start()
        found += rows
        back.join()
    assert [row["offset"] for row in found] == list(range(RECORD_COUNT))
    assert [row["value"] for row in found] == [b"%d" % one for one in range(RECORD_COUNT)]


def test_only_committed_records_are_read_where_that_is_asked_for(bootstrap: str, topic: str) -> None:
    sender = producer(bootstrap, transactional_id=topic)
    sender.init_transactions(30)
    for number in range(6):
        sender.begin_transaction()
        sender.produce(topic, b"%d" % number, partition=0)
        assert sender.flush(30) == 0
        end: Callable[[float], None] = sender.abort_transaction if number % 2 else sender.commit_transaction
        end(30)
    sender.begin_transaction()
    sender.produce(topic, b"open", partition=0)
    assert sender.flush(30) == 0
    committed = [row["value"] for row in read(bootstrap, topic, **{"kafka.isolation.level": "read_committed"})]
    assert committed == [b"0", b"2", b"4"]
    everything = list(read(bootstrap, topic))
    assert [row["value"] for row in everything] == [b"0", b"1", b"2", b"3", b"4", b"5", b"open"]
    assert [row["offset"] for row in everything] == [0, 2, 4, 6, 8, 10, 12]  # markers have offsets, too, but no rows
    sender.abort_transaction(30)
