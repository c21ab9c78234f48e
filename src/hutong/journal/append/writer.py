"""The single writer of a journal: it seals what one loop iteration brought into one chunk at the end of the stream.

Strategy: `add_batch` only notes a batch that has its offsets; at the end of the loop iteration everything noted becomes
one chunk: header, then each log's batches together, copied once into the cache. So the cost of a chunk is shared by
all that arrived together, and chunks grow with the load without a linger time. Batches that no producer waits for and
no reader sees are deferred: they share a chunk with those of later iterations. Base offset and leader epoch are
written in the copy only; the batch's CRC does not cover them.

The only mutator of the stream. Does no I/O and never blocks: it notifies the flusher and the replicator.
"""

import struct
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from hutong.foundation.checksum import crc32c
from hutong.foundation.errors import HutongError, LimitExceeded
from hutong.foundation.waiting.pending import Continuation
from hutong.foundation.waiting.table import NEVER
from hutong.journal.append.log_tail import LogTail
from hutong.journal.append.progress import Progress
from hutong.journal.append.qos import Qos
from hutong.journal.append.replicator import Replicator
from hutong.journal.files.segment import Segment
from hutong.journal.format import chunk
from hutong.journal.format.batches import LEADER
from hutong.journal.resources import JournalPart, JournalResources
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.batch.records import (
    CRC_AT,
    CRC_START,
    HEADER_BYTES,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAX_TIMESTAMP_AT,
)

CHUNKS_PER_REGION_MIN: Final = 4  # a chunk never spans two cache regions: what does not fit at a region's end is lost
TRIMMED_PER_CHUNK: Final = 2  # logs whose cached runs are trimmed after each chunk: bounds the memory of quiet logs
_ATTRIBUTES: Final = struct.Struct(">h")
_CRC: Final = struct.Struct(">I")
_MAX_TIMESTAMP: Final = struct.Struct(">q")

_Noted = tuple[LogTail, int, int, Buffer, int, int]
"""A batch: log, base offset, end offset, bytes, their number, greatest timestamp."""


class _LogRun:
    """One log's batches in the chunk that is being sealed."""

    __slots__ = ("at", "base_offset", "bytes", "crcs", "end_offset", "max_timestamp_ms", "parts")

    def __init__(self, base_offset: int) -> None:
        self.at = 0  # from the begin of the chunk's batches
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.bytes = 0
        self.max_timestamp_ms = -1
        self.crcs: list[Buffer] = []  # the CRC field of each batch, for the digest of the chunk
        self.parts: list[Buffer] = []  # of each batch two: what precedes the CRC, or all of the header, and the rest


