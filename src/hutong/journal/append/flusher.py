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

from contextlib import suppress
from pathlib import Path

from hutong.foundation.clock import Clock
from hutong.foundation.errors import DiskFull, FlushFailed, LimitExceeded, Refused, StorageError, StorageShortage
from hutong.foundation.timers import Timer
from hutong.journal.append.next_file import NextFile, PreparedFile, prepare_file
from hutong.journal.append.progress import Progress
from hutong.journal.append.writer import Writer
from hutong.journal.files.disk import Disk, DiskFile, RealFile
from hutong.journal.files.recycled import blank_bytes
from hutong.journal.files.segment import PREPARED_NAME, Segment
from hutong.journal.resources import JournalPart, JournalResources
from hutong.journal.settings import JournalSettings
from hutong.runtime.threads.durable_writes import DurableWrite
from hutong.wire.kafka.error_codes import ErrorCode


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
        self,
        segment: Segment,
        views: list[memoryview],
        position: int,
        size: int,
        prepared: PreparedFile | None,
        recycled: Path | None = None,
    ) -> None:
        """`prepared` or `recycled` becomes the segment's file if it has none yet."""
        self._segment = segment
        self._views = views
        self._position = position - segment.base_position
        self._size = size
        self._prepared = prepared
        self._recycled = recycled

    def execute(self, disk: Disk, settings: JournalSettings, clock: Clock, times: FlushTimes) -> None:
        """Write and flush, adding to `times`. Blocks. Raises StorageShortage, FlushFailed, StorageError."""
        file = self._segment.file or self._make_file(disk, settings)
        end = self._position + self._size
        # A flush into reserved blocks takes about half the time of one that grows the file.
        if end > self._segment.allocated_bytes:
            self._reserve(file, end, settings)
        file.write(self._buffers(settings), self._position)
        written_us = clock.monotonic_us()
        file.flush()
        flushed_us = clock.monotonic_us()
        times.write_us += written_us - times.ended_us
        times.fsync_us += flushed_us - written_us
        times.ended_us = flushed_us

    def durable_write(self, settings: JournalSettings) -> DurableWrite | None:
        """The whole step as one write with its flush; None where a file must be made or room reserved first."""
        file = self._segment.file
        # Any other disk than the machine's own, as those of tests, has no descriptor.
        if not isinstance(file, RealFile) or self._position + self._size > self._segment.allocated_bytes:
            return None
        return DurableWrite(file.descriptor, self._buffers(settings), self._position)

    def finish_write(self, error: int) -> None:
        """Check that write. Raises FlushFailed."""
        assert isinstance(self._segment.file, RealFile)
        self._segment.file.flushed_by_kernel(error)

    def _buffers(self, settings: JournalSettings) -> list[memoryview]:
        """The bytes, and a blank end behind them in a file with stale bytes."""
        blank = blank_bytes(self._position + self._size, self._segment.stale_bytes, settings)
        # Overwritten by the next flush. Until then it ends the journal for a scan, as blank blocks of a new file do.
        # Of its own memory: the kernel takes only what is writable, and must find it as it is.
        return [*self._views, memoryview(bytearray(blank))] if blank else self._views

    def release(self) -> None:
        """Release the bytes: a view pins its region, and a stored error keeps everything that its frames hold.

        A prepared file that was not used is closed: the next attempt makes its own.
        """
        for view in self._views:
            view.release()
        if self._prepared is not None:
            self._prepared.file.close()
            self._prepared = None

    def _make_file(self, disk: Disk, settings: JournalSettings) -> DiskFile:
        path = self._segment.path
        if self._recycled is not None:
            recycled, self._recycled = self._recycled, None
            with suppress(StorageError):  # what cannot be used is left to the next start, and a new file is made
                self._prepared = prepare_file(disk, path.parent, settings, recycled)
        if self._prepared is not None:
            disk.rename(path.with_name(PREPARED_NAME), path)
            prepared, self._prepared = self._prepared, None
        else:
            prepared = PreparedFile(disk.create(path), 0, 0, 0)
        file = prepared.file
        self._segment.allocated_bytes, self._segment.stale_bytes = prepared.allocated_bytes, prepared.stale_bytes
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


