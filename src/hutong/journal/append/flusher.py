"""The flusher: one write and one flush for everything that was sealed meanwhile (group commit).

Strategy: at most one flush is in flight. It takes everything in the cache beyond the flushed position; a worker writes
and flushes it; then the loop advances the positions. Chunks sealed meanwhile belong to the next flush. The slower the
disk, the more each flush carries, without a timer. Only batches that nobody waits for (RECEIVE on a receive-QoS log)
stay in memory a little longer, to spare the disk.

A failed flush ends the journal: the kernel may have marked the pages clean, so no later success could be believed
(Rebello et al., ATC '20). A shortage (no space, no file, no memory) does not: the bytes are still in the cache and are
written whole once it is over. Until then appends are refused. Those in flight fail with a retriable storage error:
their outcome is unknown to the client.

Decides nothing about offsets. The file work is in `FlushStep`, which runs on a worker and touches only its segment.
"""

from pathlib import Path
from typing import Final

from hutong.foundation.clock import Clock
from hutong.foundation.errors import DiskFull, FlushFailed, LimitExceeded, Refused, StorageError, StorageShortage
from hutong.foundation.timers import Timer
from hutong.journal.append.progress import Progress
from hutong.journal.append.writer import Writer
from hutong.journal.files.disk import Disk, DiskFile
from hutong.journal.files.segment import PREPARED_NAME, Segment
from hutong.journal.resources import JournalPart, JournalResources
from hutong.journal.settings import JournalSettings
from hutong.wire.kafka.error_codes import ErrorCode

_PREPARE_FROM: Final = 0.5  # of the active segment: from here on the next one's file is made ready


class FlushTimes:
    """The times of a flush on its worker, in microseconds; `begun_us` and `ended_us` are points of monotonic time."""

    __slots__ = ("begun_us", "ended_us", "fsync_us", "write_us")

    def __init__(self, begun_us: int) -> None:
        self.begun_us = begun_us
        self.ended_us = begun_us
        self.write_us = 0
        self.fsync_us = 0


class FlushStep:
    """The bytes that one flush writes to one segment. After a shortage it is repeated whole, with the same result."""

    def __init__(
        self, segment: Segment, views: list[memoryview], position: int, size: int, prepared: DiskFile | None
    ) -> None:
        self._segment = segment
        self._views = views
        self._position = position - segment.base_position
        self._size = size
        self._prepared = prepared

    def execute(self, disk: Disk, settings: JournalSettings, clock: Clock, times: FlushTimes) -> None:
        """Write and flush, adding to `times`. Blocks. Raises StorageShortage, FlushFailed, StorageError."""
        file = self._segment.file or self._make_file(disk, settings)
        end = self._position + self._size
        # A flush into reserved blocks takes about half the time of one that grows the file.
        if end > self._segment.allocated_bytes:
            self._reserve(file, end, settings)
        file.write(self._views, self._position)
        written_us = clock.monotonic_us()
        file.flush()
        flushed_us = clock.monotonic_us()
        times.write_us += written_us - times.ended_us
        times.fsync_us += flushed_us - written_us
        times.ended_us = flushed_us

    def release(self) -> None:
        """Release the bytes: a view pins its region, and a stored error keeps everything that its frames hold.

        A prepared file that was not used is closed: the next attempt makes its own.
        """
        for view in self._views:
            view.release()
        if self._prepared is not None:
            self._prepared.close()
            self._prepared = None

    def _make_file(self, disk: Disk, settings: JournalSettings) -> DiskFile:
        path = self._segment.path
        if self._prepared is not None:
            disk.rename(path.with_name(PREPARED_NAME), path)
            file, self._prepared = self._prepared, None
            self._segment.allocated_bytes = prepared_bytes(settings)
        else:
            file = disk.create(path)
            self._segment.allocated_bytes = 0
        try:
            # Before the first bytes: a crash must not keep acknowledged bytes in a file without a name.
            disk.sync_directory(path.parent)
        except StorageError:
            file.close()  # the next attempt begins with a new one
            raise
        self._segment.file = file
        return file

    def _reserve(self, file: DiskFile, needed: int, settings: JournalSettings) -> None:
        """Reserve a step ahead, or at least what is needed now."""
        allocated = self._segment.allocated_bytes
        ahead = max(needed, min(allocated + settings.preallocate_bytes, settings.segment_bytes))
        # A nearly full disk may lack the room for a step ahead, and still take this flush.
        for end in (ahead, needed):
            try:
                file.preallocate(allocated, end - allocated)
            except DiskFull:
                if end == needed:
                    raise
            else:
                self._segment.allocated_bytes = end
                return


