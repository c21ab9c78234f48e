"""One topic in two protocols: 100,000 messages each way, and every field of each compared.

Among those of Java's client are half messages, which nobody may see before they are committed, and among those that it
receives are messages that fail and come again. Also with aborted transactions of Kafka.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Message, Producer
from tests.support.rocketmq import BULK_SOURCE, NEW, PEER, RocketPeer, lines_of
from tests.support.waiting import until

from hutong.broker.rocketmq.records.translation import message_of
from hutong.testing import EmbeddedNode
from hutong.wire.kafka.batch.records import Record
from hutong.wire.rocketmq.messages import NO_HOST

pytestmark = [pytest.mark.compat, pytest.mark.thorough, pytest.mark.long, pytest.mark.timeout(900)]
COUNT: Final = 100_000
QUEUES: Final = 4
DEADLINE_S: Final = 300.0
BENCH_S: Final = 60.0
SEND_OK: Final = "SEND_OK"
STATES: Final = {3: "COMMIT_MESSAGE", 13: "ROLLBACK_MESSAGE", 23: "UNKNOW"}
"""Of half messages, by their numbers modulo 30."""
FAILING: Final = 100  # one message of so many fails when it comes for the first time
SETTINGS: Final = {
    "rocketmq.listen": "127.0.0.1:0",
    "rocketmq.transaction_timeout_ms": "3000",
    "rocketmq.transaction_check_interval_ms": "5000",
}


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with EmbeddedNode(settings=SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> RocketPeer:
    return RocketPeer(NEW, tmp_path_factory.mktemp("offsets"), source=BULK_SOURCE)


def read(node: EmbeddedNode, topic: str, count: int) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"})
    found: list[Message] = []

    def has_all() -> bool:
        found.extend(message for message in consumer.consume(10_000, 0.5) if message.error() is None)
        return len(found) >= count

    try:
        consumer.subscribe([topic])
        until(has_all, what=f"{count} records", deadline_s=DEADLINE_S)
        return found
    finally:
        consumer.close()


def headers_of(message: Message) -> dict[str, bytes]:
    headers: Any = message.headers() or ()
    return dict(headers)


def test_what_java_sends_kafka_reads_field_by_field(node: EmbeddedNode, java: RocketPeer) -> None:
    node.create_topic("FromJava", partitions=QUEUES)
    told = lines_of(java.start("send", node.rocketmq or "", "FromJava", str(COUNT)), DEADLINE_S)
    assert len(told) == COUNT
    assert {line[4] for line in told} == {SEND_OK}
    assert {int(line[0]): line[5] for line in told} == {n: STATES.get(n % 30, "PLAIN") for n in range(COUNT)}
    sent = {line[3]: line for line in told if line[5] != "ROLLBACK_MESSAGE"}
    found = read(node, "FromJava", len(sent))
    assert len(found) == len(sent)
    for message in found:
        headers = headers_of(message)
        # Each once.
        line = sent.pop(headers["UNIQ_KEY"].decode())
        number = int(line[0])
        # A half message was stored elsewhere first.
        if line[5] == "PLAIN":
            assert (message.partition(), message.offset()) == (int(line[1]), int(line[2]))
        assert message.value() == f"größe-{number}".encode()
        assert message.key() == b"key-%d" % number
        assert (headers["TAGS"], headers["n"]) == (b"tag-%d" % (number % 7), b"%d" % number)
        record = Record(0, message.timestamp()[1], None, b"", [("rocketmq", headers["rocketmq"])])
        origin = message_of(record, "FromJava", 0, 0, NO_HOST)
        assert origin.flag == number
        assert origin.born_ms <= origin.stored_ms
        assert origin.born_host.address == bytes([127, 0, 0, 1])
        assert (origin.prepared_offset > 0) is (line[5] != "PLAIN")


def test_what_kafka_sends_java_reads_field_by_field(node: EmbeddedNode, java: RocketPeer) -> None:
    node.create_topic("FromKafka", partitions=QUEUES)
    producer = Producer({"bootstrap.servers": node.bootstrap, "compression.type": "lz4", "linger.ms": 5})
    sent: dict[tuple[int, int], tuple[int, int]] = {}

    def produced(number: int) -> Any:
        def delivered(error: object, message: Message) -> None:
            assert error is None, error
            sent[message.partition() or 0, message.offset() or 0] = number, message.timestamp()[1]

        return delivered

    for number in range(COUNT):
        headers: list[tuple[str, str | bytes | None]] = [("TAGS", f"tag-{number % 7}"), ("n", str(number))]
        value = f"größe-{number}".encode()
        while True:
            try:
                producer.produce("FromKafka", value, b"key-%d" % number, headers=headers, on_delivery=produced(number))
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert len(sent) == COUNT
    count = COUNT + COUNT // FAILING
    told = lines_of(java.start("read", node.rocketmq or "", "FromKafka", "bulk", str(count)), DEADLINE_S)
    again = [line for line in told if line[9] == "1"]
    first = [line for line in told if line[9] == "0"]
    assert len({(line[0], line[1]) for line in first}) == COUNT == len(first)
    assert {line[6] for line in again} == {str(number) for number in range(0, COUNT, FAILING)}
    assert len(again) == COUNT // FAILING
    born = {number: str(timestamp_ms) for number, timestamp_ms in sent.values()}
    for line in first:
        number, timestamp_ms = sent[int(line[0]), int(line[1])]
        assert line[2:4] == [str(timestamp_ms)] * 2
    for line in told:
        number = int(line[6])
        assert line[2] == born[number], "the time of birth stays when it comes again"
        assert line[4:9] == [f"key-{number}", f"tag-{number % 7}", str(number), f"größe-{number}", "0"]


def test_aborted_transactions_of_kafka_are_not_seen_by_java(node: EmbeddedNode, java: RocketPeer) -> None:
    node.create_topic("Aborted", partitions=QUEUES)
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "bulk"})
    producer.init_transactions(30)
    committed = set()
    for transaction in range(100):
        producer.begin_transaction()
        for number in range(transaction * 100, transaction * 100 + 100):
            # A number that does not fail, also when it comes again.
            producer.produce("Aborted", b"%d" % number, partition=number % QUEUES, headers={"n": "1"})
        if transaction % 3:
            producer.commit_transaction(30)
            committed |= {str(number) for number in range(transaction * 100, transaction * 100 + 100)}
        else:
            producer.abort_transaction(30)
    told = lines_of(java.start("read", node.rocketmq or "", "Aborted", "aborted", str(len(committed))), DEADLINE_S)
    assert len(told) == len(committed)
    assert {line[7] for line in told} == committed


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("producer-bench", ["-w", "64", "-s", "128"]),
        # Of ten messages one is rolled back, and one is undecided until the client is asked.
        ("transaction-bench", ["-w", "8", "-s", "128", "-sr", "0.1", "-su", "0.1"]),
        ("batch-bench", ["-w", "4", "-s", "128", "-b", "16"]),
    ],
)
def test_rocketmqs_own_benchmarks_fail_no_send(node: EmbeddedNode, tool: str, words: list[str]) -> None:
    out = bench_output(tool, "-n", node.rocketmq or "", "-t", f"Bench-{tool}", *words)
    print(out[-600:])
    assert "Send TPS" in out
    assert "Send Failed: 0" in out.splitlines()[-1], out[-600:]


def test_rocketmqs_own_consumer_benchmark_reads_all(node: EmbeddedNode) -> None:
    node.create_topic("Bench-read", partitions=QUEUES)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(20_000):
        producer.produce("Bench-read", bytes(128), partition=number % QUEUES)
        producer.poll(0)
    assert producer.flush(60) == 0
    # A group that is new to a topic this young begins at its start.
    out = bench_output("consumer-bench", "-n", node.rocketmq or "", "-t", "Bench-read", "-g", "bench", "-p", "false")
    print(out[-600:])
    lines = [line for line in out.splitlines() if "Consume Fail" in line]
    assert lines, out[-600:]
    assert all("Consume Fail: 0" in line for line in lines)
    lag = [standing.lag for standing in node.standings("bench", "Bench-read")]
    assert sum(each or 0 for each in lag) == 0


def bench_output(tool: str, *words: str) -> str:
    """The output of 60 s of a benchmark, which goes on for ever."""
    if not Path(PEER).exists():
        pytest.skip("the script that has RocketMQ's tools is not there")
    process = subprocess.Popen(
        [PEER, "tool", tool, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        out, _ = process.communicate(timeout=BENCH_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate()
    return out
