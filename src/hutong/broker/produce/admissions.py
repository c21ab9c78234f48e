"""A transactional Produce before its batches are appended: does each belong to an open transaction?

Strategy: where the log knows of the producer's transaction already, nobody is asked. Else the coordinator is, once for
all partitions of the request. Where its verdict takes time the request is held in its connection, with all that come
behind it, and looked at again when the verdict is there: so nothing overtakes it, and nothing of it is kept but the
verdict.

Between the verdict and the append a marker may have ended the transaction (KIP-890's hanging transactions). So the
verdict is bound to the number of markers that each log had when it was asked for; if that changed, it is asked for
again.

Knows nothing of how transactions are coordinated, and appends nothing.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from hutong.foundation.errors import Refused
from hutong.reactor.connections.channel import HELD, Held
from hutong.wire.kafka.batch.records import HEADER_BYTES, TRANSACTIONAL
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hutong.broker.coordinators.transaction_gateway import TopicPartition, TransactionGateway, Verdicts
    from hutong.broker.handling.session import ClientSession
    from hutong.broker.topics.partition import Partition

_PRODUCER: Final = struct.Struct(">21xh20xqh")  # of a batch header: attributes, producer id, producer epoch
_ADDS_FROM_VERSION: Final = 12  # KIP-890: partitions are added by producing to them
_ABORTABLE_FROM_VERSION: Final = 11  # and clients know TRANSACTION_ABORTABLE
_TRY_AGAIN: Final = frozenset(  # every client sends again after NOT_ENOUGH_REPLICAS, and none looks for another leader
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
_SENTENCES: Final = {
    ErrorCode.INVALID_TXN_STATE: "The partition is not part of an open transaction of the producer.",
    ErrorCode.TRANSACTION_ABORTABLE: "The partition is not part of the producer's transaction, which must be aborted.",
}


class SubmittedBatch(NamedTuple):
    """The batch of one request for one partition, as it came."""

    partition: Partition
    records: memoryview | None


class _Verdict(NamedTuple):
    """The coordinator's verdict on one connection's request, valid while the logs have no more markers."""

    producer: tuple[str, int, int]
    verdicts: Verdicts
    markers: Mapping[TopicPartition, int]

    def settles(self, unknown: Mapping[TopicPartition, int]) -> bool:
        """True if the verdict holds for these partitions as they are now. A refusal holds in any case."""
        return all(
            self.verdicts.get(partition, ErrorCode.NONE) != ErrorCode.NONE
            or self.markers.get(partition) == markers_total
            for partition, markers_total in unknown.items()
        )


Refusals = dict["TopicPartition", Refused]


class Admissions:
    """The verdicts on transactional requests; one is kept for each connection whose request is held."""

    def __init__(self) -> None:
        self._verdicts: dict[int, _Verdict] = {}  # by session id

    @property
    def kept(self) -> int:
        """The number of verdicts whose requests have not been handled again yet."""
        return len(self._verdicts)

    def forget(self, session: ClientSession) -> None:
        """The connection has ended."""
        self._verdicts.pop(session.id, None)

    def check_transaction(
        self,
        gateway: TransactionGateway,
        transactional_id: str,
        api_version: int,
        asked: Sequence[SubmittedBatch],
        session: ClientSession,
    ) -> Refusals | Held:
        """The partitions to refuse, or HELD. Raises Refused for the whole of a malformed request."""
        verdict = self._verdicts.pop(session.id, None)
        producers = {found for _, records in asked if (found := _producer_of(records)) is not None}
        # A transactional id has one producer at a time (KIP-98), so one of them is not its own.
        if len(producers) > 1:
            raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records of more than one producer.")
        # No batch of it is transactional.
        if not producers:
            return {}
        producer_id, epoch = producers.pop()
        unknown = {
            (partition.topic_name, partition.index): partition.log.markers_total
            for partition, records in asked
            if _producer_of(records) is not None and not partition.log.is_in_transaction(producer_id, epoch)
        }
        # The common case: the transaction has a batch in each of these logs already.
        if not unknown:
            return {}
        name = (transactional_id, producer_id, epoch)
        # The request has come again after the coordinator answered.
        if verdict is not None and verdict.producer == name and verdict.settles(unknown):
            return _refusals(verdict.verdicts, api_version)
        return self._ask(gateway, name, unknown, api_version, session)

    def _ask(
        self,
        gateway: TransactionGateway,
        producer: tuple[str, int, int],
        unknown: Mapping[TopicPartition, int],
        api_version: int,
        session: ClientSession,
    ) -> Refusals | Held:
        at_once: list[Verdicts] = []
        is_held = False

        def answered(verdicts: Verdicts) -> None:
            # The coordinator knew at once: nothing is held, so there is nothing to release.
            if not is_held:
                at_once.append(verdicts)
            elif not session.owner.has_ended:
                self._verdicts[session.id] = _Verdict(producer, verdicts, unknown)
                session.release()

        gateway.admit(*producer, list(unknown), may_add=api_version >= _ADDS_FROM_VERSION, then=answered)
        if at_once:
            return _refusals(at_once[0], api_version)
        is_held = True
        return HELD


def _producer_of(records: memoryview | None) -> tuple[int, int] | None:
    """Producer id and epoch of a transactional batch, None of what is none. Validated later."""
    if records is None or len(records) < HEADER_BYTES:
        return None
    attributes, producer_id, epoch = _PRODUCER.unpack_from(records)
    return (producer_id, epoch) if attributes & TRANSACTIONAL and producer_id >= 0 else None


def _refusals(verdicts: Verdicts, api_version: int) -> Refusals:
    refusals = {}
    for partition, verdict in verdicts.items():
        if verdict != ErrorCode.NONE:
            code = _code_for(verdict, api_version)
            refusals[partition] = Refused(code, _SENTENCES.get(code, ""))
    return refusals


def _code_for(verdict: ErrorCode, api_version: int) -> ErrorCode:
    """The coordinator's error as a client of Produce expects it."""
    # Clients of Produce know the older code for it (KIP-588).
    if verdict == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if verdict == ErrorCode.TRANSACTION_ABORTABLE and api_version < _ABORTABLE_FROM_VERSION:
        return ErrorCode.INVALID_TXN_STATE
    if verdict in _TRY_AGAIN or (verdict == ErrorCode.CONCURRENT_TRANSACTIONS and api_version < _ADDS_FROM_VERSION):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return verdict