class Writer(JournalPart):
    """The end of the stream. `refusal` is the reason that nothing is accepted just now, None while all is well."""

    def __init__(
        self,
        resources: JournalResources,
        progress: Progress,
        replicator: Replicator,
        call_soon: Callable[[Callable[[], None]], object],
        leader_epoch: int,
    ) -> None:
        """`call_soon` runs a callback at the end of the loop iteration."""
        # At most 29 attributes with the base's: with more, CPython 3.11 shares no keys, and an append costs 3 % more.
        super().__init__(resources)
        settings = resources.settings
        self.position = resources.cache.end_position  # end of the last sealed chunk
        self.leader_epoch = leader_epoch
        self.refusal: HutongError | None = None
        self._standing_refusal: HutongError | None = None  # while another replica leads
        self.is_congested = False
        self.runs_total = 0
        self._chunk_bytes_max = min(
            settings.chunk_bytes_max,
            settings.region_bytes // CHUNKS_PER_REGION_MIN,
            chunk.ENTRIES_MAX // 2 * HEADER_BYTES,  # no more batches than half the entries, whatever their sizes
        )
        self._progress = progress
        self._replicator = replicator
        self._call_soon = call_soon
        self._batches: list[_Noted] = []  # in order of arrival
        self._bytes = 0
        self._statements: list[bytes] = []  # entries without bytes: start moved, log deleted
        # For the chunk that is sealed next, by QoS and timeout.
        self._waits: dict[tuple[Qos, int], list[tuple[Continuation[None], None]]] = {}
        self._is_scheduled = False
        self._must_seal = False  # at the end of this loop iteration
        self._iteration_wall_ms: int | None = None
        self._begun_us = 0  # when the first of the noted batches came
        self._overfull = LimitExceeded("dirty_bytes_max", 2 * settings.dirty_bytes_max)
        self._cached_logs: deque[LogTail] = deque()

    @property
    def dirty_bytes(self) -> int:
        """Bytes that must be kept in memory, because the disk or a replica lacks them."""
        return self.position - self._progress.released_position

    @property
    def wall_ms(self) -> int:
        """The time of this loop iteration: all that it brings carries the same."""
        if self._iteration_wall_ms is None:
            self._schedule()
            self._iteration_wall_ms = self._clock.wall_ms()
        return self._iteration_wall_ms

    def add_batch(
        self,
        log: LogTail,
        base_offset: int,
        end_offset: int,
        batch: Buffer,
        size: int,
        timestamp_ms: int,
        is_urgent: bool,
    ) -> None:
        """Note a batch of `size` bytes that was given its offsets.

        An urgent one is sealed at the end of this loop iteration, others once enough of them came or time has passed.
        """
        self._bytes += size
        if self._bytes > self._chunk_bytes_max:
            self.seal_chunk()  # a batch larger than a chunk gets a chunk of its own
            self._bytes = size
        batches = self._batches
        batches.append((log, base_offset, end_offset, batch, size, timestamp_ms))
        if is_urgent:
            if not self._must_seal:
                self._must_seal = True
                self._schedule()
        elif len(batches) >= self._settings.noted_batches_max:
            self.seal_chunk()
        elif len(batches) == 1:
            # Only the first needs a timer: the flush that it starts takes all that follow.
            self._begun_us = self._clock.monotonic_us()
            self._events.batch_deferred()

    def begin_together(self, size: int) -> None:
        """Let the next batches, of `size` bytes in all, be in one chunk: after a crash all are there or none.

        They must be urgent, and follow at once. The chunk may be larger than others, as that of one large batch.
        """
        if self._bytes + size > self._chunk_bytes_max:
            self.seal_chunk()
        # Below zero where they have no room in any chunk: the batch that comes next seals only what follows them.
        self._bytes = min(self._bytes, self._chunk_bytes_max - size)

    def add_statement(self, kind: int, partition_id: int, offset: int) -> None:
        """Note a statement about a log (`chunk.START_MOVED`, `chunk.DELETED`) in the stream."""
        if self._batches:
            self.seal_chunk()  # a chunk's statements come before its batches, and this one is about earlier batches
        self._statements.append(chunk.ENTRY.pack(partition_id, kind, offset, 0, 0, 0, 0, -1))
        # The header counts entries in two bytes; the other half is for batches (`_chunk_bytes_max`).
        if len(self._statements) >= chunk.ENTRIES_MAX // 2:
            self.seal_chunk()
        else:
            self._must_seal = True
            self._schedule()

    def when_safe(self, qos: Qos, then: Continuation[None], timeout_ms: int = NEVER) -> None:
        """Call `then` with None once all that was added so far is safe at `qos`, above RECEIVE; perhaps at once.

        With Expired after `timeout_ms`: what was appended stays and may yet become safe. With the reason if the journal
        fails or runs short meanwhile: then the outcome is unknown.
        """
        if self._batches:
            # The end of their chunk is not known yet: parked when it is sealed, at the end of this iteration.
            key = qos, timeout_ms
            waits = self._waits.get(key)
            if waits is None:
                waits = self._waits[key] = []
            waits.append((then, None))
            if not self._must_seal:
                self._must_seal = True
                self._schedule()
        elif self._progress.is_safe(qos, self.position):
            then(None)
        else:
            self._progress.park(qos, self.position, [(then, None)], timeout_ms, self._clock.monotonic_ms())
            self._events.flush_due()  # a deferred flush has somebody who waits for it now

    def when_flushed(self, then: Continuation[None]) -> None:
        """Seal, and call `then` with None once everything sealed so far is on disk, or with the reason it is not."""
        self.seal_chunk()
        self.when_safe(Qos.PERSISTENCE, then)

    def seal_chunk(self) -> None:
        """Make one chunk of everything noted. Called at the end of the iteration, earlier where a chunk is full."""
        batches, self._batches = self._batches, []
        statements, self._statements = self._statements, []
        begun_us = self._begun_us
        self._bytes = 0
        self._must_seal = False
        if not batches and not statements:
            return
        runs = self._group_by_log(batches)
        self._figures.batches_per_chunk.record(len(batches))
        end_position = self._write_chunk(runs, statements, begun_us)
        # Parked before the replicator hears of the chunk: without other replicas it answers at once, and the
        # flusher may start. Watermarks of receive-QoS logs move last, because their watchers may append again.
        self._park_waits(end_position)
        self._replicator.sealed(end_position)
        self._check_congestion()
        self._events.flush_due()
        for log, run in runs.items():
            if log.receive_qos:
                log.advance_high_watermark(run.end_offset)

    # -- replicas

    def follow(self, refusal: HutongError) -> None:
        """Take chunks of another replica, which leads, and refuse all batches with this error."""
        self._standing_refusal = refusal
        self.refusal = self.refusal or refusal

    def lead(self, epoch: int, node: int) -> None:
        """Begin a leader epoch with a chunk of its own, and accept batches. `node` is the number of this node.

        The chunk lets a leader commit what others have written: never before something of its own epoch (Raft, 5.4.2).
        """
        assert epoch > self.leader_epoch, "epochs rise"
        self.leader_epoch = epoch
        refusal, self._standing_refusal = self._standing_refusal, None
        self.accept(refusal)
        self.add_statement(chunk.EPOCH_BEGUN, node, 0)
        self.seal_chunk()

    @property
    def is_following(self) -> bool:
        """True while another replica leads."""
        return self._standing_refusal is not None

    @property
    def replica_refusal(self) -> HutongError | None:
        """The reason that the leader's chunks cannot be taken just now: a shortage, a failure, congestion."""
        # What is on disk and not committed may wait for this replica alone, which has to take the rest of it then.
        unflushed_bytes = self.position - self._progress.flushed_position
        if self.refusal is self._overfull and unflushed_bytes < 2 * self._settings.dirty_bytes_max:
            return None
        return None if self.refusal is self._standing_refusal else self.refusal

    def take_chunk(self, header: chunk.Chunk, whole: Buffer, logs: Mapping[int, LogTail]) -> None:
        """Append a chunk of the leader as it is. `logs` are those of its batches, by their ids."""
        position, begun_us = self.position, self._clock.monotonic_us()
        total_bytes = header.end - position
        segment = self._segment_for(position, total_bytes)
        if segment.begun_ms is None:
            segment.begun_ms = header.append_time_ms
        self._cache.append([whole], total_bytes)
        self.position = header.end
        self.leader_epoch = header.leader_epoch
        self._figures.bytes_per_chunk.record(total_bytes)
        payload = position + header.header_bytes
        runs = {}
        for found in header.runs():
            if found.kind == chunk.BATCHES:
                run = runs[logs[found.partition_id]] = _LogRun(found.base_offset)
                run.end_offset, run.bytes, run.at = found.end_offset, found.bytes, found.position - payload
                run.max_timestamp_ms = found.max_timestamp_ms
                self._figures.batch_bytes_total += found.bytes
        self._index_runs(runs, position, payload, begun_us)
        self._check_congestion()
        self._events.flush_due()

    def _segment_for(self, position: int, total_bytes: int) -> Segment:
        """The active segment, or another one where it has no room."""
        segment = self._segments.active
        if segment is None or position + total_bytes > segment.base_position + self._settings.segment_bytes:
            segment = self._segments.roll(position)
        return segment

    def roll(self) -> None:
        """Close the active segment; the next chunk begins another."""
        self.seal_chunk()
        if self._segments.active is not None:
            self._segments.roll(self.position)

    def refuse(self, error: HutongError) -> None:
        """Accept nothing more. The gravest reason comes last and stays.

        Congestion ends with it, so that held producers are released and refused: their flush may never come.
        """
        self.refusal = error
        if self.is_congested:
            self._set_congested(False)

    def give_up(self, error: HutongError) -> None:
        """Accept nothing more, and drop what is noted and not sealed: those who wait for it get the error."""
        self.refuse(error)
        self._batches, self._statements, self._bytes, self._must_seal = [], [], 0, False
        waits, self._waits = self._waits, {}
        for parked in waits.values():
            for then, _ in parked:
                then(error)

    def accept(self, error: HutongError | None) -> None:
        """Accept batches again if `error` is the reason they are refused; any other reason still holds."""
        if self.refusal is error:
            self.refusal = self._standing_refusal

    def released(self) -> None:
        """Note that flusher or replicator made progress: congestion may be over."""
        # Half of the bound, so that producers are not held and released with every flush.
        if self.is_congested and self.dirty_bytes <= self._settings.dirty_bytes_max // 2:
            self._set_congested(False)
        if self.dirty_bytes <= self._settings.dirty_bytes_max:
            self.accept(self._overfull)

    def _iteration_ended(self) -> None:
        try:
            # Deferred batches alone stay noted: they share a chunk with those of later iterations.
            if self._must_seal:
                self.seal_chunk()
        finally:
            self._is_scheduled = False
            self._iteration_wall_ms = None
        if self._must_seal:
            self._schedule()  # callbacks of the chunk have appended more

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            if len(self._batches) <= 1:  # the one that schedules may be the first, noted by now
                self._begun_us = self._clock.monotonic_us()
            self._call_soon(self._iteration_ended)

    def _group_by_log(self, batches: list[_Noted]) -> dict[LogTail, _LogRun]:
        """Each log's batches side by side, as a chunk holds them: one entry and one extent per log, not per batch."""
        runs: dict[LogTail, _LogRun] = {}
        current: LogTail | None = None
        pack_leader, leader_bytes, leader_epoch = LEADER.pack, LEADER.size, self.leader_epoch
        for log, base_offset, end_offset, batch, size, timestamp_ms in batches:
            # Adjacent batches are mostly of one log (a group of batches, a busy partition): one look-up for them.
            if log is not current:
                current = log
                run = runs.get(log) or runs.setdefault(log, _LogRun(base_offset))
                parts, crcs = run.parts, run.crcs
                is_stamped = log.log_append_time
            if is_stamped:
                header = self._stamped_header(batch, base_offset)
                parts += header, batch[HEADER_BYTES:]
                crcs.append(header[CRC_AT:CRC_START])
                timestamp_ms = self.wall_ms
            else:
                # Offset, length and epoch precede the batch's CRC, so writing them anew costs no second checksum.
                parts += pack_leader(base_offset, size - LENGTH_END, leader_epoch), batch[leader_bytes:]
                crcs.append(batch[CRC_AT:CRC_START])
            run.end_offset = end_offset
            run.bytes += size
            if timestamp_ms > run.max_timestamp_ms:
                run.max_timestamp_ms = timestamp_ms
        return runs

    def _write_chunk(self, runs: dict[LogTail, _LogRun], statements: list[bytes], begun_us: int) -> int:
        """Copy the chunk into the cache, behind the last one; returns its end position."""
        entries, payload_bytes = list(statements), 0
        buffers: list[Buffer] = [b""]
        crcs: list[Buffer] = []
        # The chunk goes whole into one segment, so any log that would pass its bound closes the segment before it.
        is_full = False
        for log, run in runs.items():
            extents = log.extents
            if extents is not None and extents.bytes + run.bytes > log.roll_bytes:
                is_full = True  # Kafka closes a segment before the append that would pass `segment.bytes`
            entries.append(
                chunk.ENTRY.pack(
                    log.partition_id,
                    chunk.BATCHES,
                    run.base_offset,
                    run.end_offset - run.base_offset,
                    payload_bytes,
                    run.bytes,
                    len(run.parts) // 2,  # each batch has two parts
                    run.max_timestamp_ms,
                )
            )
            run.at = payload_bytes
            payload_bytes += run.bytes
            buffers += run.parts
            crcs += run.crcs
        total_bytes = chunk.header_bytes_for(len(entries)) + payload_bytes
        position = self.position
        segment = self._segment_for(position, total_bytes) if not is_full else self._segments.roll(position)
        # Recovered segments have the time of their first chunk; retention by age (`segment.ms`) counts from there.
        if segment.begun_ms is None:
            segment.begun_ms = self.wall_ms
        # A recovery that finds this chunk damaged must know from where on a crash may have taken it: the part that was
        # not flushed yet. What was flushed before it is rot, if it is damaged.
        buffers[0] = chunk.encode_header(
            position,
            self.leader_epoch,
            self.wall_ms,
            entries,
            payload_bytes,
            position - self._progress.flushed_position,
            digest=chunk.digest_of(crcs),
        )
        self._cache.append(buffers, total_bytes)
        self.position = end_position = position + total_bytes
        self._figures.bytes_per_chunk.record(total_bytes)
        self._figures.batch_bytes_total += payload_bytes
        self._index_runs(runs, position, end_position - payload_bytes, begun_us)
        return end_position

    def _index_runs(self, runs: dict[LogTail, _LogRun], position: int, payload: int, begun_us: int) -> None:
        """Index the runs of the chunk at `position` for readers; its batches begin at `payload`."""
        index, oldest_position = self._segments.active_index, self._cache.oldest_position
        log_ends, records = [], 0
        for log, run in runs.items():
            base_offset, end_offset, size = run.base_offset, run.end_offset, run.bytes
            extents = log.extents
            # The log's first run in this segment; later ones find its extents on the log, without a look-up.
            if extents is None:
                extents = log.extents = index.of(log.partition_id)
            extents.add(base_offset, end_offset, position, size, run.max_timestamp_ms)
            if not log.has_cached_runs:
                log.has_cached_runs = True
                self._cached_logs.append(log)
            # Readers of the cache need every run; the index of the segment is sparse.
            log.cached_runs.add(base_offset, end_offset, payload + run.at, size, oldest_position)
            log.sealed_offset = end_offset
            log_ends.append((log, end_offset))
            records += end_offset - base_offset
        self.runs_total += len(runs)
        self._begun_us = sealed_us = self._clock.monotonic_us()  # the next chunk's beginning, if this iteration has one
        self._figures.turn_us.record(sealed_us - begun_us)
        self._figures.records_total += records
        self._progress.chunk_sealed(self.position, log_ends, begun_us, sealed_us)
        self._trim_cached_runs(oldest_position)

    def _park_waits(self, end_position: int) -> None:
        """Park the continuations that wait for the chunk that ends there."""
        if not self._waits:
            return
        parked, self._waits = self._waits, {}
        now_ms = self._clock.monotonic_ms()
        for (qos, timeout_ms), waits in parked.items():
            self._progress.park(qos, end_position, waits, timeout_ms, now_ms)

    def _stamped_header(self, batch: Buffer, base_offset: int) -> bytes:
        """The batch's header with this iteration's time as its timestamp (message.timestamp.type=LogAppendTime)."""
        header = bytearray(batch[:HEADER_BYTES])
        LEADER.pack_into(header, 0, base_offset, len(batch) - LENGTH_END, self.leader_epoch)
        (attributes,) = _ATTRIBUTES.unpack_from(header, CRC_START)
        _ATTRIBUTES.pack_into(header, CRC_START, attributes | LOG_APPEND_TIME)
        _MAX_TIMESTAMP.pack_into(header, MAX_TIMESTAMP_AT, self.wall_ms)
        checked = crc32c(batch[HEADER_BYTES:], crc32c(header[CRC_START:]))
        _CRC.pack_into(header, CRC_AT, checked)
        return bytes(header)

    def _trim_cached_runs(self, oldest_position: int) -> None:
        """Trim a few logs per chunk, in rotation, so that a quiet log keeps no entries for bytes long evicted."""
        for _ in range(min(TRIMMED_PER_CHUNK, len(self._cached_logs))):
            log = self._cached_logs.popleft()
            log.cached_runs.trim(oldest_position)
            log.has_cached_runs = len(log.cached_runs) > 0
            if log.has_cached_runs:
                self._cached_logs.append(log)

    def _check_congestion(self) -> None:
        """Two bounds: at the first producers are held unread, at twice that their batches are refused."""
        dirty_bytes = self.dirty_bytes
        if self.refusal is not self._standing_refusal:  # a failed or closed journal stays refused, and holds nobody
            return
        if dirty_bytes >= self._settings.dirty_bytes_max and not self.is_congested:
            self._set_congested(True)
        if dirty_bytes >= 2 * self._settings.dirty_bytes_max:
            self.refusal = self._overfull

    def _set_congested(self, is_congested: bool) -> None:
        self.is_congested = is_congested
        for callback in list(self._events.congestion_changed):
            callback(is_congested)
