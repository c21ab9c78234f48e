"""The transaction coordinator: carries out what transactional ids decide, and is what the node sees of them.

Strategy: each request becomes an event of one id; each instruction that comes back is an answer to a parked request, a
record to append, or markers to be written. One timer per id stands at what is due next. What was decided before a crash
is carried out at start, before anything new of that id.

Contains no decision about transactions (`machine.py`) and knows no partition logs and no groups: who writes markers is
given by constructor. Belongs to one loop.
"""

import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, LimitExceeded, OwnerGone, Refused
from hutong.foundation.fair_shares import NOBODY, FairShares
from hutong.foundation.timers import Timer, TimerWheel
from hutong.foundation.waiting.fair import FairWaits
from hutong.foundation.waiting.table import Owner, WaitTable
from hutong.transactions.machine import ID_BYTES, PARTITION_BYTES, Transaction
from hutong.transactions.messages import (
    CLASSIC,
    EPOCH_BUMPING,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Add,
    Answer,
    End,
    Event,
    Init,
    Instruction,
    MarkersFailed,
    MarkersWritten,
    Persist,
    Persisted,
    PersistFailed,
    ProducerIdentity,
    Reply,
    Tick,
    TopicPartition,
    TransactionRecord,
    WriteMarkers,
)
from hutong.transactions.records import decode_key, decode_record, encode_key, encode_record
from hutong.transactions.settings import TransactionSettings
from hutong.transactions.states import TransactionState
from hutong.wire.kafka.error_codes import ErrorCode

Entry: TypeAlias = tuple[bytes, bytes | None]
Then: TypeAlias = Callable[[Reply], None]
Admitted: TypeAlias = Callable[[Mapping[TopicPartition, ErrorCode]], None]

