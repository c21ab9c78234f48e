"""Brokers with transactions as the sink's driver sees them, which may fail between any two of its steps.

A model in memory: transactional ids with their owners, rows that count once their transaction is committed, records
that count when the owner's transaction does. What is lost is the answer to a request, or the request itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hutong.foundation.errors import Refused
from hutong.pipelines.client.cluster import TopicPartition
from hutong.pipelines.client.group_offsets import OffsetAndMetadata
from hutong.pipelines.client.identities import Identity, Producer, TransactionOutcome
from hutong.wire.kafka.error_codes import ErrorCode

Row = tuple[int, int, int]
"""Batch, task, number."""


class Killed(Exception):
    """The driver is no more."""


@dataclass
class _Id:
    producer: Producer
    outcome: TransactionOutcome
    holds: bool = False
    """True if anything was written; before that a coordinator knows of no transaction."""
    rows: list[Row] = field(default_factory=list)
    offsets: dict[tuple[str, TopicPartition], OffsetAndMetadata] = field(default_factory=dict)

    @property
    def is_ongoing(self) -> bool:
        return self.outcome is TransactionOutcome.OPEN and self.holds


class Brokers:
    """The state that outlives every driver."""

    def __init__(self) -> None:
        self.ids: dict[str, _Id] = {}
        self.counted: list[Row] = []
        self.offsets: dict[tuple[str, TopicPartition], OffsetAndMetadata] = {}

    def init_producer(self, name: str) -> Identity:
        known = self.ids.get(name)
        if known is not None and known.outcome is TransactionOutcome.OPEN:
            self._abort(known)
        epoch = known.producer.epoch + 1 if known is not None else 0
        self.ids[name] = _Id(
            Producer(len(self.ids) if known is None else known.producer.producer_id, epoch), TransactionOutcome.OPEN
        )
        return Identity(name, self.ids[name].producer)

    def write(self, owner: Identity, rows: Sequence[Row]) -> None:
        self.owned(owner).rows += rows
        self.owned(owner).holds = True

    def expire(self, name: str) -> None:
        """Its time is up."""
        if self.ids[name].outcome is TransactionOutcome.OPEN:
            self._abort(self.ids[name])

    def end(self, owner: Identity, is_commit: bool) -> ErrorCode:
        one = self.ids[owner.transactional_id]
        if one.producer != owner.producer:
            return ErrorCode.PRODUCER_FENCED
        wanted = TransactionOutcome.COMMITTED if is_commit else TransactionOutcome.ABORTED
        if one.outcome is not TransactionOutcome.OPEN:
            return ErrorCode.NONE if one.outcome is wanted else ErrorCode.INVALID_TXN_STATE
        one.outcome = wanted
        if is_commit:
            self.counted += one.rows
            self.offsets |= one.offsets
        return ErrorCode.NONE

    def owned(self, owner: Identity) -> _Id:
        one = self.ids[owner.transactional_id]
        if one.producer != owner.producer or one.outcome is not TransactionOutcome.OPEN:
            raise Refused(ErrorCode.PRODUCER_FENCED, "PRODUCER_FENCED")
        return one

    def _abort(self, one: _Id) -> None:
        one.outcome = TransactionOutcome.ABORTED
        one.producer = Producer(one.producer.producer_id, one.producer.epoch + 1)


class ModelTransactions:
    """`Transactions` of one driver. `before` is called before and after each request: it may kill the driver."""

    def __init__(self, brokers: Brokers, before: Callable[[], None]) -> None:
        self._brokers = brokers
        self._before = before

    def init_producer(self, name: str, timeout_ms: int) -> Identity:
        self._before()
        identity = self._brokers.init_producer(name)
        self._before()
        return identity

    def commit_offset(self, owner: Identity, group: str, place: TopicPartition, committed: OffsetAndMetadata) -> None:
        self._before()
        self._brokers.owned(owner).offsets[group, place] = committed
        self._brokers.owned(owner).holds = True
        self._before()

    def end(self, transactions: Sequence[Identity], *, is_commit: bool) -> list[Refused]:
        refused = []
        for one in transactions:
            self._before()
            code = self._brokers.end(one, is_commit)
            if code is not ErrorCode.NONE:
                refused.append(Refused(code, code.name))
            self._before()
        return refused

    def outcomes(self, transactions: Sequence[Identity]) -> dict[str, TransactionOutcome]:
        self._before()
        found = {}
        for name, producer in transactions:
            one = self._brokers.ids[name]
            same = one.producer == producer
            found[name] = (
                one.outcome if same or one.outcome is TransactionOutcome.COMMITTED else TransactionOutcome.ABORTED
            )
        return found

    def open_ids(self, prefix: str) -> list[str]:
        self._before()
        return [name for name, one in self._brokers.ids.items() if name.startswith(prefix) and one.is_ongoing]

    def offsets_of(
        self, group: str, partitions: Sequence[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        self._before()
        return {
            place: note
            for (one, place), note in self._brokers.offsets.items()
            if one == group and (partitions is None or place in partitions)
        }
