"""The single writer of a journal: it gives offsets, and seals what one turn of the loop brought into one chunk.

Strategy: an append decides at once (offset, repetition, refusal) and only notes the rest; at the end of the turn
everything noted becomes one chunk: header, then each log's batches together, copied once into the cache. So the cost
of a chunk is shared by all that arrived together, and the batch grows with the load without a linger time. What nobody
waits for and nobody reads yet is only noted, and shares a chunk with what comes in the turns after it. Base offset
and leader epoch are written in the copy only; the batch's CRC does not cover them.

The only mutator of the stream. Does no I/O and waits for nothing: the flusher is told, the rest is the flusher's.
"""

import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hutong.foundation.checksum import crc32c
from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, LimitExceeded
from hutong.foundation.regions import RegionCache
from hutong.foundation.waiting.table import NEVER
from hutong.journal.append.progress import Progress
from hutong.journal.append.qos import Qos
from hutong.journal.append.replicator import Replicator
from hutong.journal.figures import JournalFigures
from hutong.journal.files.segments import Segments
from hutong.journal.format import chunk
from hutong.journal.format.batches import LEADER
from hutong.journal.settings import JournalSettings
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.records import CRC_START, HEADER_BYTES, LENGTH_END, LOG_APPEND_TIME

if TYPE_CHECKING:
    from hutong.journal.log import PartitionLog

CHUNKS_PER_REGION_MIN: Final = 4  # a chunk lies in one region: what does not fit at its end is lost
NO_APPEND_TIME: Final = -1
TRIMMED_PER_CHUNK: Final = 2  # logs whose hot runs are looked at after each chunk: keeps quiet logs' memory bounded
_CRC_AT: Final = 17
_ATTRIBUTES: Final = struct.Struct(">h")
_CRC: Final = struct.Struct(">I")
_MAX_TIMESTAMP_AT: Final = 35
_MAX_TIMESTAMP: Final = struct.Struct(">q")

Then = Callable[["Appended | HutongError"], None]
_Noted = tuple["PartitionLog", int, int, Buffer, int, Qos, Then, int]
"""A batch: log, base offset, end offset, bytes, greatest timestamp; how safe it must be, whom to tell, its timeout."""


class Appended:
    """What an append came to. `append_time_ms` is -1 unless the log stamps its records itself."""

    __slots__ = ("append_time_ms", "base_offset", "start_offset")

    def __init__(self, base_offset: int, append_time_ms: int, start_offset: int) -> None:
        self.base_offset = base_offset
        self.append_time_ms = append_time_ms
        self.start_offset = start_offset


def _nobody(_outcome: "Appended | HutongError") -> None:
    """Who is told of a batch that has been acknowledged already, or is acknowledged with others."""


class _Run:
    """One log's batches of the turn."""

    __slots__ = ("base_offset", "batch_count", "bytes", "end_offset", "max_timestamp_ms", "parts")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.bytes = 0
        self.batch_count = 0
        self.max_timestamp_ms = -1
        self.parts: list[Buffer] = []