class FlushWork:
    """A flush. A worker does it by calling it; one that is a plain write may go to the kernel instead (DurableWork)."""

    __slots__ = ("_begun_us", "_clock", "_disk", "_settings", "_steps")

    def __init__(self, steps: list[FlushStep], disk: Disk, settings: JournalSettings, clock: Clock) -> None:
        self._steps = steps
        self._disk = disk
        self._settings = settings
        self._clock = clock
        self._begun_us = 0

    def __call__(self) -> FlushTimes:
        """Write and flush every step. Blocks."""
        times = FlushTimes(self._clock.monotonic_us())
        try:
            for step in self._steps:
                step.execute(self._disk, self._settings, self._clock, times)
        # Also after a failure: the stored error keeps its frames, and their views would pin regions of the cache.
        finally:
            self.release()
        return times

    def durable_write(self) -> DurableWrite | None:
        """The only step, if its file is there and has room."""
        self._begun_us = self._clock.monotonic_us()
        return self._steps[0].durable_write(self._settings) if len(self._steps) == 1 else None

    def finish_write(self, error: int) -> FlushTimes:
        """The kernel has written the only step, and flushed it unless `error` is an errno. Raises FlushFailed."""
        times = FlushTimes(self._begun_us)
        try:
            self._steps[0].finish_write(error)
        finally:
            self.release()
        times.ended_us = self._clock.monotonic_us()
        times.fsync_us = times.ended_us - times.begun_us  # the kernel does not report the parts
        return times

    def release(self) -> None:
        """Release the bytes and the files of all steps."""
        for step in self._steps:
            step.release()


class Flusher(JournalPart):
    """Drives the flushed position of one journal. Figures: flushes_total, flushed_bytes_total."""

    def __init__(self, resources: JournalResources, progress: Progress, writer: Writer, next_file: NextFile) -> None:
        super().__init__(resources)
        self._next_file = next_file
        self.failure: StorageError | None = None
        self.shortage: StorageShortage | None = None  # writes are refused until it is over
        self.flushes_total = 0
        self.flushed_bytes_total = 0
        self._progress = progress
        self._writer = writer
        self._is_flushing = False
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
        self._next_file.stop()
        for timer in (self._retry, self._lazy):
            if timer is not None:
                timer.cancel()
        self._retry = self._lazy = None

    @property
    def is_flushing(self) -> bool:
        """True while a flush is under way; its end is an event, also that of one that fails."""
        return self._is_flushing

    @property
    def _cannot_flush(self) -> bool:
        # After the end of a journal its files are another one's, or nobody's.
        return self.failure is not None or self.shortage is not None or self._is_stopped

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
        work = FlushWork(steps, self._disk, self._settings, self._clock)

        def ended(outcome: object) -> None:
            # No worker took it, so nothing of the disk is in doubt: it is tried again later.
            if isinstance(outcome, LimitExceeded):
                work.release()
                outcome = StorageShortage(f"no worker thread takes the flush: {outcome}")
            self._ended(end, outcome)

        self._is_flushing = True
        try:
            self._jobs.submit_flush(work, ended)
        except LimitExceeded as refusal:
            ended(refusal)

    def _plan(self, start: int, end: int) -> list[FlushStep]:
        steps = []
        # A flush may cross the end of a segment: each file is written and flushed, in order.
        for segment in self._segments.between(start, end):
            first = max(start, segment.base_position)
            last = end if segment.end_position is None else min(end, segment.end_position)
            views = self._cache.view(first, last, is_flush=True)
            assert views is not None, "what is not flushed is always in the cache"
            prepared = recycled = None
            # The first flush into a segment makes its file: by renaming the prepared one, if that is ready.
            if segment.file is None:
                prepared, recycled = self._next_file.take()
            steps.append(FlushStep(segment, views, first, last - first, prepared, recycled))
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
        self._next_file.flushed(end)
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
