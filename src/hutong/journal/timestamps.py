"""Searching a log by time: the first record at or after a timestamp, the record with the greatest one.

Strategy: coarse to fine. Spans and extents know their greatest timestamp, a chunk's entry knows its run's, a batch its
own; only the one batch that must hold the answer is decoded. Segments are searched one after the other, so at most one
is read at a time.

A batch that cannot be decoded (its codec is not installed, a producer's records are malformed) answers with its own
header: the offset of its first record, which is never too late.
"""

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import HutongError, LimitExceeded, ProtocolError, UsageError
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
        self._next(
            iter([span for span in self._spans() if span.max_timestamp_ms >= timestamp_ms]),
            lambda extents: [extent for extent in _all(extents) if extent.max_timestamp_ms >= timestamp_ms],
            lambda walk: self._first_in(walk, timestamp_ms),
        )

    def greatest(self) -> None:
        by_timestamp = sorted(self._spans(), key=lambda span: (-span.max_timestamp_ms, span.base_position))
        self._next(iter(by_timestamp), lambda extents: list(_all(extents)), self._greatest_in)

    def _spans(self) -> list[Span]:
        return self._log.oldest_spans(sys.maxsize)

    def _next(
        self,
        spans: Iterator[Span],
        select: Callable[[Extents], list[Extent]],
        work: Callable[[Walk], Found],
    ) -> None:
        span = next(spans, None)
        if span is None:
            self._then(NOT_FOUND)
            return

        def looked(outcome: Found | HutongError) -> None:
            if outcome == NOT_FOUND:
                self._next(spans, select, work)
            else:
                self._then(outcome)

        self._reader.read(self._log.plan_search(span, select, work), looked)

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
            if extent.max_timestamp_ms <= best[0]:
                break
            for run in walk.runs([extent]):
                if run.max_timestamp_ms <= best[0]:
                    continue
                for header, batch in iterate_batches(walk.view(run)):
                    if header.max_timestamp_ms > best[0]:
                        visible = [found for found in _records_of(header, batch) if self._is_visible(found[1])]
                        best = max([best, *visible], key=lambda found: found[0])
        return best

    def _is_visible(self, offset: int) -> bool:
        return self._start_offset <= offset < self._limit


def _all(extents: Extents) -> Iterator[Extent]:
    return (extents[number] for number in range(len(extents)))


def _records_of(header: BatchHeader, batch: memoryview) -> list[Found]:
    try:
        return [(record.timestamp_ms, record.offset) for record in iterate_records(batch)]
    except (ProtocolError, LimitExceeded, UsageError):
        return [(header.max_timestamp_ms, header.base_offset)]
