"""Clients that are there while a tool looks: members of groups, a producer in a transaction."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from confluent_kafka import Consumer, KafkaException, Producer
from tests.support.waiting import until


@contextmanager
def member(bootstrap: str, topic: str, group: str, **settings: str) -> Iterator[Consumer]:
    """A member of a classic group, once it has its partitions."""
    given: dict[str, str | int | bool] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": "reader",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 100,
        **settings,
    }
    consumer = Consumer(given)
    try:
        consumer.subscribe([topic])

        def has_partitions() -> bool:
            consumer.poll(0.1)
            return bool(consumer.assignment())

        until(has_partitions, what="the member has its partitions")
        yield consumer
    finally:
        consumer.close()


def consumer_protocol_member(bootstrap: str, topic: str, group: str) -> AbstractContextManager[Consumer]:
    """The same of a group of the consumer protocol (KIP-848)."""
    return member(bootstrap, topic, group, **{"group.protocol": "consumer"})


@contextmanager
def open_transaction(bootstrap: str, topic: str, transactional_id: str) -> Iterator[Producer]:
    """A producer whose transaction holds one record and is open."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "client.id": "writer"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"in a transaction", partition=0)
    producer.flush(30)
    try:
        yield producer
    finally:
        with suppress(KafkaException):  # it was ended already
            producer.abort_transaction(30)
