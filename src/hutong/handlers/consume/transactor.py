"""Exactly once: results and the offsets of their messages, in one transaction of Kafka.

Strategy: handlers run outside of transactions. A transaction has only results that are there already, so it is short,
and a slow handler never outlives one. The group's metadata go along (KIP-447): the coordinator refuses the offsets of a
member that has lost its partitions, so the transactional id need not belong to a partition and may be random. Where
the outcome of a commit stays unknown, the consumer must begin again at what is committed: to repeat the results could
write them twice.

Knows no machine. Belongs to the thread of its consumer.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from hutong.bus.durable.failures import cause_of
from hutong.bus.durable.records import OutgoingRecord
from hutong.handlers.consume.messages import Place

BEGIN_S_MAX: Final = 30.0  # for the first one, which may wait for a transaction that was left open
REQUEST_S_MAX: Final = 5.0
COMMIT_TRIES_MAX: Final = 6
# As long as that, at most, others wait for what a killed process has left open. Kafka's default is a minute.
TRANSACTION_TIMEOUT_MS: Final = 20_000
# When its connections break, librdkafka 2.16 by default forgets all brokers, but not the coordinator of the group.
# `send_offsets_to_transaction` then waits for ever, whatever its time-out: seen with lost answers to Produce.
NO_REBOOTSTRAP: Final = {"metadata.recovery.strategy": "none"}


_log = logging.getLogger("hutong.handlers")


class TransactionUnknown(KafkaException):
    """A commit whose outcome is not known: the results may be stored."""


class Transactor:
    """One transactional producer, replaced after each failure."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        transactional_id: str,
        make_producer: Callable[[dict[str, Any]], Producer] = Producer,
    ) -> None:
        self._make_producer = make_producer
        self._settings = {
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            **settings,
            "transactional.id": transactional_id,
        }
        self._settings.pop("message.timeout.ms", None)  # the transaction's own time-out bounds it
        self._producer: Producer | None = None

    def commit(self, consumer: Consumer, offsets: Mapping[Place, int], records: Sequence[OutgoingRecord]) -> None:
        """Store the records and the offsets. Raises KafkaException where nothing is stored, TransactionUnknown else."""
        if not offsets:
            return
        producer = self._open()
        try:
            producer.begin_transaction()
            for record in records:
                _produce(producer, record)
            positions = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), REQUEST_S_MAX)
        except KafkaException:
            self._abort(producer)
            raise
        try:
            _commit(producer)
        except KafkaException as error:
            if cause_of(error).txn_requires_abort():
                self._abort(producer)
                raise
            self._producer = None
            raise TransactionUnknown(*error.args) from error

    def close(self) -> None:
        self._producer = None

    def _open(self) -> Producer:
        if self._producer is None:
            producer = self._made()
            # Waits for a transaction that an earlier producer of the same id has left open.
            producer.init_transactions(BEGIN_S_MAX)
            self._producer = producer
        return self._producer

    def _made(self) -> Producer:
        try:
            return self._make_producer({**NO_REBOOTSTRAP, **self._settings})
        except KafkaException as error:
            # A library from before KIP-899 has neither the setting nor what it switches off.
            if cause_of(error).code() != KafkaError._INVALID_ARG:
                raise
            return self._make_producer(self._settings)

    def _abort(self, producer: Producer) -> None:
        # Replaced in any case: the state of a producer after a failure is no matter of ours.
        self._producer = None
        try:
            producer.abort_transaction(REQUEST_S_MAX)
        except KafkaException as error:
            # No commit was asked for, so the next producer of this id aborts it (`init_transactions`).
            _log.warning("a transaction is left to its successor: %s", cause_of(error).str())


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
