"""Reads of a log's records: one by its offset, or all of them from one offset to another.

From memory, or from the disk by a worker. What is read was appended by the node itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import HutongError, Refused
from hutong.journal.log import DiskRead
from hutong.wire.kafka.batch.records import iterate_batches, iterate_records
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hutong.foundation.waiting.pending import Continuation
    from hutong.journal.log import PartitionLog
    from hutong.wire.kafka.batch.records import Record

SCAN_BYTES: Final = 256 * 1024  # of one read: about 10 ms of the loop


def read_record(log: PartitionLog, offset: int, then: Continuation[Record]) -> None:
    """Read the record at an offset; `then` gets it, or the error."""

    def found(outcome: Sequence[memoryview] | HutongError) -> None:
        if isinstance(outcome, HutongError):
            then(outcome)
            return
        try:
            record = next((record for record in records_of(outcome) if record.offset == offset), None)
        except HutongError as error:
            then(error)
            return
        then(Refused(ErrorCode.OFFSET_OUT_OF_RANGE, f"No record is at {offset}.") if record is None else record)

    read_batches(log, offset, 1, found)


def read_batches(log: PartitionLog, offset: int, bytes_max: int, then: Continuation[Sequence[memoryview]]) -> None:
    """Read the batches from the one on that holds an offset: at least one, if there is one."""
    try:
        found = log.read(offset, bytes_max)
    except HutongError as error:
        then(error)
        return
    if isinstance(found, DiskRead):
        log.read_from_disk(found, then)
    else:
        then(found.buffers)


def records_of(buffers: Sequence[memoryview]) -> Iterator[Record]:
    """The records of batches, without markers. Raises HutongError for a batch that cannot be read."""
    for buffer in buffers:
        for header, batch in iterate_batches(buffer):
            if not header.is_control:
                yield from iterate_records(batch)


class LogScan:
    """A pass over the records of a log, up to where it ends now. `take` gets each; `then` is called at the end."""

    def __init__(
        self,
        log: PartitionLog,
        take: Callable[[Record], None],
        post: Callable[[Callable[[], None]], object],
        then: Continuation[None],
    ) -> None:
        """`post` does work in a later iteration of the loop: between two reads others have their turn."""
        self._log = log
        self._take = take
        self._post = post
        self._then = then
        self._offset = log.start_offset
        self._end_offset = log.high_watermark

    def step(self) -> None:
        """Read the next records."""
        if self._offset >= self._end_offset:
            self._then(None)
            return
        read_batches(self._log, self._offset, SCAN_BYTES, self._read)

    def _read(self, outcome: Sequence[memoryview] | HutongError) -> None:
        if isinstance(outcome, HutongError):
            self._then(outcome)
            return
        begin_offset = self._offset
        try:
            for buffer in outcome:
                for header, batch in iterate_batches(buffer):
                    self._take_batch(batch, is_control=header.is_control)
                    self._offset = max(self._offset, header.last_offset + 1)
        except HutongError as error:
            self._then(error)
            return
        # Nothing was read: the rest was cut off.
        if self._offset == begin_offset:
            self._then(None)
            return
        self._post(self.step)

    def _take_batch(self, batch: memoryview, *, is_control: bool) -> None:
        # A read begins with the batch that has the offset.
        for record in iterate_records(batch) if not is_control else ():
            if record.offset >= self._offset:
                self._take(record)
