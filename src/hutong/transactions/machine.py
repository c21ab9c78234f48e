"""One transactional id: its producer, its transaction and the end of that (KIP-98, KIP-360, KIP-890).

    Empty ──────────────┐
    CompleteCommit ─────┼─ Add ─→ Ongoing ─ End, Tick, Init ─→ PrepareCommit ─ markers ─→ CompleteCommit
    CompleteAbort ──────┘                                      PrepareAbort  ─ markers ─→ CompleteAbort
    with version 2 an abort may end what never began: ───────→ PrepareAbort

Strategy: a change is decided here, becomes a record, and takes effect once that record is on disk: memory is never
ahead of the disk. One change at a time: meanwhile other requests get CONCURRENT_TRANSACTIONS. A decision comes
before its markers and its completion after them, so that a crash between any two of these leaves something that can be
finished. A record that could not be stored for sure is stored again until it is: something else in its place might
contradict it after a restart.

Two things differ from Kafka: the end of a transaction is answered when its markers are written, not when it is decided,
so that its readers see it when the producer continues; unless a marker cannot be written soon, when the decision is
answered. And a transaction is aborted when its time-out passes, not at the next periodic check.

Knows nothing of logs, clocks, threads or requests. Producer ids come with the events that might need one.
"""

from dataclasses import dataclass, replace
from typing import Final

from hutong.foundation.machine import Answer, Tick
from hutong.transactions.messages import (
    EPOCH_BUMPING,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Add,
    EndTransaction,
    Event,
    Init,
    Instruction,
    MarkersFailed,
    MarkersWritten,
    PersistTransaction,
    ProducerIdentity,
    TopicPartition,
    TransactionPersisted,
    TransactionPersistFailed,
    TransactionRecord,
    TransactionReply,
    WriteMarkers,
)
from hutong.transactions.settings import TransactionSettings
from hutong.transactions.states import TransactionState
from hutong.transactions.transitions import EPOCH_MAX, completed, decided, extended, fenced, initialised, is_exhausted
from hutong.wire.kafka.error_codes import ErrorCode

