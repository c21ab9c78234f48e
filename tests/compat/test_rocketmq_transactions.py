"""Transactional messages of RocketMQ's own clients: seen by nobody before their commit, Kafka's readers among them.

Also their requests and replies.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message
from tests.support.rocketmq import NEW, OLD, REQUEST_SOURCE, TRANSACTION_SOURCE, RocketPeer
from tests.support.waiting import until

from hutong.testing import EmbeddedNode

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(300)]
SETTINGS = {
    "rocketmq.listen": "127.0.0.1:0",
    # Long enough for a machine that runs all tests at once: what is decided at once must not be asked about.
    "rocketmq.transaction_timeout_ms": "3000",
    "rocketmq.transaction_check_interval_ms": "5000",
}
SENT = 40


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with EmbeddedNode(settings=SETTINGS) as running:
        yield running


@pytest.fixture(scope="module", params=[pytest.param(OLD, marks=pytest.mark.thorough), NEW])
def version(request: pytest.FixtureRequest) -> str:
    version: str = request.param
    return version


def read(node: EmbeddedNode, topic: str, count: int) -> list[tuple[str, str, dict[str, bytes]]]:
    """Value, key and headers of all records, as confluent-kafka reads them once there are so many."""
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"})
    found: list[Message] = []

    def has_all() -> bool:
        found.extend(message for message in consumer.consume(count, 0.5) if message.error() is None)
        return len(found) >= count

    try:
        consumer.subscribe([topic])
        until(has_all, what=f"{count} records")
        return [
            ((each.value() or b"").decode(), (each.key() or b"").decode(), dict(each.headers() or ()))  # type: ignore[arg-type]
            for each in found
        ]
    finally:
        consumer.close()


def test_each_message_is_seen_if_it_is_committed(node: EmbeddedNode, version: str, tmp_path: Path) -> None:
    topic = f"Transactions-{version}".replace(".", "_")
    node.create_topic(topic, partitions=4)
    peer = RocketPeer(version, tmp_path, source=TRANSACTION_SOURCE)
    told = peer.run(node.rocketmq or "", topic, f"group-{topic}", str(SENT), str(SENT // 2))
    asked = [each for each in told if each["what"] == "asked"]
    sent = {each["number"]: each for each in told if each["what"] == "sent"}
    assert sorted(each["number"] for each in asked) == [number for number in range(SENT) if number % 4 >= 2]
    for each in asked:
        assert (each["topic"], each["keys"], each["n"]) == (topic, f"key-{each['number']}", str(each["number"]))
        assert each["id"] == sent[each["number"]]["id"]
    found = read(node, topic, SENT // 2)
    assert sorted(int(value) for value, _, _ in found) == [number for number in range(SENT) if number % 4 in (0, 2)]
    for value, key, headers in found:
        assert key == f"key-{value}"
        assert headers["n"] == value.encode()
        assert headers["UNIQ_KEY"].decode() == sent[int(value)]["id"]


def test_requests_are_answered(node: EmbeddedNode, version: str, tmp_path: Path) -> None:
    topic = f"Requests-{version}".replace(".", "_")
    node.create_topic(topic, partitions=2)
    # Java 5.3.3 takes a request for failed as soon as it is stored (5.5 mends it), except with a callback.
    way = "sync" if version == OLD else "callback"
    told = RocketPeer(version, tmp_path, source=REQUEST_SOURCE).run(node.rocketmq or "", topic, "5", way)
    assert [each["body"] for each in told] == [*(f"answer-{number}" for number in range(5)), "timeout"]
    assert {each.get("size") for each in told} == {5_000 + len("answer-0"), None}, "it came compressed"
    assert {each.get("topic") for each in told} == {"DefaultCluster_REPLY_TOPIC", None}
