"""The parts of one open journal, and the one place where they are connected.

    PartitionLog ── append ──> Writer ── chunk ──> RegionCache ── bytes ──> Flusher ── file ──> Segments
         │                       │ │                                          │                    │
         │ read                  │ └── sealed ──> Replicator ─ replicated ──┐ │ flushed            │
         ├──> RegionCache        │                                          v v                    │
         └──> Reader ──┐         └── waits ──────────────────────────────> Progress                │
                       │                                            │ high watermarks,            │
                       │                                            v continuations               │
                       └──────────────────────── extents ─────────────────────────────────────────┘

    Checkpointer, Cleaner and Remover look after the files: they follow what was flushed and what was closed.

Strategy: constructors take what a part calls directly; such calls go down the picture. What goes up, from a part to
those that were made after it, are events, and `_connect` lists them all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError
from hutong.foundation.regions import RegionCache
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.journal.append.flusher import Flusher
from hutong.journal.append.next_file import NextFile
from hutong.journal.append.progress import Progress
from hutong.journal.append.replicator import NoOtherReplicas, Replicator
from hutong.journal.append.writer import Writer
from hutong.journal.clean.cleaner import Cleaner
from hutong.journal.clean.remover import Remover
from hutong.journal.clean.shedding import Shedding
from hutong.journal.events import JournalEvents
from hutong.journal.figures import JournalFigures
from hutong.journal.files.disk import Disk
from hutong.journal.files.jobs import Jobs
from hutong.journal.files.recycled import RecycledFiles
from hutong.journal.files.segment import Segment
from hutong.journal.files.segments import Segments
from hutong.journal.files.spans import span_of
from hutong.journal.log import LogStores, PartitionLog
from hutong.journal.read.reader import JournalReader
from hutong.journal.recover.checkpointer import Checkpointer
from hutong.journal.recover.recovered import Recovered
from hutong.journal.resources import JournalResources
from hutong.journal.settings import JournalSettings
from hutong.runtime.threads.offload import Offload

if TYPE_CHECKING:
    from hutong.journal.replicate.replica_appends import ReplicaAppends
    from hutong.journal.replicate.segment_files import SegmentFiles
    from hutong.journal.replicate.stream_reads import StreamReads


@dataclass(frozen=True, slots=True)
class JournalHost:
    """The world that a journal lives in: disk, workers, clock, timers and loop.

    Disk reads go to `read_offload` and flushes to `flush_offload` if there is one, so that neither waits behind the
    other or behind another journal. `call_soon` runs a callback at the end of the loop iteration. `deletion_ms` is the
    time by which records are old (wall time by default). Without a `replicator` there are no other replicas. With a
    `refusal` it takes the leader's chunks, and answers appends with that, until it leads.
    """

    disk: Disk
    offload: Offload
    clock: Clock
    timers: TimerWheel
    call_soon: Callable[[Callable[[], None]], object]
    read_offload: Offload | None = None
    flush_offload: Offload | None = None
    replicator: Replicator | None = None
    deletion_ms: Callable[[], int] | None = None
    refusal: HutongError | None = None


class JournalParts:
    """The parts of one journal, made of what a recovery found."""

    def __init__(self, recovered: Recovered, directory: Path, host: JournalHost, settings: JournalSettings) -> None:
        position = recovered.position
        self.events = events = JournalEvents()
        self.segments = Segments(directory, settings, events)
        for segment in recovered.segments:
            self.segments.add(segment)
        self.cache = RegionCache(settings.region_bytes, settings.cached_bytes_max, start_position=position)
        self.figures = JournalFigures()
        self.jobs = Jobs(host.offload, host.read_offload or host.offload, host.flush_offload or host.offload)
        self.deletion_ms = host.deletion_ms or host.clock.wall_ms
        resources = JournalResources(
            settings, host.clock, host.timers, host.disk, self.jobs, self.segments, self.cache, self.figures, events
        )
        known_position = position - recovered.report.scanned_bytes  # as far as the checkpoint on disk reaches
        # Of several replicas nobody knows after a start what the others have, beyond what a checkpoint waited for.
        self.progress = Progress(position, resources, None if host.replicator is None else known_position)
        self.replicator: Replicator = host.replicator or NoOtherReplicas()
        self.epochs = recovered.epochs
        self.writer = Writer(resources, self.progress, self.replicator, host.call_soon, recovered.leader_epoch)
        self.recycled = RecycledFiles(settings)
        self.next_file = NextFile(resources, self.recycled)
        self.flusher = Flusher(resources, self.progress, self.writer, self.next_file)
        self.reader = JournalReader(resources)
        self.stores = LogStores(resources, self.progress, self.writer, self.reader, self.epochs)
        self.logs: dict[int, PartitionLog] = {}
        self.checkpointer = Checkpointer(resources, self.progress, self.writer, self.logs, self.epochs, known_position)
        self.cleaner = Cleaner(resources, self.logs, self.checkpointer, self.when_flushed, self.deletion_ms)
        self.remover = Remover(
            resources,
            self.logs,
            self.progress,
            self.writer,
            self.checkpointer,
            self.cleaner,
            self.when_flushed,
            self.recycled,
        )
        self.shedding = Shedding(resources, self.logs, self.writer, self.checkpointer, self.cleaner)
        if host.refusal is not None:
            self.writer.follow(host.refusal)
        self._resources = resources
        self._connect()
        self.replicator.start(self.cache, self.progress)
        self._restore_logs(recovered, is_replicated=host.replicator is not None)

    def _connect(self) -> None:
        """All reactions of one part to another's events."""
        events = self.events
        events.flush_due = self.flusher.wake
        events.batch_deferred = self.flusher.flush_later
        events.replicas_followed = self.flusher.bytes_released
        # In this order: a checkpoint that covers a segment allows its removal.
        events.flushed = [self.checkpointer.flushed, self.remover.flushed]
        events.checkpoint_ended = self._checkpoint_ended
        events.cleaning_ended = self._cleaning_ended
        events.log_trimmed = self._log_trimmed
        events.segment_closed = self._segment_closed
        events.segment_unused = self.remover.segment_unused
        events.removal_failed = self.flusher.fail
        events.shortage_changed.append(self.remover.shortage_changed)

    def when_flushed(self, then: Continuation[None]) -> None:
        """Call `then` with None once everything so far is on disk, or with the reason it is not, perhaps at once."""
        self.writer.seal_chunk()
        error = self.flusher.failure or self.flusher.shortage
        if error is not None:
            then(error)
        else:
            self.writer.when_flushed(then)

    @cached_property
    def replica(self) -> "ReplicaAppends":
        """The way in for the leader's chunks."""
        from hutong.journal.replicate.replica_appends import ReplicaAppends  # late: a node alone never needs it

        return ReplicaAppends(self.writer, self.epochs, self.logs, self.log, self.forget_log)

    @cached_property
    def stream_reads(self) -> "StreamReads":
        """The way out for chunks, to other replicas."""
        from hutong.journal.replicate.stream_reads import StreamReads  # late, for the same reason

        return StreamReads(self._resources, self.progress)

    @cached_property
    def segment_files(self) -> "SegmentFiles":
        """The way out for whole files, to other replicas."""
        from hutong.journal.replicate.segment_files import SegmentFiles  # late, for the same reason

        return SegmentFiles(self._resources, self.logs, self.checkpointer)

    def log(self, partition_id: int) -> PartitionLog:
        """The log with that id; an empty one on first use."""
        log = self.logs.get(partition_id)
        if log is None:
            log = self.logs[partition_id] = PartitionLog(partition_id, self.stores, 0, 0)
        return log

    def forget_log(self, log: PartitionLog) -> None:
        """Drop a log that is deleted; the stream says so already."""
        log.is_deleted = True
        for span in log.spans:
            self.segments.at(span.base_position).dead_bytes += span.bytes
        self.events.log_trimmed()
        del self.logs[log.partition_id]
        log.notify_watchers()

    def stop(self) -> None:
        """Cancel all timers and start nothing more."""
        self.shedding.stop()
        self.remover.stop()
        self.flusher.stop()
        self.checkpointer.stop()
        self.replicator.stop()
        self.progress.stop()
        self.cleaner.stop()

    def release(self) -> None:
        """Close the files and give the memory back."""
        self.segments.close()
        self.cache.close()

    def check_invariants(self) -> None:
        assert self.progress.flushed_position <= self.writer.position == self.cache.end_position
        self.progress.check_invariants()
        for log in self.logs.values():
            log.check_invariants()

    def _restore_logs(self, recovered: Recovered, *, is_replicated: bool) -> None:
        uncertain = recovered.uncertain if is_replicated else None
        for partition_id, found in recovered.logs.items():
            log = PartitionLog(partition_id, self.stores, found.start_offset, found.end_offset, found.spans)
            log.clean_offset = found.clean_offset
            log.producers = found.producers if len(found.producers) else None
            log.transactions = found.transactions
            log.extents = self.segments.active_index.extents.get(partition_id) if recovered.segments else None
            self.logs[partition_id] = log
            # The end of a log may be what no other replica has, and be cut again: nobody reads it before it is known.
            if uncertain is not None:
                log.high_watermark = max(log.start_offset, found.committed_offset)
            elif log.transactions is not None:
                log.transactions.all_visible()  # every marker that was found is on disk
        if uncertain is not None:
            self.progress.chunks_recovered(
                (end, [(self.logs[log_id], offset) for log_id, offset in ends.items() if log_id in self.logs])
                for end, ends in uncertain.rows
            )

    def _checkpoint_ended(self, error: HutongError | None) -> None:
        """A segment may be removed now, or cleaned."""
        if error is None:
            self.remover.flushed()
        self.shedding.go_on(error)

    def _cleaning_ended(self) -> None:
        self.remover.cleaning_ended()
        self.shedding.go_on(self.cleaner.last_error)

    def _log_trimmed(self) -> None:
        """A segment may be dead now, or worth writing again."""
        self.remover.check_with_next_flush()
        self.cleaner.look_for_garbage()

    def _segment_closed(self, segment: Segment) -> None:
        """Turn each log's extents in the segment into a span: they are complete."""
        assert segment.index is not None
        for summary in segment.index.summaries():
            segment.held_bytes += summary.bytes
            log = self.logs.get(summary.partition_id)
            if log is None:
                segment.dead_bytes += summary.bytes
            else:
                log.extents = None
                log.spans.add(span_of(segment.base_position, summary))
        self.checkpointer.segment_closed(segment)
