"""confluent-kafka at a secured node."""

import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.compat.secured.jobs import (
    CREATE,
    KNOCK,
    PATIENCE_S,
    READ,
    RECORDS,
    SECONDS_MAX,
    STAY,
    WORK,
    WRITE,
    Job,
    check,
    told,
)
from tests.support.waiting import until

QUIET: Final = {"log_level": 0}
EAGER: Final = {"auto.offset.reset": "earliest", "session.timeout.ms": 6000, "enable.auto.commit": False}
IN_FLIGHT: Final = 1_000
ALONE: Final = {KafkaError._ALL_BROKERS_DOWN}  # comes after the error that tells why


class Told(Exception):
    """An error that came by the callback."""


class Ears:
    """Keeps what the client's error callback is told."""

    def __init__(self) -> None:
        self._errors: list[KafkaError] = []

    def settings(self, job: Job) -> dict[str, Any]:
        return {**job.access.librdkafka(), **QUIET, "error_cb": self._errors.append}

    def check(self) -> None:
        found = [error for error in self._errors if error.code() not in ALONE]
        if found:
            raise Told(f"{found[0].name()}: {found[0].str()}")


def attempt(job: Job) -> str:
    try:
        ACTIONS[job.action](job, Ears())
    except (AssertionError, KafkaException, Told) as error:
        return told(error)
    return ""


def _work(job: Job, ears: Ears) -> None:
    admin = AdminClient(ears.settings(job))
    admin.create_topics([NewTopic(job.name, 2, 1)])[job.name].result(SECONDS_MAX)
    _send(job, ears, RECORDS)
    consumer = Consumer({**ears.settings(job), **EAGER, "group.id": job.name})
    consumer.subscribe([job.name])
    try:
        seen = _values(consumer, RECORDS, ears)
        consumer.commit(asynchronous=False)
    finally:
        _close(consumer)
    check(sorted(seen), sorted(b"%d" % number for number in range(RECORDS)), "records")
    asked = [ConsumerGroupTopicPartitions(job.name)]
    offsets = admin.list_consumer_group_offsets(asked)[job.name].result(SECONDS_MAX).topic_partitions
    check(sum(part.offset for part in offsets), RECORDS, "committed")
    admin.delete_topics([job.name])[job.name].result(SECONDS_MAX)
    ears.check()


def _knock(job: Job, ears: Ears) -> None:
    admin = AdminClient(ears.settings(job))
    give_up = time.monotonic() + PATIENCE_S
    while True:
        try:
            admin.list_topics(timeout=0.1)
            return
        except KafkaException as error:
            admin.poll(0)
            ears.check()
            if time.monotonic() > give_up:
                raise AssertionError("no error was told") from error


def _write(job: Job, ears: Ears) -> None:
    _send(job, ears, 1)


def _read(job: Job, ears: Ears) -> None:
    consumer = Consumer({**ears.settings(job), **EAGER, "group.id": f"{job.name}-group"})
    consumer.subscribe([job.name])
    try:
        _values(consumer, 1, ears)
    finally:
        _close(consumer)


def _create(job: Job, ears: Ears) -> None:
    admin = AdminClient(ears.settings(job))  # in a variable: it must outlive its futures
    admin.create_topics([NewTopic(job.name, 1, 1)])[job.name].result(SECONDS_MAX)


def _stay(job: Job, ears: Ears) -> None:
    """Many requests are in flight all the time. What it tells the callback is its own affair, if all records come."""
    sure = {"enable.idempotence": True, "message.timeout.ms": int(SECONDS_MAX * 1000)}
    producer = Producer({**ears.settings(job), **sure, "linger.ms": 0})
    consumer = Consumer({**ears.settings(job), **EAGER, "group.id": job.name})
    consumer.subscribe([job.name])
    errors: list[KafkaError] = []
    sent, seen = 0, 0
    end = time.monotonic() + job.seconds
    try:
        while time.monotonic() < end or seen < sent:
            while sent - seen < IN_FLIGHT and time.monotonic() < end:
                producer.produce(job.name, b"%d" % sent, on_delivery=_kept(errors))
                sent += 1
            producer.poll(0)
            for message in consumer.consume(IN_FLIGHT, 0.1):
                check((message.error(), message.value()), (None, b"%d" % seen), "the record")
                seen += 1
            assert time.monotonic() < end + SECONDS_MAX, f"{seen} of {sent} records"
        consumer.commit(asynchronous=False)
    finally:
        _close(consumer)
    check(errors, [], "errors")


def _kept(errors: list[KafkaError]) -> Callable[[KafkaError | None, Message], None]:
    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error:
            errors.append(error)

    return delivered


def _send(job: Job, ears: Ears, count: int) -> None:
    failed: list[KafkaError] = []
    producer = Producer({**ears.settings(job), "message.timeout.ms": int(SECONDS_MAX * 1000)})
    for number in range(count):
        producer.produce(job.name, b"%d" % number, on_delivery=_kept(failed))
    until(lambda: producer.flush(0.1) == 0, what="all sent")
    if failed:
        raise KafkaException(failed[0])


def _values(consumer: Consumer, count: int, ears: Ears) -> list[bytes]:
    seen: list[bytes] = []
    end = time.monotonic() + SECONDS_MAX
    while len(seen) < count:
        message = _poll(consumer)
        if message is not None:
            seen.append(message)
        ears.check()
        assert time.monotonic() < end, f"{len(seen)} of {count} records"
    return seen


def _poll(consumer: Consumer) -> bytes | None:
    message = consumer.poll(0.1)
    if message is None:
        return None
    error = message.error()
    if error:
        raise KafkaException(error)
    return message.value()


def _close(consumer: Consumer) -> None:
    consumer.unsubscribe()
    until(lambda: not consumer.poll(0.01) and not consumer.assignment(), what="no assignment")
    consumer.close()


ACTIONS: Final = {WORK: _work, KNOCK: _knock, WRITE: _write, READ: _read, CREATE: _create, STAY: _stay}
