"""From one record of a transactional id to the next: what changes with each step, and nothing of when it may be taken.

Epochs fence producers: one with an older epoch may write no more. With version 2 of the protocol (KIP-890) each end of
a transaction raises the epoch, so that what is late of one transaction can never become part of the next. The highest
epoch is never given to a client: it is kept for the fence. When an id has come so far, it gets a new producer id.
"""

from dataclasses import replace
from typing import Final

from hutong.transactions.messages import (
    EPOCH_BUMPING,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME_MS,
    ProducerIdentity,
    TopicPartition,
    TransactionRecord,
)
from hutong.transactions.states import TransactionState

EPOCH_MAX: Final = 2**15 - 1


def is_exhausted(producer_epoch: int) -> bool:
    """Return True if there is no higher epoch that a client may get."""
    return producer_epoch >= EPOCH_MAX - 1


def initialised(
    record: TransactionRecord, expected: ProducerIdentity | None, timeout_ms: int, fresh_producer_id: int, now_ms: int
) -> TransactionRecord | None:
    """Give the id to a new producer, or a new epoch to its own (KIP-360). None if the producer has been fenced."""
    producer_id, epoch = record.producer_id, record.producer_epoch
    # The last epoch stays free for the fence, so the id gets a new producer id.
    if is_exhausted(epoch) and (expected is None or expected.producer_epoch == epoch):
        producer_id, new_epoch = fresh_producer_id, 0
        last_epoch = NO_PRODUCER_EPOCH if expected is None else epoch
    # A new instance of the application. A higher epoch fences the one before (KIP-98).
    elif expected is None:
        new_epoch, last_epoch = epoch + 1, NO_PRODUCER_EPOCH
    # The producer recovers from an error on its own (KIP-360), and names its current epoch.
    elif epoch in (NO_PRODUCER_EPOCH, expected.producer_epoch):
        new_epoch, last_epoch = epoch + 1, epoch
    elif expected.producer_epoch == record.last_producer_epoch:
        new_epoch, last_epoch = epoch, record.last_producer_epoch  # asked again: the answer may have been lost
    else:
        return None
    return replace(
        record,
        state=TransactionState.EMPTY,
        producer_id=producer_id,
        producer_epoch=new_epoch,
        last_producer_epoch=last_epoch,
        previous_producer_id=record.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        started_at_ms=NO_TIME_MS,
        updated_at_ms=now_ms,
    )


def extended(
    record: TransactionRecord, partitions: frozenset[TopicPartition], client_version: int, now_ms: int
) -> TransactionRecord:
    """More partitions are part of the transaction, which begins where there was none."""
    return replace(
        record,
        state=TransactionState.ONGOING,
        previous_producer_id=record.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        partitions=record.partitions | partitions,
        started_at_ms=record.started_at_ms if record.state is TransactionState.ONGOING else now_ms,
        updated_at_ms=now_ms,
        client_version=client_version,
    )


def decided(
    record: TransactionRecord, *, is_commit: bool, client_version: int, fresh_producer_id: int, now_ms: int
) -> TransactionRecord:
    """The decision to commit or abort: once durable, it is never changed."""
    epoch, last_epoch, next_producer_id = record.producer_epoch, record.last_producer_epoch, NO_PRODUCER_ID
    if client_version >= EPOCH_BUMPING:
        # The answer to the end carries the new identity, so the producer needs no further InitProducerId.
        next_producer_id = fresh_producer_id if is_exhausted(epoch) else NO_PRODUCER_ID
        epoch, last_epoch = min(epoch + 1, EPOCH_MAX), epoch
    is_ongoing = record.state is TransactionState.ONGOING
    return replace(
        record,
        state=TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        previous_producer_id=record.producer_id,
        next_producer_id=next_producer_id,
        started_at_ms=record.started_at_ms if is_ongoing else now_ms,  # with version 2 nothing need have begun
        updated_at_ms=now_ms,
        client_version=client_version,
    )


def fenced(record: TransactionRecord, now_ms: int) -> TransactionRecord:
    """The coordinator aborts the transaction and shuts its producer out, with the last epoch if need be."""
    return decided(
        record, is_commit=False, client_version=EPOCH_BUMPING, fresh_producer_id=NO_PRODUCER_ID, now_ms=now_ms
    )


def completed(record: TransactionRecord, now_ms: int) -> TransactionRecord:
    """Every partition has its marker."""
    producer_id, epoch = record.producer_id, record.producer_epoch
    # The markers used the last epoch of the old id. From the completion on the id has a new one.
    if record.next_producer_id != NO_PRODUCER_ID:
        producer_id, epoch = record.next_producer_id, 0
    is_commit = record.state is TransactionState.PREPARE_COMMIT
    return replace(
        record,
        state=TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
        producer_id=producer_id,
        producer_epoch=epoch,
        previous_producer_id=record.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        # A completed transaction needs no partitions: nothing is left to be marked.
        partitions=frozenset(),
        updated_at_ms=now_ms,
    )
