"""ali-ons, the RocketMQ client for Node.js: it sends JSON commands with numbers in them, on one connection."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.support.npm import node_modules
from tests.support.waiting import until

from hutong.testing import EmbeddedNode

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(300)]
VERSION: Final = "3.12.0"
CLIENT: Final = Path(__file__).with_name("ali_ons_client.js")
RUN_S_MAX: Final = 110.0
NO_OFFSET: Final = "Not found, maybe this group consumer boot first"
DAY_MS: Final = 24 * 60 * 60 * 1_000
FIRST_DAY_MS: Final = 1_704_067_200_000  # 2024-01-01


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with EmbeddedNode(settings={"rocketmq.listen": "127.0.0.1:0"}) as running:
        yield running


def started(*words: str) -> "subprocess.Popen[str]":
    modules = node_modules(f"ali-ons-{VERSION}", f"ali-ons@{VERSION}", "urllib@2.44.1")
    environment = {**os.environ, "NODE_PATH": str(modules), "TZ": "UTC"}
    pipe = subprocess.PIPE
    return subprocess.Popen(["node", str(CLIENT), *words], env=environment, stdout=pipe, stderr=pipe, text=True)


def told(process: "subprocess.Popen[str]") -> list[dict[str, Any]]:
    try:
        out, err = process.communicate(timeout=RUN_S_MAX)
    finally:
        process.kill()
    assert process.returncode == 0, err[-3_000:]
    found: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    # As an error it also tells that a group has no offset yet, and what its own end has cut off.
    wanted = [number for number, each in enumerate(found) if "error" not in each]
    errors = [each["error"] for each in found[: wanted[-1]] if "error" in each]
    assert [error for error in errors if not error.endswith(NO_OFFSET)] == []
    return [found[number] for number in wanted]


def consumed(node: EmbeddedNode, topic: str, group: str, count: int, **options: object) -> list[dict[str, Any]]:
    return told(started("consume", node.rocketmq or "", topic, group, json.dumps(options), str(count)))


def produce(node: EmbeddedNode, topic: str, *bodies: str) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number, body in enumerate(bodies):
        producer.produce(topic, body.encode(), partition=0, timestamp=FIRST_DAY_MS + number * DAY_MS)
    assert producer.flush(30) == 0


def test_it_sends_and_reads(node: EmbeddedNode) -> None:
    # It makes no topic, as other clients do: a route that is missing is an error to it.
    node.create_topic("AliOns", partitions=4)
    plain, large = told(started("produce", node.rocketmq or "", "AliOns"))
    assert plain["status"] == large["status"] == "SEND_OK"
    found = {each["size"]: each for each in consumed(node, "AliOns", "readers", 2)}
    assert found.keys() == {5, 10_000}
    message = found[5]
    assert (message["body"], message["tags"], message["color"], message["times"]) == ("grün", "red", "grün", 0)
    assert message["keys"] in ("order-1 order-2", ["order-1", "order-2"])
    assert (message["queue"], message["offset"]) == (int(plain["queue"]), plain["offset"])
    (red,) = consumed(node, "AliOns", "by-tag", 1, expression="red")
    assert red["size"] == 5
    expression = {"expressionType": "SQL92", "subString": "color IS NULL"}
    (uncoloured,) = consumed(node, "AliOns", "by-property", 1, expression=expression)
    assert uncoloured["size"] == 10_000

    # It commits at its end, without waiting for an answer.
    def has_committed() -> bool:
        return sum(each.committed or 0 for each in node.standings("readers", "AliOns")) == 2

    until(has_committed, what="the offsets of the group")


def test_what_fails_comes_again(node: EmbeddedNode) -> None:
    node.create_topic("Failing", partitions=1)
    produce(node, "Failing", "again")
    first, second = consumed(node, "Failing", "failing", 2, failing="again")
    assert (first["times"], second["times"]) == (0, 1)
    assert (first["body"], second["body"]) == ("again", "again")


@pytest.fixture(scope="module")
def trimmed(node: EmbeddedNode) -> str:
    """A topic whose first message is gone: otherwise RocketMQ's groups begin with it, whatever they ask for."""
    node.create_topic("Days", partitions=1)
    produce(node, "Days", *(f"day-{number}" for number in range(5)))
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for done in admin.delete_records([TopicPartition("Days", 0, 1)]).values():
        done.result(30)
    return "Days"


@pytest.mark.parametrize(
    ("settings", "first"),
    [
        ({"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"}, 1),
        ({"consumeFromWhere": "CONSUME_FROM_TIMESTAMP", "consumeTimestamp": "20240103000000"}, 2),
    ],
)
def test_it_begins_where_it_asks(node: EmbeddedNode, trimmed: str, settings: dict[str, str], first: int) -> None:
    found = consumed(node, trimmed, settings["consumeFromWhere"], 5 - first, settings=settings)
    assert [each["body"] for each in found] == [f"day-{number}" for number in range(first, 5)]


def test_it_begins_at_the_end(node: EmbeddedNode, trimmed: str) -> None:
    options = json.dumps({"settings": {"consumeFromWhere": "CONSUME_FROM_LAST_OFFSET"}})
    process = started("consume", node.rocketmq or "", trimmed, "last", options, "1")
    producer = Producer({"bootstrap.servers": node.bootstrap})
    try:
        while process.poll() is None:
            producer.produce(trimmed, b"new", partition=0)
            producer.poll(0.02)
        found = told(process)
    finally:
        process.kill()
    assert {each["body"] for each in found} == {"new"}
