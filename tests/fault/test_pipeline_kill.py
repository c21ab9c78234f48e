"""A query from topic to topic while its driver, its Python workers and the broker are killed: each record once.

TEST_PIPELINE_KILLS says how many kills there are (with TEST_LONG=1 and without it 3: one of each), TEST_SEED in which
order. A driver takes ten seconds and more to be there again, so the default run leaves this out.
"""

import os
import pathlib
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final, NamedTuple

import psutil
import pytest
from bench.raw_client import create_topic
from confluent_kafka import Consumer, TopicPartition
from tests.support.confluent import read_partition, values
from tests.support.load import RecordedLoad
from tests.support.node import Node
from tests.support.waiting import until

IS_LONG: Final = "TEST_PIPELINE_KILLS" in os.environ or os.environ.get("TEST_LONG") == "1"
KILLS: Final = int(os.environ.get("TEST_PIPELINE_KILLS", "3"))
PARTITIONS: Final = 3
PER_SECOND: Final = 200
SOURCE, TARGET = "source", "target"
DELAY_S_MAX: Final = 0.6
PROGRESS_S_MAX: Final = 600.0
KINDS: Final = ("driver", "worker", "broker")
FETCH_BYTES: Final = 8 * 2**20
FOLDER: Final = pathlib.Path(__file__).parent.parent.parent
pytestmark = [
    pytest.mark.fault,
    pytest.mark.spark,
    pytest.mark.timeout(900 + 120 * KILLS),
    pytest.mark.skipif(not find_spec("pyspark"), reason="needs the extra spark"),
    pytest.mark.skipif(not IS_LONG, reason="takes long: TEST_LONG=1 or TEST_PIPELINE_KILLS"),
]


