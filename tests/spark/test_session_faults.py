"""What a query of a real session does when its broker restarts in the middle of a batch, or holds damaged bytes."""

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bench.kafka_bytes import produce_request, record_batch
from bench.raw_client import RawConnection, create_topic
from tests.support.confluent import producer, send
from tests.support.node import Node

from hutong.foundation.errors import UsageError
from hutong.pipelines import plain_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORD_COUNT = 3_000
BATCHES, DAMAGED = 6, 3


def source(node: Node, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": node.address, "subscribe": "t", "startingOffsets": "earliest"} | more


def test_a_stream_rides_out_a_restart_in_the_middle_of_its_batch(spark: "SparkSession", tmp_path: Path) -> None:
    taken: list[Any] = []
    restarts: list[threading.Thread] = []

    def take(batch: "DataFrame", number: int) -> None:
        if number == 1:  # its tasks are planned and have not read
            node.kill()
            restarts.append(threading.Thread(target=node.start))
            restarts[0].start()
        taken.extend(batch.select("offset", "value").collect())

    folder = tmp_path / "node"
    folder.mkdir()
    with Node(folder) as node:
        create_topic(node.address, "t", records=0)
        send(producer(node.address, batch_num_messages=100), "t", [b"%d" % one for one in range(RECORD_COUNT)])
        frame = spark.readStream.format("hutong").options(**source(node, maxOffsetsPerTrigger="1000")).load()
        writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        restarts[0].join()
    assert [row.offset for row in taken] == list(range(RECORD_COUNT))
    assert [bytes(row.value) for row in taken] == [b"%d" % one for one in range(RECORD_COUNT)]


def test_a_damaged_batch_is_told_with_its_place_and_nothing_of_java(spark: "SparkSession", tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        create_topic(node.address, "t", records=0)
        with RawConnection(node.address) as connection:
            for batch in range(BATCHES):
                connection.call(produce_request("t", record_batch([b"batch-%d" % batch])))
        node.restart()  # so that nothing is in its memory
        flip(tmp_path, b"batch-%d" % DAMAGED)
        frame = spark.read.format("hutong").options(**source(node)).load()
        with pytest.raises(UsageError) as raised, plain_errors():
            frame.collect()
        sound = frame.sparkSession.read.format("hutong").options(
            **source(node, endingOffsets=f'{{"t": {{"0": {DAMAGED}}}}}')
        )
        assert sound.load().count() == DAMAGED
    told = str(raised.value)
    assert f"offset {DAMAGED}" in told
    assert "t-0" in told
    assert "org.apache" not in told
    assert len(told.splitlines()) == 1


def flip(folder: Path, wanted: bytes) -> None:
    """One bit of these bytes in the node's files."""
    for path in sorted(folder.rglob("*.journal")):
        at = path.read_bytes().find(wanted)
        if at >= 0:
            descriptor = os.open(path, os.O_RDWR)
            (byte,) = os.pread(descriptor, 1, at)
            os.pwrite(descriptor, bytes([byte ^ 1]), at)
            os.close(descriptor)
            return
    raise AssertionError("they are in no file")
