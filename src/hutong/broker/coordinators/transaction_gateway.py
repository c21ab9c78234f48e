"""The question to the transaction coordinator before a partition gets a transaction's first batch.

Strategy: the coordinator behind the gateway decides which partitions belong to a transaction; a log knows on its own
which transactions are open in it, so it is asked for the first batch only (KIP-890).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from hutong.wire.kafka.error_codes import ErrorCode

_FENCED_FROM: Final = 2  # of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn (KIP-588)

TopicPartition = tuple[str, int]
Verdicts = Mapping[TopicPartition, ErrorCode]


class TransactionGateway(Protocol):
    """The coordinator, as a produce sees it."""

    def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        may_add: bool,
        then: Callable[[Verdicts], None],
    ) -> None:
        """Check that the partitions are part of the producer's open transaction; `then` gets a code for each.

        With `may_add` those that are not are added to it first, durably (KIP-890: Produce from version 12).
        """
        ...


def for_client(error: ErrorCode, api_version: int) -> ErrorCode:
    """The error for a client of this version, in the requests of a transaction after InitProducerId."""
    if error is ErrorCode.PRODUCER_FENCED and api_version < _FENCED_FROM:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
