"""Batches that were turned into messages, kept for the next pull.

Strategy: several groups read the same batches at about the same time, and one group reads a large batch by several
pulls. So a batch is turned into messages once, as far as a pull has asked, and goes on from there. The oldest are
forgotten; a batch that alone would take much of the room is not kept.
"""

from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter
from typing import Final

from hutong.broker.rocketmq.records.stored_forms import QueueOfForms, StoredForm, stored_forms
from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.batch.records import BatchHeader, unpacked_records

KEPT_BYTES_MAX: Final = 8 * 1024 * 1024
BATCH_BYTES_MAX: Final = 1024 * 1024  # of one that is kept
RECORD_BYTES: Final = 200  # of a message around its record: its other form, its properties, Python's objects
_offset_of: Final = attrgetter("offset")


class ConvertedBatch:
    """One batch. `size` is what it takes in memory once all of it is turned into messages, nearly."""

    __slots__ = ("_broken", "_forms", "_rest", "size")

    def __init__(self, header: BatchHeader, batch: Buffer, queue: QueueOfForms) -> None:
        """Raises ProtocolError, LimitExceeded, UsageError, as `unpacked_records`."""
        data = unpacked_records(header, batch)
        self.size = 2 * len(data) + RECORD_BYTES * header.record_count
        self._forms: list[StoredForm] = []
        self._rest = stored_forms(data, header, queue)
        self._broken: str | None = None

    def begin_at(self, offset: int) -> Iterator[StoredForm]:
        """The messages from an offset on. Raises ProtocolError."""
        forms = self._forms
        at = bisect_left(forms, offset, key=_offset_of)
        while at < len(forms):
            yield forms[at]
            at += 1
        # Each reader gets the error that the first one has met: the records behind it are not passed over.
        if self._broken is not None:
            raise ProtocolError(self._broken)
        try:
            for form in self._rest:
                forms.append(form)
                if form.offset >= offset:
                    yield form
        except ProtocolError as error:
            self._broken = str(error)
            raise


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
