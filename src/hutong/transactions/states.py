"""The states of a transactional id, in the numbers and under the names of Kafka's transaction log and tools."""

from enum import IntEnum


class TransactionState(IntEnum):
    """DEAD and PREPARE_EPOCH_FENCE are Kafka's passing states; they are named for those who filter by them."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """`PrepareCommit` and so on."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_decided(self) -> bool:
        """The decision is durable, but some markers may not be written yet."""
        return self in _DECIDED

    @property
    def is_at_rest(self) -> bool:
        """Nothing is going on."""
        return self in _AT_REST


_DECIDED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
_AT_REST = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