CONCURRENT: Final = TransactionReply(ErrorCode.CONCURRENT_TRANSACTIONS)
_FENCED: Final = TransactionReply(ErrorCode.PRODUCER_FENCED)
_UNKNOWN_PRODUCER: Final = TransactionReply(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
_WRONG_STATE: Final = TransactionReply(ErrorCode.INVALID_TXN_STATE)
_UNAVAILABLE: Final = TransactionReply(ErrorCode.COORDINATOR_NOT_AVAILABLE)
_TOO_MANY_PARTITIONS: Final = TransactionReply(ErrorCode.POLICY_VIOLATION)
_EPOCH_BEFORE_LAST: Final = EPOCH_MAX - 1
ID_BYTES: Final = 2_000
PARTITION_BYTES: Final = 500  # with a topic's name of 249 characters, and once more as it was stored


@dataclass(slots=True)
class _Change:
    """A record on its way to disk. `ticket` waits for it and gets `reply`, which is None where the end is awaited.

    `is_doubtful`: it could not be stored, or so it seems; it will be tried again.
    """

    record: TransactionRecord
    ticket: int | None = None
    reply: TransactionReply | None = None
    is_doubtful: bool = False


class Transaction:
    """The transaction of one transactional id. `record` is what is on disk, or how the id was born."""

    __slots__ = ("_change", "_owed_ticket", "_retry_at_ms", "_settings", "record", "unmarked")

    def __init__(self, record: TransactionRecord, settings: TransactionSettings) -> None:
        self.record = record
        self.unmarked: frozenset[TopicPartition] = record.partitions if record.state.is_decided else frozenset()
        self._settings = settings
        self._change: _Change | None = None
        self._owed_ticket: int | None = None  # who ended the transaction, until its markers are written
        self._retry_at_ms: int | None = None  # None while nothing has failed

    # ---- questions

    @property
    def is_busy(self) -> bool:
        """Return True while a change or the markers of a decision must be finished first."""
        return self._change is not None or self.record.state.is_decided

    @property
    def memory_bytes(self) -> int:
        """Approximate memory of the id, without its name: itself, its partitions, and its record as it was stored."""
        # A change that grows the partitions counts from its decision on, not only when it is durable.
        latest = self.record if self._change is None else self._change.record
        return ID_BYTES + PARTITION_BYTES * max(len(self.record.partitions), len(latest.partitions))

    @property
    def pending_record(self) -> TransactionRecord | None:
        """The record that is being stored, or None."""
        return self._change.record if self._change is not None else None

    @property
    def needs_fresh_producer_id(self) -> bool:
        """Return True if the next Init or End may need a new producer id."""
        return is_exhausted(self.record.producer_epoch)

    def is_idle_since(self, now_ms: int) -> bool:
        """Return True if the id has been unused for `transactional.id.expiration.ms`."""
        return (
            not self.is_busy
            and self.record.state.is_at_rest
            and self.record.updated_at_ms + self._settings.id_expiration_ms <= now_ms
        )

    def next_tick_ms(self) -> int | None:
        """The time at which a `Tick` is due, in wall time, or None."""
        # A retry comes before the transaction's own time-out: until it succeeds nothing else may happen to the id.
        if self._retry_at_ms is not None:
            return self._retry_at_ms
        if self._change is None and self.record.state is TransactionState.ONGOING:
            return self.record.started_at_ms + self.record.timeout_ms
        return None

    def verify(
        self, producer: ProducerIdentity, partitions: frozenset[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Check for each partition that it is part of the producer's transaction (KIP-890)."""
        error = self._identity_error(producer)
        # The markers may be overtaken by a batch that is verified now, so the producer has to wait and ask again.
        if error is None and self.record.state.is_decided:
            error = CONCURRENT
        if error is not None:
            return dict.fromkeys(partitions, error.error)
        # TRANSACTION_ABORTABLE lets the client abort and continue; it need not close the producer (KIP-890).
        known = self.record.partitions
        return {
            partition: ErrorCode.NONE if partition in known else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }

    def check_invariants(self) -> None:
        record = self.record
        assert NO_PRODUCER_EPOCH <= record.producer_epoch <= EPOCH_MAX
        assert record.state is not TransactionState.ONGOING or record.started_at_ms >= 0
        assert not record.partitions or not record.state.is_at_rest
        assert self.unmarked <= record.partitions
        assert record.state.is_decided or (not self.unmarked and self._owed_ticket is None)
        assert len(record.partitions) <= self._settings.partitions_max

    # ---- events

    def handle(self, event: Event) -> list[Instruction]:
        match event:
            case Init():
                return self._init(event)
            case Add():
                return self._add(event)
            case EndTransaction():
                return self._end(event)
            case TransactionPersisted(record):
                return self._persisted(record)
            case TransactionPersistFailed():
                return self._persist_failed(event)
            case MarkersWritten(now_ms):
                self._retry_at_ms = None
                self.unmarked = frozenset()
                return self._store(completed(self.record, now_ms))
            case MarkersFailed(remaining, now_ms):
                self.unmarked = remaining
                self._retry_at_ms = now_ms + self._settings.retry_interval_ms
                return self._answer_owed()
            case Tick(now_ms):
                return self._tick(now_ms)

    def restored(self, now_ms: int) -> list[Instruction]:
        """Continue from the record after a restart: a decision is carried out."""
        # The wall clock was set back meanwhile, perhaps by years: the transaction may last for its time-out from here.
        if self.record.started_at_ms > now_ms:
            self.record = replace(self.record, started_at_ms=now_ms)
        return self._write_markers() if self.record.state.is_decided else []

    # ---- inside

    def _init(self, event: Init) -> list[Instruction]:
        # CONCURRENT_TRANSACTIONS makes the client retry, which is cheap: one change takes one append.
        if self.is_busy:
            return [Answer(event.ticket, self._busy_reply)]
        record, expected = self.record, event.expected
        # A producer that recovers names its old identity (KIP-360). Another owner has taken the id over since.
        if expected is not None and not self._may_continue(expected):
            return [Answer(event.ticket, _FENCED)]
        # The old producer's transaction is aborted first. The new one retries, and finds the id at rest.
        if record.state is TransactionState.ONGOING:
            return self._store(fenced(record, event.now_ms), event.ticket, CONCURRENT)
        changed = initialised(record, expected, event.timeout_ms, event.fresh_producer_id, event.now_ms)
        # Its epoch is too old: another instance has fenced it.
        if changed is None:
            return [Answer(event.ticket, _FENCED)]
        return self._store(changed, event.ticket, _identity(changed))

    def _may_continue(self, expected: ProducerIdentity) -> bool:
        """Return True if a producer with this former id and epoch may still be the owner.

        Its epoch is checked later.

        A new id continues anything. What an exhausted epoch was exchanged for is known by the id before it.
        """
        record = self.record
        return (
            record.producer_epoch == NO_PRODUCER_EPOCH
            or expected.producer_id == record.producer_id
            or (expected.producer_id == record.previous_producer_id and is_exhausted(expected.producer_epoch))
        )

    def _add(self, event: Add) -> list[Instruction]:
        error = self._identity_error(event.producer)
        if error is not None:
            return [Answer(event.ticket, error)]
        if self.is_busy:
            return [Answer(event.ticket, self._busy_reply)]
        record = self.record
        # Repeated by a retry, or by a client that adds each partition before each batch. No record is needed.
        if record.state is TransactionState.ONGOING and event.partitions <= record.partitions:
            return [Answer(event.ticket, TransactionReply(ErrorCode.NONE))]
        changed = extended(record, event.partitions, event.client_version, event.now_ms)
        # The record must stay within one batch of the state topic.
        if len(changed.partitions) > self._settings.partitions_max:
            return [Answer(event.ticket, _TOO_MANY_PARTITIONS)]
        return self._store(changed, event.ticket, TransactionReply(ErrorCode.NONE))

    def _end(self, event: EndTransaction) -> list[Instruction]:
        # KIP-890: with version 2 each end raises the epoch, so a late batch of one transaction cannot join the next.
        is_bumping = event.client_version >= EPOCH_BUMPING
        reply = self._bumping_end_answer(event) if is_bumping else self._classic_end_answer(event)
        if reply is not None:
            return [Answer(event.ticket, reply)]
        changed = decided(
            self.record,
            is_commit=event.is_commit,
            client_version=event.client_version,
            fresh_producer_id=event.fresh_producer_id,
            now_ms=event.now_ms,
        )
        return self._store(changed, event.ticket)

    def _classic_end_answer(self, event: EndTransaction) -> TransactionReply | None:
        """The answer where the end changes nothing, before version 2; None where it does."""
        error, state = self._identity_error(event.producer), self.record.state
        if error is not None:
            return error
        if self.is_busy:
            return self._busy_reply
        # The only state in which a classic end changes anything. At rest the same end again is a retry.
        if state is TransactionState.ONGOING:
            return None
        return TransactionReply(ErrorCode.NONE) if state in _ENDS[event.is_commit] else _WRONG_STATE

    def _bumping_end_answer(self, event: EndTransaction) -> TransactionReply | None:
        """The same with version 2, where the epoch distinguishes a repeated end from the next one."""
        record, producer, state = self.record, event.producer, self.record.state
        # The epoch before was the last one, so the end gave the producer a new id. It may not have received that
        # answer.
        is_rotated = (
            record.previous_producer_id == producer.producer_id
            and producer.producer_epoch == _EPOCH_BEFORE_LAST
            and record.producer_epoch == 0
        )
        if record.producer_id != producer.producer_id and not is_rotated:
            return _UNKNOWN_PRODUCER
        # Another owner's end of version 1 keeps the epoch that came with its InitProducerId. To a producer of version 2
        # that was fenced by it, this epoch looks as if its own end had raised it. Apache Kafka does not look at this.
        has_raised = record.client_version >= EPOCH_BUMPING
        may_be_again = has_raised and state not in (TransactionState.ONGOING, TransactionState.EMPTY)
        # The producer asks with the epoch that the end has already raised: its answer was lost.
        is_again = may_be_again and (is_rotated or record.producer_epoch == producer.producer_epoch + 1)
        is_next = record.producer_epoch == producer.producer_epoch and not state.is_decided
        # Any other epoch belongs to an older instance of the producer.
        if not is_again and not is_next:
            return _FENCED
        if self.is_busy:
            return self._busy_reply
        if is_again:
            return _identity(record) if state in _ENDS[event.is_commit] else _WRONG_STATE
        # An abort may end what never began: the producer cannot know whether its first records arrived.
        return _WRONG_STATE if event.is_commit and state is not TransactionState.ONGOING else None

    def _identity_error(self, producer: ProducerIdentity) -> TransactionReply | None:
        if self.record.producer_id != producer.producer_id:
            return _UNKNOWN_PRODUCER
        return None if self.record.producer_epoch == producer.producer_epoch else _FENCED

    @property
    def _busy_reply(self) -> TransactionReply:
        return _UNAVAILABLE if self._change is not None and self._change.is_doubtful else CONCURRENT

    def _store(
        self, record: TransactionRecord, ticket: int | None = None, reply: TransactionReply | None = None
    ) -> list[Instruction]:
        assert self._change is None, "one change at a time"
        self._change = _Change(record, ticket, reply)
        return [PersistTransaction(record)]

    def _persisted(self, record: TransactionRecord) -> list[Instruction]:
        change = self._change
        if change is None or change.record is not record:
            return []  # stored twice
        # Only now does the decision count: memory is never ahead of the disk.
        self.record, self._change, self._retry_at_ms = record, None, None
        instructions: list[Instruction] = []
        if record.state.is_decided:
            self.unmarked = record.partitions
            # The caller of an end waits for the markers too, so that its own reads see the transaction (unlike in
            # Kafka).
            self._owed_ticket = change.ticket if change.reply is None else None
            instructions += self._write_markers()
        else:
            # The last marker is written and recorded: the caller of the end gets its answer.
            instructions += self._answer_owed()
        if change.ticket is not None and change.reply is not None:
            instructions.append(Answer(change.ticket, change.reply))
        return instructions

    def _persist_failed(self, event: TransactionPersistFailed) -> list[Instruction]:
        change = self._change
        if change is None or change.record is not event.record:
            return []
        # The client is answered now; the record itself may need several attempts.
        ticket, change.ticket = change.ticket, None
        # The append may have reached the disk. Storing another record in its place could contradict it after a restart.
        if event.may_be_there:
            change.is_doubtful = True
        else:
            self._change = None
        # A decision must be completed, so its completion is retried even if the log refused the record.
        if event.may_be_there or self.record.state.is_decided:
            self._retry_at_ms = event.now_ms + self._settings.retry_interval_ms
        answers = self._answer_owed()
        return answers if ticket is None else [*answers, Answer(ticket, TransactionReply(event.error))]

    def _tick(self, now_ms: int) -> list[Instruction]:
        due_ms = self.next_tick_ms()
        if due_ms is None or now_ms < due_ms:
            return []
        # The transaction has lasted longer than transaction.timeout.ms. Its producer is fenced, and the abort is
        # stored.
        if self._retry_at_ms is None:
            return self._store(fenced(self.record, now_ms))
        self._retry_at_ms = None
        if self._change is not None:
            # The same record again: once it is durable, an earlier attempt does not matter.
            self._change.is_doubtful = False
            return [PersistTransaction(self._change.record)]
        return self._write_markers()

    def _write_markers(self) -> list[Instruction]:
        record = self.record
        producer = ProducerIdentity(record.producer_id, record.producer_epoch)
        return [WriteMarkers(producer, record.state is TransactionState.PREPARE_COMMIT, self.unmarked)]

    def _answer_owed(self) -> list[Instruction]:
        """Answer the caller of the decision, which is durable."""
        ticket, self._owed_ticket = self._owed_ticket, None
        if ticket is None:
            return []
        record = self.record
        if record.next_producer_id != NO_PRODUCER_ID:
            return [Answer(ticket, TransactionReply(ErrorCode.NONE, record.next_producer_id, 0))]
        return [Answer(ticket, _identity(record))]


_COMMITS: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT})
_ABORTS: Final = frozenset({TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT})
_ENDS: Final = {True: _COMMITS, False: _ABORTS}
"""By whether a commit is asked for: the states that have it already."""


def _identity(record: TransactionRecord) -> TransactionReply:
    return TransactionReply(ErrorCode.NONE, record.producer_id, record.producer_epoch)
