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
        self._topics = topics
        self._offsets = offsets

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
        gathered = _Gathered(len(partitions), then)
        for partition in partitions:
            written = partial(self._written, partition, gathered)
            self.write_one(producer, partition, written, is_commit=is_commit, coordinator_epoch=coordinator_epoch)
        if not partitions:
            then(frozenset())

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
        elif name == OFFSETS_TOPIC:
            self._offsets.end(producer.producer_id, then, is_commit=is_commit)
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

    def _written(self, partition: TopicPartition, gathered: _Gathered, error: HutongError | None) -> None:
        is_over = error is None or self._topics.partition(*partition) is None
        if isinstance(error, Refused) and error.code in _ENDED:
            _log.warning("a marker was not written to %s-%d: %s", *partition, error)
            is_over = True
        gathered.settle(None if is_over else partition)


class _Gathered:
    """A count of the markers that are not durable yet."""

    __slots__ = ("_count", "_remaining", "_then")

    def __init__(self, count: int, then: Callable[[frozenset[TopicPartition]], None]) -> None:
        self._count = count
        self._remaining: list[TopicPartition] = []
        self._then = then

    def settle(self, failed: TopicPartition | None) -> None:
        if failed is not None:
            self._remaining.append(failed)
        self._count -= 1
        if not self._count:
            self._then(frozenset(self._remaining))
