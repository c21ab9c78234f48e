"""One partition's log: its offsets, and the doors to append, read, watch and trim it.

    start_offset <= last_stable_offset <= high_watermark <= sealed_offset <= end_offset
    first kept      decided               visible           in the cache     given to a batch

Of a receive-QoS log the high watermark may be ahead of what is in the cache: reading it puts it there.

Strategy: a thin object per partition over the journal's shared writer, cache and reader. It decides what concerns this
log alone (ranges, idempotence, where a read must go) and leaves the stream to the writer.

Knows nothing of topics. Offsets are Kafka's; positions, the journal's, stay inside. Longer than a usual file because it
is the whole contract of a partition in many small doors, whose order of offsets is checked in one place.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from hutong.foundation.errors import HutongError, OwnerGone, Refused, StorageError
from hutong.foundation.regions import RegionCache
from hutong.foundation.waiting.table import NEVER
from hutong.journal.append.producers import Producers
from hutong.journal.append.progress import Progress
from hutong.journal.append.qos import Qos
from hutong.journal.append.transactions import Transactions
from hutong.journal.append.writer import NO_APPEND_TIME, Appended, Writer
from hutong.journal.files.segments import Segments
from hutong.journal.files.spans import LogSpans, Span
from hutong.journal.format import chunk
from hutong.journal.format.index import Extent, Extents
from hutong.journal.read import ages
from hutong.journal.read.reader import ColdRead, Reader
from hutong.journal.read.runs import HotRuns, Views
from hutong.journal.read.timestamps import Found, TimestampSearch
from hutong.journal.read.walk import Walk, WouldBlock, extents_from
from hutong.journal.settings import JournalSettings
from hutong.wire.kafka.control_records import build_marker
from hutong.wire.kafka.records import TRANSACTIONAL

if TYPE_CHECKING:
    from hutong.wire.kafka.records import BatchHeader

T = TypeVar("T")

__all__ = ["ColdRead", "PartitionLog", "Stores", "Views"]

OFFSET_OUT_OF_RANGE: Final = 1
COLD_BYTES_MAX: Final = 2 * 1024 * 1024  # of one read from the disk, besides a larger batch: about 1.5 ms of the loop
ROLL_BYTES_MIN: Final = 1024 * 1024
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
MESSAGE_TOO_LARGE: Final = 10
_NOTHING: Final = Views([], 0)


class Stores:
    """What all logs of one journal share."""

    __slots__ = ("cache", "on_trimmed", "progress", "reader", "segments", "settings", "writer")

    def __init__(
        self,
        settings: JournalSettings,
        writer: Writer,
        cache: RegionCache,
        segments: Segments,
        progress: Progress,
        reader: Reader,
    ) -> None:
        self.settings = settings
        self.writer = writer
        self.cache = cache
        self.segments = segments
        self.progress = progress
        self.reader = reader
        self.on_trimmed: Callable[[], None] = lambda: None  # a log starts later than it did


class PartitionLog:
    """The log of one partition. `receive_qos` logs show their batches once cached, others once flushed."""

    __slots__ = (
        "_batch_bytes_max",
        "_stores",
        "_watchers",
        "_writer",
        "clean_offset",
        "end_offset",
        "extents",
        "high_watermark",
        "hot",
        "is_deleted",
        "is_hot",
        "log_append_time",
        "markers_total",
        "partition_id",
        "producers",
        "receive_qos",
        "roll_bytes",
        "sealed_offset",
        "served_bytes",
        "spans",
        "start_offset",
        "transactions",
    )

    @property
    def offline(self) -> StorageError | None:
        """Why nothing of the log can be said, None for every log but those of a journal that was not opened."""
        return None

    def __init__(
        self, partition_id: int, stores: Stores, start_offset: int, end_offset: int, spans: LogSpans | None = None
    ) -> None:
        self.partition_id = partition_id
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.sealed_offset = end_offset
        self.high_watermark = end_offset
        self.receive_qos = False
        self.log_append_time = False
        self.roll_bytes = sys.maxsize  # what the active segment may hold of the log
        self.is_deleted = False
        self.clean_offset = 0  # no key has two records before it, unless it was written without compaction since
        self.hot = HotRuns()
        self.is_hot = False  # whether the writer's sweep knows that there are hot runs
        self.spans = spans or LogSpans()  # of closed segments
        self.extents: Extents | None = None  # in the active segment
        self.producers: Producers | None = None
        self.transactions: Transactions | None = None  # until the first transactional batch
        self.markers_total = 0  # appended since the start
        self.served_bytes = 0  # to readers since the start, told by who serves them
        self._stores = stores
        self._writer = stores.writer
        self._batch_bytes_max = min(stores.settings.batch_bytes_max, stores.settings.segment_bytes)
        self._watchers: dict[Callable[[], None], None] = {}

    def configure(self, *, receive_qos: bool, log_append_time: bool, segment_bytes: int = sys.maxsize) -> None:
        """What the topic's settings ask of its logs; applies to what is appended from now on."""
        self.receive_qos = receive_qos
        self.log_append_time = log_append_time
        # Kafka takes no `segment.bytes` below 1 MiB (KIP-1030). Here the segment is shared: a file for every few
        # records of one topic would cost all topics of the partition group.
        self.roll_bytes = max(segment_bytes, ROLL_BYTES_MIN)

    def append(
        self,
        batch_set: memoryview,
        header: "BatchHeader",
        qos: Qos,
        then: Callable[[Appended | HutongError], None],
        timeout_ms: int = NEVER,
    ) -> None:
        """Append one batch, already validated, whose parsed header is given; its offsets are fixed on return.

        `then` is called once: with Appended when `qos` is met, or with why not. Told before this returns are: what asks
        for no more than RECEIVE, a refusal (`Refused` with Kafka's code, LimitExceeded while too much is unflushed),
        and a repetition that is safe already. With Expired after `timeout_ms`: the batch stays and may yet be read.
        The batch must not change until the end of the loop's turn.
        """
        writer = self._writer
        if writer.refusal is not None:
            then(writer.refusal)
            return
        if len(batch_set) > self._batch_bytes_max or self.is_deleted:
            then(self._refusal(len(batch_set)))
            return
        base_offset = self.end_offset
        if header.producer_id >= 0 and not self._is_new(header, qos, then, timeout_ms):
            return
        self.end_offset = end_offset = base_offset + header.last_offset_delta + 1
        if qos > Qos.RECEIVE:
            writer.add(self, base_offset, end_offset, batch_set, header.max_timestamp_ms, qos, then, timeout_ms)
        else:
            if self.receive_qos and not self._watchers:
                writer.note(self, base_offset, end_offset, batch_set, header.max_timestamp_ms)
                self.high_watermark = end_offset
            else:
                writer.add(self, base_offset, end_offset, batch_set, header.max_timestamp_ms)
            # The writer holds it and moves it to the cache later: the same memory of the same process, so waiting for
            # the move would make nothing safer.
            append_time_ms = writer.wall_ms if self.log_append_time else NO_APPEND_TIME
            then(Appended(base_offset, append_time_ms, self.start_offset))

    def take(self, batch: memoryview, header: "BatchHeader") -> Appended | None:
        """Append one batch that is plainly new, to be acknowledged together with others by `acknowledge`.

        None, with nothing changed, for a repetition and for what must be refused: that is for `append`.
        """
        writer = self._writer
        if writer.refusal is not None or self.is_deleted or len(batch) > self._batch_bytes_max:
            return None
        if header.producer_id >= 0 and not self._is_plainly_new(header):
            return None
        base_offset = self.end_offset
        self.end_offset = end_offset = base_offset + header.last_offset_delta + 1
        writer.add(self, base_offset, end_offset, batch, header.max_timestamp_ms)
        append_time_ms = writer.wall_ms if self.log_append_time else NO_APPEND_TIME
        return Appended(base_offset, append_time_ms, self.start_offset)

    def acknowledge(
        self, appended: Appended, qos: Qos, then: Callable[[Appended | HutongError], None], timeout_ms: int = NEVER
    ) -> None:
        """Call `then` once all that this log's journal has taken so far is safe at `qos`, which is above RECEIVE."""
        self._writer.acknowledge(qos, then, appended, timeout_ms)

    def append_train(
        self,
        batches: "list[tuple[memoryview, BatchHeader]]",
        qos: Qos,
        then: Callable[[Appended | HutongError], None],
        timeout_ms: int = NEVER,
    ) -> int:
        """Append batches that came together, as far as they are plainly new; returns how many, and keeps just those.

        As `append` for each, but `then` is called once for all that were taken, with the base offset of the first, and
        not at all if none was. What is left, a repetition or what must be refused, is for `append`.
        """
        writer = self._writer
        if writer.refusal is not None or self.is_deleted or self.log_append_time:
            return 0
        base_offset = end_offset = self.end_offset
        take = writer.note if qos <= Qos.RECEIVE and self.receive_qos and not self._watchers else writer.add
        taken = 0
        for batch, header in batches:
            if len(batch) > self._batch_bytes_max or (header.producer_id >= 0 and not self._is_plainly_new(header)):
                break
            following = end_offset + header.last_offset_delta + 1
            take(self, end_offset, following, batch, header.max_timestamp_ms)
            self.end_offset = end_offset = following
            taken += 1
        del batches[taken:]
        if taken:
            appended = Appended(base_offset, NO_APPEND_TIME, self.start_offset)
            if qos > Qos.RECEIVE:
                writer.acknowledge(qos, then, appended, timeout_ms)
            else:
                if self.receive_qos and not self._watchers:
                    self.high_watermark = end_offset
                then(appended)
        return taken

    @property
    def last_stable_offset(self) -> int:
        """Every transaction with a batch before it has ended, visibly: how far a committed reader may go."""
        transactions = self.transactions
        if transactions is None:
            return self.high_watermark
        return max(self.start_offset, transactions.stable_offset(self.high_watermark))

    def open_transaction(self, producer_id: int) -> int | None:
        """The first offset of the producer's open transaction here, None if it has none."""
        return self.transactions.open.get(producer_id) if self.transactions is not None else None

    def is_in_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer's transaction is open here, and of that epoch."""
        transactions, producers = self.transactions, self.producers
        if transactions is None or producers is None or producer_id not in transactions.open:
            return False
        state = producers.get(producer_id)
        return state is not None and state.epoch == producer_epoch

    def aborted_between(self, start_offset: int, end_offset: int) -> list[tuple[int, int]]:
        """Producer id and first offset of each aborted transaction from `start_offset` to before `end_offset`."""
        return self.transactions.aborted.between(start_offset, end_offset) if self.transactions is not None else []

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        is_commit: bool,
        coordinator_epoch: int,
        then: Callable[[Appended | HutongError], None],
    ) -> None:
        """End the producer's transaction here, or say that it has none; `then` is called once that is safe at ALL.

        Or with why not, at once: Refused with INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED for what comes
        late, and what `append` refuses. An epoch newer than the producer's is its epoch from here on (KIP-890).
        """
        writer = self._writer
        producers = self._known_producers()
        try:
            producers.check_marker(producer_id, producer_epoch, coordinator_epoch)
        except Refused as refused:
            then(refused)
            return
        if writer.refusal is not None or self.is_deleted:
            then(writer.refusal or self._refusal(0))
            return
        now_ms = writer.wall_ms
        marker = build_marker(
            producer_id, producer_epoch, is_commit=is_commit, coordinator_epoch=coordinator_epoch, timestamp_ms=now_ms
        )
        offset = self.end_offset
        self.end_offset = offset + 1
        self.markers_total += 1
        producers.mark(producer_id, producer_epoch, coordinator_epoch, now_ms)
        if self.transactions is not None:
            self.transactions.end(producer_id, offset, is_commit=is_commit)
        writer.add(self, offset, offset + 1, marker, now_ms, Qos.ALL, then)

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        at_least_one: bool = True,
        up_to: int | None = None,
        cold_bytes_max: int = COLD_BYTES_MAX,
    ) -> "Views | ColdRead[list[memoryview]]":
        """Whole batches from the one that holds `offset` up to `up_to` (the high watermark by default).

        At most `max_bytes`; with `at_least_one` the first batch whatever its size. What the cache does not hold comes
        as a ColdRead of at most `cold_bytes_max`, to be carried out by `read_cached` or `read_cold`. Raises
        Refused with OFFSET_OUT_OF_RANGE.
        """
        limit = self.high_watermark if up_to is None else min(up_to, max(self.high_watermark, self.sealed_offset))
        if not self.start_offset <= offset <= self.end_offset:
            raise Refused(OFFSET_OUT_OF_RANGE, f"The log has offsets {self.start_offset} to {self.end_offset}.")
        if offset >= limit or (max_bytes <= 0 and not at_least_one):
            return _NOTHING
        if limit > self.sealed_offset:
            self._writer.seal()
        stores = self._stores
        settings = stores.settings
        hot = self.hot.read(stores.cache, offset, limit, max_bytes, at_least_one, settings.read_runs_max)
        if hot is not None:
            return hot
        place = self._place_of(offset)
        if place is None:
            return _NOTHING
        return self._plan_read(*place, offset, limit, min(max_bytes, cold_bytes_max), at_least_one)

    def read_cached(self, cold: "ColdRead[list[memoryview]]") -> list[memoryview] | None:
        """Carry out a read with what the machine holds in memory: the batches, or None where a worker is needed."""
        try:
            return self._stores.reader.try_cached(cold)
        except (WouldBlock, StorageError):  # what is wrong with the disk is told by `read_cold`
            return None

    def read_cold(
        self, cold: "ColdRead[list[memoryview]]", then: Callable[[list[memoryview] | HutongError], None]
    ) -> None:
        """Carry out a read on a worker; `then` gets the batches, a StorageError, or LimitExceeded, perhaps at once.

        CorruptData, with file and position, where the batch that holds the offset is not what was appended.
        """
        self._stores.reader.read(cold, then)

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back each time the high watermark or the start has moved, or the log was deleted, until `unwatch`."""
        self._watchers[callback] = None

    def unwatch(self, callback: Callable[[], None]) -> None:
        self._watchers.pop(callback, None)

    def advance_high_watermark(self, offset: int) -> None:
        """The journal's word that everything before `offset` may be read."""
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.tell_watchers()

    def tell_watchers(self) -> None:
        """There may be something new for them."""
        for callback in list(self._watchers):
            callback()

    def offset_for_timestamp(self, timestamp_ms: int, then: Callable[[Found | HutongError], None]) -> None:
        """`then` gets (timestamp, offset) of the first record at or after `timestamp_ms`, (-1, -1) if there is none."""
        self._when_flushed(lambda: TimestampSearch(self, self._stores.reader, then).first_from(timestamp_ms), then)

    def offset_of_max_timestamp(self, then: Callable[[Found | HutongError], None]) -> None:
        """`then` gets (timestamp, offset) of the record with the greatest timestamp (KIP-734), (-1, -1) if none."""
        self._when_flushed(TimestampSearch(self, self._stores.reader, then).greatest, then)

    def plan_search(
        self, span: Span, select: Callable[[Extents], list[Extent]], work: Callable[[Walk], T]
    ) -> ColdRead[T]:
        """A search through this log's batches in one of its segments."""
        stores = self._stores
        segment = stores.segments.at(span.base_position)
        flushed_position = stores.progress.flushed_position
        return stores.reader.plan(segment, self.partition_id, span.bytes, span.bytes, flushed_position, select, work)

    def delete_before(self, offset: int) -> None:
        """Let the log start at `offset`. Durable with the next flush. Raises Refused with OFFSET_OUT_OF_RANGE."""
        if offset <= self.start_offset:
            return
        if offset > self.high_watermark:
            raise Refused(OFFSET_OUT_OF_RANGE, f"The log ends at offset {self.high_watermark}.")
        self.start_offset = offset
        if self.transactions is not None:
            self.transactions.aborted.forget_before(offset)
        self._stores.on_trimmed()
        self._writer.state(chunk.START_MOVED, self.partition_id, offset)
        self.tell_watchers()

    def when_safe(self, then: Callable[[HutongError | None], None]) -> None:
        """Call back once all that was done to the log so far is on disk, or with why it is not."""
        self._writer.seal()
        progress = self._stores.progress
        if progress.flushed_position >= self._writer.position:
            then(None)
            return
        progress.park(
            Qos.PERSISTENCE,
            self._writer.position,
            lambda outcome: then(outcome if isinstance(outcome, HutongError) else None),
            Appended(0, 0, 0),
        )
        self._writer.on_sealed()

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
        found = ages.hot_timestamp(self._stores.cache, self.hot, offset)
        return found if found != ages.UNKNOWN else ages.cold_timestamp(offset, self.spans, self.extents)

    @property
    def held_bytes(self) -> int:
        """How much the segments hold of the log."""
        return self.spans.held_bytes + (self.extents.bytes if self.extents is not None else 0)

    @property
    def taken_bytes(self) -> int:
        """How much was appended since the start of the process, and what was there before: it only rises."""
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
        """The base of the segment that holds an offset which left the cache, and how much the log has there.

        Where cleaning has left a gap, the segment that goes on behind it; None where nothing does, which is only so
        where the newest batches were lost.
        """
        extents, spans = self.extents, self.spans
        number = spans.number_for(offset)
        if number < len(spans):
            span = spans[number]
            return span.base_position, span.bytes
        if extents is None:
            return None
        return self._stores.segments.active_index.base_position, extents.bytes

    def _is_new(
        self, header: "BatchHeader", qos: Qos, then: Callable[[Appended | HutongError], None], timeout_ms: int
    ) -> bool:
        """Whether an idempotent producer's batch is to be appended; if not, `then` is taken care of."""
        try:
            original = self._admit(header)
        except Refused as refused:
            then(refused)
            return False
        if original is None:
            return True
        appended = Appended(original, NO_APPEND_TIME, self.start_offset)
        if qos <= Qos.RECEIVE or (original < self.high_watermark and not self.receive_qos):
            then(appended)
        else:
            self._writer.acknowledge(qos, then, appended, timeout_ms)
        return False

    def _is_plainly_new(self, header: "BatchHeader") -> bool:
        """Whether an idempotent producer's batch is in order; if not, nothing has changed."""
        try:
            return self._admit(header) is None
        except Refused:
            return False

    def _admit(self, header: "BatchHeader") -> int | None:
        """The original's base offset if the batch is a repetition. Raises Refused."""
        producers = self.producers
        if producers is None:
            producers = self._known_producers()
        is_transactional = header.attributes & TRANSACTIONAL != 0
        original = producers.admit(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.last_offset_delta + 1,
            self.end_offset,
            self._writer.wall_ms,
            is_transactional,
        )
        if is_transactional and original is None:
            self._begin_transaction(header.producer_id)
        return original

    def _known_producers(self) -> Producers:
        if self.producers is None:
            settings = self._stores.settings
            self.producers = Producers(settings.producers_max, settings.producer_expiry_ms)
        return self.producers

    def _begin_transaction(self, producer_id: int) -> None:
        """The batch that gets the next offset is the producer's first of a transaction, or goes on with it."""
        transactions = self.transactions
        if transactions is None:
            assert self.producers is not None, "whoever begins a transaction was admitted"
            transactions = self.transactions = Transactions()
            self.producers.in_transaction = transactions.open
        transactions.begin(producer_id, self.end_offset)

    def _plan_read(
        self, base_position: int, held_bytes: int, offset: int, limit: int, max_bytes: int, at_least_one: bool
    ) -> "ColdRead[list[memoryview]]":
        stores = self._stores
        settings = stores.settings
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
                interval_bytes=settings.index_interval_bytes,
            ),
            lambda walk: walk.read(offset, limit, max_bytes, at_least_one, settings.read_runs_max),
        )

    def _when_flushed(self, search: Callable[[], None], then: Callable[[Found | HutongError], None]) -> None:
        """Searches go by the files, so all that a reader can see must be there first.

        Where the disk takes no more, what is there already is searched: reads go on.
        """
        self._writer.seal()
        if self._stores.progress.flushed_position >= self._writer.position:
            search()
            return

        def flushed(outcome: Appended | HutongError) -> None:
            if isinstance(outcome, OwnerGone):
                then(outcome)
            else:
                search()

        self._stores.progress.park(Qos.PERSISTENCE, self._writer.position, flushed, Appended(0, 0, 0))
        self._writer.on_sealed()

    def _refusal(self, size: int) -> Refused:
        if self.is_deleted:
            return Refused(UNKNOWN_TOPIC_OR_PARTITION, "The partition was deleted.")
        return Refused(MESSAGE_TOO_LARGE, f"A batch of {size} bytes; this journal takes {self._batch_bytes_max}.")
