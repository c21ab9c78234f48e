"""Consume, transform, produce in transactions, while workers and the node are killed: each input has one output.

TEST_EOS_SECONDS says how long the killing lasts.
"""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest
from bench.raw_client import create_topic
from confluent_kafka import Consumer, KafkaError, TopicPartition
from tests.support.confluent import offset_of, read_partition, values
from tests.support.eos_worker import FENCED_STATUS, STUCK_STATUS, transformed
from tests.support.load import RecordedLoad
from tests.support.log_checker import check
from tests.support.node import IS_HUTONG, Node
from tests.support.waiting import until

SECONDS = float(os.environ.get("TEST_EOS_SECONDS", "3"))
SEED = int(os.environ.get("TEST_EOS_SEED", "1"))
pytestmark = [pytest.mark.fault, pytest.mark.timeout(int(SECONDS) + 300)]
WORKERS = 3
PARTITIONS = 4
PER_SECOND = 300
SESSION_MS = 1500 if IS_HUTONG else 6000
INPUT, OUTPUT, GROUP = "input", "output", "transformers"
SETTLE_S = 120.0
GROUPS = [
    pytest.param({"session.timeout.ms": str(SESSION_MS), "heartbeat.interval.ms": "300"}, id="classic"),
    pytest.param(
        {"group.protocol": "consumer"},  # KIP-848
        id="server-side",
        marks=pytest.mark.skipif(SECONDS < 10, reason="takes long: TEST_EOS_SECONDS"),
    ),
]
NODE_SETTINGS = (
    "group.min_session_timeout_ms=500",
    "group.consumer_min_session_timeout_ms=500",
    f"group.consumer_session_timeout_ms={SESSION_MS}",
    "group.consumer_min_heartbeat_interval_ms=100",
    "group.consumer_heartbeat_interval_ms=300",
)


class Workers:
    """The processes, each with a transactional id of its own, which its successor takes over."""

    def __init__(self, folder: pathlib.Path, bootstrap: str, settings: Mapping[str, str]) -> None:
        folder.mkdir()
        self._settings = [f"{name}={value}" for name, value in settings.items()]
        self._folder = folder
        self._bootstrap = bootstrap
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self.started = self.fenced = self.stuck = 0

    def start(self, number: int) -> None:
        journal = self._folder / f"{number}.journal"
        with open(self._folder / f"{number}-{self.started}.err", "wb") as errors:
            self._running[number] = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.support.eos_worker", str(journal), self._bootstrap),
                    *(GROUP, INPUT, OUTPUT, f"worker-{number}", *self._settings),
                ],
                stdin=subprocess.DEVNULL,
                stderr=errors,
            )
        self.started += 1

    def kill(self, number: int) -> None:
        self._running[number].kill()
        self._running[number].wait()

    def replace_ended(self) -> None:
        """Whoever was fenced, stuck or killed has a successor; any other end is a fault."""
        for number, process in list(self._running.items()):
            status = process.poll()
            if status is not None:
                assert status in (FENCED_STATUS, STUCK_STATUS, -signal.SIGKILL), self.faults()
                self.fenced += status == FENCED_STATUS
                self.stuck += status == STUCK_STATUS
                self.start(number)

    def stop(self) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            assert process.wait(60) in (0, -signal.SIGTERM), self.faults()  # the latter if it had not begun

    def close(self) -> None:
        for process in self._running.values():
            if process.poll() is None:
                process.kill()
                process.wait()

    def faults(self) -> str:
        return "\n".join(path.read_text() for path in self._folder.glob("*.err") if path.stat().st_size)

    def words(self) -> Counter[str]:
        """The outcomes of transactions."""
        lines = [line for path in self._folder.glob("*.journal") for line in path.read_text().splitlines()]
        return Counter("committed" if line.startswith("committed") else line for line in lines)


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Iterator[Node]:
    with Node(tmp_path, *NODE_SETTINGS) as running:
        for topic in (INPUT, OUTPUT):
            create_topic(running.address, topic, partitions=PARTITIONS, records=0)
        yield running


