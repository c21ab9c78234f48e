"""Events and instructions of one transactional id, and its record.

`now_ms` is wall time, since what is stored outlives the process. A `ticket` names a request that waits for its answer.
Knows nothing of bytes or of who carries instructions out.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from hutong.foundation.machine import Answer, Tick
from hutong.transactions.states import TransactionState
from hutong.wire.kafka.error_codes import ErrorCode

TopicPartition: TypeAlias = tuple[str, int]

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_TIME_MS: Final = -1
# How clients end transactions: from version 2 on each end raises the epoch, and partitions need not be added (KIP-890).
CLASSIC: Final = 0
EPOCH_BUMPING: Final = 2


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """The durable state of one transactional id: all that Kafka stores, except `last_producer_epoch`.

    `previous_producer_id` is what the id had before the change of this record. `next_producer_id` is taken
    when the transaction is complete, because the epochs of the present one are used up. `started_at_ms` is NO_TIME_MS
    until the id has had a transaction.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_at_ms: int = NO_TIME_MS
    updated_at_ms: int = NO_TIME_MS
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    client_version: int = CLASSIC


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """A producer id and the epoch in which its owner believes to be."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class TransactionReply:
    """The answer to any request. The identity is that of the producer from now on, where the request may change it."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


# ---- events


@dataclass(frozen=True, slots=True)
class Init:
    """InitProducerId. `expected` is what the producer had before, if it sends that (KIP-360)."""

    ticket: int
    now_ms: int
    timeout_ms: int
    expected: ProducerIdentity | None
    fresh_producer_id: int


@dataclass(frozen=True, slots=True)
class Add:
    """Partitions that the transaction is about to write to; the first begin it."""

    ticket: int
    now_ms: int
    producer: ProducerIdentity
    partitions: frozenset[TopicPartition]
    client_version: int


@dataclass(frozen=True, slots=True)
class EndTransaction:
    ticket: int
    now_ms: int
    producer: ProducerIdentity
    is_commit: bool
    client_version: int
    fresh_producer_id: int


@dataclass(frozen=True, slots=True)
class TransactionPersisted:
    record: TransactionRecord


@dataclass(frozen=True, slots=True)
class TransactionPersistFailed:
    """`may_be_there`: the record may yet turn out to be on disk."""

    record: TransactionRecord
    error: ErrorCode
    may_be_there: bool
    now_ms: int


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    now_ms: int


@dataclass(frozen=True, slots=True)
class MarkersFailed:
    """Some markers could not be written: `remaining` are their partitions."""

    remaining: frozenset[TopicPartition]
    now_ms: int


Event: TypeAlias = (
    Init
    | Add
    | EndTransaction
    | TransactionPersisted
    | TransactionPersistFailed
    | MarkersWritten
    | MarkersFailed
    | Tick
)


# ---- instructions


@dataclass(frozen=True, slots=True)
class PersistTransaction:
    """Store the record, then feed TransactionPersisted or TransactionPersistFailed."""

    record: TransactionRecord


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """End the transaction in each partition, then feed MarkersWritten or MarkersFailed."""

    producer: ProducerIdentity
    is_commit: bool
    partitions: frozenset[TopicPartition]


Instruction: TypeAlias = Answer[TransactionReply] | PersistTransaction | WriteMarkers
