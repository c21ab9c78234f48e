"""Decides a redrive: which letters go where, in which batches, at which rate, and what is committed with them.

Strategy: one step is under way at a time: opening, reading, or storing a batch with the progress that is true once it
is stored. After a failure the clients are opened anew, and what is committed then says which letters of the batch are
stored: the others are sent again. Only letters that were there at the beginning are sent, so one that fails again does
not go round in circles.

Knows no client and no clock.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from hutong.bus.durable.records import StoredRecord
from hutong.console.dead_letters.conventions.letter import DeadLetter
from hutong.console.dead_letters.redriving.batch import PendingLetter, closing_instruction, store_instruction
from hutong.console.dead_letters.redriving.messages import (
    BATCH_RECORDS_MAX,
    NO_ORIGIN,
    REDRIVE_ENDS,
    CancelRedrive,
    LetterSpan,
    LettersRead,
    LettersStored,
    OpenRedrive,
    PauseRedrive,
    ReadLetters,
    RedriveEvent,
    RedriveFailed,
    RedriveInstruction,
    RedriveOpened,
    RedriveOver,
    RedriveState,
    RedriveWish,
    ResumeRedrive,
    StoreLetters,
)
from hutong.console.dead_letters.redriving.progress import RedriveProgress
from hutong.console.dead_letters.redriving.tally import RedriveTally, count_one
from hutong.foundation.errors import LimitExceeded
from hutong.foundation.machine import Tick

FAILURES_MAX: Final = 8  # one after the other: about 45 seconds
RETRY_MS: Final = 500
RETRY_MS_MAX: Final = 10_000
CUT: Final = 8
NO_TARGET: Final = "no target was named for their origin"
OTHER_REASON: Final = "of another reason"
SCATTERED: Final = (
    "The letters that are done have too many gaps between them for one commit. Redrive the letters of all reasons, "
    "or fewer chosen ones."
)


class RedriveMachine:
    """One redrive, from `begin` until RedriveOver."""

    def __init__(self, wish: RedriveWish) -> None:
        self.wish = wish
        self.state = RedriveState.OPENING
        self.problem: str | None = None  # of the last failure, until something is stored
        self.is_truncated = False  # a dry run that ended at its bound
        self.tally = RedriveTally()
        self.spans: Mapping[int, LetterSpan] = {}
        self._targets = dict(wish.targets)
        self._refused: dict[str, str] = {}
        self._pending: list[PendingLetter] = []
        self._storing = 0  # of the pending ones, the first
        self._storing_progress: Mapping[int, RedriveProgress] = {}
        self._store_max = BATCH_RECORDS_MAX if wish.rate_per_s is None else min(BATCH_RECORDS_MAX, wish.rate_per_s)
        self._read_max = self._store_max
        self._seen: dict[int, int] = {}  # by partition: nothing before this offset is to be read
        self._ended: set[int] = set()
        self._left_in: set[int] = set()  # partitions
        self._failures = 0
        self._due_ms: int | None = None
        self._is_busy = True  # a step is under way
        self._is_to_open = False
        self._is_paused = False
        self._is_cancelled = False
        self._has_closed_gaps = False

    @property
    def is_over(self) -> bool:
        return self.state in REDRIVE_ENDS

    @property
    def remaining(self) -> int:
        """Offsets that are still to be read; markers of transactions are among them."""
        unread = [
            self._end_of(each, span) - self._seen[each] for each, span in self.spans.items() if each not in self._ended
        ]
        return len(self._pending) + sum(max(0, offsets) for offsets in unread)

    def begin(self) -> Sequence[RedriveInstruction]:
        return (OpenRedrive(),)

    def next_tick_ms(self) -> int | None:
        return None if self._is_busy or self._is_paused or self.is_over else self._due_ms

    def handle(self, event: RedriveEvent, /) -> Sequence[RedriveInstruction]:
        if self.is_over:
            return ()
        match event:
            case PauseRedrive():
                self._is_paused = True
                self.state = RedriveState.PAUSED
                return ()
            case CancelRedrive():
                self._is_cancelled = True
                return () if self._is_busy else self._end(RedriveState.CANCELLED)
            case ResumeRedrive():
                self._is_paused = False
                self.state = RedriveState.RUNNING if self.state is RedriveState.PAUSED else self.state
                return () if self._is_busy else self._go_on(event.now_ms)
            case Tick():
                return () if self._is_busy else self._go_on(event.now_ms)
        self._is_busy = False
        return self._take_outcome(event) or self._go_on(event.now_ms)

    def check_invariants(self) -> None:
        assert self._storing <= len(self._pending)
        assert not self._storing or self._is_busy, "what is being stored is under way"
        assert len(self._pending) <= self._read_max, "nothing is read while letters are pending"
        for pending in self._pending:
            partition, offset = pending.is_in
            assert offset not in self.spans[partition].done, "a letter that is done is not sent again"

    # ---- events

    def _take_outcome(
        self, event: RedriveOpened | LettersRead | LettersStored | RedriveFailed
    ) -> Sequence[RedriveInstruction]:
        """Take the outcome of the step that was under way. An instruction is returned where it is the last one."""
        match event:
            case RedriveOpened():
                self._take_spans(event.spans)
            case LettersRead():
                self._take_letters(event)
            case LettersStored():
                self._settle(event.now_ms)
            case RedriveFailed() if event.is_final or self._failures >= FAILURES_MAX:
                return self._end(RedriveState.FAILED, event.reason)
            case RedriveFailed():
                self._take_failure(event)
        return ()

    def _take_spans(self, spans: Mapping[int, LetterSpan]) -> None:
        self._is_to_open = False
        if not self.spans:
            self.spans = spans
            self._seen = {each: max(span.begin, self._first(each, span)) for each, span in spans.items()}
            self._ended = {each for each, span in spans.items() if self._seen[each] >= span.end}
            return
        # The first ends stay. The progress may have a batch of which the commit was not answered.
        for each, span in self.spans.items():
            span.done = spans[each].done if each in spans else span.done
        for pending in [each for each in self._pending if each.record.offset in self.spans[each.record.partition].done]:
            self._pending.remove(pending)
            count_one(self.tally.sent, pending.target)

    def _first(self, partition: int, span: LetterSpan) -> int:
        if self.wish.chosen is None:
            return span.done.offset
        return min(self.wish.chosen.get(partition, ()), default=span.end)

    def _take_letters(self, event: LettersRead) -> None:
        for record, letter in event.letters:
            self._take(record, letter)
        for each in event.ended:
            if each in self.spans:
                self._ended.add(each)

    def _take(self, record: StoredRecord, letter: DeadLetter) -> None:
        partition, offset = record.partition, record.offset
        span = self.spans.get(partition)
        if span is None or offset >= span.end or offset < self._seen[partition]:
            return
        gap, self._seen[partition] = self._seen[partition], offset + 1
        if self._seen[partition] >= self._end_of(partition, span):
            self._ended.add(partition)
        if self.wish.chosen is not None and offset not in self.wish.chosen.get(partition, ()):
            return
        self.tally.read += 1
        if offset in span.done:
            self.tally.done_before += 1
            return
        count_one(self.tally.reasons, letter.reason)
        if self.wish.reasons is not None and letter.reason not in self.wish.reasons:
            self._leave(partition, OTHER_REASON)
            return
        origin = letter.topic or NO_ORIGIN
        count_one(self.tally.origins, origin)
        target = self._targets.get(origin)
        if target is None:
            self._leave(partition, self._refused.get(origin, NO_TARGET))
        elif self.wish.is_dry:
            count_one(self.tally.sent, target)
        else:
            self._pending.append(PendingLetter(record, letter, target, gap))

    def _end_of(self, partition: int, span: LetterSpan) -> int:
        if self.wish.chosen is None:
            return span.end
        return max(self.wish.chosen.get(partition, ()), default=-1) + 1

    def _settle(self, now_ms: int) -> None:
        """The batch is stored: its letters are done, and the next ones wait for their time."""
        self._failures, self.problem = 0, None
        for pending in self._pending[: self._storing]:
            count_one(self.tally.sent, pending.target)
        if self.wish.rate_per_s is not None:
            self._due_ms = now_ms + self._storing * 1_000 // self.wish.rate_per_s
        for partition, progress in self._storing_progress.items():
            self.spans[partition].done = progress
        del self._pending[: self._storing]
        self._storing, self._storing_progress = 0, {}

    def _take_failure(self, event: RedriveFailed) -> None:
        self.problem = event.reason
        self._is_to_open = True
        stored, self._storing, self._storing_progress = self._storing, 0, {}
        if event.refused_targets:
            self._leave_targets(event.refused_targets)
        # Cut until the letter that no one takes is alone: the broker refuses a batch as a whole, and the library does
        # not say which record it meant (KIP-467). Each failure costs another producer, so the cuts are deep.
        elif event.is_letters_fault and stored == 1:
            self._leave(self._pending.pop(0).record.partition, event.reason)
        elif event.is_letters_fault:
            self._store_max = max(1, stored // CUT)
        else:
            self.state = RedriveState.WAITING
            self._due_ms = event.now_ms + min(RETRY_MS_MAX, RETRY_MS << self._failures)
            self._failures += 1

    def _leave(self, partition: int, cause: str) -> None:
        self._left_in.add(partition)
        count_one(self.tally.left, cause)

    def _leave_targets(self, refused: Mapping[str, str]) -> None:
        for origin in [origin for origin, target in self._targets.items() if target in refused]:
            self._refused[origin] = refused[self._targets.pop(origin)]
        for pending in self._pending:
            if pending.target in refused:
                self._leave(pending.record.partition, refused[pending.target])
        self._pending = [each for each in self._pending if each.target not in refused]

    # ---- decisions

    def _go_on(self, now_ms: int) -> Sequence[RedriveInstruction]:
        if self._is_cancelled:
            return self._end(RedriveState.CANCELLED)
        if self._is_paused:
            self.state = RedriveState.PAUSED
            return ()
        if self._due_ms is not None and now_ms < self._due_ms:
            return ()
        self._due_ms = None
        self._is_busy = True
        if self._is_to_open:
            return (OpenRedrive(),)
        self.state = RedriveState.RUNNING
        if self._pending:
            return self._store()
        if self.wish.records_max is not None and self.tally.read >= self.wish.records_max:
            self.is_truncated = True
            return self._end(RedriveState.DONE)
        if len(self._ended) < len(self.spans):
            self._store_max = self._read_max
            positions = {each: offset for each, offset in self._seen.items() if each not in self._ended}
            return (ReadLetters(self._read_max, positions),)
        return self._close_gaps() or self._end(RedriveState.DONE)

    def _store(self) -> Sequence[RedriveInstruction]:
        batch = self._pending[: self._store_max]
        instruction = store_instruction(batch, self.spans)
        if not _fits(instruction):
            return self._end(RedriveState.FAILED, SCATTERED)
        self._storing, self._storing_progress = len(batch), instruction.progress
        return (instruction,)

    def _close_gaps(self) -> Sequence[RedriveInstruction]:
        # Chosen letters say nothing of what is behind them.
        if self.wish.is_dry or self.wish.chosen is not None or self._has_closed_gaps:
            return ()
        self._has_closed_gaps = True
        instruction = closing_instruction(self.spans, self._seen, self._left_in)
        if instruction is None or not _fits(instruction):
            return ()
        self._storing_progress = instruction.progress
        return (instruction,)

    def _end(self, state: RedriveState, problem: str | None = None) -> Sequence[RedriveInstruction]:
        self.state = state
        self.problem = problem
        self._storing = 0
        return (RedriveOver(),)


def _fits(instruction: StoreLetters) -> bool:
    try:
        for progress in instruction.progress.values():
            progress.encode()
    except LimitExceeded:
        return False
    return True
