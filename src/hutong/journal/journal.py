"""The journal of one partition group: opening and closing it, its logs, and the calls that concern all logs at once.

Strategy: opening recovers on a worker; then everything runs on the caller's loop, and blocking work goes through
`Jobs`. One writer, one flusher, one reader, one checkpointer (`parts`); logs are views on them.

Decides nothing itself. Logs nothing either: `recovery` and `on_failure` report to the node, which keeps a log.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hutong.foundation.clock import Clock
from hutong.foundation.errors import DiskFull, HutongError, OwnerGone, StorageError, StorageShortage
from hutong.foundation.regions import RegionCache
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.journal.append.leader_epochs import LeaderEpochs
from hutong.journal.append.progress import Progress
from hutong.journal.append.qos import Qos
from hutong.journal.append.replicator import Replicator
from hutong.journal.clean.compaction import CompactionPolicy
from hutong.journal.clean.retention import RetentionPolicy, retained_from
from hutong.journal.files.disk import Disk
from hutong.journal.format import chunk
from hutong.journal.log import PartitionLog
from hutong.journal.parts import JournalHost, JournalParts
from hutong.journal.recover.recovered import Recovered
from hutong.journal.recover.recovery import recover
from hutong.journal.settings import JournalSettings
from hutong.runtime.threads.offload import Offload, run

if TYPE_CHECKING:
    from hutong.journal.replicate.replica_appends import ReplicaAppends
    from hutong.journal.replicate.segment_files import SegmentFiles
    from hutong.journal.replicate.stream_reads import StreamReads

_DEFAULT_SETTINGS: Final = JournalSettings()


class Journal:
    """An open journal. Made by `open`; ended by `close`, or by `abort` as if the power had gone."""

    def __init__(self, recovered: Recovered, directory: Path, host: JournalHost, settings: JournalSettings) -> None:
        self.recovery = recovered.report
        self.directory = directory
        self._parts = parts = JournalParts(recovered, directory, host, settings)
        self.figures = parts.figures
        self.writer = parts.writer
        self.flusher = parts.flusher
        self.reader = parts.reader
        self.checkpointer = parts.checkpointer
        self.cleaner = parts.cleaner
        self.recycled = parts.recycled
        self._has_ended = False

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
        refusal: HutongError | None = None,
        node: int | None = None,
    ) -> "Journal":
        """Recover the journal in `directory`, created if absent, and open it for appends. Raises StorageError.

        One journal per directory at a time: the lock on the data folder guarantees that. `call_soon` is the running
        loop's by default, `node` the number of this node among several; see `JournalHost` for the rest.
        """
        recovered = await run(offload, lambda: recover(disk, directory, settings, node))
        soon = call_soon or asyncio.get_running_loop().call_soon
        host = JournalHost(
            disk, offload, clock, timers, soon, read_offload, flush_offload, replicator, deletion_ms, refusal
        )
        journal = cls(recovered, directory, host, settings)
        # A start that had to scan or repair leaves a checkpoint, so that the next one need not.
        if recovered.report.repairs or recovered.report.scanned_bytes:
            journal.checkpointer.begin_checkpoint()
        return journal

    # -- logs

    def log(self, partition_id: int) -> PartitionLog:
        """The log with that id, unique in the journal; an empty one on first use."""
        return self._parts.log(partition_id)

    def log_ids(self) -> list[int]:
        """The ids of all logs, also those found on disk that nobody has asked for."""
        return list(self._parts.logs)

    def delete_log(self, partition_id: int) -> None:
        """Delete a log. Its bytes go with their segments; an id must not be used again while any are left."""
        log = self._parts.logs.get(partition_id)
        # A replica that follows deletes it when the leader's stream says so.
        if log is not None and self._has_a_say:
            log.is_deleted = True  # before the seal, which calls watchers: they must not append to it again
            self.writer.add_statement(chunk.DELETED, partition_id, log.end_offset)  # seals its noted batches first
            self._parts.forget_log(log)

    def enforce_retention(self, policies: Mapping[int, RetentionPolicy]) -> None:
        """Move each log's start to where its policy keeps it; segments that are dead whole are removed.

        A replica that follows learns from the stream where logs start, and removes segments by that.
        """
        # A timer may still know this journal, though its replica was opened anew.
        if self._has_ended:
            return
        now_ms = self._parts.deletion_ms()
        for partition_id, policy in policies.items():
            log = self._parts.logs.get(partition_id)
            if log is None or policy.is_unlimited() or self.writer.is_following:  # the leader moves the starts
                continue
            limit = log.high_watermark
            log.delete_before(retained_from(log.all_spans(), log.held_bytes, log.start_offset, limit, policy, now_ms))
        self.roll_if_full(policies)
        self._parts.remover.check_with_next_flush()
        self._parts.remover.check_space()
        if self._parts.progress.flushed_position == self.writer.position or self.shortage is not None:
            self._parts.remover.flushed()  # nothing moved now, but a segment may have been closed since the last time

    def enforce_compaction(self, policies: Mapping[int, CompactionPolicy]) -> None:
        """Begin to clean these logs if that is due and nothing is being cleaned; other logs stay as they are.

        A cleaned log keeps the newest record of each key, and its offsets, between which there are gaps then. A replica
        that follows cleans by itself: positions stay as they are, and no leader cuts anything before a checkpoint.
        """
        # Only what a checkpoint covers is touched, as at a leader; what it lacks another replica copies as files.
        if not self._has_ended:
            self.cleaner.begin_cleaning(policies)

    def shed_garbage(self, then: Continuation[None]) -> None:
        """Give back what deleted logs have left here; `then` is called once nothing is left to do.

        It gets OwnerGone where the journal ends before that, or follows.
        """
        if self._has_a_say:
            self._parts.shedding.begin(then)
        else:
            then(OwnerGone("the journal follows another one, or has ended"))

    def alter_settings(self, settings: JournalSettings) -> None:
        """Use another expiry of producers and other bounds of cleaning from now on. All else stays as opened."""
        known = self._parts.stores.settings
        changed = replace(
            known,
            producer_expiry_ms=settings.producer_expiry_ms,
            clean_keys_max=settings.clean_keys_max,
            clean_bytes_per_second_max=settings.clean_bytes_per_second_max,
        )
        if changed == known:
            return
        self._parts.stores.settings = changed
        self.cleaner.alter_settings(changed)
        for log in self._parts.logs.values():
            log.alter_settings(changed)

    def roll_if_full(self, policies: Mapping[int, RetentionPolicy]) -> None:
        """Close the active segment if it is too old or too large by the policy of a log in it."""
        age_ms = self.active_age_ms
        if age_ms is None or self._has_ended:
            return
        for partition_id, extents in self._parts.segments.active_index.extents.items():
            policy = policies.get(partition_id)
            if policy is not None and policy.is_full(age_ms, extents.bytes):
                self.writer.roll()
                self.checkpointer.flushed()  # which writes the closed segment's index, at once or with the next flush
                return

    # -- replicas

    @property
    def replica(self) -> "ReplicaAppends":
        """The way in for the leader's chunks, while another replica leads."""
        return self._parts.replica

    @property
    def stream_reads(self) -> "StreamReads":
        """The way out for chunks, to other replicas."""
        return self._parts.stream_reads

    @property
    def segment_files(self) -> "SegmentFiles":
        """The way out for whole files, to other replicas that lack more than the stream has."""
        return self._parts.segment_files

    @property
    def epochs(self) -> LeaderEpochs:
        return self._parts.epochs

    def lead(self, epoch: int, node: int) -> None:
        """Lead from now on: append in this epoch, which is greater than all before. `node` is this node's number."""
        self.writer.seal_chunk()
        self.epochs.note(epoch, self.writer.position, node)
        self.writer.lead(epoch, node)

    def on_flushed(self, callback: Callable[[], None]) -> None:
        """Call back each time the flushed position has advanced."""
        self._parts.events.flushed.append(callback)

    # -- state

    @property
    def _has_a_say(self) -> bool:
        """True while something may be added to the stream here.

        The owner opens the journal of a replica anew while others, as the timer of the roller, still know this one.
        """
        return not self._has_ended and not self.writer.is_following

    @property
    def active_age_ms(self) -> int | None:
        """The age of the active segment's first chunk; None while the segment is empty."""
        active = self._parts.segments.active
        if active is None or self.writer.position == active.base_position:
            return None
        return self._parts.deletion_ms() - (active.begun_ms or 0)

    @property
    def failure(self) -> StorageError | None:
        """The error by which this journal failed for good, None while it works."""
        return self.flusher.failure

    @property
    def offline(self) -> StorageError | None:
        """The reason that it could not be opened, None unless it is an `OfflineJournal`."""
        return None

    @property
    def shortage(self) -> StorageShortage | None:
        """The shortage of space, open files or memory for which writes are refused at present."""
        return self.flusher.shortage

    @property
    def is_disk_full(self) -> bool:
        return isinstance(self.flusher.shortage, DiskFull)

    @property
    def is_flushing(self) -> bool:
        """True while a flush is under way: unless it fails, `on_flushed` is heard of soon."""
        return self.flusher.is_flushing

    @property
    def is_congested(self) -> bool:
        """True while too much is unflushed: producers should be held."""
        return self.writer.is_congested

    @property
    def progress(self) -> Progress:
        """Positions and parked acknowledgements, for figures."""
        return self._parts.progress

    @property
    def cache(self) -> RegionCache:
        """The cache's regions, for figures."""
        return self._parts.cache

    @property
    def position(self) -> int:
        return self.writer.position

    @property
    def flushed_position(self) -> int:
        return self._parts.progress.flushed_position

    def watch_congestion(self, callback: Callable[[bool], None]) -> None:
        """Call back with True when the journal becomes congested and with False when that is over."""
        self._parts.events.congestion_changed.append(callback)

    def on_failure(self, callback: Callable[[StorageError], None]) -> None:
        """Call back once if the journal fails for good."""
        self._parts.events.failed.append(callback)

    def on_shortage(self, callback: Callable[[StorageShortage | None], None]) -> None:
        """Call back with the error when space, files or memory run out, and with None when that is over."""
        self._parts.events.shortage_changed.append(callback)

    def check_invariants(self) -> None:
        self._parts.check_invariants()

    # -- the end

    async def close(self) -> None:
        """Flush what was accepted, mark the journal clean and close its files. Nothing is accepted any more.

        A journal that has failed, or that is short of something, closes without the mark: the next start recovers it.
        """
        self._has_ended = True
        self.writer.refuse(OwnerGone("the journal is closed"))
        self.writer.seal_chunk()
        # A checkpoint speaks of what no other leader can take back; of several nodes there may be none left to say so.
        if await self._settled(self._flush_all) and self._parts.progress.is_safe(Qos.ALL, self.writer.position):
            self._parts.remover.stop()  # a statement on what it takes out would come after the clean mark
            await self._settled(lambda then: self.checkpointer.write_checkpoint(is_clean=True, then=then))
        self._parts.stop()
        self._parts.progress.refuse(OwnerGone("the journal is closed"))  # no replica will answer here
        await self._idle()
        self._parts.next_file.discard()
        self._parts.remover.remove_recycled()
        await self._idle()
        self._parts.release()

    async def _idle(self) -> None:
        idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parts.jobs.when_idle(lambda: idle.set_result(None))
        await idle

    def abort(self, reason: HutongError | None = None, then: Callable[[], None] = lambda: None) -> None:
        """Stop here: nothing more is written or awaited. Parked continuations fail with `reason`, or OwnerGone.

        With a reason the process goes on: reads in flight end as they would. `then` is called once nobody uses the
        files any more.
        """
        self._has_ended = True
        error = reason or OwnerGone("the journal was aborted")
        self._parts.jobs.abandon(may_reads_end=reason is not None)
        self._parts.stop()
        self.writer.give_up(error)
        self._parts.progress.refuse(error)
        self._parts.jobs.when_idle(self._parts.release)
        self._parts.jobs.when_idle(then)

    async def _settled(self, begin: Callable[[Continuation[None]], None]) -> bool:
        """Await something that calls back with None or an error. Returns whether it was None."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        begin(lambda error: future.set_result(error is None))
        return await future

    def _flush_all(self, then: Continuation[None]) -> None:
        """Flush what was accepted; after a shortage with one more attempt, for it may be over."""
        if self.flusher.shortage is not None:
            self.flusher.retry_now()
            self._parts.jobs.when_idle(lambda: self._parts.when_flushed(then))
        else:
            self._parts.when_flushed(then)
