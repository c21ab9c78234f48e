"""The journal of one partition group: the parts put together, and the doors that concern all logs at once.

Strategy: opening recovers on a worker, then everything runs on the loop of the caller; blocking work goes through
`Jobs`. One writer, one flusher, one reader, one checkpointer; logs are views on them.

Decides nothing itself. It says nothing either: `recovery` and `on_failure` are for whoever keeps the node's log.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from hutong.foundation.clock import Clock
from hutong.foundation.errors import DiskFull, HutongError, OwnerGone, StorageError, StorageShortage
from hutong.foundation.regions import RegionCache
from hutong.foundation.timers import TimerWheel
from hutong.journal.append.flusher import Flusher
from hutong.journal.append.progress import Progress
from hutong.journal.append.qos import Qos
from hutong.journal.append.replicator import OwnMajority, Replicator
from hutong.journal.append.writer import Appended, Writer
from hutong.journal.clean.cleaner import Cleaner
from hutong.journal.clean.compaction import CompactionPolicy
from hutong.journal.clean.remover import Remover
from hutong.journal.clean.retention import RetentionPolicy, retained_from
from hutong.journal.figures import JournalFigures
from hutong.journal.files.disk import Disk
from hutong.journal.files.jobs import Jobs
from hutong.journal.files.segments import Segment, Segments
from hutong.journal.files.spans import span_of
from hutong.journal.format import chunk
from hutong.journal.log import PartitionLog, Stores
from hutong.journal.read.read_failures import ReadFailures
from hutong.journal.read.reader import Reader
from hutong.journal.recover.checkpointer import Checkpointer
from hutong.journal.recover.recovery import Recovered, recover
from hutong.journal.settings import JournalSettings
from hutong.runtime.offload import Offload, run

_DEFAULT_SETTINGS: Final = JournalSettings()


class Journal:
    """An open journal. Made by `open`; ended by `close`, or by `abort` as if the power had gone."""

    def __init__(
        self,
        recovered: Recovered,
        directory: Path,
        disk: Disk,
        offload: Offload,
        clock: Clock,
        timers: TimerWheel,
        settings: JournalSettings,
        call_soon: Callable[[Callable[[], None]], object],
        read_offload: Offload | None = None,
        flush_offload: Offload | None = None,
        replicator: Replicator | None = None,
        deletion_ms: Callable[[], int] | None = None,
    ) -> None:
        self.recovery = recovered.report
        self._deletion_ms = deletion_ms or clock.wall_ms
        self.directory = directory
        self._disk = disk
        self._jobs = Jobs(offload, read_offload or offload, flush_offload or offload)
        self._segments = Segments(directory, settings)
        for segment in recovered.segments:
            self._segments.add(segment)
        position = recovered.position
        self._cache = RegionCache(settings.region_bytes, settings.hot_bytes_max, start_position=position)
        self.figures = JournalFigures()
        self._progress = Progress(
            position, settings.acknowledgements_max, clock, timers, self.figures, is_replicated=replicator is not None
        )
        self._replicator = replicator or OwnMajority()
        self.writer = Writer(
            settings,
            clock,
            call_soon,
            self._cache,
            self._segments,
            self._progress,
            self._replicator,
            self.figures,
            recovered.leader_epoch,
        )
        self.flusher = Flusher(
            disk,
            self._jobs,
            clock,
            timers,
            settings,
            self._cache,
            self._segments,
            self._progress,
            self.writer,
            self.figures,
        )
        self._replicator.start(self._cache, self._progress)
        self.reader = Reader(disk, self._jobs, self._segments, settings, ReadFailures(clock))
        self._stores = Stores(settings, self.writer, self._cache, self._segments, self._progress, self.reader)
        self._logs: dict[int, PartitionLog] = {}
        self._restore_logs(recovered)
        known = position - recovered.report.scanned_bytes  # what the checkpoint on disk covers
        self._begin_upkeep(disk, clock, timers, settings, known)

    def _begin_upkeep(
        self, disk: Disk, clock: Clock, timers: TimerWheel, settings: JournalSettings, known: int
    ) -> None:
        """What looks after the files, from the position `known` to the last checkpoint."""
        self.checkpointer = Checkpointer(
            disk, self._jobs, clock, timers, settings, self._segments, self._progress, self.writer, self._logs, known
        )
        self.cleaner = Cleaner(
            disk,
            self._jobs,
            clock,
            timers,
            settings,
            self._segments,
            self._logs,
            self.checkpointer,
            self._when_flushed,
            self._deletion_ms,
        )
        self._segments.on_closed = self._segment_closed
        self.flusher.on_flushed.append(self.checkpointer.flushed)
        self._remover = self._make_remover()

    def _make_remover(self) -> Remover:
        remover = Remover(
            self._disk,
            self._jobs,
            self._segments,
            self._logs,
            self._progress,
            self.writer,
            self.checkpointer,
            self.cleaner,
            self._when_flushed,
        )
        remover.on_failure = self.flusher.fail
        self.flusher.on_flushed.append(remover.flushed)
        self.checkpointer.on_written = remover.flushed
        self._stores.on_trimmed = self._trimmed
        return remover

    def _restore_logs(self, recovered: Recovered) -> None:
        for partition_id, found in recovered.logs.items():
            log = PartitionLog(partition_id, self._stores, found.start_offset, found.end_offset, found.spans)
            log.clean_offset = found.clean_offset
            log.producers = found.producers if len(found.producers) else None
            log.transactions = found.transactions
            log.extents = self._segments.active_index.extents.get(partition_id) if recovered.segments else None
            self._logs[partition_id] = log

    @classmethod
    async def open(
        cls,
        directory: Path,
        *,
        disk: Disk,
        offload: Offload,
        clock: Clock,
        timers: TimerWheel,
        settings: JournalSettings = _DEFAULT_SETTINGS,
        call_soon: Callable[[Callable[[], None]], object] | None = None,
        read_offload: Offload | None = None,
        flush_offload: Offload | None = None,
        replicator: Replicator | None = None,
        deletion_ms: Callable[[], int] | None = None,
    ) -> "Journal":
        """Recover what lies in `directory`, created if absent, and go on from there. Raises StorageError.

        One journal per directory at a time: whoever owns the data folder sees to that. `call_soon` runs a callback at
        the end of the loop's turn (the running loop's by default). Cold reads go to `read_offload` and flushes to
        `flush_offload` if there is one, so that neither waits behind the other or behind another journal. Without a
        `replicator` this node is its own majority. `deletion_ms` is the time by which things are old (wall time by
        default).
        """
        recovered = await run(offload, lambda: recover(disk, directory, settings))
        soon = call_soon or asyncio.get_running_loop().call_soon
        journal = cls(
            recovered,
            directory,
            disk,
            offload,
            clock,
            timers,
            settings,
            soon,
            read_offload,
            flush_offload,
            replicator,
            deletion_ms,
        )
        if recovered.report.repairs or recovered.report.scanned_bytes:
            journal.checkpointer.begin()
        return journal

    # -- logs

    def log(self, partition_id: int) -> PartitionLog:
        """The log with that id, unique in the journal; an empty one on first use."""
        log = self._logs.get(partition_id)
        if log is None:
            log = self._logs[partition_id] = PartitionLog(partition_id, self._stores, 0, 0)
        return log

    def log_ids(self) -> list[int]:
        """The ids of all logs, also those found on disk that nobody has asked for."""
        return list(self._logs)

    def delete_log(self, partition_id: int) -> None:
        """Forget a log. Its bytes go with their segments; an id must not be used again while any are left."""
        log = self._logs.get(partition_id)
        if log is not None:
            log.is_deleted = True
            for span in log.spans:
                self._segments.at(span.base_position).dead_bytes += span.bytes
            self._trimmed()
            self.writer.state(chunk.DELETED, partition_id, log.end_offset)  # seals what the log still has to come
            del self._logs[partition_id]
            log.tell_watchers()

    def enforce_retention(self, policies: Mapping[int, RetentionPolicy]) -> None:
        """Let the logs go on from where their policies keep them; segments that are dead whole are removed."""
        now_ms = self._deletion_ms()
        for partition_id, policy in policies.items():
            log = self._logs.get(partition_id)
            if log is None or policy.is_unlimited():
                continue
            limit = log.high_watermark
            log.delete_before(retained_from(log.all_spans(), log.held_bytes, log.start_offset, limit, policy, now_ms))
        self.roll_if_full(policies)
        self._remover.look_again()
        if self._progress.flushed_position == self.writer.position or self.shortage is not None:
            self._remover.flushed()  # nothing moved now, but a segment may have been closed since the last time

    def enforce_compaction(self, policies: Mapping[int, CompactionPolicy]) -> None:
        """Begin to clean these logs if that is due and nothing is being cleaned; other logs stay as they are.

        A cleaned log keeps the newest record of each key, and its offsets, between which there are gaps then.
        """
        self.cleaner.begin(policies)

    def alter_settings(self, settings: JournalSettings) -> None:
        """Use another expiry of producers and other bounds of cleaning from now on. All else stays as opened."""
        known = self._stores.settings
        changed = replace(
            known,
            producer_expiry_ms=settings.producer_expiry_ms,
            clean_keys_max=settings.clean_keys_max,
            clean_bytes_per_second_max=settings.clean_bytes_per_second_max,
        )
        if changed == known:
            return
        self._stores.settings = changed
        self.cleaner.alter_settings(changed)
        for log in self._logs.values():
            if log.producers is not None:
                log.producers.expiry_ms = changed.producer_expiry_ms

    def roll_if_full(self, policies: Mapping[int, RetentionPolicy]) -> None:
        """Close the active segment if it is old, or holds much, in the eyes of a log that has something in it."""
        active = self._segments.active
        if active is None or self.writer.position == active.base_position:
            return
        age_ms = self._deletion_ms() - (active.begun_ms or 0)
        for partition_id, extents in self._segments.active_index.extents.items():
            policy = policies.get(partition_id)
            if policy is not None and policy.is_full(age_ms, extents.bytes):
                self.writer.roll()
                self.checkpointer.flushed()  # which writes the closed segment's index, at once or with the next flush
                return

    # -- state

    @property
    def active_age_ms(self) -> int | None:
        """How long ago the segment that is being written was begun; None while it is empty."""
        active = self._segments.active
        if active is None or self.writer.position == active.base_position:
            return None
        return self._deletion_ms() - (active.begun_ms or 0)

    @property
    def failure(self) -> StorageError | None:
        """Why this journal has failed for good, None while it works."""
        return self.flusher.failure

    @property
    def offline(self) -> StorageError | None:
        """Why it could not be opened, None for every journal that was: see `offline`."""
        return None

    @property
    def shortage(self) -> StorageShortage | None:
        """Of space, open files or memory, for which writes are refused at present."""
        return self.flusher.shortage

    @property
    def is_disk_full(self) -> bool:
        return isinstance(self.flusher.shortage, DiskFull)

    @property
    def is_congested(self) -> bool:
        """Too much is unflushed: whoever brings more should be made to wait."""
        return self.writer.is_congested

    @property
    def progress(self) -> Progress:
        """Positions and parked acknowledgements, to be looked at."""
        return self._progress

    @property
    def cache(self) -> RegionCache:
        """The regions, to be looked at."""
        return self._cache

    @property
    def position(self) -> int:
        return self.writer.position

    @property
    def flushed_position(self) -> int:
        return self._progress.flushed_position

    def watch_congestion(self, callback: Callable[[bool], None]) -> None:
        """Call back with True when the journal becomes congested and with False when that is over."""
        self.writer.congestion_watchers.append(callback)

    def on_failure(self, callback: Callable[[StorageError], None]) -> None:
        """Call back once if the journal fails for good."""
        self.flusher.on_failure.append(callback)

    def on_shortage(self, callback: Callable[[StorageShortage | None], None]) -> None:
        """Call back with the error when space, files or memory run out, and with None when that is over."""
        self.flusher.on_shortage.append(callback)

    def check_invariants(self) -> None:
        assert self._progress.flushed_position <= self.writer.position == self._cache.end_position
        self._progress.check_invariants()
        for log in self._logs.values():
            log.check_invariants()

    # -- the end

    async def close(self) -> None:
        """Flush what was accepted, mark the journal clean and close its files. Nothing is accepted any more.

        A journal that has failed, or that is short of something, closes without the mark: the next start recovers it.
        """
        self.writer.refuse(OwnerGone("the journal is closed"))
        self.writer.seal()
        if await self._settled(self._flush_all):
            await self._settled(lambda then: self.checkpointer.write(is_clean=True, then=then))
        self._stop()
        self._progress.refuse(OwnerGone("the journal is closed"))  # who waits for a majority will hear of none here
        await self._idle()
        self.flusher.discard_prepared()
        await self._idle()
        self._release()

    async def _idle(self) -> None:
        idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._jobs.when_idle(lambda: idle.set_result(None))
        await idle

    def abort(self) -> None:
        """Stop here: nothing more is written, told or waited for. What is parked fails with OwnerGone."""
        self.writer.refuse(OwnerGone("the journal was aborted"))
        self._jobs.abandon()
        self._stop()
        self._progress.refuse(OwnerGone("the journal was aborted"))
        self._jobs.when_idle(self._release)

    async def _settled(self, begin: Callable[[Callable[[HutongError | None], None]], None]) -> bool:
        """Await something that calls back with None or an error. Returns whether it was None."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        begin(lambda error: future.set_result(error is None))
        return await future

    def _flush_all(self, then: Callable[[HutongError | None], None]) -> None:
        """Flush what was accepted; in a shortage once more, for it may be over."""
        if self.flusher.shortage is not None:
            self.flusher.retry_now()
            self._jobs.when_idle(lambda: self._flush_rest(then))
        else:
            self._flush_rest(then)

    def _flush_rest(self, then: Callable[[HutongError | None], None]) -> None:
        if self.flusher.failure is not None or self.flusher.shortage is not None:
            then(self.flusher.failure or self.flusher.shortage)
        elif self._progress.flushed_position >= self.writer.position:
            then(None)
        else:
            self._progress.park(
                Qos.PERSISTENCE,
                self.writer.position,
                lambda outcome: then(outcome if isinstance(outcome, HutongError) else None),
                Appended(0, 0, 0),
            )
            self.flusher.wake()

    def _when_flushed(self, then: Callable[[HutongError | None], None]) -> None:
        """Call back once all that was said so far is on disk, or with why it is not."""
        self.writer.seal()
        self._flush_rest(then)

    def _stop(self) -> None:
        self._remover.stop()
        self.flusher.stop()
        self.checkpointer.stop()
        self._replicator.stop()
        self._progress.stop()
        self.cleaner.stop()

    def _release(self) -> None:
        self._segments.close()
        self._cache.close()

    def _trimmed(self) -> None:
        self._remover.look_again()
        self.cleaner.look_for_garbage()

    def _segment_closed(self, segment: Segment) -> None:
        """What the logs have in the segment is complete."""
        assert segment.index is not None
        for summary in segment.index.summaries():
            segment.held_bytes += summary.bytes
            log = self._logs.get(summary.partition_id)
            if log is None:
                segment.dead_bytes += summary.bytes
            else:
                log.extents = None
                log.spans.add(span_of(segment.base_position, summary))
        self.checkpointer.segment_closed(segment)
