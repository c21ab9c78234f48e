"""Writes of a transaction's end markers: to partition logs, and to the offsets of groups.

Strategy: each partition gets its marker side by side with the others, so that those of one partition group share a
flush; those that another node leads go there in one request. What has gone since needs none, and what refuses a marker
because it knows of a newer one has been ended already; everything else may be tried again.

Several coordinators may write markers, each for the transactions of its shard, and each shard has leader epochs of its
own. So the number of a coordinator in its markers is made of both: a producer's coordinators are all of one shard, and
their numbers rise with the epoch. With one shard the number is the epoch.

Knows nothing of how transactions are decided.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from hutong.broker.topics.group_standing import NO_LEADER
from hutong.broker.topics.internal_topics import OFFSETS_TOPIC
from hutong.broker.topics.lifetimes import TRANSACTIONS_GROUP, group_of_slot
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Continuation
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.topics.catalogue import Topics
    from hutong.groups.offsets.transactional import TransactionalOffsets
    from hutong.transactions.messages import ProducerIdentity, TopicPartition

_ENDED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
_NO_LEADER_NOW: Final = Refused(ErrorCode.LEADER_NOT_AVAILABLE, "Nobody leads the partition at this moment.")
_log = logging.getLogger("hutong.transactions")


class RemoteMarkerPort(Protocol):
    """The way to partitions that other nodes lead."""

    def write(
        self,
        node: int,
        producer: ProducerIdentity,
        partitions: Sequence[TopicPartition],
        then: Callable[[Mapping[TopicPartition, HutongError | None]], None],
        *,
        is_commit: bool,
        coordinator_epoch: int,
    ) -> None:
        """Write the markers; `then` gets the outcome of each."""
        ...


class TransactionMarkers:
    """Writes markers to the partitions of this node, and has other nodes write those of theirs."""

    def __init__(self, topics: Topics, offsets: Sequence[TransactionalOffsets]) -> None:
        self.offsets = list(offsets)  # of each shard's coordinator of groups at this moment
        self.remote: RemoteMarkerPort | None = None  # of a node alone there is none
        self._topics = topics

    def number_of(self, leader_epoch: int, shard: int) -> int:
        """The number of a coordinator in its markers (Kafka's coordinator epoch)."""
        return leader_epoch * len(self.offsets) + shard

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

        def all_written(errors: Mapping[TopicPartition, HutongError | None]) -> None:
            for partition, error in errors.items():
                written(partition, error)

        here, elsewhere = self._by_leader(partitions)
        for partition in here:
            settle = partial(written, partition)
            self.write_one(producer, partition, settle, is_commit=is_commit, coordinator_epoch=coordinator_epoch)
        for leader, theirs in elsewhere.items():
            if self.remote is None or leader == NO_LEADER:
                all_written(dict.fromkeys(theirs, _NO_LEADER_NOW))
            else:
                self.remote.write(
                    leader, producer, theirs, all_written, is_commit=is_commit, coordinator_epoch=coordinator_epoch
                )

    def _by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[list[TopicPartition], dict[int, list[TopicPartition]]]:
        """The partitions that this node leads or does not know, and others by their leaders."""
        here: list[TopicPartition] = []
        elsewhere: dict[int, list[TopicPartition]] = {}
        # In their order: that of a set of names is another one in each process.
        for partition in sorted(partitions):
            found = self._topics.partition(*partition)
            if found is None or found.standing.is_led_here:
                here.append(partition)
            else:
                elsewhere.setdefault(found.standing.leader, []).append(partition)
        return here, elsewhere

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
            # Logs know each producer's coordinator; for offsets it is the leader of the transactions, as agreed on.
            if self._is_of_former_coordinator(coordinator_epoch):
                then(Refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED, "Another node coordinates the transaction."))
            else:
                self.offsets[index].end(producer.producer_id, then, is_commit=is_commit)
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

    def _is_of_former_coordinator(self, coordinator_epoch: int) -> bool:
        leader_epoch, shard = divmod(coordinator_epoch, len(self.offsets))
        # An operator's marker may name no coordinator (-1).
        return 0 <= leader_epoch < self._topics.standings[group_of_slot(TRANSACTIONS_GROUP, shard)].leader_epoch

    def _is_over(self, partition: TopicPartition, error: HutongError | None) -> bool:
        """True unless a marker that failed should be written again."""
        # A late marker is refused for good: its transaction has ended (KIP-890), or has another coordinator.
        if isinstance(error, Refused) and error.code in _ENDED:
            _log.warning("a marker was not written to %s-%d: %s", *partition, error)
            return True
        # A partition that was deleted needs no marker.
        return error is None or self._topics.partition(*partition) is None
