"""Ports of the transaction coordinator: producer ids, and the markers that end a transaction."""

from collections.abc import Callable
from typing import Protocol

from hutong.foundation.errors import HutongError
from hutong.transactions.messages import ProducerIdentity, TopicPartition


class ProducerIdPort(Protocol):
    """The source of producer ids, each given out once."""

    def take(self, then: Callable[[int | HutongError], None]) -> None: ...


class MarkerPort(Protocol):
    """The writer of transaction markers, in partitions and in groups' offsets."""

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
        ...
