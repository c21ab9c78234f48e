"""Writes of a transaction's end markers: to partition logs, and to the offsets of groups.

Strategy: each partition gets its marker side by side with the others, so that those of one partition group share a
flush. What has gone since needs none, and what refuses a marker because it knows of a newer one has been ended already;
everything else may be tried again.

Knows nothing of how transactions are decided.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.topics.catalogue import OFFSETS_TOPIC
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Continuation
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.topics.catalogue import Topics
    from hutong.groups.offsets.transactional import TransactionalOffsets
    from hutong.transactions.messages import ProducerIdentity, TopicPartition

_ENDED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
_log = logging.getLogger("hutong.transactions")


class TransactionMarkers:
    """Writes markers to the partitions of this node."""

    def __init__(self, topics: Topics, offsets: TransactionalOffsets) -> None:
        self.offsets = offsets  # of the coordinator of groups at this moment
        self._topics = topics

    def write(
        self,
        producer: ProducerIdentity,
        partitions: frozenset[TopicPartition],
        then: Callable[[frozenset[TopicPartition]], None],
        *,
        is_commit: bool,
        coordinator_epoch: int,
    ) -> None:
        """Write the markers; `then` gets the partitions for which that has failed and may be tried again."""
        if not partitions:
            then(frozenset())
            return
        failed: list[TopicPartition] = []
        outstanding = len(partitions)

        def written(partition: TopicPartition, error: HutongError | None) -> None:
            nonlocal outstanding
            if not self._is_over(partition, error):
                failed.append(partition)
            outstanding -= 1
            if not outstanding:
                then(frozenset(failed))

        # In their order: that of a set of names is another one in each process.
        for partition in sorted(partitions):
            settle = partial(written, partition)
            self.write_one(producer, partition, settle, is_commit=is_commit, coordinator_epoch=coordinator_epoch)

    def write_one(
        self,
        producer: ProducerIdentity,
        partition: TopicPartition,
        then: Continuation[None],
        *,
        is_commit: bool,
        coordinator_epoch: int,
    ) -> None:
        """Write one marker; `then` gets None once it is durable."""
        name, index = partition
        found = self._topics.partition(name, index)
        if found is None:
            then(Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This node hosts no such partition."))
        # Offsets of a transaction are kept apart until its end, in the log of all groups (KIP-447).
        elif name == OFFSETS_TOPIC:
            self.offsets.end(producer.producer_id, then, is_commit=is_commit)
        # Only offsets can be part of a transaction among the node's own topics.
        elif found.is_internal:
            then(Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "No transaction writes to this topic."))
        else:
            found.log.append_marker(
                producer.producer_id,
                producer.producer_epoch,
                is_commit=is_commit,
                coordinator_epoch=coordinator_epoch,
                then=then,
            )

    def _is_over(self, partition: TopicPartition, error: HutongError | None) -> bool:
        """True unless a marker that failed should be written again."""
        # A late marker is refused for good: its transaction has ended (KIP-890), or has another coordinator.
        if isinstance(error, Refused) and error.code in _ENDED:
            _log.warning("a marker was not written to %s-%d: %s", *partition, error)
            return True
        # A partition that was deleted needs no marker.
        return error is None or self._topics.partition(*partition) is None
