"""The Kafka clients of one redrive: a consumer of the dead letters and a transactional producer.

Strategy: the transactional id and the progress group belong to the topic of dead letters, so that a second redrive of
it, of any process, fences the first; the coordinator then knows one truth. The group never has members: its offsets are
written by the transactions alone. The consumer stays as it is when the producer is replaced.

Decides nothing. Every method blocks; one call at a time.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from hutong.bus.durable.consume.fetcher import record_of_message
from hutong.bus.durable.failures import cause_of
from hutong.bus.durable.records import OutgoingRecord, StoredRecord
from hutong.console.dead_letters.conventions.known import letter_of
from hutong.console.dead_letters.conventions.letter import DeadLetter
from hutong.console.dead_letters.redriving.messages import LetterSpan, StoreLetters
from hutong.console.dead_letters.redriving.progress import RedriveProgress, decode_progress

NAME_PREFIX: Final = "hutong-redrive-"
OPEN_S_MAX: Final = 30.0  # for a transaction that an earlier redrive has left open
REQUEST_S_MAX: Final = 10.0
COMMIT_TRIES_MAX: Final = 4
TRANSACTION_TIMEOUT_MS: Final = 20_000
READ_S: Final = 1.0
READ_BYTES_MAX: Final = 8 << 20
_TARGET_FAULTS: Final = frozenset(
    (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.TOPIC_EXCEPTION,
    )
)
_LETTERS_FAULTS: Final = frozenset(
    (
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,  # as a record without a key for a compacted topic
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.POLICY_VIOLATION,
    )
)
_FENCED: Final = frozenset(
    (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_TXN_STATE)
)
_log = logging.getLogger("hutong.console")


def redrive_group(topic: str) -> str:
    """The progress group of a topic of dead letters, which is the transactional id, too."""
    return NAME_PREFIX + topic


LettersFound = tuple[list[tuple[StoredRecord, DeadLetter]], list[int]]
"""Letters, and the partitions at whose end the reader is."""


class BatchRefused(KafkaException):
    """A batch that is not stored because of what is in it. `targets` take no records of this user, by the reason."""

    def __init__(self, error: KafkaError, targets: Mapping[str, str]) -> None:
        super().__init__(error)
        self.targets = targets


class RedriveClients:
    """`properties` are librdkafka's, of the redrive's user. A dry run opens no producer."""

    def __init__(self, properties: Mapping[str, Any], topic: str, *, is_dry: bool = False) -> None:
        # librdkafka 2.16 can otherwise wait for ever for a coordinator that it has forgotten.
        self._properties = {**properties, "metadata.recovery.strategy": "none"}
        self._topic = topic
        self._is_dry = is_dry
        self._assigned: set[int] = set()
        self._producer: Producer | None = None
        self._consumer = Consumer(
            {
                **self._properties,
                "group.id": redrive_group(topic),
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",  # letters that retention has deleted meanwhile are gone
                "queued.max.messages.kbytes": 2 * READ_BYTES_MAX >> 10,
            }
        )

    def open(self) -> dict[int, LetterSpan]:
        """Fence other redrives, end what they left open, and tell what is done. Raises KafkaException, HutongError."""
        if not self._is_dry:
            self._producer = None
            producer = Producer(
                {
                    **self._properties,
                    "transactional.id": redrive_group(self._topic),
                    "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                    "partitioner": "murmur2_random",  # as Java's clients: the same key, the same partition
                    "message.max.bytes": 64 << 20,  # the topic's own bound answers
                }
            )
            producer.init_transactions(OPEN_S_MAX)
            self._producer = producer
        return letter_spans(self._consumer, self._topic)

    def read(self, records_max: int, positions: Mapping[int, int]) -> LettersFound:
        """Letters that are there, or that come first within a second, and partitions at whose end the reader is."""
        self._assign(positions)
        letters: list[tuple[StoredRecord, DeadLetter]] = []
        ended: list[int] = []
        size_bytes = 0
        while len(letters) < records_max and size_bytes < READ_BYTES_MAX:
            message = self._consumer.poll(0 if letters or ended else READ_S)
            if message is None:
                break
            error = message.error()
            if error is None:
                record = record_of_message(message)
                size_bytes += record.size_bytes
                letters.append((record, letter_of(record)))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.append(int(message.partition() or 0))
            # First what came before it: an error that lasts comes again with the next read.
            elif not letters:
                raise KafkaException(error)
        return letters, ended

    def store(self, batch: StoreLetters) -> None:
        """Produce the records and commit the progress in one transaction. Raises BatchRefused, or KafkaException."""
        producer = self._producer
        assert producer is not None, "it is opened before anything is stored"
        failures: list[tuple[str, KafkaError]] = []

        def reported(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                failures.append((message.topic(), error))

        producer.begin_transaction()
        for record in batch.records:
            _produce(producer, record, reported)
        producer.flush(REQUEST_S_MAX)
        offsets = [
            TopicPartition(self._topic, partition, progress.offset, progress.encode())
            for partition, progress in batch.progress.items()
        ]
        try:
            # Without members: the transactional id fences, not a generation (KIP-447 asks for one only of consumers).
            producer.send_offsets_to_transaction(offsets, self._consumer.consumer_group_metadata(), REQUEST_S_MAX)
        except KafkaException as error:
            # Where a partition could not be added to the transaction, its records are only purged: this has the reason.
            failures += [(topic, cause_of(error)) for topic in {record.topic for record in batch.records}]
        if failures:
            _abort(producer)
            raise _refusal(failures)
        _commit(producer)

    def close(self) -> None:
        """Close both. A transaction that is open is aborted by the next redrive, or at its time-out."""
        self._producer = None
        self._consumer.close()

    def _assign(self, positions: Mapping[int, int]) -> None:
        if not self._assigned:
            self._consumer.assign([TopicPartition(self._topic, *place) for place in positions.items()])
        # Partitions that are read to their end: what comes there now is none of this redrive's.
        gone = self._assigned - positions.keys()
        if gone:
            self._consumer.incremental_unassign([TopicPartition(self._topic, each) for each in gone])
        self._assigned = {*positions}


def letter_spans(consumer: Consumer, topic: str) -> dict[int, LetterSpan]:
    """The letters of each partition and the progress of redrives. Raises KafkaException, UnreadableProgress. Blocks."""
    found = consumer.list_topics(topic, REQUEST_S_MAX).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    places = [TopicPartition(topic, partition) for partition in sorted(found.partitions)]
    spans = {}
    for place in consumer.committed(places, REQUEST_S_MAX):
        if place.error is not None:
            raise KafkaException(place.error)
        begin, end = consumer.get_watermark_offsets(TopicPartition(topic, place.partition), REQUEST_S_MAX)
        done = decode_progress(max(place.offset, 0), place.metadata) if place.offset >= 0 else RedriveProgress(0)
        # Letters that retention has deleted are done; offsets from before the topic was made anew are none of it.
        done.add(0, begin)
        if done.offset > end:
            done = RedriveProgress(begin)
        spans[place.partition] = LetterSpan(begin, end, done)
    return spans


def is_fenced(error: KafkaError) -> bool:
    """True where another redrive of the topic has begun."""
    return error.code() in _FENCED


def _produce(producer: Producer, record: OutgoingRecord, reported: Any) -> None:
    while True:
        try:
            producer.produce(record.topic, record.value, record.key, headers=[*record.headers], on_delivery=reported)
        except BufferError:  # the library's queue is full: it empties by being polled
            producer.poll(0.1)
        else:
            return


def _refusal(failures: Sequence[tuple[str, KafkaError]]) -> KafkaException:
    # Its plain sentence: the one here names addresses and times, and would be another one each time.
    targets = {topic: KafkaError(error.code()).str() for topic, error in failures if error.code() in _TARGET_FAULTS}
    faults = [error for _, error in failures if error.code() in _LETTERS_FAULTS]
    # The transaction's own error comes last, and says more than those of records that were purged because of it.
    error = faults[0] if faults else failures[-1][1]
    # Of several targets it does not say which one is refused: the batch is cut until it has one.
    if len(targets) > 1:
        return BatchRefused(error, {})
    return BatchRefused(error, targets) if targets or faults else KafkaException(error)


def _commit(producer: Producer) -> None:
    """Commit; again, where the library says that asking again is safe."""
    for tries in range(1, COMMIT_TRIES_MAX + 1):
        try:
            producer.commit_transaction(REQUEST_S_MAX)
        except KafkaException as error:
            if not cause_of(error).retriable() or tries == COMMIT_TRIES_MAX:
                raise
        else:
            return


def _abort(producer: Producer) -> None:
    try:
        producer.abort_transaction(REQUEST_S_MAX)
    except KafkaException as error:
        # No commit was asked for, so the next producer of this id aborts it.
        _log.warning("a transaction of a redrive is left to its successor: %s", cause_of(error).str())
