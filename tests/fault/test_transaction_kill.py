"""A node that is killed under a client that consumes and produces in transactions: each record goes through once.

The client is killed with it now and then, and its heir takes over by the same transactional id. TEST_KILL_ROUNDS says
how often the node is killed (2 by default).
"""

import os
import pathlib
import random
import subprocess
import sys
import time
from typing import Final

import pytest
from bench.raw_client import create_topic
from confluent_kafka import TopicPartition
from tests.support.confluent import consumer, producer, read, send, values
from tests.support.node import Node
from tests.support.waiting import until

pytestmark = [pytest.mark.fault, pytest.mark.timeout(300)]
ROUNDS: Final = int(os.environ.get("TEST_KILL_ROUNDS", "2"))
RECORDS_PER_ROUND: Final = 100
SOURCE, SINK, GROUP, ID = "source", "sink", "group", "copier"
WORKER: Final = pathlib.Path(__file__).parent.parent / "support" / "transactional_copier.py"


class Copier:
    """The client, in a process of its own."""

    def __init__(self, address: str, log: pathlib.Path) -> None:
        self._command = [sys.executable, str(WORKER), address, SOURCE, SINK, GROUP, ID]
        self._log = log
        self._start()

    def _start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def see_to_it(self) -> None:
        """A client that has been fenced, or whose transaction cannot be saved, gives up: its heir goes on."""
        if self._process.poll() is not None:
            self._start()


def committed(address: str) -> list[bytes]:
    """The records that a committed reader gets, up to the last stable offset."""
    source = consumer(address, "judge", enable_auto_commit=False, isolation_level="read_committed")
    try:
        source.assign([TopicPartition(SINK, 0, 0)])
        seen: list[bytes] = []
        while batch := source.consume(10_000, 1.0):
            seen += values(batch)
        return seen
    finally:
        source.close()


def committed_offset(address: str) -> int:
    asking = consumer(address, GROUP)
    try:
        (found,) = asking.committed([TopicPartition(SOURCE, 0)], 30)
        return int(found.offset)
    finally:
        asking.close()


def test_each_record_goes_through_once(tmp_path: pathlib.Path) -> None:
    seed = int(os.environ.get("TEST_SEED", time.time_ns() % 2**32))
    print(f"TEST_SEED={seed}")
    chance = random.Random(seed)
    with Node(tmp_path) as node:
        for topic in (SOURCE, SINK):
            create_topic(node.address, topic, records=0)
        copier = Copier(node.address, tmp_path / "copier.log")
        try:
            expected: list[bytes] = []
            for number in range(ROUNDS):
                records = [b"%d-%d" % (number, record) for record in range(RECORDS_PER_ROUND)]
                send(producer(node.address), SOURCE, records)
                expected += records
                aim = len(expected) - chance.randrange(RECORDS_PER_ROUND)
                until(lambda aim=aim: progress(node, copier) >= aim, what="progress", deadline_s=60)  # type: ignore[misc]
                if chance.random() < 0.5:
                    copier.kill()
                node.kill()
                node.start()
            until(lambda: progress(node, copier) == len(expected), what="the end", deadline_s=90)
        finally:
            copier.kill()
        assert committed(node.address) == expected


def progress(node: Node, copier: Copier) -> int:
    copier.see_to_it()
    return committed_offset(node.address)


def test_what_is_killed_in_the_middle_is_open_still(tmp_path: pathlib.Path) -> None:
    with Node(tmp_path) as node:
        create_topic(node.address, SINK, records=0)
        to = producer(node.address, transactional_id=ID)
        to.init_transactions(30)
        to.begin_transaction()
        send(to, SINK, [b"before"])
        node.kill()
        node.start()
        send(to, SINK, [b"after"])
        assert committed(node.address) == []
        to.commit_transaction(30)
        source = consumer(node.address, "judge", isolation_level="read_committed")
        source.assign([TopicPartition(SINK, 0, 0)])
        assert values(read(source, 2)) == [b"before", b"after"]
        source.close()
