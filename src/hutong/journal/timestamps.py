"""Searching a log by time: the first record at or after a timestamp, the record with the greatest one.

Strategy: coarse to fine. Spans and extents know their greatest timestamp, a chunk's entry knows its run's, a batch its
own; only the one batch that must hold the answer is decoded. Segments are searched one after the other, so at most one
is read at a time.

A batch that cannot be decoded (its codec is not installed, a producer's records are malformed) answers with its own
header: the offset of its first record, which is never too late.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import HutongError, LimitExceeded, ProtocolError, StorageError, UsageError
from hutong.journal.index import Extent, Extents
from hutong.journal.reader import Reader
from hutong.journal.spans import Span
from hutong.journal.walk import Walk
from hutong.wire.kafka.records import BatchHeader, iterate_batches, iterate_records

if TYPE_CHECKING:
    from hutong.journal.log import PartitionLog

Found = tuple[int, int]  # timestamp in ms, offset
NOT_FOUND: Final[Found] = (-1, -1)


class TimestampSearch:
    """One search. `then` gets what was found, NOT_FOUND, or a StorageError."""

    def __init__(self, log: "PartitionLog", reader: Reader, then: Callable[[Found | HutongError], None]) -> None:
        self._log = log
        self._reader = reader
        self._then = then
        self._start_offset = log.start_offset
        self._limit = log.high_watermark

    def first_from(self, timestamp_ms: int) -> None:
        self._look(
            iter([span for span in self._spans() if span.max_timestamp_ms >= timestamp_ms]),
            lambda extents: [extent for extent in _all(extents) if extent.max_timestamp_ms >= timestamp_ms],
            lambda walk: self._first_in(walk, timestamp_ms),
            lambda span, best: best == NOT_FOUND,
            NOT_FOUND,
        )

    def greatest(self) -> None:
        self._look(
            iter(sorted(self._spans(), key=lambda span: (-span.max_timestamp_ms, span.first_offset))),
            lambda extents: list(_all(extents)),
            self._greatest_in,
            lambda span, best: _may_beat(span.max_timestamp_ms, span.first_offset, best),
            NOT_FOUND,
        )

    def _spans(self) -> list[Span]:
        return list(self._log.all_spans())

    def _look(
        self,
        spans: Iterator[Span],
        select: Callable[[Extents], list[Extent]],
        work: Callable[[Walk], Found],
        is_worth: Callable[[Span, Found], bool],
        best: Found,
    ) -> None:
        """Look into the next span, as long as one is worth it."""
        span = next(spans, None)
        if span is None or not is_worth(span, best):
            self._then(best)
            return

        def looked(outcome: Found | HutongError) -> None:
            if isinstance(outcome, HutongError):
                self._then(outcome)
            else:
                self._look(spans, select, work, is_worth, max(best, outcome, key=_rank))

        try:
            search = self._log.plan_search(span, select, work)
        except StorageError:  # retention or cleaning has removed it since
            self._look(spans, select, work, is_worth, best)
        else:
            self._reader.read(search, looked)

    def _first_in(self, walk: Walk, timestamp_ms: int) -> Found:
        for run in walk.runs(walk.extents):
            if run.max_timestamp_ms < timestamp_ms or run.end_offset <= self._start_offset:
                continue
            for header, batch in iterate_batches(walk.view(run)):
                if header.max_timestamp_ms < timestamp_ms:
                    continue
                for found in _records_of(header, batch):
                    if found[0] >= timestamp_ms and self._is_visible(found[1]):
                        return found
        return NOT_FOUND

    def _greatest_in(self, walk: Walk) -> Found:
        best = NOT_FOUND
        for extent in sorted(walk.extents, key=lambda extent: (-extent.max_timestamp_ms, extent.base_offset)):
            if not _may_beat(extent.max_timestamp_ms, extent.base_offset, best):
                break
            for run in walk.runs([extent]):
                if not _may_beat(run.max_timestamp_ms, run.base_offset, best):
                    continue
                for header, batch in iterate_batches(walk.view(run)):
                    if _may_beat(header.max_timestamp_ms, header.base_offset, best):
                        visible = (found for found in _records_of(header, batch) if self._is_visible(found[1]))
                        best = max(best, *visible, NOT_FOUND, key=_rank)
        return best

    def _is_visible(self, offset: int) -> bool:
        return self._start_offset <= offset < self._limit


def _rank(found: Found) -> tuple[int, int]:
    """Of equal timestamps the first record is the answer."""
    return found[0], -found[1]


def _may_beat(max_timestamp_ms: int, first_offset: int, best: Found) -> bool:
    """Whether something that begins at `first_offset` may hold a better answer.

    What is promised may belong to records that were trimmed or are not visible yet, so a promise alone ends no search.
    """
    return max_timestamp_ms > best[0] or (max_timestamp_ms == best[0] and first_offset < best[1])


def _all(extents: Extents) -> Iterator[Extent]:
    return (extents[number] for number in range(len(extents)))


def _records_of(header: BatchHeader, batch: memoryview) -> list[Found]:
    try:
        return [(record.timestamp_ms, record.offset) for record in iterate_records(batch)]
    except (ProtocolError, LimitExceeded, UsageError):
        return [(header.max_timestamp_ms, header.base_offset)]
