"""The transaction coordinator: carries out what transactional ids decide, and is what the node sees of them.

Strategy: each request becomes an event of one id, in a `MachineHost`. Each instruction that comes back is an answer to
a parked request, a record to append, or markers to be written. What was decided before a crash is carried out at start,
before anything new of that id.

Contains no decision about transactions (`machine.py`) and knows no partition logs and no groups: who writes markers is
given by constructor. Belongs to one loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, LimitExceeded, OwnerGone, Refused
from hutong.foundation.fair_shares import NOBODY, FairShares
from hutong.foundation.machine import Answer, Tick
from hutong.foundation.machine_host import MachineEntry, MachineHost, ParkedCallers, StatePort
from hutong.foundation.steady_clock import SteadyClock
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import Owner, WaitTable
from hutong.transactions import messages
from hutong.transactions.machine import ID_BYTES, PARTITION_BYTES, Transaction
from hutong.transactions.messages import Event, Instruction, ProducerIdentity, TopicPartition, TransactionReply
from hutong.transactions.records import decode_key, decode_record, encode_key, encode_record
from hutong.transactions.settings import TransactionSettings
from hutong.transactions.states import TransactionState
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.transactions.ports import MarkerPort, ProducerIdPort

Then: TypeAlias = Callable[[TransactionReply], None]
Admitted: TypeAlias = Callable[[Mapping[TopicPartition, ErrorCode]], None]

COORDINATOR_EPOCH: Final = 0  # of a node alone, which is the coordinator from the first start on
_UNAVAILABLE: Final = TransactionReply(ErrorCode.COORDINATOR_NOT_AVAILABLE)
# Clients wait a moment and ask again: it passes when other transactions end.
_NO_MEMORY: Final = TransactionReply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
REFUSAL_INTERVAL_MS: Final = 10_000  # between two lines in the log
_UNKNOWN_ID: Final = TransactionReply(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
_TOMBSTONES_PER_APPEND: Final = 1_000
_log = logging.getLogger("hutong.transactions")


class TransactionEntry(MachineEntry[str, Transaction]):
    """One transactional id, and what the coordinator keeps of it."""

    __slots__ = ("holder", "is_leaving", "noted_bytes")

    def __init__(self, transactional_id: str, transaction: Transaction, holder: str = NOBODY) -> None:
        super().__init__(transactional_id, transaction)
        self.holder = holder  # the client that created the id
        self.noted_bytes = 0  # as counted last
        self.is_leaving = False  # its tombstone is being written


class TransactionCoordinator:
    """All transactional ids of this node.

    Start: `replay` every record of the state topic, then `start`. A `then` is called exactly once, on the loop; errors
    are values, never raised.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        timers: TimerWheel,
        state: StatePort,
        producer_ids: ProducerIdPort,
        markers: MarkerPort,
        settings: TransactionSettings | None = None,
        deletion_ms: Callable[[], int] | None = None,
        epoch: int = COORDINATOR_EPOCH,
    ) -> None:
        """`deletion_ms` is the time by which ids are old, wall time by default.

        `epoch` rises with each coordinator, so that markers of an earlier one are refused.
        """
        self._epoch = epoch
        self._deletion_ms = deletion_ms or clock.wall_ms
        self.settings = settings or TransactionSettings()
        self.timed_out_total = 0
        self.committed_total = 0
        self.aborted_total = 0
        # Records have wall time, which somebody may set while a transaction or the wait for a retry lasts.
        self._clock = clock = SteadyClock(clock)
        self._state = state
        self._producer_ids = producer_ids
        self._markers = markers
        self._host: MachineHost[TransactionEntry, Event, Instruction] = MachineHost(
            clock, timers, state, self._tick, uses_wall_time=True
        )
        self._places = FairShares("transaction.max_ids", self.settings.ids_max)
        self._memory = FairShares("ids_bytes_max", self.settings.ids_bytes_max)
        self._refusal_logged_at_ms = -REFUSAL_INTERVAL_MS
        self._callers = ParkedCallers("transaction waits", timers, self.settings.waits_max)
        self._changes: WaitTable[None] = WaitTable("transaction changes", timers, self.settings.waits_max)

    # ---- start and stop

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of the state topic, oldest first. Raises CorruptData."""
        transactional_id = decode_key(key)
        # Each record has the whole state of its id, so it replaces all earlier ones.
        self._drop(transactional_id)
        if value is not None:
            self._put(TransactionEntry(transactional_id, Transaction(decode_record(value), self.settings)))

    def apply_late(self, key: bytes, value: bytes | None) -> None:
        """A record whose append had failed is on disk after all: it is as if that had been known from the start."""
        entry = self._host.get(decode_key(key))
        pending = entry.machine.pending_record if entry is not None else None
        # Only the very record that was doubtful settles the doubt. A retry of it may still follow, and changes nothing.
        if entry is not None and value is not None and pending is not None and encode_record(pending) == value:
            self._feed(entry, messages.TransactionPersisted(pending))

    def start(self) -> None:
        """Take the transactions up as replayed: finish what is decided, and wait for the others to end."""
        now_ms = self._clock.wall_ms()
        for entry in self._host:
            # A decided transaction gets its markers again. A marker that is written twice changes nothing for readers.
            self._carry_out(entry, entry.machine.restored(now_ms))
            self._host.arm(entry)
        self._host.repeat(self.settings.id_expiration_check_interval_ms, self._expire_ids)

    def close(self) -> None:
        """Answer everything that waits; clients will look for another coordinator."""
        # Timers first, so that no tick feeds an event while callers are being answered.
        self._host.close()
        self._callers.close(OwnerGone("the node is stopping"))
        self._changes.close(OwnerGone("the node is stopping"))

    # ---- requests

    def init(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdentity | None,
        owner: Owner,
        then: Then,
        holder: str = NOBODY,
    ) -> None:
        """Give the id a producer, shutting out the one before it. `holder` is the client that asks."""
        if self._host.is_closed:
            then(_UNAVAILABLE)
            return
        # The id becomes the key of a record, whose length has 16 bits.
        if self._is_refused_name(transactional_id):
            then(TransactionReply(ErrorCode.INVALID_REQUEST))
            return
        # transaction.max.timeout.ms bounds the time for which a silent producer holds back read-committed readers.
        if not 0 < timeout_ms <= self.settings.timeout_ms_max:
            then(TransactionReply(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
            return
        entry = self._host.get(transactional_id)
        # An id lasts for days after its last use, so clients share the room for ids fairly.
        if entry is None and not self._has_room(transactional_id, holder):
            then(TransactionReply(ErrorCode.POLICY_VIOLATION))
            return

        # The id may have been created or dropped while the producer id was on its way, so it is looked up again.
        def event(producer_id: int) -> None:
            if self._host.is_closed:
                then(_UNAVAILABLE)
                return
            self._ask(
                self._host.get(transactional_id) or self._new_entry(transactional_id, producer_id, timeout_ms, holder),
                owner,
                then,
                lambda ticket, now_ms: messages.Init(ticket, now_ms, timeout_ms, expected, producer_id),
            )

        self._with_producer_id(entry is None or entry.machine.needs_fresh_producer_id, event, then)

    def add(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: frozenset[TopicPartition],
        owner: Owner | None,
        then: Then,
        *,
        client_version: int = messages.CLASSIC,
    ) -> None:
        """Make partitions part of the producer's transaction."""
        entry = self._find(transactional_id, then)
        if entry is None:
            return
        # Partitions are names that the client chooses, and they are kept until the transaction ends.
        more = len(partitions - entry.machine.record.partitions)
        if more and not self._memory.may_take(entry.holder, more * PARTITION_BYTES):
            then(_NO_MEMORY)
            return
        self._ask(
            entry,
            owner,
            then,
            lambda ticket, now_ms: messages.Add(ticket, now_ms, producer, partitions, client_version),
        )

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        owner: Owner,
        then: Then,
        *,
        is_commit: bool,
        client_version: int,
    ) -> None:
        """Commit or abort."""
        entry = self._find(transactional_id, then)
        if entry is None:
            return

        def event(producer_id: int) -> None:
            self._ask(
                entry,
                owner,
                then,
                lambda ticket, now_ms: messages.EndTransaction(
                    ticket, now_ms, producer, is_commit, client_version, producer_id
                ),
            )

        # Only an exhausted epoch needs a new producer id. All other ends stay synchronous.
        self._with_producer_id(entry.machine.needs_fresh_producer_id, event, then)

    def verify(
        self, transactional_id: str, producer: ProducerIdentity, partitions: frozenset[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Check for each partition that it is part of the producer's transaction (KIP-890)."""
        if self._host.is_closed:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not transactional_id:
            return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
        entry = self._host.get(transactional_id)
        if entry is None:
            # The id has expired (transactional.id.expiration.ms), so its producer has to initialise again.
            return dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return entry.machine.verify(producer, partitions)

    def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        may_add: bool,
        then: Admitted,
    ) -> None:
        """Check that a producer may write to partitions in which its transaction has no records yet (KIP-890).

        With `may_add` they are made part of it first, if need be. What is busy is waited for, within bounds.
        """
        producer, wanted = ProducerIdentity(producer_id, producer_epoch), frozenset(partitions)
        # Meanwhile the request waits in its connection. Past the deadline the client gets a retriable error.
        deadline_ms = self._clock.monotonic_ms() + self.settings.admission_wait_ms_max
        self._admit(transactional_id, producer, wanted, may_add, deadline_ms, then)

    # ---- administration

    def get(self, transactional_id: str) -> Transaction | None:
        """A transaction to look at, or None."""
        entry = self._host.get(transactional_id)
        return None if entry is None or entry.is_leaving else entry.machine

    def __iter__(self) -> Iterator[tuple[str, Transaction]]:
        """Every id with its transaction, to look at."""
        return ((entry.key, entry.machine) for entry in self._host if not entry.is_leaving)

    def ids(self) -> list[str]:
        """Every id that is known now."""
        return [entry.key for entry in self._host]

    def __len__(self) -> int:
        return len(self._host)

    # ---- inside: requests

    def _is_refused_name(self, transactional_id: str) -> bool:
        return not transactional_id or len(transactional_id.encode()) > self.settings.id_bytes_max

    def _find(self, transactional_id: str, then: Then) -> TransactionEntry | None:
        """The id's entry; without one `then` gets the error."""
        if self._host.is_closed:
            then(_UNAVAILABLE)
            return None
        entry = self._host.get(transactional_id)
        if entry is None:
            then(_UNKNOWN_ID if transactional_id else TransactionReply(ErrorCode.INVALID_REQUEST))
        return entry

    def _has_room(self, transactional_id: str, holder: str) -> bool:
        """Return True if the client may create one more id."""
        if self._places.may_take(holder) and self._memory.may_take(holder, ID_BYTES + len(transactional_id)):
            return True
        now_ms = self._clock.monotonic_ms()
        # A refused client tries again and again; the log gets one line in a while.
        if now_ms - self._refusal_logged_at_ms >= REFUSAL_INTERVAL_MS:
            self._refusal_logged_at_ms = now_ms
            _log.warning(
                "transactional id %s is refused to %s: there are %d ids", transactional_id, holder, len(self._host)
            )
        return False

    def _new_entry(self, transactional_id: str, producer_id: int, timeout_ms: int, holder: str) -> TransactionEntry:
        record = messages.TransactionRecord(producer_id, messages.NO_PRODUCER_EPOCH, timeout_ms)
        return self._put(TransactionEntry(transactional_id, Transaction(record, self.settings), holder))

    def _put(self, entry: TransactionEntry) -> TransactionEntry:
        self._host.put(entry)
        self._places.take(entry.holder)
        self._note(entry)
        return entry

    def _drop(self, transactional_id: str) -> None:
        entry = self._host.get(transactional_id)
        if entry is not None:
            self._host.remove(entry)
            self._places.release(entry.holder)
            self._memory.release(entry.holder, entry.noted_bytes)

    def _note(self, entry: TransactionEntry) -> None:
        """Count what the id takes up now, after an event."""
        now_bytes = entry.machine.memory_bytes + len(entry.key)
        # An entry that was dropped is counted no more, although an event of it may still arrive.
        if now_bytes != entry.noted_bytes and self._host.hosts(entry):
            self._memory.take(entry.holder, now_bytes - entry.noted_bytes)
            entry.noted_bytes = now_bytes

    def _with_producer_id(self, is_needed: bool, event: Callable[[int], None], then: Then) -> None:
        """Go on with a producer id that nobody had; one that turns out not to be needed is no loss."""
        # Producer ids are reserved in blocks on disk, so one is taken only where the epoch is exhausted.
        if not is_needed:
            event(messages.NO_PRODUCER_ID)
            return

        def taken(producer_id: int | HutongError) -> None:
            if isinstance(producer_id, int):
                event(producer_id)
            else:
                then(_UNAVAILABLE)

        self._producer_ids.take(taken)

    def _ask(
        self, entry: TransactionEntry, owner: Owner | None, then: Then, event: Callable[[int, int], Event]
    ) -> None:
        """Park a request until its transaction answers."""
        # An id whose tombstone is being written must not change: the tombstone would come after the change.
        if self._host.is_closed or entry.is_leaving:
            then(_UNAVAILABLE if self._host.is_closed else TransactionReply(ErrorCode.CONCURRENT_TRANSACTIONS))
            return
        ticket = self._callers.park(then, _UNAVAILABLE, owner=owner, holder=entry.holder)
        if ticket is not None:
            self._feed(entry, event(ticket, self._clock.wall_ms()))

    def _admit(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        wanted: frozenset[TopicPartition],
        may_add: bool,
        deadline_ms: int,
        then: Admitted,
    ) -> None:
        def again(error: HutongError | None) -> None:
            if error is None:
                self._admit(transactional_id, producer, wanted, may_add, deadline_ms, then)
            else:
                then(dict.fromkeys(wanted, ErrorCode.CONCURRENT_TRANSACTIONS))

        def settle(errors: Mapping[TopicPartition, ErrorCode]) -> None:
            # Every other answer is final. A busy id is free again with its next durable record.
            if ErrorCode.CONCURRENT_TRANSACTIONS not in errors.values():
                then(errors)
                return
            try:
                self._changes.park(transactional_id, again, deadline_ms=deadline_ms)
            except LimitExceeded as error:
                again(error)

        # Clients from transaction version 2 on do not send AddPartitionsToTxn: their first batch adds the partition
        # (KIP-890).
        if may_add:
            self.add(
                transactional_id,
                producer,
                wanted,
                None,
                lambda reply: settle(dict.fromkeys(wanted, reply.error)),
                client_version=messages.EPOCH_BUMPING,
            )
        else:
            settle(self.verify(transactional_id, producer, wanted))

    # ---- inside: transactions

    def _feed(self, entry: TransactionEntry, event: Event) -> None:
        # Memory is counted before instructions are carried out: they may end in events of their own.
        instructions = self._host.handle(entry, event)
        self._note(entry)
        self._carry_out(entry, instructions)

    def _carry_out(self, entry: TransactionEntry, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Answer(ticket, reply):
                    self._callers.answer(ticket, reply)
                case messages.PersistTransaction(record):
                    self._persist(entry, record)
                case messages.WriteMarkers():
                    self._write_markers(entry, instruction)

    def _persist(self, entry: TransactionEntry, record: messages.TransactionRecord) -> None:
        def appended(error: HutongError | None) -> None:
            if error is None:
                self._count(record)
                self._feed(entry, messages.TransactionPersisted(record))
                # Batches that wait for this id try again: the change that held them up is durable.
                self._changes.resume_all(entry.key, None)
                return
            # A coordinator that has closed answers nobody any more; its successor knows what is stored.
            if self._host.is_closed:
                return
            _log.error("transactional id %s could not be stored: %s", entry.key, error)
            # A record that is too large fails each time, so the client must not retry. All other errors leave a doubt:
            # what a full disk refused may be in the journal's cache, and is written when there is space.
            is_too_large = isinstance(error, Refused) and error.code == ErrorCode.MESSAGE_TOO_LARGE
            code = ErrorCode.UNKNOWN_SERVER_ERROR if is_too_large else ErrorCode.COORDINATOR_NOT_AVAILABLE
            self._feed(entry, messages.TransactionPersistFailed(record, code, not is_too_large, self._clock.wall_ms()))

        self._host.append(entry, [(encode_key(entry.key), encode_record(record))], appended)

    def _count(self, record: messages.TransactionRecord) -> None:
        self.committed_total += record.state is TransactionState.COMPLETE_COMMIT
        self.aborted_total += record.state is TransactionState.COMPLETE_ABORT

    def _write_markers(self, entry: TransactionEntry, instruction: messages.WriteMarkers) -> None:
        def written(remaining: frozenset[TopicPartition]) -> None:
            # The next coordinator writes them again.
            if self._host.is_closed:
                return
            now_ms = self._clock.wall_ms()
            # The machine retries the remaining markers later, while the answer to the client does not wait for them.
            if not remaining:
                self._feed(entry, messages.MarkersWritten(now_ms))
                return
            _log.warning("transactional id %s: %d markers are still to be written", entry.key, len(remaining))
            self._feed(entry, messages.MarkersFailed(remaining, now_ms))

        self._markers.write(
            instruction.producer,
            instruction.partitions,
            written,
            is_commit=instruction.is_commit,
            coordinator_epoch=self._epoch,
        )

    # ---- inside: time

    def _tick(self, entry: TransactionEntry, tick: Tick) -> None:
        # A tick may be early: only one with instructions has ended a transaction.
        is_open = entry.machine.record.state is TransactionState.ONGOING and not entry.machine.is_busy
        instructions = self._host.handle(entry, tick)
        if is_open and instructions:
            self.timed_out_total += 1
            _log.info("transactional id %s: its transaction has lasted too long and is aborted", entry.key)
        self._note(entry)
        self._carry_out(entry, instructions)

    def _expire_ids(self) -> None:
        """Forget ids that were not used for long, a bounded number with each append."""
        now_ms = self._deletion_ms()
        old = [entry for entry in self._host if not entry.is_leaving and entry.machine.is_idle_since(now_ms)]
        # One append for many tombstones, but never one that is too large for a batch.
        for start in range(0, len(old), _TOMBSTONES_PER_APPEND):
            self._forget(old[start : start + _TOMBSTONES_PER_APPEND])

    def _forget(self, old: Sequence[TransactionEntry]) -> None:
        for entry in old:
            entry.is_leaving = True

        def forgotten(error: HutongError | None) -> None:
            for entry in old:
                # After a failed append the id is as before, and the next pass tries again.
                entry.is_leaving = False
                # Only this entry: the id may have been created again after its tombstone.
                if error is None and self._host.hosts(entry):
                    self._drop(entry.key)

        self._state.append_all([(encode_key(entry.key), None) for entry in old], forgotten)
