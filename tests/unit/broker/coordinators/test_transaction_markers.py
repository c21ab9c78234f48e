"""Markers of a transaction: written in the order of its partitions, which no process chooses."""

from typing import Any

from hutong.broker.coordinators.transaction_markers import TransactionMarkers
from hutong.transactions.messages import ProducerIdentity


class NoTopics:
    """Hosts no partition; notes which were looked for."""

    def __init__(self) -> None:
        self.sought: list[tuple[str, int]] = []

    def partition(self, name: str, index: int) -> None:
        if (name, index) not in self.sought:
            self.sought.append((name, index))


def test_markers_are_written_in_the_order_of_their_partitions() -> None:
    topics: Any = NoTopics()
    partitions = frozenset((f"topic-{number}", index) for number in range(20) for index in range(3))
    failed: list[frozenset[tuple[str, int]]] = []
    TransactionMarkers(topics, Any).write(  # type: ignore[arg-type]  # no offsets are part of it
        ProducerIdentity(1, 0), partitions, failed.append, is_commit=True, coordinator_epoch=0
    )
    assert topics.sought == sorted(partitions)
    assert failed == [frozenset()], "a partition that was deleted needs no marker"
