"""Learning from batches that were appended elsewhere or earlier: by the leader, or before a restart.

Strategy: the state of producers and transactions follows from the batches alone. So a replica that takes the leader's
chunks, and a recovery that reads its own, end with what the log knew that appended them.
"""

from typing import Protocol

from hutong.journal.append.producers import Producers
from hutong.journal.append.transactions import LogTransactions
from hutong.wire.kafka.batch.control_records import Marker
from hutong.wire.kafka.batch.records import BatchHeader


class LearningLog(Protocol):
    """A log that learns: `transactions` is None until `begin_transactions`."""

    @property
    def transactions(self) -> LogTransactions | None: ...

    def known_producers(self) -> Producers: ...

    def begin_transactions(self) -> LogTransactions: ...


def learn_batch(log: LearningLog, batch: BatchHeader, marker: Marker | None, seen_at_ms: int) -> None:
    """Learn from a batch of an idempotent producer what its log learned when it was appended (KIP-98)."""
    producer_id, epoch, producers = batch.producer_id, batch.producer_epoch, log.known_producers()
    if marker is not None:
        producers.record_marker(producer_id, epoch, marker.coordinator_epoch, seen_at_ms)
        if log.transactions is not None:
            log.transactions.end(producer_id, batch.base_offset, is_commit=marker.is_commit)
        return
    count = batch.last_offset_delta + 1
    producers.remember(producer_id, epoch, batch.base_sequence, count, batch.base_offset, seen_at_ms)
    if batch.is_transactional and not batch.is_control:
        log.begin_transactions().begin_transaction(producer_id, batch.base_offset)
