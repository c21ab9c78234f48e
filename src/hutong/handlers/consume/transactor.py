"""Exactly once: results and the offsets of their messages, in one transaction of Kafka.

Strategy: handlers run outside of transactions. A transaction has only results that are there already, so it is short,
and a slow handler never outlives one. The group's metadata go along (KIP-447): the coordinator refuses the offsets of a
member that has lost its partitions, so the transactional id need not belong to a partition and may be random.

Knows no machine. Belongs to the thread of its consumer.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from hutong.bus.durable.failures import cause_of
from hutong.bus.durable.records import OutgoingRecord
from hutong.handlers.consume.messages import Place

REQUEST_S_MAX: Final = 30.0
COMMIT_TRIES_MAX: Final = 10
# As long as that, at most, others wait for what a killed process has left open. Kafka's default is a minute.
TRANSACTION_TIMEOUT_MS: Final = 20_000


class Transactor:
    """One transactional producer. A failed one is replaced with the next commit."""

    def __init__(self, settings: Mapping[str, Any], transactional_id: str) -> None:
        self._settings = {
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            **settings,
            "transactional.id": transactional_id,
        }
        self._settings.pop("message.timeout.ms", None)  # the transaction's own time-out bounds it
        self._producer: Producer | None = None

    def commit(self, consumer: Consumer, offsets: Mapping[Place, int], records: Sequence[OutgoingRecord]) -> None:
        """Store the records and the offsets, or neither. Raises KafkaException: nothing is stored, unless it is fatal.

        After a fatal error the outcome may be unknown: the consumer must begin at what is committed.
        """
        if not offsets:
            return
        producer = self._open()
        try:
            producer.begin_transaction()
            for record in records:
                _produce(producer, record)
            positions = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), REQUEST_S_MAX)
            _commit(producer)
        except KafkaException as error:
            self._recover(producer, cause_of(error))
            raise

    def close(self) -> None:
        self._producer = None

    def _open(self) -> Producer:
        if self._producer is None:
            producer = Producer(self._settings)
            # Waits for a transaction that an earlier producer of the same id has left open.
            producer.init_transactions(REQUEST_S_MAX)
            self._producer = producer
        return self._producer

    def _recover(self, producer: Producer, error: KafkaError) -> None:
        if error.fatal():
            self._producer = None
            return
        try:
            producer.abort_transaction(REQUEST_S_MAX)
        except KafkaException:
            # The next producer of this id aborts it (`init_transactions`).
            self._producer = None


def _produce(producer: Producer, record: OutgoingRecord) -> None:
    while True:
        try:
            producer.produce(record.topic, record.value, record.key, headers=[*record.headers])
        except BufferError:  # the library's queue is full: it empties by being polled
            producer.poll(0.1)
        else:
            return


def _commit(producer: Producer) -> None:
    """Commit; again, where the library says that asking again is safe."""
    for tries in range(COMMIT_TRIES_MAX):
        try:
            return producer.commit_transaction(REQUEST_S_MAX)
        except KafkaException as error:
            if not cause_of(error).retriable() or tries + 1 == COMMIT_TRIES_MAX:
                raise
    return None
