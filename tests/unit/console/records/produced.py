"""Records in a topic of a node, with the times that a test wants."""

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Producer

from hutong.testing import EmbeddedNode


def produce(
    node: EmbeddedNode,
    topic: str,
    records: Sequence[tuple[int, str | bytes | None, int]],
    *,
    key: bytes | None = None,
    headers: Any = None,
) -> None:
    """Partition, value and time of each."""
    failures: list[Any] = []
    producer = Producer({"bootstrap.servers": node.bootstrap, "message.max.bytes": 10_000_000})
    for partition, value, timestamp_ms in records:
        producer.produce(
            topic,
            value,
            key,
            partition=partition,
            timestamp=timestamp_ms,
            headers=headers,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(20) == 0
    assert failures == []
