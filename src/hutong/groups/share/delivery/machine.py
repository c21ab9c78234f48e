"""One share group in one partition, record by record (KIP-932): events in, instructions out.

    AVAILABLE --acquire--> ACQUIRED --accept--> ACKNOWLEDGED
        ^                     |  |----gap-----> ARCHIVED <--+
        +--release, time-out--+  |--reject----> (BURYING) --+
                                 +--released at the delivery limit: as if rejected

Strategy: all is in the window's runs. Nothing is handed out or acknowledged before the new state is persisted: each
event that changes it says Persist, and the driver holds back the answer until that is safe. A record that was with a
member when the node ended keeps its count of deliveries; the one that the node's end has cut short is not held against
it at the limit.

Knows nothing of logs, groups, sessions or clocks: time arrives with events.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from hutong.foundation.machine import Tick
from hutong.groups.share.delivery.messages import (
    Acknowledge,
    AcknowledgedBatch,
    Acknowledgement,
    Acquire,
    Acquired,
    BatchSpan,
    Buried,
    Bury,
    Configured,
    DeliveryLimits,
    Event,
    Hand,
    Instruction,
    LogStartsAt,
    PersistProgress,
    RecordsAvailable,
    ReleaseMember,
    Settled,
)
from hutong.groups.share.delivery.window import DONE, DeliveryWindow, OffsetRun, ShareRecordState
from hutong.wire.kafka.error_codes import ErrorCode

Answer = tuple[int, int, Acknowledgement]
_IN_HAND: Final = (ShareRecordState.ACQUIRED, ShareRecordState.BURYING)
_NOT_ACQUIRED: Final = "The offset cannot be acknowledged. The offset is not acquired."
_NOT_THE_OWNER: Final = "Member is not the owner of batch record"
_UNKNOWN: Final = "Batch record not found. The last offset in request is past acquired records."


class _Refusal(Exception):
    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message)
        self.settle = Settled(error, message)


class SharePartition:
    """One group's progress through one partition."""

    def __init__(self, start_offset: int, rules: DeliveryLimits, runs: Sequence[OffsetRun] = ()) -> None:
        self._rules = rules
        self._window = DeliveryWindow(start_offset, (_restored(run, rules) for run in runs))
        self._next_tick_ms: int | None = None  # not after the earliest deadline of a lock

    @property
    def start_offset(self) -> int:
        return self._window.start_offset

    @property
    def end_offset(self) -> int:
        return self._window.end_offset

    @property
    def done_ahead(self) -> int:
        """Offsets behind the start that are done already."""
        return self._window.end_offset - self._window.start_offset - self._window.unfinished

    @property
    def rules(self) -> DeliveryLimits:
        return self._rules

    def snapshot(self) -> Sequence[OffsetRun]:
        """The state that must survive a restart, apart from the start offset."""
        return list(self._window)

    def next_offset(self) -> int | None:
        """The offset to read from for the next acquisition; None while there is no room for more records."""
        available = self._window.first_available()
        # Released records come before new ones, so that a slow member does not hold up the start offset.
        if available is not None:
            return available
        return self._window.end_offset if self._room > 0 else None

    def available_between(self, first: int, last: int) -> int:
        """The number of a batch's offsets that would be acquired."""
        window = self._window
        again = sum(len(run) for run in window.between(first, last) if run.state is ShareRecordState.AVAILABLE)
        # New offsets beyond the window count as far as the lock limit allows (group.share.partition.max.record.locks).
        return again + max(0, min(last + 1, window.end_offset + self._room) - max(first, window.end_offset))

    def peek(self, offset: int, spans: Sequence[BatchSpan], records_max: int) -> tuple[Acquired, ...]:
        """The offsets from there on that an acquisition would hand out. Nothing changes."""
        pieces: list[Acquired] = []
        for span in spans:
            if span.is_passed_over or records_max <= 0:
                continue
            first = max(offset, span.first)
            runs = [run for run in self._window.between(first, span.last) if run.state is ShareRecordState.AVAILABLE]
            found = [Acquired(run.first, run.last, run.deliveries + 1) for run in runs]
            if span.last >= self.end_offset:
                found.append(Acquired(max(first, self.end_offset), span.last, 1))
            for piece in found:
                count = min(records_max, piece.last - piece.first + 1)
                records_max -= count
                if count:
                    pieces.append(Acquired(piece.first, piece.first + count - 1, piece.deliveries))
        return tuple(pieces)

    def next_tick_ms(self) -> int | None:
        """The time at which a `Tick` is due, or None."""
        return self._next_tick_ms

    def to_bury(self) -> list[Instruction]:
        """The dead letters that were on their way when the node ended."""
        return [_bury(run) for run in self._window if run.state is ShareRecordState.BURYING]

    def handle(self, event: Event) -> list[Instruction]:
        match event:
            case Acquire():
                return self._acquire(event)
            case Acknowledge():
                return self._acknowledge(event)
            case ReleaseMember(member_id):
                return self._release(lambda run: run.member_id == member_id)
            case Tick(now_ms):
                return self._tick(now_ms)
            case LogStartsAt(offset):
                return self._log_starts_at(offset)
            case Buried(first, last):
                return self._buried(first, last)
            case Configured(rules):
                # A higher limit makes room at once, so waiting fetches are woken.
                grows = rules.locks_max > self._rules.locks_max
                self._rules = rules
                return [RecordsAvailable()] if grows else []

    def check_invariants(self) -> None:
        self._window.check_invariants()
        deadlines = [run.deadline_ms for run in self._window if run.state is ShareRecordState.ACQUIRED]
        assert not deadlines or (self._next_tick_ms is not None and self._next_tick_ms <= min(deadlines))
        assert all(run.deliveries >= 1 for run in self._window if run.state is ShareRecordState.ACQUIRED)

    # ---- taking

    @property
    def _room(self) -> int:
        return self._rules.locks_max - self._window.unfinished

    def _acquire(self, event: Acquire) -> list[Instruction]:
        if event.is_ordered and any(run.state in _IN_HAND for run in self._window):
            return [Hand(())]
        deadline_ms = event.now_ms + self._lock_ms(event)
        position, left = event.offset, event.records_max
        pieces: list[Acquired] = []
        before = (self.start_offset, self.end_offset)
        burials: list[Instruction] = []
        for span in event.spans:
            if left <= 0:
                break
            # Offsets between two batches do not exist: compaction or control records have left a gap.
            if span.first > position:
                self._pass_over(position, span.first - 1)
            first, position = max(position, span.first), span.last + 1
            # Aborted transactions and control batches have no records for readers, but the window must get past them.
            if span.is_passed_over:
                self._pass_over(first, span.last)
                continue
            for run in self._claim(first, span.last, left if event.is_strict else None):
                # Records are not handed out beyond the limit (group.share.delivery.count.limit, KIP-932).
                if run.deliveries >= self._rules.delivery_limit:  # the limit is lower than it was
                    burials += self._give_up(run.first, run.last, is_rejected=False)
                    continue
                pieces.append(Acquired(run.first, run.last, run.deliveries + 1))
                self._hold(run, event.member_id, deadline_ms)
                left -= len(run)
        # The start offset moves over finished records at the front, and only those.
        self._window.trim()
        if pieces:
            self._tick_by(deadline_ms)
        # An acquisition is stored before it is answered, so that a restart counts the delivery.
        changed = bool(pieces or burials) or before != (self.start_offset, self.end_offset)
        hand = Hand(tuple(_joined(pieces, event.batch_size)))
        return [*([PersistProgress()] if changed else []), *burials, hand]

    def _lock_ms(self, event: Acquire | Acknowledge) -> int:
        return self._rules.lock_ms if event.lock_ms is None else event.lock_ms

    def _tick_by(self, deadline_ms: int) -> None:
        # A lower bound is enough: a tick that is too early finds no expired lock.
        if self._next_tick_ms is None or deadline_ms < self._next_tick_ms:
            self._next_tick_ms = deadline_ms

    def _claim(self, first: int, last: int, records_max: int | None) -> list[OffsetRun]:
        """The runs between that may be handed out, at most `records_max` offsets of them."""
        # The window grows as far as the limit of locks allows, even within a batch.
        if last >= self.end_offset and first <= self.end_offset:
            self._window.extend(min(last + 1, self.end_offset + max(0, self._room)))
        found = [run for run in self._window.between(first, last) if run.state is ShareRecordState.AVAILABLE]
        # Without strict limits a batch is handed out whole, so that it need not be split (KIP-1206).
        if records_max is None:
            return found
        claimed: list[OffsetRun] = []
        for run in found:
            if records_max <= 0:
                break
            claimed.append(replace(run, last=min(run.last, run.first + records_max - 1)))
            records_max -= len(claimed[-1])
        return claimed

    def _hold(self, run: OffsetRun, member_id: str, deadline_ms: int) -> None:
        self._put(
            replace(
                run,
                state=ShareRecordState.ACQUIRED,
                deliveries=run.deliveries + 1,
                member_id=member_id,
                deadline_ms=deadline_ms,
            )
        )

    def _put(self, run: OffsetRun) -> None:
        """Let the offsets of one or more runs be like `run`."""
        self._window.change(run.first, run.last, lambda part: replace(run, first=part.first, last=part.last))

    def _pass_over(self, first: int, last: int) -> None:
        """There is nothing for readers at these offsets."""
        # A gap at the end of the window extends it: readers continue behind it.
        if first <= self.end_offset <= last:
            self._window.extend(last + 1)
        self._window.change(
            first,
            last,
            lambda run: _done(run, ShareRecordState.ARCHIVED) if run.state is ShareRecordState.AVAILABLE else run,
        )

    # ---- answers of members

    def _acknowledge(self, event: Acknowledge) -> list[Instruction]:
        try:
            answers = list(self._checked(event))
        # All batches of a partition are checked before any is applied: an error changes nothing.
        except _Refusal as refusal:
            return [refusal.settle]
        out: list[Instruction] = []
        changes, start_offset = False, self.start_offset
        for first, last, answer in answers:
            changes |= answer is not Acknowledgement.RENEW
            out += self._settle(first, last, answer, event.now_ms + self._lock_ms(event))
        moved = self._window.trim()
        # What was settled before may still be on its way to the disk, and its repetition must not be answered earlier.
        changes |= any(batch.first < start_offset for batch in event.batches)
        # RENEW only moves a deadline, which is not stored: after a restart no lock is left anyway.
        if not changes:
            return [Settled(ErrorCode.NONE)]
        is_offer = moved or any(answer is not Acknowledgement.RENEW for _, _, answer in answers)
        return [PersistProgress(), *out, Settled(ErrorCode.NONE), *([RecordsAvailable()] if is_offer else [])]

    def _settle(self, first: int, last: int, answer: Acknowledgement, deadline_ms: int) -> list[Instruction]:
        change = self._window.change
        match answer:
            case Acknowledgement.ACCEPT:
                change(first, last, lambda run: _done(run, ShareRecordState.ACKNOWLEDGED))
            case Acknowledgement.GAP:
                change(first, last, lambda run: _done(run, ShareRecordState.ARCHIVED))
            case Acknowledgement.RENEW:
                # The new lock may end sooner. Where it ends later, the tick for the old one finds nothing.
                change(first, last, lambda run: replace(run, deadline_ms=deadline_ms))
                self._tick_by(deadline_ms)
            case Acknowledgement.REJECT:
                return self._give_up(first, last, is_rejected=True)
            case Acknowledgement.RELEASE:
                return self._return(list(self._window.between(first, last)))
        return []

    def _checked(self, event: Acknowledge) -> Iterator[Answer]:
        """The acknowledged batches, without offsets before the start offset. Raises _Refusal."""
        checked = [self._check_batch(batch, event) for batch in event.batches]
        for batch, before in zip(event.batches[1:], event.batches, strict=False):
            if batch.first <= before.last:
                raise _Refusal(ErrorCode.INVALID_REQUEST)  # they overlap, or are out of order
        for first, last, answer in (answer for answers in checked for answer in answers):
            # Acknowledged or expired before: a repeated acknowledgement is no error.
            if last < self.start_offset:
                continue
            first = max(first, self.start_offset)
            if last >= self.end_offset:
                raise _Refusal(ErrorCode.INVALID_REQUEST, _UNKNOWN)
            for run in self._window.between(first, last):
                # The lock has expired, so another member may process the record already (INVALID_RECORD_STATE).
                if run.state is not ShareRecordState.ACQUIRED:
                    raise _Refusal(ErrorCode.INVALID_RECORD_STATE, _NOT_ACQUIRED)
                if run.member_id != event.member_id:
                    raise _Refusal(ErrorCode.INVALID_RECORD_STATE, _NOT_THE_OWNER)
            yield first, last, answer

    def _check_batch(self, batch: AcknowledgedBatch, event: Acknowledge) -> list[Answer]:
        count = batch.last - batch.first + 1
        if count <= 0 or batch.first < 0:
            raise _Refusal(ErrorCode.INVALID_REQUEST)
        if not batch.types or len(batch.types) not in (1, count):
            raise _Refusal(ErrorCode.INVALID_REQUEST)  # neither one type for all nor one for each
        if not all(0 <= kind <= event.types_max for kind in batch.types):
            raise _Refusal(ErrorCode.INVALID_REQUEST)
        # KIP-1222: the group's setting decides on renewal.
        if Acknowledgement.RENEW in batch.types and not self._rules.may_renew:
            raise _Refusal(ErrorCode.INVALID_RECORD_STATE, "Renewing acquisition locks is not enabled for the group.")
        # One type for the whole batch is the common case, and needs no list of offsets.
        if len(batch.types) == 1:
            return [(batch.first, batch.last, Acknowledgement(batch.types[0]))]
        answers: list[Answer] = []
        for offset, kind in enumerate(batch.types, batch.first):
            if answers and answers[-1][2] == kind:
                answers[-1] = (answers[-1][0], offset, answers[-1][2])
            else:
                answers.append((offset, offset, Acknowledgement(kind)))
        return answers

    # ---- giving back and giving up

    def _tick(self, now_ms: int) -> list[Instruction]:
        # An expired lock counts as a failed delivery: the record is available again, or given up.
        out = self._release(lambda run: run.deadline_ms <= now_ms)
        deadlines = (run.deadline_ms for run in self._window if run.state is ShareRecordState.ACQUIRED)
        self._next_tick_ms = min(deadlines, default=None)
        return out

    def _release(self, concerns: Callable[[OffsetRun], bool]) -> list[Instruction]:
        held = [run for run in self._window if run.state is ShareRecordState.ACQUIRED and concerns(run)]
        # Nothing changes, so nothing is stored: most ticks are early.
        if not held:
            return []
        out = self._return(held)
        self._window.trim()
        return [PersistProgress(), *out, RecordsAvailable()]

    def _return(self, runs: Sequence[OffsetRun]) -> list[Instruction]:
        """Acquired runs are for others, or have been delivered often enough."""
        out: list[Instruction] = []
        for run in runs:
            # A record that fails each time would circulate for ever, and hold up the start offset.
            if run.deliveries >= self._rules.delivery_limit:
                out += self._give_up(run.first, run.last, is_rejected=False)
            else:
                self._window.change(run.first, run.last, _freed)
        return out

    def _give_up(self, first: int, last: int, *, is_rejected: bool) -> list[Instruction]:
        # Without a dead-letter topic the record is archived, as in Kafka.
        if not self._rules.has_dead_letters:
            self._window.change(first, last, lambda run: _done(run, ShareRecordState.ARCHIVED))
            return []
        burying = [
            OffsetRun(run.first, run.last, ShareRecordState.BURYING, run.deliveries, is_rejected=is_rejected)
            for run in self._window.between(first, last)
        ]
        for run in burying:
            self._put(run)
        return [_bury(run) for run in burying]

    def _buried(self, first: int, last: int) -> list[Instruction]:
        burying = [run for run in self._window.between(first, last) if run.state is ShareRecordState.BURYING]
        for run in burying:
            self._window.change(run.first, run.last, lambda part: _done(part, ShareRecordState.ARCHIVED))
        self._window.trim()
        return [PersistProgress(), RecordsAvailable()] if burying else []

    def _log_starts_at(self, offset: int) -> list[Instruction]:
        if offset <= self.start_offset:
            return []
        # Retention or DeleteRecords has removed the records: acquired ones among them cannot be acknowledged any more.
        self._window.forget_before(offset)
        return [PersistProgress(), RecordsAvailable()]


