"""Records that Kafka's clients delay by an inbox: idempotent ones, and those of transactions."""

from collections.abc import Iterator
from typing import Final

import pytest
from confluent_kafka import Message, Producer
from tests.support.confluent import read_partition
from tests.support.waiting import until

from hutong.testing import EmbeddedNode

pytestmark = [pytest.mark.compat, pytest.mark.timeout(120)]
DELAY_MS: Final = 700


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with EmbeddedNode() as running:
        yield running


def with_inbox(node: EmbeddedNode, name: str) -> str:
    """Create a topic with its inbox; returns the inbox."""
    node.create_topic(name, partitions=1, config={"hutong.delay": "true"})
    node.create_topic(f"{name}.delayed", partitions=1)
    return f"{name}.delayed"


def came(node: EmbeddedNode, topic: str, count: int) -> list[Message]:
    def all_of_them() -> list[Message]:
        found = read_partition(node.bootstrap, topic)
        return found if len(found) >= count else []

    return until(all_of_them, what=f"{count} records in {topic}", between_s=0.05)


def test_an_idempotent_producer_delays(node: EmbeddedNode) -> None:
    inbox = with_inbox(node, "plain")
    producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True, "compression.type": "lz4"})
    reports: list[Message] = []
    for number in range(300):
        headers: dict[str, str | bytes | None] = {"n": str(number)}
        if number % 2:
            headers["hutong.delay.ms"] = str(DELAY_MS)
        report = lambda _error, message: reports.append(message)  # noqa: E731
        producer.produce(inbox, b"%d" % number, key=b"k", headers=headers, on_delivery=report)
    assert producer.flush(30) == 0
    assert [each.error() for each in reports] == [None] * 300
    assert [each.offset() for each in reports] == [*range(300)]
    sent_ms = {each.value(): each.timestamp()[1] for each in reports}
    found = came(node, "plain", 300)
    assert {each.value() for each in found} == {b"%d" % number for number in range(300)}
    for each in found:
        found_headers = dict(each.headers() or ())
        assert (each.key(), found_headers["n"]) == (b"k", each.value())
        assert "hutong.delay.ms" not in found_headers or each.timestamp()[1] >= sent_ms[each.value()] + DELAY_MS


def test_an_aborted_transaction_delays_nothing(node: EmbeddedNode) -> None:
    inbox = with_inbox(node, "decided")
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "t"})
    producer.init_transactions(30)
    for number in range(4):
        producer.begin_transaction()
        producer.produce(inbox, b"%d" % number, headers={"hutong.delay.ms": str(DELAY_MS - 100 * number)})
        if number % 2:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    assert {each.value() for each in came(node, "decided", 2)} == {b"1", b"3"}