def chaos(node: Node, workers: Workers) -> Counter[str]:
    """Kills one after the other, for as long as was asked for."""
    chance, done = random.Random(SEED), Counter[str]()
    end_s = time.monotonic() + SECONDS
    while time.monotonic() < end_s:
        time.sleep(chance.uniform(0.2, 2.0))
        workers.replace_ended()
        what = chance.choice(["worker", "worker", "node", "both"])
        done[what] += 1
        if what in ("worker", "both"):
            workers.kill(chance.randrange(WORKERS))
        if what in ("node", "both"):
            node.kill()
            node.start()
        workers.replace_ended()
    return done


def ends_of(node: Node, topic: str, isolation: str) -> dict[int, int]:
    asker = Consumer({"bootstrap.servers": node.address, "group.id": "asker", "isolation.level": isolation})
    try:
        return {
            partition: asker.get_watermark_offsets(TopicPartition(topic, partition), 30)[1]
            for partition in range(PARTITIONS)
        }
    finally:
        asker.close()


def committed(node: Node) -> dict[int, int]:
    asker = Consumer({"bootstrap.servers": node.address, "group.id": GROUP})
    try:
        places = asker.committed([TopicPartition(INPUT, partition) for partition in range(PARTITIONS)], 30)
        return {place.partition: place.offset for place in places}
    finally:
        asker.close()


def wait_until_transformed(node: Node, workers: Workers) -> None:
    """All input is committed, and no transaction is open."""
    ends = ends_of(node, INPUT, "read_committed")

    def is_all_there() -> bool:
        workers.replace_ended()
        return committed(node) == ends and ends_of(node, OUTPUT, "read_committed") == ends_of(
            node, OUTPUT, "read_uncommitted"
        )

    try:
        until(is_all_there, deadline_s=SETTLE_S, between_s=0.2, what="the end of all transactions")
    except AssertionError as error:
        error.add_note(f"committed {committed(node)} of {ends}; {workers.words()}; {workers.faults()}")
        raise


def read_output(node: Node, isolation: str) -> Counter[bytes]:
    """Every value that a reader of that isolation sees."""
    reader = Consumer(
        {
            "bootstrap.servers": node.address,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    found, unfinished = Counter[bytes](), set(range(PARTITIONS))
    reader.assign([TopicPartition(OUTPUT, partition, 0) for partition in unfinished])
    deadline_s = time.monotonic() + SETTLE_S
    while unfinished:
        assert time.monotonic() < deadline_s
        for message in reader.consume(1000, 0.1):
            error = message.error()
            if error is None:
                found[message.value() or b""] += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                unfinished.discard(message.partition() or 0)
    reader.close()
    return found


@pytest.mark.parametrize("settings", GROUPS)
def test_each_input_has_one_output(node: Node, settings: dict[str, str]) -> None:
    workers = Workers(node.folder / "workers", node.address, settings)
    try:
        for number in range(WORKERS):
            workers.start(number)
        with RecordedLoad(node.address, INPUT, PARTITIONS, per_second_max=PER_SECOND) as load:
            kills = chaos(node, workers)
        wait_until_transformed(node, workers)
        workers.stop()
    finally:
        workers.close()
    inputs = {(INPUT, partition): read_partition(node.address, INPUT, partition) for partition in range(PARTITIONS)}
    expected = Counter(transformed(value) for messages in inputs.values() for value in values(messages))
    seen = read_output(node, "read_committed")
    hidden = sum(read_output(node, "read_uncommitted").values()) - sum(seen.values())
    print(f"{dict(kills)}, {workers.fenced} fenced, {workers.stuck} stuck, {len(expected)} records", end=", ")
    print(f"{hidden} outputs aborted, {dict(workers.words())}")
    assert seen - expected == Counter(), "some were made twice, or of nothing"
    assert expected - seen == Counter(), "some were never made"
    final = {place: list(zip(map(offset_of, found), values(found), strict=True)) for place, found in inputs.items()}
    assert check(load.history, final_reads=final) == []