class Writer:
    """The end of the stream. `refusal` says why nothing is accepted just now, None while all is well."""

    def __init__(
        self,
        settings: JournalSettings,
        clock: Clock,
        call_soon: Callable[[Callable[[], None]], object],
        cache: RegionCache,
        segments: Segments,
        progress: Progress,
        replicator: Replicator,
        figures: JournalFigures,
        leader_epoch: int,
    ) -> None:
        self.position = cache.end_position  # end of the last sealed chunk
        self.leader_epoch = leader_epoch
        self.refusal: HutongError | None = None
        self.is_congested = False
        self.congestion_watchers: list[Callable[[bool], None]] = []
        self.on_sealed: Callable[[], None] = lambda: None  # the flusher's ear
        self.on_noted: Callable[[], None] = lambda: None  # and its clock: what is only noted must be sealed some time
        self.chunks_total = 0
        self.runs_total = 0
        self._settings = settings
        self._chunk_bytes_max = min(
            settings.chunk_bytes_max,
            settings.region_bytes // CHUNKS_PER_REGION_MIN,
            chunk.ENTRIES_MAX // 2 * HEADER_BYTES,  # no more batches than half the entries, whatever their sizes
        )
        self._clock = clock
        self._call_soon = call_soon
        self._cache = cache
        self._segments = segments
        self._progress = progress
        self._replicator = replicator
        self._figures = figures
        self._batches: list[_Noted] = []  # in order of arrival
        self._bytes = 0
        self._statements: list[bytes] = []  # entries without bytes: start moved, log deleted
        self._acknowledgements: list[tuple[Qos, int, Then, Appended]] = []  # of batches noted now, besides their own
        self._is_scheduled = False
        self._must_seal = False  # at the end of this turn
        self._turn_wall_ms: int | None = None
        self._begun_us = 0  # when the first batch came of those that are noted now
        self._overfull = LimitExceeded("dirty_bytes_max", 2 * settings.dirty_bytes_max)
        self._hot_logs: deque[PartitionLog] = deque()

    @property
    def dirty_bytes(self) -> int:
        """What the disk does not have, or a majority does not: it must be kept in memory."""
        return self.position - self._progress.released_position

    @property
    def wall_ms(self) -> int:
        """The time of this turn: all that it brings carries the same."""
        if self._turn_wall_ms is None:
            self._schedule()
            self._turn_wall_ms = self._clock.wall_ms()
        return self._turn_wall_ms

    def add(
        self,
        log: "PartitionLog",
        base_offset: int,
        end_offset: int,
        batch: Buffer,
        timestamp_ms: int,
        qos: Qos = Qos.RECEIVE,
        then: Then = _nobody,
        timeout_ms: int = NEVER,
    ) -> None:
        """Take a batch that was given its offsets. Above RECEIVE, `then` is called when `qos` is met, or too late."""
        self._bytes += len(batch)
        if self._bytes > self._chunk_bytes_max:
            self.seal()
            self._bytes = len(batch)
        self._batches.append((log, base_offset, end_offset, batch, timestamp_ms, qos, then, timeout_ms))
        self._must_seal = True
        if not self._is_scheduled:
            self._schedule()

    def note(self, log: "PartitionLog", base_offset: int, end_offset: int, batch: Buffer, timestamp_ms: int) -> None:
        """Like `add`, for a batch that is acknowledged and nobody reads yet: it need not be sealed in this turn."""
        self._bytes += len(batch)
        if self._bytes > self._chunk_bytes_max:
            self.seal()
            self._bytes = len(batch)
        batches = self._batches
        batches.append((log, base_offset, end_offset, batch, timestamp_ms, Qos.RECEIVE, _nobody, NEVER))
        if len(batches) >= self._settings.noted_batches_max:
            self.seal()
        elif len(batches) == 1:
            self._begun_us = self._clock.monotonic_us()
            self.on_noted()

    def state(self, kind: int, partition_id: int, offset: int) -> None:
        """Note a statement about a log (`chunk.START_MOVED`, `chunk.DELETED`) in the stream."""
        if self._batches:
            self.seal()  # a statement is about what stands before it
        self._statements.append(chunk.ENTRY.pack(partition_id, kind, offset, 0, 0, 0, 0, -1))
        if len(self._statements) >= chunk.ENTRIES_MAX // 2:
            self.seal()
        else:
            self._must_seal = True
            self._schedule()

    def acknowledge(self, qos: Qos, then: Then, appended: Appended, timeout_ms: int = NEVER) -> None:
        """Acknowledge what was taken, a repetition or a train, when all that was taken so far is safe at `qos`."""
        if self._batches:
            self._acknowledgements.append((qos, timeout_ms, then, appended))
            self._must_seal = True
            self._schedule()
        elif self._progress.is_safe(qos, self.position):
            then(appended)
        else:
            now_ms = self._clock.monotonic_ms()
            self._progress.park_all(qos, self.position, [(then, appended)], timeout_ms, now_ms)
            self.on_sealed()

    def seal(self) -> None:
        """Make what was noted one chunk. Called at the end of the turn, and earlier where a chunk is full."""
        batches, self._batches = self._batches, []
        statements, self._statements = self._statements, []
        begun_us = self._begun_us
        self._bytes = 0
        self._must_seal = False
        if not batches and not statements:
            return
        runs = self._gather(batches)
        self._figures.batches_per_chunk.record(len(batches))
        end_position = self._write(runs, statements, begun_us)
        self._park(batches, end_position)
        self._replicator.sealed(end_position)
        self._note_congestion()
        self.on_sealed()
        for log, run in runs.items():
            if log.receive_qos:
                log.advance_high_watermark(run.end_offset)

    def roll(self) -> None:
        """Close the active segment; the next chunk begins another."""
        self.seal()
        active = self._segments.active
        if active is not None and active.base_position < self.position:
            self._segments.roll(self.position)

    def refuse(self, error: HutongError) -> None:
        """Accept nothing more. The gravest reason comes last and stays.

        Whoever was made to wait is let on, to be refused: what they wait for may never come.
        """
        self.refusal = error
        if self.is_congested:
            self._set_congested(False)

    def accept(self, error: HutongError | None) -> None:
        """That reason is over; any other still holds."""
        if self.refusal is error:
            self.refusal = None

    def released(self) -> None:
        """Flusher or replicator made progress: congestion may be over."""
        if self.is_congested and self.dirty_bytes <= self._settings.dirty_bytes_max // 2:
            self._set_congested(False)
        if self.dirty_bytes <= self._settings.dirty_bytes_max:
            self.accept(self._overfull)

    def _turn_ended(self) -> None:
        try:
            if self._must_seal:
                self.seal()
        finally:
            self._is_scheduled = False
            self._turn_wall_ms = None
        if self._must_seal:
            self._schedule()  # who was told of the chunk has brought more

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            if len(self._batches) <= 1:  # what schedules the turn may be its first batch, which is noted by now
                self._begun_us = self._clock.monotonic_us()
            self._call_soon(self._turn_ended)

    def _gather(self, batches: "list[_Noted]") -> "dict[PartitionLog, _Run]":
        runs: dict[PartitionLog, _Run] = {}
        current: PartitionLog | None = None
        pack_leader, leader_epoch = LEADER.pack, self.leader_epoch
        for log, base_offset, end_offset, batch, timestamp_ms, _, _, _ in batches:
            if log is not current:
                current = log
                run = runs.get(log) or runs.setdefault(log, _Run(base_offset))
                parts = run.parts
            size = len(batch)
            if log.log_append_time:
                parts.append(self._stamped(batch, base_offset))
                parts.append(batch[HEADER_BYTES:])
                timestamp_ms = self.wall_ms
            else:
                parts.append(pack_leader(base_offset, size - LENGTH_END, leader_epoch))
                parts.append(batch[LEADER.size :])
            run.end_offset = end_offset
            run.bytes += size
            run.batch_count += 1
            if timestamp_ms > run.max_timestamp_ms:
                run.max_timestamp_ms = timestamp_ms
        return runs

    def _write(self, runs: "dict[PartitionLog, _Run]", statements: list[bytes], begun_us: int) -> int:
        """Lay the chunk down behind the last one; returns its end position."""
        entries, payload_bytes = list(statements), 0
        buffers: list[Buffer] = [b""]
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
                    run.batch_count,
                    run.max_timestamp_ms,
                )
            )
            payload_bytes += run.bytes
            buffers += run.parts
        total_bytes = chunk.header_bytes_for(len(entries)) + payload_bytes
        position = self.position
        segment = self._segments.active
        if segment is None or is_full or position + total_bytes > segment.base_position + self._settings.segment_bytes:
            segment = self._segments.roll(position)
        if segment.begun_ms is None:
            segment.begun_ms = self.wall_ms
        buffers[0] = chunk.encode_header(
            position,
            self.leader_epoch,
            self.wall_ms,
            entries,
            payload_bytes,
            position - self._progress.flushed_position,
        )
        self._cache.append(buffers, total_bytes)
        self.position = end_position = position + total_bytes
        self.chunks_total += 1
        self._figures.bytes_per_chunk.record(total_bytes)
        self._figures.batch_bytes_total += payload_bytes
        self._note(runs, position, end_position - payload_bytes, begun_us)
        return end_position

    def _note(self, runs: "dict[PartitionLog, _Run]", position: int, at: int, begun_us: int) -> None:
        """Enter the runs of the chunk at `position`, the first of which begins `at`, where readers look."""
        index, oldest_position = self._segments.active_index, self._cache.oldest_position
        log_ends, records = [], 0
        for log, run in runs.items():
            base_offset, end_offset, size = run.base_offset, run.end_offset, run.bytes
            extents = log.extents
            if extents is None:
                extents = log.extents = index.of(log.partition_id)
            extents.add(base_offset, end_offset, position, size, run.max_timestamp_ms)
            if not log.is_hot:
                log.is_hot = True
                self._hot_logs.append(log)
            log.hot.add(base_offset, end_offset, at, size, oldest_position)
            log.sealed_offset = end_offset
            log_ends.append((log, end_offset))
            records += end_offset - base_offset
            at += size
        self.runs_total += len(runs)
        self._begun_us = sealed_us = self._clock.monotonic_us()  # the next chunk's beginning, if this turn brings more
        self._figures.turn_us.record(sealed_us - begun_us)
        self._figures.records_total += records
        self._progress.sealed(self.position, log_ends, begun_us, sealed_us)
        self._trim_hot_runs(oldest_position)

    def _park(self, batches: "list[_Noted]", end_position: int) -> None:
        """Park the acknowledgements that wait for the disk; the others were given when the batch came."""
        parked: dict[tuple[Qos, int], list[tuple[Then, Appended]]] = {}
        for log, base_offset, _, _, _, qos, then, timeout_ms in batches:
            if qos > Qos.RECEIVE:
                append_time_ms = self.wall_ms if log.log_append_time else NO_APPEND_TIME
                appended = Appended(base_offset, append_time_ms, log.start_offset)
                parked.setdefault((qos, timeout_ms), []).append((then, appended))
        acknowledgements, self._acknowledgements = self._acknowledgements, []
        for qos, timeout_ms, then, appended in acknowledgements:
            parked.setdefault((qos, timeout_ms), []).append((then, appended))
        if parked:
            now_ms = self._clock.monotonic_ms()
            for (qos, timeout_ms), waits in parked.items():
                self._progress.park_all(qos, end_position, waits, timeout_ms, now_ms)

    def _stamped(self, batch: Buffer, base_offset: int) -> bytes:
        """The batch's header with this turn's time as its timestamp (message.timestamp.type=LogAppendTime)."""
        header = bytearray(batch[:HEADER_BYTES])
        LEADER.pack_into(header, 0, base_offset, len(batch) - LENGTH_END, self.leader_epoch)
        (attributes,) = _ATTRIBUTES.unpack_from(header, CRC_START)
        _ATTRIBUTES.pack_into(header, CRC_START, attributes | LOG_APPEND_TIME)
        _MAX_TIMESTAMP.pack_into(header, _MAX_TIMESTAMP_AT, self.wall_ms)
        checked = crc32c(batch[HEADER_BYTES:], crc32c(header[CRC_START:]))
        _CRC.pack_into(header, _CRC_AT, checked)
        return bytes(header)

    def _trim_hot_runs(self, oldest_position: int) -> None:
        """Look at a few logs in turn, so that one which went quiet does not keep entries for bytes long gone."""
        for _ in range(min(TRIMMED_PER_CHUNK, len(self._hot_logs))):
            log = self._hot_logs.popleft()
            log.hot.trim(oldest_position)
            log.is_hot = len(log.hot) > 0
            if log.is_hot:
                self._hot_logs.append(log)

    def _note_congestion(self) -> None:
        dirty_bytes = self.dirty_bytes
        if self.refusal is not None:
            return
        if dirty_bytes >= self._settings.dirty_bytes_max and not self.is_congested:
            self._set_congested(True)
        if dirty_bytes >= 2 * self._settings.dirty_bytes_max:
            self.refusal = self._overfull

    def _set_congested(self, is_congested: bool) -> None:
        self.is_congested = is_congested
        for watcher in list(self.congestion_watchers):
            watcher(is_congested)
