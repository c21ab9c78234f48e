"""Transactions through SIGKILL: a committed reader sees what was committed, all of it, once, and nothing else, ever.

One transactional producer and one committed reader, both confluent-kafka, live through every death of the node. It dies
in the middle of transactions, and while they are being ended. `TEST_TRANSACTION_KILLS` is how often.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from bench.raw_client import create_topic
from confluent_kafka import KafkaException, Producer, TopicPartition
from tests.support.confluent import consumer, producer
from tests.support.node import Node

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]
KILLS = int(os.environ.get("TEST_TRANSACTION_KILLS", "2"))
DEADLINE_S = 60.0
PARTITIONS = 3
RECORDS = 6  # of a transaction
LAST = b"last"


class Reader:
    """Collects what a committed reader is shown, on a thread of its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.seen: list[bytes] = []
        self._consumer = consumer(bootstrap, "reader", isolation_level="read_committed", enable_auto_commit=False)
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        self._ends = 0
        self._is_stopped = False

    def stop(self) -> None:
        self._is_stopped = True

    def run(self) -> None:
        """Until the last record has come from each partition."""
        while self._ends < PARTITIONS and not self._is_stopped:
            for message in self._consumer.consume(100, 0.1):
                error = message.error()
                if error is not None:
                    assert not error.fatal(), error
                elif message.value() == LAST:
                    self._ends += 1
                else:
                    self.seen.append(message.value() or b"")
        self._consumer.close()


def write(to: Producer, topic: str, number: int) -> list[bytes]:
    """The records of the transaction with that number."""
    values = [b"%d-%d" % (number, part) for part in range(RECORDS)]
    for part, value in enumerate(values):
        to.produce(topic, value, partition=part % PARTITIONS)
    return values


def end(to: Producer, *, is_commit: bool) -> None:
    """Until the node has taken it: what the client calls retriable is asked again."""
    while True:
        try:
            to.commit_transaction(DEADLINE_S) if is_commit else to.abort_transaction(DEADLINE_S)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return


@contextmanager
def dying(node: Node, is_dying: bool) -> Iterator[None]:
    """While the block runs, the node is killed and started again."""

    def die() -> None:
        node.kill()
        node.start()

    with ThreadPoolExecutor(1) as pool:
        death = pool.submit(die) if is_dying else None
        yield
        if death is not None:
            death.result(DEADLINE_S)


def write_and_end(node: Node, to: Producer, topic: str) -> list[bytes]:
    """Transactions one after the other, in and between the deaths of the node; returns what was committed."""
    random = Random(7)
    committed: list[bytes] = []
    for number in range(3 * KILLS):
        is_commit = random.random() < 0.6
        moment = number % 3  # each third transaction lives in peace
        to.begin_transaction()
        with dying(node, moment == 1):
            values = write(to, topic, number)
            if not is_commit or random.random() < 0.5:
                # Before it aborts, librdkafka must have told the coordinator of a partition: where a death takes that
                # word, it ends a transaction that nobody knows, and gives up (as it does with Apache Kafka).
                to.flush(DEADLINE_S)
        with dying(node, moment == 2 and number % 2 == 0):
            end(to, is_commit=is_commit)
        committed += values if is_commit else []
    to.begin_transaction()
    for part in range(PARTITIONS):
        to.produce(topic, LAST, partition=part)
    end(to, is_commit=True)
    return committed


def test_committed_readers_see_whole_transactions_through_every_kill(tmp_path: Path) -> None:
    topic = "t"
    with Node(tmp_path) as node, ThreadPoolExecutor(1) as pool:
        create_topic(node.address, topic, partitions=PARTITIONS, records=0)
        reader = Reader(node.address, topic)
        reading = pool.submit(reader.run)
        try:
            to = producer(node.address, transactional_id="writer", transaction_timeout_ms=60_000)
            to.init_transactions(DEADLINE_S)
            committed = write_and_end(node, to, topic)
            reading.result(DEADLINE_S)
        finally:
            reader.stop()
    assert sorted(reader.seen) == sorted(committed)
