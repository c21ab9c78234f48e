"""A cleaned segment on its way: what stays is collected into new chunks, written aside, and given its name at the end.

Strategy: survivors of many chunks are put together into chunks of their own, each log's batches side by side, so that
a cleaned log reads in long runs. Until all of it is flushed the file has a name that a start removes; then its index is
put in place, then it is renamed and the directory flushed. So a crash leaves nothing of it or all of it, and what it
replaces is still there.

Blocks; runs on a worker. Knows nothing of keys.
"""

import contextlib
from pathlib import Path
from typing import Final

from hutong.foundation.errors import StorageError
from hutong.journal.files.disk import Disk, replace_file
from hutong.journal.files.segment import SegmentName
from hutong.journal.format import chunk
from hutong.journal.format.index import SegmentIndex, encode_index
from hutong.journal.settings import JournalSettings
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.batch.records import CRC_AT, CRC_START, BatchHeader

CLEANING_NAME: Final = "cleaning.tmp"  # a start removes every such file
FLUSH_BYTES: Final = 4 * 1024 * 1024  # written between two flushes: a long one would hold up those of the writer
CHUNK_BYTES: Final = 256 * 1024


class _OutputRun:
    """One log's batches of the chunk that is being filled."""

    __slots__ = ("base_offset", "batches", "bytes", "end_offset", "max_timestamp_ms")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = self.end_offset = base_offset
        self.batches: list[Buffer] = []
        self.bytes = 0
        self.max_timestamp_ms = -1


class CleanedFile:
    """The file behind one cleaned segment, from `base_position` on. Ended by `publish` or by `discard`."""

    def __init__(self, disk: Disk, directory: Path, base_position: int, settings: JournalSettings) -> None:
        self.position = base_position
        self.index = SegmentIndex(base_position, settings.index_interval_bytes, settings.index_distance_bytes)
        self._disk = disk
        self._directory = directory
        self._base_position = base_position
        self._chunk_bytes_max = min(CHUNK_BYTES, settings.chunk_bytes_max)
        self._file = disk.create(directory / CLEANING_NAME)
        self._unflushed_bytes = 0
        self._runs: dict[int, _OutputRun] = {}
        self._statements: list[bytes] = []
        self._bytes = 0
        self._leader_epoch = 0
        self._append_time_ms = 0

    def begin_source_chunk(self, leader_epoch: int, append_time_ms: int) -> None:
        """Take the epoch and time of the chunk from which the next batches come."""
        if leader_epoch != self._leader_epoch:
            self.seal_chunk()
        self._leader_epoch = leader_epoch
        self._append_time_ms = max(self._append_time_ms, append_time_ms)

    def add_batch(self, partition_id: int, header: BatchHeader, batch: Buffer) -> None:
        """Take a batch with the offsets of `header`; batches of one log come in order."""
        run = self._runs.get(partition_id)
        if run is None:
            run = self._runs[partition_id] = _OutputRun(header.base_offset)
        run.batches.append(batch)
        run.bytes += len(batch)
        run.end_offset = header.last_offset + 1
        run.max_timestamp_ms = max(run.max_timestamp_ms, header.max_timestamp_ms)
        self._bytes += len(batch)
        if self._bytes >= self._chunk_bytes_max or len(self._runs) >= chunk.ENTRIES_MAX // 2:
            self.seal_chunk()

    def add_statement(self, statement: chunk.LogRun) -> None:
        """Add a statement about a log, behind all that was added before."""
        if self._runs:
            self.seal_chunk()
        partition_id, kind, offset, count = statement[:4]
        self._statements.append(chunk.ENTRY.pack(partition_id, kind, offset, count, 0, 0, 0, -1))
        if len(self._statements) >= chunk.ENTRIES_MAX // 2:
            self.seal_chunk()

    def state_start(self, partition_id: int, offset: int) -> None:
        """State where a log starts of which nothing was added yet: before all that will be."""
        self._statements.append(chunk.ENTRY.pack(partition_id, chunk.START_MOVED, offset, 0, 0, 0, 0, -1))

    def seal_chunk(self) -> None:
        """Write what was collected as one chunk. Raises StorageShortage, FlushFailed, StorageError."""
        runs, self._runs = self._runs, {}
        entries, self._statements = self._statements, []
        if not runs and not entries:
            return
        payload_bytes, self._bytes = 0, 0
        buffers: list[Buffer] = [b""]
        for partition_id, run in runs.items():
            count = run.end_offset - run.base_offset
            fields = (run.base_offset, count, payload_bytes, run.bytes, len(run.batches), run.max_timestamp_ms)
            entries.append(chunk.ENTRY.pack(partition_id, chunk.BATCHES, *fields))
            extents = self.index.of(partition_id)
            extents.add(run.base_offset, run.end_offset, self.position, run.bytes, run.max_timestamp_ms)
            payload_bytes += run.bytes
            buffers += run.batches
        digest = chunk.digest_of(batch[CRC_AT:CRC_START] for batch in buffers[1:])
        buffers[0] = chunk.encode_header(
            self.position, self._leader_epoch, self._append_time_ms, entries, payload_bytes, digest=digest
        )
        self._file.write(buffers, self.position - self._base_position)
        total_bytes = len(buffers[0]) + payload_bytes
        self.position += total_bytes
        self._unflushed_bytes += total_bytes
        if self._unflushed_bytes >= FLUSH_BYTES:
            self._file.flush()
            self._unflushed_bytes = 0

    def publish(self, range_end: int, generation: int) -> SegmentName:
        """Give it its name; durable on return. Raises StorageShortage, FlushFailed, StorageError."""
        self.seal_chunk()
        self._file.flush()
        self._file.close()
        name = SegmentName(self._base_position, range_end, self.position - self._base_position, generation)
        path = self._directory / name.file_name
        # First the index: its name differs from that of other content, and a start removes it if no segment follows.
        replace_file(self._disk, path.with_suffix(".index"), encode_index(self.index, self.position))
        self._disk.rename(self._directory / CLEANING_NAME, path)
        self._disk.sync_directory(self._directory)
        return name

    def close(self) -> None:
        """Leave it as it is: the next cleaning, or the next start, removes it."""
        self._file.close()

    def discard(self) -> None:
        """Remove it: it is not wanted, or cannot be finished. What cannot be removed now a start removes."""
        self._file.close()
        with contextlib.suppress(StorageError):
            self._disk.unlink(self._directory / CLEANING_NAME)
