"""Nodes that are killed (SIGKILL) under RocketMQ's own Java clients: nothing that was acknowledged on disk is lost."""

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from bench.targets import free_port
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.node import Node
from tests.support.rocketmq import NEW, SYNC_SOURCE, TRANSACTION_SOURCE, RocketPeer
from tests.support.waiting import until

pytestmark = [pytest.mark.compat, pytest.mark.thorough, pytest.mark.fault, pytest.mark.timeout(600)]
ROUNDS: Final = 3
ACKNOWLEDGED_PER_ROUND: Final = 300  # of each topic
TRANSACTIONS: Final = 200
DEADLINE_S: Final = 120.0


class Lines:
    """The lines that a program prints, as they come."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.all: list[str] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def end(self) -> None:
        self.process.kill()
        self._thread.join()
        self.process.communicate()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.all.extend(iter(self.process.stdout.readline, ""))


class Reading:
    """Everything that a committed reader sees in a topic, by value."""

    def __init__(self, node: Node, topic: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": node.address, "group.id": f"reads-{topic}", "auto.offset.reset": "earliest"}
        )
        self._consumer.subscribe([topic])
        self.found: Counter[int] = Counter()
        self.idle = 0  # how often there was nothing, at last

    def until(self, has_all: Callable[[], bool], what: str) -> None:
        def read() -> bool:
            messages = self._consumer.consume(1_000, 0.5)
            self.idle = 0 if messages else self.idle + 1
            for message in messages:
                if message.error() is None:
                    self.found[int(message.value() or b"")] += 1
            return has_all()

        until(read, what=what, deadline_s=DEADLINE_S)

    def close(self) -> None:
        self._consumer.close()


def node_at(folder: Path, **settings: object) -> tuple[Node, str]:
    address = f"127.0.0.1:{free_port()}"
    words = [f"rocketmq.{name}={value}" for name, value in settings.items()]
    return Node(folder, f"rocketmq.listen={address}", *words), address


def create(node: Node, *topics: NewTopic) -> None:
    admin = AdminClient({"bootstrap.servers": node.address})  # it ends what it has begun when it is forgotten
    for made in admin.create_topics([*topics]).values():
        made.result(30)


def test_what_was_acknowledged_on_disk_survives_kills(tmp_path: Path) -> None:
    """Topics of both levels: `default` waits for the disk, `receive` for the memory of a process that is killed."""
    node, address = node_at(tmp_path)
    with node:
        create(node, NewTopic("Flushed", 4, 1), NewTopic("Received", 4, 1, config={"hutong.qos": "receive"}))
        peer = RocketPeer(NEW, tmp_path, source=SYNC_SOURCE)
        lines = Lines(peer.start(address, "4", "Flushed", "Received"))

        def acknowledged() -> dict[str, set[int]]:
            told: dict[str, set[int]] = {"Flushed": set(), "Received": set()}
            for line in [*lines.all]:
                topic, number = line.split()
                told[topic].add(int(number))
            return told

        try:
            for number in range(ROUNDS):
                wanted = ACKNOWLEDGED_PER_ROUND * (number + 1)
                until(
                    lambda wanted=wanted: min(map(len, acknowledged().values())) >= wanted,  # type: ignore[misc]
                    what=f"{wanted} acknowledged",
                    deadline_s=DEADLINE_S,
                )
                node.kill()
                node.start()
        finally:
            lines.end()
        lost = {}
        for topic, numbers in acknowledged().items():
            reading = Reading(node, topic)
            reading.until(lambda reading=reading: reading.found and reading.idle >= 6, f"all of {topic}")  # type: ignore[misc]
            reading.close()
            lost[topic] = sorted(numbers - reading.found.keys())
            print(f"{topic}: {len(numbers)} acknowledged, {len(lost[topic])} lost in {ROUNDS} kills")
        assert lost["Flushed"] == []


def told_of(lines: Lines, what: str) -> set[int]:
    told = [json.loads(line) for line in [*lines.all] if line.startswith("{")]
    return {each["number"] for each in told if each["what"] == what}


def test_transactions_survive_kills_and_each_is_committed_once(tmp_path: Path) -> None:
    node, address = node_at(
        tmp_path, transaction_timeout_ms=1_000, transaction_check_interval_ms=1_000, transaction_checks_max=100
    )
    with node:
        create(node, NewTopic("Transactions", 4, 1))
        peer = RocketPeer(NEW, tmp_path, source=TRANSACTION_SOURCE)
        lines = Lines(peer.start(address, "Transactions", "deciding", str(TRANSACTIONS), "1000000"))
        try:
            for number in range(ROUNDS):
                wanted = TRANSACTIONS * (number + 1) // (ROUNDS + 1)
                until(
                    lambda wanted=wanted: len(told_of(lines, "sent") | told_of(lines, "failed")) >= wanted,  # type: ignore[misc]
                    what=f"{wanted} half messages",
                    deadline_s=DEADLINE_S,
                )
                node.kill()
                node.start()
            until(
                lambda: len(told_of(lines, "sent") | told_of(lines, "failed")) == TRANSACTIONS,
                what="all sends",
                deadline_s=DEADLINE_S,
            )
            reading = Reading(node, "Transactions")
            sent = told_of(lines, "sent")
            even = {number for number in sent if number % 2 == 0}
            reading.until(lambda: even <= reading.found.keys(), "all that was committed")
            asked = told_of(lines, "asked")
            reading.close()
        finally:
            lines.end()
        again = {number: count for number, count in reading.found.items() if count > 1}
        print(f"{len(sent)} transactions, {len(asked)} asked about, {len(reading.found)} committed, {len(again)} twice")
        assert not again
        assert not [number for number in reading.found if number % 2]
        assert {number for number in sent if number % 4 == 2} <= asked