class Driver:
    """The query's process: Python, the Java it starts, and Spark's Python workers below that."""

    def __init__(self, folder: pathlib.Path, bootstrap: str) -> None:
        self.checkpoint = folder / "checkpoint"
        self.errors = folder / "driver.err"
        self.deaths = 0
        self._words = [bootstrap, SOURCE, TARGET, str(self.checkpoint)]
        self._start()

    def _start(self) -> None:
        with self.errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.copying_query", *self._words],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                cwd=FOLDER,
            )

    def see_to_it(self) -> None:
        """As a supervisor would: whatever it died of."""
        if self._process.poll() is not None:
            self.deaths += 1
            self._start()

    def kill(self) -> None:
        """Python and Java at once; the workers find out by themselves."""
        doomed = [one for one in self._family() if one.name() == "java"] + [psutil.Process(self._process.pid)]
        for one in doomed:
            one.kill()
        self._process.wait()

    def kill_worker(self, chance: random.Random) -> None:
        """Any process that Java has started: one that reads and writes, plans, or commits."""
        below = [one for one in self._family() if "python" in one.name()]
        if below:
            chance.choice(sorted(below, key=lambda one: one.pid)).kill()

    def close(self) -> None:
        family = self._family()
        if self._process.poll() is None:
            self.kill()
        for one in psutil.wait_procs(family, timeout=10)[1]:
            one.kill()

    def _family(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []


class Log(NamedTuple):
    """The content of a partition: offsets of data and of markers."""

    end: int
    record_count: int
    marker_count: int
    is_contiguous: bool


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Iterator[Node]:
    with Node(tmp_path) as running:
        for topic in (SOURCE, TARGET):
            create_topic(running.address, topic, partitions=PARTITIONS, records=0)
        yield running


@pytest.fixture
def driver(node: Node, tmp_path: pathlib.Path) -> Iterator[Driver]:
    running = Driver(tmp_path, node.address)
    try:
        yield running
    finally:
        running.close()


def batches_done(driver: Driver) -> int:
    """The number of batches that are committed by the checkpoint."""
    driver.see_to_it()
    folder = driver.checkpoint / "commits"
    done = [int(path.name) for path in folder.glob("*") if path.name.isdecimal()] if folder.exists() else []
    return max(done, default=-1) + 1


def wait_for_batches(driver: Driver, more: int) -> None:
    aim = batches_done(driver) + more
    try:
        until(lambda: batches_done(driver) >= aim, what="a batch", deadline_s=PROGRESS_S_MAX, between_s=0.05)
    except AssertionError as error:
        error.add_note(driver.errors.read_text()[-4000:])
        raise


def kinds(chance: random.Random) -> list[str]:
    """In random order, as many of each as may be."""
    chosen = [KINDS[number % len(KINDS)] for number in range(KILLS)]
    chance.shuffle(chosen)
    return chosen


def test_each_record_is_copied_once(node: Node, driver: Driver) -> None:
    seed = int(os.environ.get("TEST_SEED", time.time_ns() % 2**32))
    chance = random.Random(seed)
    order = kinds(chance)
    print(f"TEST_SEED={seed}", end=" ")
    with RecordedLoad(node.address, SOURCE, PARTITIONS, per_second_max=PER_SECOND):
        for kind in order:
            wait_for_batches(driver, 2)
            time.sleep(chance.uniform(0, DELAY_S_MAX))  # anywhere in a batch
            if kind == "driver":
                driver.kill()
            elif kind == "worker":
                driver.kill_worker(chance)
            else:
                node.kill()
                node.start()
        wait_for_batches(driver, 2)
    expected = content(node.address, SOURCE)
    wait_until_copied(node.address, driver, sum(expected.values()))
    seen = content(node.address, TARGET)
    logs = [log_of(node.address, number) for number in range(PARTITIONS)]
    hidden = sum(log.record_count for log in logs) - sum(seen.values())
    print(
        f"{dict(Counter(order))}, {len(expected)} records, {batches_done(driver)} batches, {hidden} aborted", end=", "
    )
    print(f"{sum(log.marker_count for log in logs)} markers, driver started again {driver.deaths} times")
    assert seen - expected == Counter(), "some were written twice, or of nothing"
    assert expected - seen == Counter(), "some were not written"
    for log in logs:
        assert log.is_contiguous
        assert log.record_count + log.marker_count == log.end


def content(bootstrap: str, topic: str) -> Counter[bytes]:
    """How often each value is in the topic, for readers of committed records."""
    return Counter(value for number in range(PARTITIONS) for value in values(read_partition(bootstrap, topic, number)))


def wait_until_copied(bootstrap: str, driver: Driver, count: int) -> None:
    """Until committed readers can read to the end, and there is as much as there should be."""

    def is_copied() -> bool:
        driver.see_to_it()
        if ends(bootstrap, "read_committed") != ends(bootstrap, "read_uncommitted"):
            return False
        return sum(content(bootstrap, TARGET).values()) >= count

    try:
        until(is_copied, what="the last record", deadline_s=PROGRESS_S_MAX, between_s=0.5)
    except AssertionError as error:
        error.add_note(f"{ends(bootstrap, 'read_committed')} of {ends(bootstrap, 'read_uncommitted')}")
        error.add_note(driver.errors.read_text()[-4000:])
        raise


def ends(bootstrap: str, isolation: str) -> list[int]:
    asker = Consumer({"bootstrap.servers": bootstrap, "group.id": "asker", "isolation.level": isolation})
    try:
        return [
            asker.get_watermark_offsets(TopicPartition(TARGET, partition), 30)[1] for partition in range(PARTITIONS)
        ]
    finally:
        asker.close()


def log_of(bootstrap: str, partition: int) -> Log:
    """Every batch of the target's partition, aborted ones and markers included."""
    from hutong.pipelines.client.cluster import LATEST, Cluster, ClusterSettings, TopicPartition, parse_bootstrap
    from hutong.pipelines.client.clusters import open_cluster
    from hutong.wire.kafka.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
    from hutong.wire.kafka.batch.records import parse_batch_header

    cluster: Cluster = open_cluster(ClusterSettings(parse_bootstrap(bootstrap)))
    where = TopicPartition(TARGET, partition)
    end = cluster.offsets({where: LATEST})[where].offset
    records = markers = position = 0
    contiguous = True
    while position < end:
        wanted = FetchPartition(partition, fetch_offset=position, partition_max_bytes=FETCH_BYTES)
        request = FetchRequest(
            max_wait_ms=100, min_bytes=1, max_bytes=FETCH_BYTES, topics=[FetchTopic(TARGET, partitions=[wanted])]
        )
        ((answer,),) = (topic.partitions for topic in cluster.leader(where).request(request).responses)
        view, at = memoryview(answer.records), 0
        while at < len(view):
            header = parse_batch_header(view, at)
            contiguous &= header.base_offset == position and header.last_offset_delta == header.record_count - 1
            records += 0 if header.is_control else header.record_count
            markers += header.record_count if header.is_control else 0
            position, at = header.last_offset + 1, at + header.size
    cluster.close()
    return Log(end, records, markers, contiguous)
