"""Batches that were turned into messages, kept for the next pull.

Strategy: several groups read the same batches at about the same time, and one group reads a large batch by several
pulls. So a batch is turned into messages once, as far as a pull has asked, and goes on from there. The oldest are
forgotten; a batch that alone would take much of the room is not kept, and its records in front of a pull's offset are
passed over.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from hutong.broker.rocketmq.records.stored_forms import QueueOfForms
from hutong.broker.rocketmq.records.stored_runs import RunBounds, StoredRun, next_run
from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.batch.records import BatchHeader, unpacked_records

KEPT_BYTES_MAX: Final = 8 * 1024 * 1024
BATCH_BYTES_MAX: Final = 1024 * 1024  # of one that is kept
RECORD_BYTES: Final = 200  # of a message around its record: its other form, its properties, Python's objects


class RunPart(NamedTuple):
    """The messages of a run from a place on: at least one."""

    run: StoredRun
    place: int


class ConvertedBatch:
    """One batch. `size` is what it takes in memory once all of it is turned into messages, nearly."""

    __slots__ = ("_broken", "_data", "_header", "_left", "_position", "_queue", "_runs", "size")

    def __init__(self, header: BatchHeader, batch: Buffer, queue: QueueOfForms) -> None:
        """Raises ProtocolError, LimitExceeded, UsageError, as `unpacked_records`."""
        # Of a forged header: the compiled pass counts down to none.
        if header.record_count < 0:
            raise ProtocolError(f"a record batch of {header.record_count} records")
        self._data = unpacked_records(header, batch)
        self.size = 2 * len(self._data) + RECORD_BYTES * header.record_count
        self._header = header
        self._queue = queue
        self._runs: list[StoredRun] = []
        self._position = 0
        self._left = header.record_count  # records
        self._broken: str | None = None

    def begin_at(self, offset: int, messages_max: int, bytes_max: int) -> Iterator[RunPart]:
        """The messages from an offset on, by runs within these bounds, or larger ones. Raises ProtocolError."""
        runs = self._runs
        at = bisect_left(runs, offset, key=_last_offset)
        # What is kept begins at the first record: the next reader may begin there.
        # A run of the reader's size: one that is larger would be work for nobody.
        bounds = RunBounds(offset if self.size > BATCH_BYTES_MAX else self._header.base_offset, messages_max, bytes_max)
        while True:
            while at < len(runs):
                offsets = runs[at].offsets
                place = bisect_left(offsets, offset)
                # Only a forged batch has offsets that do not rise.
                if place < len(offsets):
                    yield RunPart(runs[at], place)
                at += 1
            if not self._left and self._broken is None:
                return
            self._extend(bounds)

    def _extend(self, bounds: RunBounds) -> None:
        """Turn some more records into messages. Raises ProtocolError."""
        # Each reader gets the error that the first one has met: the records behind it are not passed over.
        if self._broken is not None:
            raise ProtocolError(self._broken)
        try:
            run = next_run(self._data, self._header, self._queue, self._position, self._left, bounds)
        except ProtocolError as error:
            self._broken = str(error)
            raise
        if run.places:
            self._runs.append(run)
        self._position = run.position
        self._left -= run.walked
        # Who has enough messages does not hear of it.
        if not self._left and self._position != len(self._data):
            self._broken = "a record batch has bytes after its last record"


def _last_offset(run: StoredRun) -> int:
    offset: int = run.offsets[-1]
    return offset


class ConvertedBatches:
    """The batches of a node that were turned into messages last."""

    def __init__(self) -> None:
        self._batches: dict[tuple[int, int, int, str], ConvertedBatch] = {}
        self._bytes = 0

    def of(self, header: BatchHeader, batch: Buffer, queue: QueueOfForms) -> ConvertedBatch:
        """The messages of a batch. Raises ProtocolError, LimitExceeded, UsageError."""
        # The CRC, since another leader may have written other records at the same offset.
        key = queue.log_id, header.base_offset, header.crc, queue.topic
        found = self._batches.get(key)
        if found is None:
            found = ConvertedBatch(header, batch, queue)
            if found.size <= BATCH_BYTES_MAX:
                self._keep(key, found)
        return found

    def _keep(self, key: tuple[int, int, int, str], batch: ConvertedBatch) -> None:
        self._batches[key] = batch
        self._bytes += batch.size
        while self._bytes > KEPT_BYTES_MAX:
            self._bytes -= self._batches.pop(next(iter(self._batches))).size