COORDINATOR_EPOCH: Final = 0  # one node is the coordinator from the first start on
_UNAVAILABLE: Final = Reply(ErrorCode.COORDINATOR_NOT_AVAILABLE)
# Clients wait a moment and ask again: it passes when other transactions end.
_NO_MEMORY: Final = Reply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
REFUSAL_INTERVAL_MS: Final = 10_000  # between two lines in the log
_UNKNOWN_ID: Final = Reply(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
_TOMBSTONES_PER_APPEND: Final = 1_000
_log = logging.getLogger("hutong.transactions")


class StatePort(Protocol):
    """The internal compacted topic that the coordinator writes to."""

    def append_all(self, entries: Sequence[Entry], then: Callable[[HutongError | None], None]) -> None:
        """Append records, None being a tombstone; `then` gets None once they are durable, in the order of appends."""
        ...


class ProducerIdPort(Protocol):
    """Who gives out producer ids, each once."""

    def take(self, then: Callable[[int | HutongError], None]) -> None: ...


class MarkerPort(Protocol):
    """Who ends transactions in partitions and groups."""

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


@dataclass(slots=True)
class _Seat:
    """One transactional id, and what the coordinator keeps beside it."""

    transaction: Transaction
    holder: str = NOBODY  # the client that brought the id up
    noted_bytes: int = 0  # as counted last
    timer: Timer | None = None
    timer_at_ms: int = 0
    is_leaving: bool = False  # its tombstone is on its way


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
    ) -> None:
        """`deletion_ms` is the time by which ids are old, wall time by default."""
        self._deletion_ms = deletion_ms or clock.wall_ms
        self.settings = settings or TransactionSettings()
        self.timed_out_total = 0
        self.committed_total = 0
        self.aborted_total = 0
        self._clock = clock
        self._timers = timers
        self._state = state
        self._producer_ids = producer_ids
        self._markers = markers
        self._seats: dict[str, _Seat] = {}
        self._places = FairShares("transaction.max_ids", self.settings.ids_max)
        self._memory = FairShares("ids_bytes_max", self.settings.ids_bytes_max)
        self._refused_told_at_ms = -REFUSAL_INTERVAL_MS
        self._waits: WaitTable[Reply] = WaitTable("transaction waits", timers, self.settings.waits_max)
        self._fair_waits = FairWaits(self._waits, self.settings.waits_max)
        self._changes: WaitTable[None] = WaitTable("transaction changes", timers, self.settings.waits_max)
        self._tickets = itertools.count(1)
        self._expiration_timer: Timer | None = None
        self._is_closed = False

    # ---- start and stop

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of the state topic, oldest first. Raises CorruptData."""
        transactional_id = decode_key(key)
        self._drop(transactional_id)
        if value is not None:
            self._put(transactional_id, _Seat(Transaction(decode_record(value), self.settings)))

    def apply_late(self, key: bytes, value: bytes | None) -> None:
        """A record whose append had failed is on disk after all: it is as if that had been known from the start."""
        seat = self._seats.get(decode_key(key))
        pending = seat.transaction.pending_record if seat is not None else None
        if seat is not None and value is not None and pending is not None and encode_record(pending) == value:
            self._tell(decode_key(key), seat, Persisted(pending))

    def start(self) -> None:
        """Take the transactions up as replayed: finish what is decided, and wait for the others to end."""
        for transactional_id, seat in list(self._seats.items()):
            self._carry_out(transactional_id, seat, seat.transaction.restored())
        self._arm_expiration()

    def close(self) -> None:
        """Answer everything that waits; clients will look for another coordinator."""
        self._is_closed = True
        for seat in self._seats.values():
            if seat.timer is not None:
                seat.timer.cancel()
        if self._expiration_timer is not None:
            self._expiration_timer.cancel()
        self._waits.close(OwnerGone("the node is stopping"))
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
        if self._is_refused_name(transactional_id):
            then(Reply(ErrorCode.INVALID_REQUEST))
            return
        if not 0 < timeout_ms <= self.settings.timeout_ms_max:
            then(Reply(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
            return
        seat = self._seats.get(transactional_id)
        if seat is None and not self._has_room(transactional_id, holder):
            then(Reply(ErrorCode.POLICY_VIOLATION))
            return

        def event(producer_id: int) -> None:
            self._ask(
                transactional_id,
                self._seats.get(transactional_id) or self._new_seat(transactional_id, producer_id, timeout_ms, holder),
                owner,
                then,
                lambda ticket, now_ms: Init(ticket, now_ms, timeout_ms, expected, producer_id),
            )

        self._with_producer_id(seat is None or seat.transaction.needs_fresh_producer_id, event, then)

    def add(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: frozenset[TopicPartition],
        owner: Owner | None,
        then: Then,
        *,
        client_version: int = CLASSIC,
    ) -> None:
        """Make partitions part of the producer's transaction."""
        if not transactional_id:
            then(Reply(ErrorCode.INVALID_REQUEST))
            return
        seat = self._seats.get(transactional_id)
        if seat is None:
            then(_UNKNOWN_ID)
            return
        more = len(partitions - seat.transaction.record.partitions)
        if more and not self._memory.may_take(seat.holder, more * PARTITION_BYTES):
            then(_NO_MEMORY)
            return
        self._ask(
            transactional_id,
            seat,
            owner,
            then,
            lambda ticket, now_ms: Add(ticket, now_ms, producer, partitions, client_version),
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
        if not transactional_id:
            then(Reply(ErrorCode.INVALID_REQUEST))
            return
        seat = self._seats.get(transactional_id)
        if seat is None:
            then(_UNKNOWN_ID)
            return

        def event(producer_id: int) -> None:
            self._ask(
                transactional_id,
                seat,
                owner,
                then,
                lambda ticket, now_ms: End(ticket, now_ms, producer, is_commit, client_version, producer_id),
            )

        self._with_producer_id(seat.transaction.needs_fresh_producer_id, event, then)

    def verify(
        self, transactional_id: str, producer: ProducerIdentity, partitions: frozenset[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Whether each partition is part of the producer's transaction."""
        if not transactional_id:
            return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
        seat = self._seats.get(transactional_id)
        if seat is None:
            return dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return seat.transaction.verify(producer, partitions)

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
        """Whether a producer may write to partitions in which its transaction has nothing yet.

        With `may_add` they are made part of it first, if need be. What is busy is waited for, within bounds.
        """
        producer, wanted = ProducerIdentity(producer_id, producer_epoch), frozenset(partitions)
        deadline_ms = self._clock.monotonic_ms() + self.settings.admission_wait_ms_max
        self._admit(transactional_id, producer, wanted, may_add, deadline_ms, then)

    # ---- administration

    def get(self, transactional_id: str) -> Transaction | None:
        """A transaction to look at, or None."""
        seat = self._seats.get(transactional_id)
        return None if seat is None or seat.is_leaving else seat.transaction

    def __iter__(self) -> Iterator[tuple[str, Transaction]]:
        """Every id with its transaction, to look at."""
        return ((name, seat.transaction) for name, seat in self._seats.items() if not seat.is_leaving)

    def ids(self) -> list[str]:
        """Every id that is known now."""
        return list(self._seats)

    def __len__(self) -> int:
        return len(self._seats)

    # ---- inside: requests

    def _is_refused_name(self, transactional_id: str) -> bool:
        return not transactional_id or len(transactional_id.encode()) > self.settings.id_bytes_max

    def _has_room(self, transactional_id: str, holder: str) -> bool:
        """Whether the client may bring up one more id."""
        if self._places.may_take(holder) and self._memory.may_take(holder, ID_BYTES + len(transactional_id)):
            return True
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._refused_told_at_ms >= REFUSAL_INTERVAL_MS:
            self._refused_told_at_ms = now_ms
            _log.warning(
                "transactional id %s is refused to %s: there are %d ids", transactional_id, holder, len(self._seats)
            )
        return False

    def _new_seat(self, transactional_id: str, producer_id: int, timeout_ms: int, holder: str) -> _Seat:
        record = TransactionRecord(producer_id, NO_PRODUCER_EPOCH, timeout_ms)
        seat = _Seat(Transaction(record, self.settings), holder)
        self._put(transactional_id, seat)
        return seat

    def _put(self, transactional_id: str, seat: _Seat) -> None:
        self._seats[transactional_id] = seat
        self._places.take(seat.holder)
        self._note(transactional_id, seat)

    def _drop(self, transactional_id: str) -> None:
        seat = self._seats.pop(transactional_id, None)
        if seat is not None:
            self._places.release(seat.holder)
            self._memory.release(seat.holder, seat.noted_bytes)

    def _note(self, transactional_id: str, seat: _Seat) -> None:
        """Something happened to the id: count what it takes up now."""
        now_bytes = seat.transaction.memory_bytes + len(transactional_id)
        if now_bytes != seat.noted_bytes and self._seats.get(transactional_id) is seat:
            self._memory.take(seat.holder, now_bytes - seat.noted_bytes)
            seat.noted_bytes = now_bytes

    def _with_producer_id(self, is_needed: bool, event: Callable[[int], None], then: Then) -> None:
        """Go on with a producer id that nobody had; one that turns out not to be needed is no loss."""
        if not is_needed:
            event(NO_PRODUCER_ID)
            return

        def taken(producer_id: int | HutongError) -> None:
            if isinstance(producer_id, int):
                event(producer_id)
            else:
                then(_UNAVAILABLE)

        self._producer_ids.take(taken)

    def _ask(
        self,
        transactional_id: str,
        seat: _Seat,
        owner: Owner | None,
        then: Then,
        event: Callable[[int, int], Event],
    ) -> None:
        """Park a request until its transaction answers."""
        if self._is_closed or seat.is_leaving:
            then(_UNAVAILABLE if self._is_closed else Reply(ErrorCode.CONCURRENT_TRANSACTIONS))
            return
        ticket = next(self._tickets)
        try:
            self._fair_waits.park(
                ticket,
                lambda reply: then(reply if isinstance(reply, Reply) else _UNAVAILABLE),
                owner=owner,
                holder=seat.holder,
            )
        except LimitExceeded:
            then(_UNAVAILABLE)
            return
        self._tell(transactional_id, seat, event(ticket, self._clock.wall_ms()))

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
            if ErrorCode.CONCURRENT_TRANSACTIONS not in errors.values():
                then(errors)
                return
            try:
                self._changes.park(transactional_id, again, deadline_ms=deadline_ms)
            except LimitExceeded as error:
                again(error)

        if may_add:
            self.add(
                transactional_id,
                producer,
                wanted,
                None,
                lambda reply: settle(dict.fromkeys(wanted, reply.error)),
                client_version=EPOCH_BUMPING,
            )
        else:
            settle(self.verify(transactional_id, producer, wanted))

    # ---- inside: transactions

    def _tell(self, transactional_id: str, seat: _Seat, event: Event) -> None:
        instructions = seat.transaction.handle(event)
        self._note(transactional_id, seat)
        self._carry_out(transactional_id, seat, instructions)

    def _carry_out(self, transactional_id: str, seat: _Seat, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Answer(ticket, reply):
                    self._waits.resume(ticket, reply)
                case Persist(record):
                    self._persist(transactional_id, seat, record)
                case WriteMarkers():
                    self._write_markers(transactional_id, seat, instruction)
        self._set_timer(transactional_id, seat)

    def _persist(self, transactional_id: str, seat: _Seat, record: TransactionRecord) -> None:
        def appended(error: HutongError | None) -> None:
            if error is None:
                self._count(record)
                self._tell(transactional_id, seat, Persisted(record))
                self._changes.resume_all(transactional_id, None)
                return
            _log.error("transactional id %s could not be stored: %s", transactional_id, error)
            is_refused = isinstance(error, Refused)
            code = ErrorCode.UNKNOWN_SERVER_ERROR if is_refused else ErrorCode.COORDINATOR_NOT_AVAILABLE
            self._tell(transactional_id, seat, PersistFailed(record, code, not is_refused, self._clock.wall_ms()))

        self._state.append_all([(encode_key(transactional_id), encode_record(record))], appended)

    def _count(self, record: TransactionRecord) -> None:
        self.committed_total += record.state is TransactionState.COMPLETE_COMMIT
        self.aborted_total += record.state is TransactionState.COMPLETE_ABORT

    def _write_markers(self, transactional_id: str, seat: _Seat, instruction: WriteMarkers) -> None:
        def written(remaining: frozenset[TopicPartition]) -> None:
            now_ms = self._clock.wall_ms()
            if not remaining:
                self._tell(transactional_id, seat, MarkersWritten(now_ms))
                return
            _log.warning("transactional id %s: %d markers are still to be written", transactional_id, len(remaining))
            self._tell(transactional_id, seat, MarkersFailed(remaining, now_ms))

        self._markers.write(
            instruction.producer,
            instruction.partitions,
            written,
            is_commit=instruction.is_commit,
            coordinator_epoch=COORDINATOR_EPOCH,
        )

    # ---- inside: time

    def _set_timer(self, transactional_id: str, seat: _Seat) -> None:
        """Keep a timer at what is due next. Due is wall time, the wheel's is not: a timer that is early finds out."""
        due_ms = None if self._is_closed else seat.transaction.next_tick_ms()
        if seat.timer is not None:
            if due_ms == seat.timer_at_ms:
                return
            seat.timer.cancel()
            seat.timer = None
        if due_ms is None:
            return
        seat.timer_at_ms = due_ms
        delay_ms = max(0, due_ms - self._clock.wall_ms())
        seat.timer = self._timers.add(
            self._clock.monotonic_ms() + delay_ms, lambda: self._timer_fired(transactional_id, seat)
        )

    def _timer_fired(self, transactional_id: str, seat: _Seat) -> None:
        seat.timer = None
        if seat.transaction.record.state is TransactionState.ONGOING and not seat.transaction.is_busy:
            self.timed_out_total += 1
            _log.info("transactional id %s: its transaction has lasted too long and is aborted", transactional_id)
        self._tell(transactional_id, seat, Tick(self._clock.wall_ms()))

    def _arm_expiration(self) -> None:
        due_ms = self._clock.monotonic_ms() + self.settings.id_expiration_check_interval_ms
        self._expiration_timer = self._timers.add(due_ms, self._expire_ids)

    def _expire_ids(self) -> None:
        """Forget ids that nothing was heard of for long, a bounded number with each append."""
        now_ms = self._deletion_ms()
        old = [(name, seat) for name, seat in self._seats.items() if self._is_old(seat, now_ms)]
        for start in range(0, len(old), _TOMBSTONES_PER_APPEND):
            self._forget(old[start : start + _TOMBSTONES_PER_APPEND])
        self._arm_expiration()

    def _is_old(self, seat: _Seat, now_ms: int) -> bool:
        return not seat.is_leaving and seat.transaction.is_idle_since(now_ms)

    def _forget(self, old: Sequence[tuple[str, _Seat]]) -> None:
        for _, seat in old:
            seat.is_leaving = True

        def forgotten(error: HutongError | None) -> None:
            for name, seat in old:
                seat.is_leaving = False
                if error is None and self._seats.get(name) is seat:
                    self._drop(name)

        self._state.append_all([(encode_key(name), None) for name, _ in old], forgotten)
