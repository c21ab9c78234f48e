"""Client quotas as librdkafka's clients feel them, which are told by their throttle callback."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from tests.support.kio_client import KioClient
from tests.support.waiting import until

ALTER_QUOTAS = 49
VALUE = b"x" * 20_000
RECORDS = 60


@pytest.fixture
def quota(bootstrap: str, name: str) -> Iterator[Any]:
    """Sets a quota of the client id that is named after the test; takes it back at the end."""
    client, keys = KioClient(bootstrap), set()

    def change(key: str, value: float | None) -> None:
        keys.add(key)
        op = {"key": key, "value": value or 0.0, "remove": value is None}
        entity = [{"entity_type": "client-id", "entity_name": name}]
        (entry,) = client.call(ALTER_QUOTAS, 1, entries=[{"entity": entity, "ops": [op]}]).entries
        assert not entry.error_code, entry

    yield change
    for key in keys:
        change(key, None)
    client.close()


def test_a_producer_and_a_consumer_are_slowed(bootstrap: str, name: str, quota: Any) -> None:
    throttled: list[int] = []

    def told(event: Any) -> None:
        throttled.append(round(event.throttle_time * 1000))

    common = {"bootstrap.servers": bootstrap, "client.id": name, "throttle_cb": told}
    quota("producer_byte_rate", 50_000)  # of which a window allows ten seconds' worth
    producer = Producer({**common, "linger.ms": 0, "batch.num.messages": 1})
    failures: list[Any] = []
    for _ in range(RECORDS):
        producer.produce(name, VALUE, on_delivery=lambda error, _record: failures.append(error) if error else None)
    until(lambda: producer.poll(0.1) >= 0 and throttled, what="the producer is throttled")
    quota("producer_byte_rate", None)
    assert producer.flush(60) == 0
    assert not failures
    assert max(throttled) > 0

    throttled.clear()
    quota("consumer_byte_rate", 50_000)
    few = {"max.partition.fetch.bytes": 50_000}  # of one fetch, so that the wait for it is short
    consumer = Consumer({**common, "group.id": name, "auto.offset.reset": "earliest"} | few)
    consumer.subscribe([name])
    seen: list[int] = []

    def read() -> bool:
        record = consumer.poll(0.1)
        if record is not None and not record.error():
            seen.append(record.offset() or 0)
        return bool(throttled)

    until(read, what="the consumer is throttled")
    quota("consumer_byte_rate", None)
    until(lambda: read() and len(seen) == RECORDS, what="every record")
    consumer.close()
    assert seen == list(range(RECORDS))
    assert max(throttled) > 0
