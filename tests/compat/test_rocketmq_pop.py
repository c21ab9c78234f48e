"""POP consumption by RocketMQ's Java client, which leaves the sharing out of queues to the node."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer
from tests.support.rocketmq import NEW, RocketPeer, told

from hutong.testing import EmbeddedNode

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(300)]
SOURCE: Final = Path(__file__).parent / "java_rocketmq" / "PopPeer.java"
QUEUES: Final = 4


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with EmbeddedNode(settings={"rocketmq.listen": "127.0.0.1:0"}) as running:
        yield running


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> RocketPeer:
    return RocketPeer(NEW, tmp_path_factory.mktemp("offsets"), source=SOURCE)


def produce(node: EmbeddedNode, topic: str, *bodies: str, **headers: str) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number, body in enumerate(bodies):
        producer.produce(topic, body.encode(), headers=dict(headers), partition=number % QUEUES)
    assert producer.flush(30) == 0


def test_java_pops_from_all_queues_and_retries(node: EmbeddedNode, java: RocketPeer) -> None:
    node.create_topic("Popped", partitions=QUEUES)
    produce(node, "Popped", *(f"plain-{number}" for number in range(100)), "failing", TAGS="red")
    produce(node, "Popped", "blue", TAGS="blue")
    found = java.run("pop", node.rocketmq or "", "Popped", "poppers", "red", "102", "failing")
    assert sorted(each["body"] for each in found) == sorted(
        [*(f"plain-{number}" for number in range(100))] + 2 * ["failing"]
    )
    assert {each["queue"] for each in found} == {*range(QUEUES)}
    again = [each for each in found if each["body"] == "failing"]
    # In its own queue, at its own offset.
    assert [each["times"] for each in again] == [0, 1]
    assert (again[0]["queue"], again[0]["offset"]) == (again[1]["queue"], again[1]["offset"])


def test_members_pop_from_one_queue_together(node: EmbeddedNode, java: RocketPeer) -> None:
    node.create_topic("Together", partitions=1)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    members = [java.start("pop", node.rocketmq or "", "Together", "together", "*", "30") for _ in range(2)]
    try:
        number = 0
        while any(member.poll() is None for member in members):
            producer.produce("Together", b"%d" % number)
            producer.poll(0.02)
            number += 1
        first, second = map(told, members)
    finally:
        for member in members:
            member.kill()
    assert min(len(first), len(second)) >= 30
    assert not {each["body"] for each in first} & {each["body"] for each in second}


def test_the_proxys_requests_are_answered_as_by_rocketmq(
    node: EmbeddedNode, tmp_path_factory: pytest.TempPathFactory
) -> None:
    node.create_topic("Ordered", partitions=1)
    peer = RocketPeer(NEW, tmp_path_factory.mktemp("offsets"), source=SOURCE.with_name("PopOrderPeer.java"))
    told = peer.run(node.rocketmq or "", "Ordered", "ordered")
    assert [(each["what"], each["status"], each["found"]) for each in told] == [
        ("first", "FOUND", "m0:0 m1:0"),
        ("held up", "POLLING_NOT_FOUND", ""),
        ("both", "OK", ""),
        ("next", "0", "m2:0 m3:0"),
        ("second", "FOUND", "m2:0 m3:0"),
        ("its second", "OK", ""),
        # RocketMQ 5.5 brings m3 again, which is acknowledged, since it is behind m2. All else is the same there.
        ("third", "FOUND", "m2:1 m4:0"),
        ("all", "OK", ""),
        ("nothing", "19", ""),
    ]
