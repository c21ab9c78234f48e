"""The topics that Spark reads under measurement, as a Java producer would have filled them; made and deleted here.

Strategy: librdkafka sends records of 1,000 keys and random values, spread evenly, in batches of 16 KB, which is what
Java clients send by default. An unacknowledged record raises.
"""

import random
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

BATCH_BYTES: Final = 16384
KEY_COUNT: Final = 1000
FLUSH_S: Final = 300.0
ADMIN_S: Final = 30.0
LOG_ERRORS: Final = 3


def make_topic(bootstrap: str, topic: str, partitions: int) -> None:
    admin = _admin(bootstrap)  # its own name: the future fails once the client is collected
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(ADMIN_S)


def delete_topic(bootstrap: str, topic: str) -> None:
    admin = _admin(bootstrap)
    admin.delete_topics([topic])[topic].result(ADMIN_S)


def fill(bootstrap: str, topic: str, rows: int, size: int, partitions: int = 4) -> None:
    """Makes the topic and sends `rows` records with values of `size` bytes. Raises RuntimeError if any is lost."""
    make_topic(bootstrap, topic, partitions)
    source = random.Random(1)
    block = [{"key": b"key-%04d" % index, "value": source.randbytes(size)} for index in range(KEY_COUNT)]
    failed: list[object] = []

    def on_delivery(error: object, _message: object) -> None:
        failed.append(error)

    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap, "acks": "1", "linger.ms": 5, "batch.size": BATCH_BYTES,
        "queue.buffering.max.kbytes": 2**18, "delivery.report.only.error": True, "on_delivery": on_delivery,
    }  # fmt: skip
    producer: Any = Producer(settings)
    share = max(1, min(KEY_COUNT, rows // partitions))
    sent = 0
    while sent < rows:
        part = block[: min(share, rows - sent)]
        queued = 0
        while queued < len(part):
            queued += producer.produce_batch(topic, part[queued:], partition=sent // share % partitions)
            producer.poll(0 if queued == len(part) else 0.02)
        sent += len(part)
    left = producer.flush(FLUSH_S)
    if left or failed:
        raise RuntimeError(f"{topic} was not filled: {left} records unsent, {len(failed)} failed, {failed[:1]}")


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": LOG_ERRORS})
