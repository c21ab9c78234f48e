"""Cleaning a journal's compacted logs while it runs: it schedules passes, paces them, and swaps segments.

Strategy: the loop decides and plans; a worker carries out one slice of about a millisecond at a time, so that the
interpreter's lock is never held for long. Between two slices the loop runs, and the next slice waits until the budget
of bytes allows it. A slice works on a fixed plan: no structure that the loop changes. When a cleaned segment is on
disk, the loop puts it in the place of the segments that it replaces; reads in flight finish on the old files.
At most one cleaning at a time, of segments that are closed, flushed and in the last checkpoint.

A failure costs only the space that would have been gained. A full disk is tried again later; any other error ends
cleaning until the next start, and is kept in `last_error`.

Knows no topics; decides nothing itself (`compaction`), keeps no records (`cleaner_pass`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from hutong.foundation.errors import HutongError, LimitExceeded, StorageError, StorageShortage
from hutong.foundation.timers import Timer
from hutong.foundation.waiting.pending import Continuation
from hutong.journal.clean.cleaner_pass import CleaningPass, PassResult, Plan, Rewritten, SourceSegment, Steps
from hutong.journal.clean.cleaner_transactions import CleanedTransactions
from hutong.journal.clean.compaction import CompactionDecision, CompactionPolicy, LogShare, decide, garbage, share_of
from hutong.journal.clean.record_filter import LogRules
from hutong.journal.files.disk import replace_file
from hutong.journal.files.segment import Segment
from hutong.journal.files.spans import span_of
from hutong.journal.format.clean_offsets import CLEAN_OFFSETS_NAME, encode_clean_offsets
from hutong.journal.log import PartitionLog
from hutong.journal.recover.checkpointer import Checkpointer
from hutong.journal.resources import JournalPart, JournalResources
from hutong.journal.settings import JournalSettings

SLICE_US: Final = 1_000
STEPS_PER_SLICE_MAX: Final = 64
PAUSE_MS_MIN: Final = 10  # shorter ones are saved up

WhenFlushed = Callable[[Continuation[None]], None]


@dataclass(frozen=True, slots=True)
class _Slice:
    """The result of one slice."""

    bytes: int = 0
    rewritten: Rewritten | None = None
    result: PassResult | None = None


class Cleaner(JournalPart):
    """Cleans one journal. Figures: cleanings_total, passes_total, moved_bytes_total, reclaimed_bytes_total."""

    def __init__(
        self,
        resources: JournalResources,
        logs: Mapping[int, PartitionLog],
        checkpointer: Checkpointer,
        when_flushed: WhenFlushed,
        deletion_ms: Callable[[], int],
    ) -> None:
        super().__init__(resources)
        self.cleanings_total = 0
        self.passes_total = 0
        self.moved_bytes_total = 0
        self.reclaimed_bytes_total = 0
        self.last_error: HutongError | None = None
        self.problems: dict[int, str] = {}  # logs that cannot be cleaned, and the reason
        self._logs = logs
        self._checkpointer = checkpointer
        self._when_flushed = when_flushed
        self._deletion_ms = deletion_ms
        self._policies: Mapping[int, CompactionPolicy] = {}
        self._decision: CompactionDecision | None = None
        self._steps: Steps | None = None
        self._is_in_flight = False
        self._is_pumping = False
        self._pause: Timer | None = None
        self._paced_from_ms = 0
        self._paced_bytes = 0
        self._has_failed = False
        self._may_have_garbage = True
        self._is_stopped = False

    @property
    def is_running(self) -> bool:
        return self._decision is not None

    @property
    def has_failed(self) -> bool:
        """True where nothing is cleaned any more before the next start."""
        return self._has_failed or self._is_stopped

    def holds(self, segment: Segment) -> bool:
        """True if a cleaning may be working on the segment, so that it must stay."""
        return self._decision is not None and segment.base_position < self._decision.end_position

    def begin_cleaning(self, policies: Mapping[int, CompactionPolicy]) -> None:
        """Begin a cleaning if one is due and none is running."""
        if self.is_running or self._has_failed or self._is_stopped:  # the next pass of retention asks again
            return
        closed = self._closed_segments()
        # A crash before the next checkpoint scans the segments behind it, and expects them as they were written.
        closed_position = closed[-1].base_position + 1 if closed else 0
        now_ms = self._deletion_ms()
        shares = [
            share_of(self._logs[partition_id], policy, now_ms, closed_position)
            for partition_id, policy in policies.items()
            # A problem, such as an unreadable batch, would end each pass at the same place.
            if partition_id in self._logs and partition_id not in self.problems
        ]
        sizes = [(segment.base_position, _stored_bytes(segment)) for segment in closed]
        self._policies = policies
        # One cleaning at a time: compaction first; garbage of deleted logs when none is due.
        self._decision = decide(shares, sizes) or self._garbage_in(closed)
        if self._decision is not None:
            self._paced_from_ms, self._paced_bytes = self._clock.monotonic_ms(), 0
            self._begin_pass(self._decision)

    def alter_settings(self, settings: JournalSettings) -> None:
        """Pace by another budget from the next slice on, and hold another number of keys from the next pass on."""
        # What the running cleaning has moved so far belongs to the old budget: counted against a new one, it would
        # delay the next slice by hours, or allow a burst.
        self._paced_from_ms, self._paced_bytes = self._clock.monotonic_ms(), 0
        self._settings = settings
        if self._pause is not None:
            self._pause.cancel()
            self._pause_is_over()

    def look_for_garbage(self) -> None:
        """Look for garbage at the next start of a cleaning: a log was deleted or trimmed."""
        self._may_have_garbage = True

    def stop(self) -> None:
        """Begin nothing more; a slice in flight ends."""
        self._is_stopped = True
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if not self._is_in_flight:  # else the result of the slice abandons the pass
            self._abandon()

    # -- planning

    def _closed_segments(self) -> list[Segment]:
        """Those that nobody but readers and retention will touch again, oldest first."""
        known_position = self._checkpointer.last_position
        return [
            segment
            for segment in self._segments.all()
            if segment is not self._segments.active
            and segment.next_position is not None
            and segment.next_position <= known_position
        ]

    def _garbage_in(self, closed: list[Segment]) -> CompactionDecision | None:
        if not self._may_have_garbage:
            return None
        # Counting garbage goes over all logs and segments, so it is done once after each deletion or trim.
        self._may_have_garbage = False
        found = garbage(self._logs.values(), closed)
        return CompactionDecision([], max(found) + 1, frozenset(found)) if found else None

    def _begin_pass(self, decision: CompactionDecision) -> None:
        plan = self._plan(decision)

        def flushed(error: HutongError | None) -> None:
            if error is not None or self._is_stopped:
                self._end(error)
                return
            self._steps = CleaningPass(self._disk, self._segments.directory, self._settings, plan).run()
            self._pump()

        # The plan relies on the logs as they are, above all on their starts: a crash must not revert those.
        self._when_flushed(flushed)

    def _plan(self, decision: CompactionDecision) -> Plan:
        dirty = {share.partition_id: share for share in decision.shares}
        segments = [segment for segment in self._closed_segments() if segment.base_position < decision.end_position]
        touched = set(decision.garbage)
        dirty_position = decision.end_position
        for partition_id, share in dirty.items():
            log = self._logs.get(partition_id)
            if log is None:
                continue
            # Every segment of the log may lose records; untouched ones are not even read.
            touched.update(span.base_position for span in log.spans)
            # The first walk begins at the oldest segment with a dirty part of any log.
            number = log.spans.number_for(share.clean_offset)
            if number < len(log.spans):
                dirty_position = min(dirty_position, log.spans[number].base_position)
        # A cleaned segment covers the positions up to the next one, however few bytes are left.
        following = [segment.base_position for segment in self._segments.all()][1:]
        sources = [
            SourceSegment(
                segment,
                segment.path,
                segment.base_position,
                segment.base_position + _stored_bytes(segment),
                following[number],
                segment.generation,
                segment.base_position in touched,
            )
            for number, segment in enumerate(segments)
        ]
        rules = {partition_id: self._rules(log, dirty.get(partition_id)) for partition_id, log in self._logs.items()}
        return Plan(sources, rules, dirty_position, self._deletion_ms())

    def _rules(self, log: PartitionLog, share: LogShare | None) -> LogRules:
        if share is None:  # not to be compacted: of this log only deleted records go
            return LogRules(log.partition_id, log.start_offset, log.sealed_offset)
        # KIP-98: a producer may repeat its newest batches, so the broker must still recognize their sequences.
        states = log.producers.states().values() if log.producers is not None else ()
        transactions = log.transactions
        return LogRules(
            log.partition_id,
            log.start_offset,
            log.sealed_offset,
            is_compacted=True,
            clean_offset=log.clean_offset,
            limit_offset=share.limit_offset,
            delete_retention_ms=self._policies[log.partition_id].delete_retention_ms,
            producers_batches=frozenset(batch.base_offset for state in states for batch in state.batches),
            transactions=CleanedTransactions(None if transactions is None else transactions.aborted.rows()),
        )

    # -- slices

    def _pump(self) -> None:
        """Submit slice after slice; results may come before `submit` returns."""
        if self._is_pumping:
            return
        self._is_pumping = True
        while self._steps is not None and not self._is_in_flight and self._pause is None:
            self._is_in_flight = True
            steps = self._steps
            try:
                self._jobs.submit_read(lambda steps=steps: self._slice(steps), self._sliced)  # type: ignore[misc]
            except LimitExceeded as refusal:  # the workers are busy with reads: clean another time
                self._sliced(refusal)
        self._is_pumping = False

    def _slice(self, steps: Steps) -> _Slice:
        """On a worker."""
        deadline_us = self._clock.monotonic_us() + SLICE_US
        moved_bytes = 0
        for _ in range(STEPS_PER_SLICE_MAX):
            try:
                step = next(steps)
            except StopIteration as stop:
                return _Slice(moved_bytes, result=stop.value)
            if isinstance(step, Rewritten):  # only the loop may swap segments
                return _Slice(moved_bytes, rewritten=step)
            moved_bytes += step
            if self._clock.monotonic_us() >= deadline_us:
                break
        return _Slice(moved_bytes)

    def _sliced(self, outcome: _Slice | BaseException) -> None:
        self._is_in_flight = False
        # A slice that no worker took (LimitExceeded) leaves the pass unfinished: closing it closes its files.
        if isinstance(outcome, HutongError):
            self._abandon()
            self._end(outcome)
            return
        if isinstance(outcome, BaseException):
            raise outcome
        self.moved_bytes_total += outcome.bytes
        # Swap even when stopped: the segment has its name, so the next start would use it as well.
        if outcome.rewritten is not None:
            self._swap(outcome.rewritten)
        if self._is_stopped:
            self._abandon()
        elif outcome.result is not None:
            self._steps = None
            self._pass_ended(outcome.result)
        else:
            self._pace(outcome.bytes)
        self._pump()

    def _pace(self, moved_bytes: int) -> None:
        budget = self._settings.clean_bytes_per_second_max  # log.cleaner.io.max.bytes.per.second of Kafka
        if not budget:
            return
        self._paced_bytes += moved_bytes
        due_ms = self._paced_from_ms + self._paced_bytes * 1000 // budget
        # Shorter pauses add up until one is worth a timer.
        if due_ms - self._clock.monotonic_ms() >= PAUSE_MS_MIN:
            self._pause = self._timers.add(due_ms, self._pause_is_over)

    def _pause_is_over(self) -> None:
        self._pause = None
        self._pump()

    def _swap(self, rewritten: Rewritten) -> None:
        """Put the cleaned segment in the place of its sources; compacted logs are read from it even if cached."""
        replaced = [source.segment for source in rewritten.sources]
        cleaned = Segment.named(self._segments.directory, rewritten.name)
        self._segments.replace(replaced, cleaned)
        base_position, range_end = rewritten.name.base_position, rewritten.sources[-1].range_end
        cleaned.held_bytes = sum(summary.bytes for summary in rewritten.index.summaries())
        summaries = {summary.partition_id: summary for summary in rewritten.index.summaries()}
        for partition_id, log in self._logs.items():
            summary = summaries.get(partition_id)
            # A log of which nothing is left loses its spans there.
            span = None if summary is None else span_of(base_position, summary)
            log.spans.replace(base_position, range_end, span)
            if span is not None and span.end_offset <= log.start_offset:
                cleaned.kept_bytes += span.bytes
            summaries.pop(partition_id, None)
            if partition_id in self._policies:  # the cache still has the records that cleaning has removed
                log.cached_runs.trim(range_end)
        cleaned.dead_bytes = sum(summary.bytes for summary in summaries.values())  # of logs deleted meanwhile

    # -- the end

    def _pass_ended(self, result: PassResult) -> None:
        self.passes_total += 1
        self.reclaimed_bytes_total += result.bytes_before - result.bytes_after
        self.problems.update(result.problems)
        has_advanced = False
        for partition_id, offset in result.clean_offsets.items():
            log = self._logs.get(partition_id)
            if log is not None and offset > log.clean_offset:  # it may have been deleted meanwhile
                log.clean_offset = offset
                has_advanced = True
        assert self._decision is not None
        # The map of keys was too small for one pass: another one begins at the new clean offsets.
        if not result.is_complete and has_advanced:
            self._begin_pass(self._decision)
        else:
            self._save()

    def _save(self) -> None:
        """Note how far the logs are clean. Only a shortcut: what is forgotten is gone through again."""
        offsets = {partition_id: log.clean_offset for partition_id, log in self._logs.items() if log.clean_offset}
        path, content = self._segments.directory / CLEAN_OFFSETS_NAME, encode_clean_offsets(offsets)
        self._jobs.submit(lambda: replace_file(self._disk, path, content), self._saved)

    def _saved(self, outcome: BaseException | None) -> None:
        if outcome is not None and not isinstance(outcome, HutongError):
            raise outcome
        # The clean offsets are on disk, so this cleaning counts.
        if outcome is None:
            self.cleanings_total += 1
            self._forget_aborted()
        self._end(outcome)

    def _forget_aborted(self) -> None:
        """Forget aborted transactions of which nothing is left. A start forgets the same, by the clean offsets."""
        for log in self._logs.values():
            if log.transactions is not None:
                log.transactions.aborted.forget_before(log.clean_offset)

    def _end(self, error: HutongError | None) -> None:
        self._decision = None
        self.last_error = error
        # A damaged or failing segment would fail every pass; a shortage passes.
        if isinstance(error, StorageError) and not isinstance(error, StorageShortage):
            self._has_failed = True
        # A journal that ends has closed its parts; nobody reacts any more.
        if not self._is_stopped:
            self._events.cleaning_ended()

    def _abandon(self) -> None:
        """The journal ends; what is not finished a start removes."""
        steps, self._steps, self._decision = self._steps, None, None
        if steps is not None:
            steps.close()


def _stored_bytes(segment: Segment) -> int:
    assert segment.end_position is not None
    return segment.end_position - segment.base_position
