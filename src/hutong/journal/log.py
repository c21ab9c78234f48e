"""One partition's log: the contract between the broker and its journal, to append, read, search and trim.

Strategy: a thin object per partition over the journal's shared writer, cache and reader. It decides what concerns this
log alone (ranges, and the source of a read) and leaves the stream to the writer. Appending is in `append/log_appends`,
the offsets and their order are in `append/log_tail`.

Knows nothing of topics. Offsets are Kafka's; positions, the journal's, stay inside.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from hutong.foundation.errors import HutongError, OwnerGone, Refused, StorageError
from hutong.foundation.regions import RegionCache
from hutong.foundation.waiting.pending import Continuation
from hutong.journal.append.leader_epochs import LeaderEpochs
from hutong.journal.append.log_appends import LogAppends
from hutong.journal.append.progress import Progress
from hutong.journal.append.writer import Writer
from hutong.journal.events import JournalEvents
from hutong.journal.files.segments import Segments
from hutong.journal.files.spans import LogSpans, Span
from hutong.journal.format import chunk
from hutong.journal.format.index import Extent, Extents
from hutong.journal.read import ages
from hutong.journal.read.reader import DiskRead, JournalReader
from hutong.journal.read.runs import Views
from hutong.journal.read.timestamps import Found, TimestampSearch
from hutong.journal.read.walk import Walk, WouldBlock, extents_from
from hutong.journal.resources import JournalResources
from hutong.journal.settings import JournalSettings
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.journal.read.digests import Digests

T = TypeVar("T")
EpochEnd = tuple[int, int]
"""A leader epoch, and the offset behind its last batch."""

__all__ = ["DiskRead", "EpochEnd", "LogStores", "PartitionLog", "Views"]

DISK_READ_BYTES_MAX: Final = 2 * 1024 * 1024  # of one read from the disk, or one larger batch: about 1.5 ms of the loop
_NOTHING: Final = Views([], 0)


class LogStores:
    """The parts of a journal that all of its logs share."""

    __slots__ = ("cache", "epochs", "events", "progress", "reader", "segments", "settings", "writer")

    def __init__(
        self,
        resources: JournalResources,
        progress: Progress,
        writer: Writer,
        reader: JournalReader,
        epochs: LeaderEpochs,
    ) -> None:
        self.settings: JournalSettings = resources.settings
        self.cache: RegionCache = resources.cache
        self.segments: Segments = resources.segments
        self.events: JournalEvents = resources.events
        self.progress = progress
        self.writer = writer
        self.reader = reader
        self.epochs = epochs


class PartitionLog(LogAppends):
    """The log of one partition."""

    __slots__ = ("_stores", "clean_offset", "served_bytes", "spans")

    def __init__(
        self, partition_id: int, stores: LogStores, start_offset: int, end_offset: int, spans: LogSpans | None = None
    ) -> None:
        super().__init__(partition_id, start_offset, end_offset, stores.writer, stores.settings)
        self.clean_offset = 0  # no key has two records before it, unless it was written without compaction since
        self.spans = spans or LogSpans()  # of closed segments
        self.served_bytes = 0  # to readers since the start, counted by their handlers
        self._stores = stores

    @property
    def offline(self) -> StorageError | None:
        """The reason that nothing of the log can be known, None unless its journal could not be opened."""
        return None

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        at_least_one: bool = True,
        up_to: int | None = None,
        disk_bytes_max: int = DISK_READ_BYTES_MAX,
    ) -> "Views | DiskRead[list[memoryview]]":
        """Whole batches from the one that holds `offset` up to `up_to` (the high watermark by default).

        At most `max_bytes`; with `at_least_one` the first batch at any size. If the cache does not hold them, the
        result is a DiskRead of at most `disk_bytes_max`, for `read_from_page_cache` or else `read_from_disk`. Raises
        Refused with OFFSET_OUT_OF_RANGE.
        """
        limit = self.high_watermark if up_to is None else min(up_to, max(self.high_watermark, self.sealed_offset))
        if not self.start_offset <= offset <= self.end_offset:
            raise Refused(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"The log has offsets {self.start_offset} to {self.end_offset}."
            )
        if offset >= limit or (max_bytes <= 0 and not at_least_one):
            return _NOTHING
        # A receive-QoS log shows batches that the writer has not put into the cache yet.
        if limit > self.sealed_offset:
            self._writer.seal_chunk()
        stores = self._stores
        cached = self.cached_runs.read(
            stores.cache, offset, limit, max_bytes, at_least_one, stores.settings.read_runs_max
        )
        if cached is not None:
            return cached
        place = self._place_of(offset)
        if place is None:
            return _NOTHING
        return self._plan_read(*place, offset, limit, min(max_bytes, disk_bytes_max), at_least_one)

    def read_from_page_cache(self, read: "DiskRead[list[memoryview]]") -> list[memoryview] | None:
        """Carry out a read on the loop, without waiting for the device: the batches, or None if a worker is needed."""
        try:
            return self._stores.reader.try_cached(read)
        except (WouldBlock, StorageError):  # `read_from_disk` meets a fault of the disk again, and reports it
            return None

    def read_from_disk(self, read: "DiskRead[list[memoryview]]", then: Continuation[list[memoryview]]) -> None:
        """Carry out a read on a worker; `then` gets the batches, a StorageError, or LimitExceeded, perhaps at once.

        CorruptData, with file and position, if the batch that holds the offset is not as it was appended.
        """
        self._stores.reader.read(read, then)

    def offset_for_timestamp(self, timestamp_ms: int, then: Continuation[Found]) -> None:
        """`then` gets (timestamp, offset) of the first record at or after `timestamp_ms`, (-1, -1) if there is none."""
        self._when_searchable(lambda: self._search(then).first_from(timestamp_ms), then)

    def offset_of_max_timestamp(self, then: Continuation[Found]) -> None:
        """`then` gets (timestamp, offset) of the record with the greatest timestamp (KIP-734), (-1, -1) if none."""
        self._when_searchable(lambda: self._search(then).greatest(), then)

    def end_of_epoch(self, epoch: int, then: Continuation[EpochEnd]) -> None:
        """`then` gets the greatest leader epoch not after `epoch`, and the offset where its batches end in this log.

        The epoch is -1 where all that is known is later, and the offset is then the start of the log.
        """
        from hutong.journal.read.epoch_ends import find_end_of_epoch  # late: a node alone has one epoch

        stores = self._stores
        known, position = stores.epochs.end_of(epoch, stores.writer.position)
        if known < 0 or known == stores.epochs.last:
            then((known, self.start_offset if known < 0 else self.high_watermark))
            return

        def found(end_offset: int | HutongError) -> None:
            if isinstance(end_offset, HutongError):
                then(end_offset)
            else:
                then((known, max(self.start_offset, min(end_offset, self.high_watermark))))

        def search() -> None:
            spans, plan, end_offset = list(self.all_spans()), self._plan_search, self.high_watermark
            find_end_of_epoch(known, position, spans, end_offset, stores.segments, plan, stores.reader, found)

        self._when_searchable(search, found)

    def digests(
        self, offset: int, limit: int, max_bytes: int, then: "Continuation[Digests]", *, by_record: bool
    ) -> None:
        """`then` gets digests of what is on the disk from `offset` on, up to `limit` or a part of it, or StorageError.

        From the disk alone: the cache would hide damage there.
        """
        from hutong.journal.read.digests import Digests, digest  # late: a node alone is never compared

        def search() -> None:
            place = self._place_of(offset) if offset < limit else None
            if place is None:
                then(Digests(max(offset, limit), 0, b""))
                return
            runs_max = self._stores.settings.read_runs_max
            end_offset = self._end_of_place(offset)

            def read(found: Digests | HutongError) -> None:
                # Cleaning may have left nothing from `offset` to the end of the segment.
                if isinstance(found, Digests) and not found.read_bytes:
                    found = Digests(min(limit, end_offset), 0, b"")
                then(found)

            def work(walk: Walk) -> Digests:
                return digest(walk, offset, limit, max_bytes, runs_max, by_record=by_record)

            self._stores.reader.read(self._plan(*place, offset, limit, max_bytes, work), read)

        self._when_searchable(search, then)

    @property
    def rewritten_offset(self) -> int:
        """The end of what cleaning has written again, of whichever log: before it records may have been taken out."""
        segments = self._stores.segments.all()
        rewritten = next((segment for segment in reversed(segments) if segment.range_end is not None), None)
        if rewritten is None:
            return self.start_offset
        # Spans do not cross segments: the first one behind it begins where cleaning has not been.
        number = self.spans.count_before(rewritten.next_position or 0)
        behind = self.spans[number].first_offset if number < len(self.spans) else None
        if behind is None:
            behind = self.extents.base_offsets[0] if self.extents is not None else self.end_offset
        return max(self.start_offset, behind)

    def _search(self, then: Continuation[Found]) -> TimestampSearch:
        return TimestampSearch(
            list(self.all_spans()), self.start_offset, self.high_watermark, self._plan_search, self._stores.reader, then
        )

    def _plan_search(
        self, span: Span, select: Callable[[Extents], list[Extent]], work: Callable[[Walk], T]
    ) -> DiskRead[T]:
        """Plan a search through this log's batches in one of its segments."""
        stores = self._stores
        segment = stores.segments.at(span.base_position)
        flushed_position = stores.progress.flushed_position
        return stores.reader.plan(segment, self.partition_id, span.bytes, span.bytes, flushed_position, select, work)

    def begin_at(self, offset: int) -> None:
        """Let a replica's log start at `offset`, as the leader's does: everything before it was committed there."""
        self.start_offset = max(self.start_offset, offset)
        self.end_offset = max(self.end_offset, offset)
        self.sealed_offset = max(self.sealed_offset, offset)
        if self.transactions is not None:
            self.transactions.aborted.forget_before(offset)
        self.advance_high_watermark(offset)
        self._stores.events.log_trimmed()

    def delete_before(self, offset: int) -> None:
        """Let the log start at `offset`. Durable with the next flush. Raises Refused with OFFSET_OUT_OF_RANGE."""
        if offset <= self.start_offset:
            return
        if offset > self.high_watermark:
            raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE, f"The log ends at offset {self.high_watermark}.")
        self.start_offset = offset
        if self.transactions is not None:
            self.transactions.aborted.forget_before(offset)
        self._stores.events.log_trimmed()
        self._writer.add_statement(chunk.START_MOVED, self.partition_id, offset)
        self.notify_watchers()

    def all_spans(self) -> Iterator[Span]:
        """The log's share of every segment that holds something of it, oldest first, the active one included."""
        yield from self.spans
        if self.extents is not None:
            yield self._active_span(self.extents)

    def oldest_span(self) -> Span | None:
        """The first of them, None where no segment holds anything."""
        return next(self.all_spans(), None)

    def timestamp_near(self, offset: int) -> int:
        """About the timestamp of the record at `offset`, from what is in memory; -1 where that says nothing."""
        offset = max(offset, self.start_offset)
        found = ages.cached_timestamp(self._stores.cache, self.cached_runs, offset)
        return found if found != ages.UNKNOWN else ages.indexed_timestamp(offset, self.spans, self.extents)

    @property
    def held_bytes(self) -> int:
        """The bytes of the log in all segments."""
        return self.spans.held_bytes + (self.extents.bytes if self.extents is not None else 0)

    @property
    def taken_bytes(self) -> int:
        """The bytes that the log had at the start of the process, plus all appended since: it only rises."""
        return self.held_bytes + self.spans.gone_bytes

    def check_invariants(self) -> None:
        assert 0 <= self.start_offset <= self.high_watermark <= self.end_offset
        assert self.sealed_offset <= self.end_offset
        assert self.receive_qos or self.high_watermark <= self.sealed_offset
        self.spans.check_invariants()
        assert self.start_offset <= self.last_stable_offset <= self.high_watermark
        if self.producers is not None:
            self.producers.check_invariants()
        if self.transactions is not None:
            self.transactions.check_invariants()

    def _active_span(self, extents: Extents) -> Span:
        base_position = self._stores.segments.active_index.base_position
        first_offset = extents.base_offsets[0]
        return Span(base_position, first_offset, extents.end_offset, extents.bytes, extents.max_timestamp_ms)

    def _place_of(self, offset: int) -> tuple[int, int] | None:
        """The base of the segment that holds an offset which left the cache, and the bytes that the log has there.

        In a gap that cleaning has left, it is the segment behind the gap. None if no segment follows, which happens
        only if the newest batches were lost.
        """
        extents, spans = self.extents, self.spans
        number = spans.number_for(offset)
        if number < len(spans):
            span = spans[number]
            return span.base_position, span.bytes
        if extents is None:
            return None
        return self._stores.segments.active_index.base_position, extents.bytes

    def _end_of_place(self, offset: int) -> int:
        """The end of what the log has in the segment of `_place_of`."""
        number = self.spans.number_for(offset)
        return self.spans[number].end_offset if number < len(self.spans) else self.end_offset

    def _plan_read(
        self, base_position: int, held_bytes: int, offset: int, limit: int, max_bytes: int, at_least_one: bool
    ) -> "DiskRead[list[memoryview]]":
        runs_max = self._stores.settings.read_runs_max

        def work(walk: Walk) -> list[memoryview]:
            return walk.read(offset, limit, max_bytes, at_least_one, runs_max)

        return self._plan(base_position, held_bytes, offset, limit, max_bytes, work)

    def _plan(
        self,
        base_position: int,
        held_bytes: int,
        offset: int,
        limit: int,
        max_bytes: int,
        work: Callable[[Walk], T],
    ) -> DiskRead[T]:
        stores = self._stores
        return stores.reader.plan(
            stores.segments.at(base_position),
            self.partition_id,
            min(max_bytes, held_bytes),
            held_bytes,
            stores.progress.flushed_position,
            partial(
                extents_from,
                offset=offset,
                limit=limit,
                max_bytes=max_bytes,
                interval_bytes=stores.settings.index_interval_bytes,
            ),
            work,
        )

    def _when_searchable(self, search: Callable[[], None], then: Continuation[T]) -> None:
        """Flush first: searches read the files, and must find all that a reader can see."""

        def flushed(error: HutongError | None) -> None:
            if isinstance(error, OwnerGone):
                then(error)
            else:
                search()  # a full or failed disk still has everything that was flushed, and reads continue

        self.when_flushed(flushed)