def _restored(run: OffsetRun, rules: DeliveryLimits) -> OffsetRun:
    if run.state is not ShareRecordState.ACQUIRED:
        return run
    # The node may have ended before the member saw the record, so at least one more delivery is allowed.
    deliveries = min(run.deliveries, max(1, rules.delivery_limit - 1))
    return OffsetRun(run.first, run.last, ShareRecordState.AVAILABLE, deliveries)


def _freed(run: OffsetRun) -> OffsetRun:
    return OffsetRun(run.first, run.last, ShareRecordState.AVAILABLE, run.deliveries)


def _done(run: OffsetRun, state: ShareRecordState) -> OffsetRun:
    assert state in DONE
    return OffsetRun(run.first, run.last, state)


def _bury(run: OffsetRun) -> Bury:
    return Bury(run.first, run.last, run.deliveries, run.is_rejected)


def _joined(pieces: Sequence[Acquired], batch_size: int) -> Iterator[Acquired]:
    """Join adjacent pieces with the same number of deliveries, up to the batch size that the client prefers."""
    whole: Acquired | None = None
    for piece in pieces:
        if whole is None:
            whole = piece
        elif (
            whole.last + 1 == piece.first
            and whole.deliveries == piece.deliveries
            and piece.last - whole.first < batch_size
        ):
            whole = replace(whole, last=piece.last)
        else:
            yield whole
            whole = piece
    if whole is not None:
        yield whole
