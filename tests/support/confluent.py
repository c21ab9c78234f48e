"""What several tests do with confluent-kafka: send a list and see every record acknowledged, read until a count."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

DEADLINE_S: Final = 30.0
POLL_S: Final = 0.1
LEAVE_POLL_S: Final = 0.005
LEAVE_POLLS_MIN: Final = 4  # an assignment that was on its way comes before its revocation
LEAVE_POLLS_MAX: Final = 2000
RESTLESS_GROUP: Final = {  # notices joins and leaves fast
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 200,
    "auto.offset.reset": "earliest",
}


def producer(bootstrap: str, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, **_dotted(settings)})


def consumer(bootstrap: str, group: str, **settings: Any) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": group, **RESTLESS_GROUP, **_dotted(settings)})


def send(to: Producer, topic: str, values: Iterable[bytes], **more: Any) -> list[Message]:
    """Sends each value and waits; the delivery reports in the order they came. Raises AssertionError on any error."""
    reports: list[Message] = []
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error:
            errors.append(error)
        reports.append(message)

    for value in values:
        to.produce(topic, value, on_delivery=delivered, **more)
        to.poll(0)
    unsent = to.flush(DEADLINE_S)
    assert not errors, errors[:3]
    assert not unsent
    return reports


def read(source: Consumer, count: int, deadline_s: float = DEADLINE_S) -> list[Message]:
    """Polls until `count` records came. Raises AssertionError at an error or at the deadline."""
    give_up = time.monotonic() + deadline_s
    messages: list[Message] = []
    while len(messages) < count:
        for message in source.consume(count - len(messages), POLL_S):
            assert not message.error(), message.error()
            messages.append(message)
        assert time.monotonic() < give_up, f"{len(messages)} of {count} records within {deadline_s:g} s"
    return messages


def read_partition(bootstrap: str, topic: str, partition: int = 0, **settings: Any) -> list[Message]:
    """Everything in a partition that is committed, from its start to the end it had when asked."""
    reader = consumer(bootstrap, "reader", enable_auto_commit=False, enable_partition_eof=True, **settings)
    try:
        start, end = reader.get_watermark_offsets(TopicPartition(topic, partition), DEADLINE_S)
        if end <= start:
            return []
        reader.assign([TopicPartition(topic, partition, start)])
        give_up = time.monotonic() + DEADLINE_S
        messages: list[Message] = []
        while not messages or offset_of(messages[-1]) < end - 1:
            for message in reader.consume(10_000, POLL_S):
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return messages  # what ends it are markers of transactions
                assert error is None, error
                messages.append(message)
                give_up = time.monotonic() + DEADLINE_S
            assert time.monotonic() < give_up, f"{len(messages)} records of {start} to {end}, then none"
        return messages
    finally:
        reader.close()


def leave(consumer: Consumer) -> None:
    """Gives up what it was assigned, then closes.

    A rebalance in the middle of `close` hangs a consumer that has callbacks, with the interpreter's lock in its hand.
    """
    consumer.unsubscribe()
    for turn in range(LEAVE_POLLS_MAX):
        consumer.poll(LEAVE_POLL_S)
        if turn >= LEAVE_POLLS_MIN and not consumer.assignment():
            break
    consumer.close()


def values(messages: Sequence[Message]) -> list[bytes]:
    return [message.value() or b"" for message in messages]


def offset_of(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def _dotted(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in settings.items()}
