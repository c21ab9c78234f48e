"""Bulk throughput by librdkafka: how fast one partition takes and gives records, and what that costs the broker.

Strategy: `produce_batch` and `consume(n)`, which spend the least of Python per record; the bare server shows how much
of a figure is the client's. Success is checked without a callback for each record: librdkafka reports errors only, none
may come, and the partition's offsets must have advanced by exactly the records sent. Consumed offsets must have no gap.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from bench.compare import Figure, Measurement
from bench.figures import cpu_seconds, memory
from bench.raw_client import BrokerError
from bench.targets import Target

PRODUCED: Final = Figure("produce", "k records/s", True, 0)
CONSUMED: Final = Figure("consume", "k records/s", True, 0)
PRODUCED_MB: Final = Figure("produce", "MB/s", True, 0)
CONSUMED_MB: Final = Figure("consume", "MB/s", True, 0)
PRODUCE_CPU: Final = Figure("broker CPU, produce", "s per 1M records", False)
CONSUME_CPU: Final = Figure("broker CPU, consume", "s per 1M records", False)
RSS: Final = Figure("resident", "MB", False, 0)
PSS: Final = Figure("proportional share", "MB", False, 0)
PEAK_RSS: Final = Figure("peak resident", "MB", False, 0)

EAGER_CONSUMER: Final = {  # by default it stops fetching for a second whenever 100,000 records wait in its queue
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 1_000_000,
    "fetch.queue.backoff.ms": 1,
    "enable.auto.commit": False,
}
CHUNK_RECORDS: Final = 10_000
SILENCE_S_MAX: Final = 30.0


@dataclass(frozen=True, slots=True)
class Bulk:
    """One kind of bulk load."""

    value_bytes: int
    acks: str
    records: int

    @property
    def name(self) -> str:
        return f"throughput, {self.value_bytes} B, acks={self.acks}"


def measurements(targets: Sequence[Target], *, records: int, turns: int) -> list[Measurement]:
    """100 B and 1 KiB with acks 1 and all; at 1 KiB a fifth of the records."""
    kinds = [
        Bulk(size, acks, count)
        for size, count in ((100, records), (1024, max(records // 5, 1)))
        for acks in ("1", "all")
    ]
    return [Measurement(bulk.name, partial(measure, bulk), targets, turns) for bulk in kinds]


def memory_measurement(targets: Sequence[Target]) -> Measurement:
    """The brokers' memory after all earlier measurements."""
    known = [target for target in targets if target.pid and not target.is_ceiling]
    return Measurement("memory after the load", measure_memory, known, turns=1, warm_up=False)


def measure(bulk: Bulk, target: Target, turn: int) -> dict[Figure, float]:
    """One turn: a fresh topic, `bulk.records` in, all of them out."""
    topic = f"bulk-{bulk.value_bytes}-{bulk.acks}-{turn}-{time.time_ns()}"
    target.create_topic(topic)
    cpu_begun = _cpu(target)
    produce_s = produce(target.librdkafka, topic, bulk)
    cpu_between = _cpu(target)
    consume_s = consume(target.librdkafka, topic, bulk.records)
    cpu_ended = _cpu(target)
    if not target.is_ceiling:
        delete_topic(target.bootstrap, topic)
    rates = {PRODUCED: bulk.records / produce_s / 1e3, CONSUMED: bulk.records / consume_s / 1e3}
    megabytes = bulk.records * bulk.value_bytes / 1e6
    figures = {**rates, PRODUCED_MB: megabytes / produce_s, CONSUMED_MB: megabytes / consume_s}
    if target.pid:
        millions = bulk.records / 1e6
        figures[PRODUCE_CPU] = (cpu_between - cpu_begun) / millions
        figures[CONSUME_CPU] = (cpu_ended - cpu_between) / millions
    return figures


def measure_memory(target: Target, _turn: int) -> Mapping[Figure, float]:
    assert target.pid
    now = memory(target.pid)
    return {RSS: now.rss_mb, PSS: now.pss_mb, PEAK_RSS: now.peak_rss_mb}


def produce(client: Mapping[str, str], topic: str, bulk: Bulk) -> float:
    """Seconds until all of `bulk.records` are acknowledged. Raises `BrokerError` when one is not."""
    errors: list[KafkaError] = []

    def failed(error: KafkaError | None, _message: Message) -> None:
        if error:
            errors.append(error)

    producer = Producer(
        {
            **client,
            "acks": bulk.acks,
            "delivery.report.only.error": True,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    producer.list_topics(topic, SILENCE_S_MAX)
    chunk: list[dict[str, Any]] = [{"value": bytes(bulk.value_bytes)}] * CHUNK_RECORDS
    begun = time.perf_counter()
    waiting = bulk.records
    while waiting:
        part = chunk if waiting >= CHUNK_RECORDS else chunk[:waiting]
        queued = producer.produce_batch(topic, part, partition=0, on_delivery=failed)
        waiting -= queued
        producer.poll(0 if queued else 0.01)
    unsent = producer.flush(SILENCE_S_MAX)
    elapsed = time.perf_counter() - begun
    if errors or unsent:
        raise BrokerError(f"{topic}: {len(errors)} errors, {unsent} unacknowledged; {errors[:1]}")
    return elapsed


def consume(client: Mapping[str, str], topic: str, records: int) -> float:
    """Seconds from the assignment until `records` are here, from offset 1 to the end of the partition."""
    consumer = Consumer({**client, "group.id": "bench", **EAGER_CONSUMER})
    try:
        _, end_offset = consumer.get_watermark_offsets(TopicPartition(topic, 0), SILENCE_S_MAX)
        if end_offset != records + 1:
            raise BrokerError(f"{topic}: end offset {end_offset} after {records} acknowledged records and one before")
        begun = time.perf_counter()
        consumer.assign([TopicPartition(topic, 0, 1)])
        consumed = 0
        while consumed < records:
            messages = consumer.consume(CHUNK_RECORDS, SILENCE_S_MAX)
            consumed += len(messages)
            if not messages or messages[-1].error() or messages[-1].offset() != consumed:
                what = messages[-1].error() or messages[-1].offset() if messages else "nothing"
                raise BrokerError(f"{topic}: {what} came after {consumed} of {records} records")
        return time.perf_counter() - begun
    finally:
        consumer.close()


def delete_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # in a variable: it must outlive its futures
    admin.delete_topics([topic])[topic].result(SILENCE_S_MAX)


def _cpu(target: Target) -> float:
    return cpu_seconds(target.pid) if target.pid else 0.0
