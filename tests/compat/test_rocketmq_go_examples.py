"""The examples of rocketmq-client-go, unchanged, on a node at the address that is written in them.

Each producer and consumer is a program that runs for hours, or until it has sent what it has to; a test ends it when
it has printed what it must.
"""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer
from tests.support.golang import rocketmq_example
from tests.support.waiting import until

from hutong.foundation.errors import HutongError
from hutong.testing import EmbeddedNode

pytestmark = [pytest.mark.compat, pytest.mark.thorough, pytest.mark.long, pytest.mark.timeout(900)]
SETTINGS: Final = {"rocketmq.listen": "127.0.0.1:9876"}
DEADLINE_S: Final = 120.0
QUEUES: Final = 4  # of a topic that is made when it is first used
SUCCESS: Final = "send message success: result=SendResult [sendStatus=0"


class Example:
    """A running example and what it prints."""

    def __init__(self, name: str, home: Path) -> None:
        program, self.name, self.text = rocketmq_example(name), name, ""
        environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
        self._process = subprocess.Popen(
            [program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def prints(self, text: str, times: int = 1) -> None:
        """Wait until it has printed the text so often."""
        until(lambda: self.text.count(text) >= times, what=f"{times} of {text!r} in {self}", deadline_s=DEADLINE_S)

    def ends(self) -> None:
        """Wait until it has ended by itself, in order."""
        self._process.wait(DEADLINE_S)
        self._thread.join()
        assert self._process.returncode == 0, self

    def close(self) -> None:
        self._process.kill()
        self._thread.join()
        self._process.communicate()

    def __repr__(self) -> str:
        return f"{self.name}: {self.text[-2_000:]}"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in iter(self._process.stdout.readline, ""):
            self.text += line


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    try:
        running = EmbeddedNode(settings=SETTINGS).__enter__()
    except HutongError as error:
        pytest.skip(f"the port that is written in the examples is taken: {error}")
    try:
        # A consumer that comes before its topic gives up, as it does at RocketMQ's broker.
        for topic in ("test", "TopicTest", "RequestTopic", "min"):
            running.create_topic(topic, partitions=4)
        yield running
    finally:
        running.__exit__(None, None, None)


@contextmanager
def started(name: str, home: Path) -> Iterator[Example]:
    with closing(Example(name, home)) as example:
        yield example


def produce(node: EmbeddedNode, topic: str, count: int, tag: str = "TagA") -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(count):
        producer.produce(topic, b"from Kafka %d" % number, headers=[("TAGS", tag)], partition=number % 4)
    assert producer.flush(30) == 0


@pytest.mark.parametrize(
    ("name", "times"),
    [("simple", 10), ("batch", 1), ("delay", 10), ("tag", 3), ("interceptor", 10), ("async", 0), ("trace", 1)],
)
def test_a_producer_sends_and_ends(node: EmbeddedNode, tmp_path: Path, name: str, times: int) -> None:
    with started(f"producer/{name}", tmp_path) as example:
        # This one prints its results and waits for ever on some versions of Go.
        example.prints(SUCCESS if times else "send message success", times or 10)
        if name not in ("async", "trace"):
            example.ends()
        assert "error" not in example.text.replace("level=error", ""), example


@pytest.mark.parametrize(
    ("name", "topic", "printed"),
    [
        ("simple", "test", "subscribe callback: "),
        ("orderly", "TopicTest", "subscribe orderly callback: "),
        ("tag", "TopicTest", "subscribe callback: "),
        ("strategy", "TopicTest", "subscribe callback: "),
        ("interceptor", "TopicTest", "subscribe callback: "),
        ("delay", "TopicTest", "Receive message[msgId="),
        ("broadcast", "min", "subscribe callback: "),
    ],
)
def test_a_consumer_reads_what_kafka_sends(
    node: EmbeddedNode, tmp_path: Path, name: str, topic: str, printed: str
) -> None:
    with started(f"consumer/{name}", tmp_path) as example:
        # A group without offsets begins at the end: messages that come later are for it, whenever it has begun.
        def has_read() -> bool:
            produce(node, topic, 4)
            return printed in example.text

        until(has_read, what=f"{printed} in {example}", deadline_s=DEADLINE_S, between_s=1.0)


@pytest.mark.parametrize("name", ["concurrent", "order"])
def test_a_message_that_a_consumer_refuses_comes_again(node: EmbeddedNode, tmp_path: Path, name: str) -> None:
    with started(f"consumer/retry/{name}", tmp_path) as example:

        def has_read() -> bool:
            produce(node, "TopicTest", 4)
            return "ReconsumeTimes=1" in example.text

        until(has_read, what=f"a retry in {example}", deadline_s=DEADLINE_S, between_s=1.0)


def test_transactions_are_checked_and_decided(node: EmbeddedNode, tmp_path: Path) -> None:
    """Its 10 messages are undecided until it is asked, after 6 s; then 3 are committed and 4 are rolled back."""
    with started("producer/transaction", tmp_path) as example:
        example.prints("send message success", 10)
        example.prints("checkLocalTransaction COMMIT_MESSAGE", 3)
        example.prints("checkLocalTransaction ROLLBACK_MESSAGE", 4)
        example.prints("checkLocalTransaction unknow", 3 + 3)  # it is asked again after 30 s
    committed = sum(standing.end or 0 for standing in node.standings("nobody", "TopicTest5"))
    assert committed == 3


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_request_gets_its_reply(node: EmbeddedNode, tmp_path: Path, way: str) -> None:
    with started("consumer/rpc", tmp_path) as answering:
        # It begins at the end of each queue, where the example's only request must not be yet.
        answering.prints("fetch offset of mq from broker success", QUEUES)
        with started(f"producer/rpc/{way}", tmp_path) as asking:
            answering.prints("reply to ")
            asking.prints("Requst to RequestTopic cost:")