def prepared_bytes(settings: JournalSettings) -> int:
    return min(settings.preallocate_bytes, settings.segment_bytes)


def prepare_file(disk: Disk, directory: Path, settings: JournalSettings) -> DiskFile:
    """A reserved and flushed file for a segment whose position is not known yet. Blocks. Raises StorageError."""
    file = disk.create(directory / PREPARED_NAME)
    try:
        file.preallocate(0, prepared_bytes(settings))
        file.flush()
    except StorageError:
        file.close()
        raise
    return file


class Flusher(JournalPart):
    """Drives the flushed position of one journal. Figures: flushes_total, flushed_bytes_total."""

    def __init__(self, resources: JournalResources, progress: Progress, writer: Writer) -> None:
        super().__init__(resources)
        self.failure: StorageError | None = None
        self.shortage: StorageShortage | None = None  # writes are refused until it is over
        self.flushes_total = 0
        self.flushed_bytes_total = 0
        self._progress = progress
        self._writer = writer
        self._is_flushing = False
        self._is_preparing = False
        self._prepared: DiskFile | None = None
        self._retry: Timer | None = None
        self._lazy: Timer | None = None
        self._is_stopped = False
        self._shortage_refusal: Refused | None = None

    def wake(self) -> None:
        """Start a flush if none is running and somebody waits for one, or much is unflushed."""
        if self._is_flushing or self._cannot_flush:  # the end of the running flush, or of the shortage, wakes again
            return
        flushed_position = self._progress.flushed_position
        dirty_bytes = self._writer.position - flushed_position
        # Bytes that nobody waits for are flushed by time or size: a disk busy with them would delay a real wait.
        if flushed_position < self._progress.awaited_position or dirty_bytes >= self._settings.lazy_flush_bytes:
            self._start()
        elif dirty_bytes:
            self.flush_later()

    def retry_now(self) -> None:
        """Try to write again, in a shortage, without waiting for the timer."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self.shortage is not None and not self._is_flushing and self.failure is None:
            self._start()

    def stop(self) -> None:
        """Cancel the timers, and start none when the flush in flight ends."""
        self._is_stopped = True
        for timer in (self._retry, self._lazy):
            if timer is not None:
                timer.cancel()
        self._retry = self._lazy = None

    def discard_prepared(self) -> None:
        """Remove the file that was prepared for the next segment: the journal ends."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            prepared.close()
            path = self._segments.directory / PREPARED_NAME
            self._jobs.submit(lambda: self._disk.unlink(path), self._is_discarded)

    @property
    def _cannot_flush(self) -> bool:
        return self.failure is not None or self.shortage is not None

    def flush_later(self) -> None:
        """Schedule a flush of bytes that nobody waits for."""
        if self._lazy is None and not self._is_stopped:  # one timer bounds the wait of the oldest deferred batch
            deadline_ms = self._clock.monotonic_ms() + self._settings.lazy_flush_interval_ms
            self._lazy = self._timers.add(deadline_ms, self._lazy_is_due)

    def _lazy_is_due(self) -> None:
        self._lazy = None
        self._writer.seal_chunk()
        if not self._is_flushing and not self._cannot_flush and self._progress.flushed_position < self._writer.position:
            self._start()

    def _start(self) -> None:
        start, end = self._progress.flushed_position, self._writer.position
        steps = self._plan(start, end)
        disk, settings, clock = self._disk, self._settings, self._clock

        def work() -> FlushTimes:
            times = FlushTimes(clock.monotonic_us())
            try:
                for step in steps:
                    step.execute(disk, settings, clock, times)
            # Also after a failure: the stored error keeps its frames, and their views would pin regions of the cache.
            finally:
                for step in steps:
                    step.release()
            return times

        self._is_flushing = True
        try:
            self._jobs.submit_flush(work, lambda outcome: self._ended(end, outcome))
        except LimitExceeded as refusal:  # no worker took it, so nothing of the disk is in doubt: try again later
            for step in steps:
                step.release()
            self._ended(end, StorageShortage(f"no worker thread takes the flush: {refusal}"))

    def _plan(self, start: int, end: int) -> list[FlushStep]:
        steps = []
        # A flush may cross the end of a segment: each file is written and flushed, in order.
        for segment in self._segments.between(start, end):
            first = max(start, segment.base_position)
            last = end if segment.end_position is None else min(end, segment.end_position)
            views = self._cache.view(first, last)
            assert views is not None, "what is not flushed is always in the cache"
            prepared = None
            # The first flush into a segment makes its file: by renaming the prepared one, if that is ready.
            if segment.file is None:
                prepared, self._prepared = self._prepared, None
            steps.append(FlushStep(segment, views, first, last - first, prepared))
        return steps

    def _ended(self, end: int, outcome: object) -> None:
        self._is_flushing = False
        if isinstance(outcome, StorageShortage):  # also a part of the flush: it is repeated whole
            self._is_short(outcome)
        elif isinstance(outcome, StorageError):
            self.fail(outcome)
        elif isinstance(outcome, BaseException):
            # A fault of ours: the state of the disk is unknown, and the error passes to the loop's handler.
            self.fail(FlushFailed(f"a flush ended unexpectedly: {outcome!r}"))
            raise outcome
        else:
            assert isinstance(outcome, FlushTimes)
            self._advance(end, outcome)

    def _advance(self, end: int, times: FlushTimes) -> None:
        self.flushes_total += 1
        self.flushed_bytes_total += end - self._progress.flushed_position
        if self.shortage is not None:  # this flush has proved that it is over
            self.shortage = None
            self._writer.accept(self._shortage_refusal)
            self._progress.accept()
            for changed in self._events.shortage_changed:
                changed(None)
        # The position moves first, so that the next flush starts behind it.
        self._progress.flushed_position = end
        self.wake()  # the disk has work again before the continuations run
        self._progress.flushed(end, times.begun_us, times.ended_us)
        self.bytes_released()
        figures = self._figures
        figures.write_us.record(times.write_us)
        figures.fsync_us.record(times.fsync_us)
        figures.release_us.record(self._clock.monotonic_us() - times.ended_us)
        self._prepare()
        for flushed in self._events.flushed:
            flushed()

    def bytes_released(self) -> None:
        """Release cached bytes that neither the flusher nor the replicator needs any more."""
        self._cache.flushed(self._progress.released_position)
        self._writer.released()

    def fail(self, error: StorageError) -> None:
        """Refuse all appends for good, and fail everything that waits. Reads go on."""
        # The kernel marks pages clean even if their write failed, so a later flush proves nothing (see above).
        self.failure = error
        self._writer.refuse(Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"The partition group has failed: {error}"))
        self._progress.refuse(error)
        for failed in self._events.failed:
            failed(error)

    def _is_short(self, error: StorageShortage) -> None:
        # Listeners hear of the first failed attempt, not of each retry.
        is_news = self.shortage is None
        what = "No space is left" if isinstance(error, DiskFull) else "No open files, memory or threads are left"
        refusal = Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"{what}: {error}")
        # The newest error replaces the one before; a graver refusal (failed, closed) stays.
        self._writer.accept(self._shortage_refusal)
        self._writer.refuse(refusal)
        self.shortage, self._shortage_refusal = error, refusal
        self._progress.refuse(refusal)
        # Space may come back by retention or by an operator, without any event: only a new attempt can tell.
        if not self._is_stopped:
            deadline_ms = self._clock.monotonic_ms() + self._settings.shortage_retry_ms
            self._retry = self._timers.add(deadline_ms, self.retry_now)
        for changed in self._events.shortage_changed if is_news else ():
            changed(error)

    def _prepare(self) -> None:
        """Make the next segment's file ready while the active one still has room."""
        active = self._segments.active
        # Creating, reserving and flushing a file would otherwise be part of the first flush into the new segment, for
        # which producers wait.
        if active is None or self._prepared is not None or self._is_preparing:
            return
        # Early enough for the worker, late enough that a quiet journal reserves no second file.
        if self._progress.flushed_position - active.base_position < _PREPARE_FROM * self._settings.segment_bytes:
            return
        self._is_preparing = True
        disk, directory, settings = self._disk, self._segments.directory, self._settings
        self._jobs.submit(lambda: prepare_file(disk, directory, settings), self._is_prepared)

    def _is_discarded(self, outcome: BaseException | None) -> None:
        if outcome is not None and not isinstance(outcome, StorageError):  # the next start removes it
            raise outcome

    def _is_prepared(self, outcome: DiskFile | BaseException) -> None:
        self._is_preparing = False
        if isinstance(outcome, StorageError):
            return  # only an advance on later work, which will meet the same fault where it matters
        if isinstance(outcome, BaseException):
            raise outcome
        self._prepared = outcome
