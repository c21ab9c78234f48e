"""Searching a log by time: the first record at or after a timestamp, the record with the greatest one.

Strategy: coarse to fine. Spans and extents know their greatest timestamp, a chunk's entry knows its run's, a batch its
own; only the one batch that must hold the answer is decoded. Segments are searched one after the other, so at most one
is read at a time. The records of a batch are walked without a list of them, on the worker that reads the segment.

A batch that cannot be decoded (its codec is not installed, a producer's records are malformed, or the search has
unpacked enough already) answers with its own header: the offset of its first record, which is never too late.
"""

from collections.abc import Callable, Iterator
from typing import Final

from hutong.foundation.errors import HutongError, LimitExceeded, ProtocolError, StorageError, UsageError
from hutong.foundation.waiting.pending import Continuation
from hutong.journal.files.spans import Span
from hutong.journal.format.index import Extent, Extents
from hutong.journal.read.reader import DiskRead, JournalReader
from hutong.journal.read.walk import Walk
from hutong.wire.kafka.batch.compression import DECOMPRESSED_BYTES_MAX
from hutong.wire.kafka.batch.record_contents import first_from, greatest_in, unpack_in_place
from hutong.wire.kafka.batch.record_walk import INT64_MIN
from hutong.wire.kafka.batch.records import BatchHeader, iterate_batches

Found = tuple[int, int]  # timestamp in ms, offset
PlanSearch = Callable[[Span, Callable[[Extents], list[Extent]], Callable[[Walk], Found]], DiskRead[Found]]
NOT_FOUND: Final[Found] = (-1, -1)
UNPACKED_BYTES_MAX: Final = 2 * DECOMPRESSED_BYTES_MAX
"""In one search: a header that is wrong about its greatest timestamp makes a search try the next batch."""


class TimestampSearch:
    """One search. `then` gets what was found, NOT_FOUND, or a StorageError."""

    def __init__(
        self,
        spans: list[Span],
        start_offset: int,
        end_offset: int,
        plan: PlanSearch,
        reader: JournalReader,
        then: Continuation[Found],
    ) -> None:
        """Search the visible offsets from `start_offset` to before `end_offset`; `spans` hold them, oldest first."""
        self._spans = spans
        self._start_offset = start_offset
        self._end_offset = end_offset
        self._plan = plan
        self._reader = reader
        self._then = then
        self._unpacked_bytes_left = UNPACKED_BYTES_MAX

    def first_from(self, timestamp_ms: int) -> None:
        self._search_next(
            iter([span for span in self._spans if span.max_timestamp_ms >= timestamp_ms]),
            lambda extents: [extent for extent in _all(extents) if extent.max_timestamp_ms >= timestamp_ms],
            lambda walk: self._first_in(walk, timestamp_ms),
            lambda span, best: best == NOT_FOUND,
            NOT_FOUND,
        )

    def greatest(self) -> None:
        self._search_next(
            iter(sorted(self._spans, key=lambda span: (-span.max_timestamp_ms, span.first_offset))),
            lambda extents: list(_all(extents)),
            self._greatest_in,
            lambda span, best: _may_beat(span.max_timestamp_ms, span.first_offset, best),
            NOT_FOUND,
        )

    def _search_next(
        self,
        spans: Iterator[Span],
        select: Callable[[Extents], list[Extent]],
        work: Callable[[Walk], Found],
        is_worth: Callable[[Span, Found], bool],
        best: Found,
    ) -> None:
        """Search the next span, as long as one may hold a better answer."""
        span = next(spans, None)
        # Spans are tried in the order of promise, so the first that cannot win ends the search.
        if span is None or not is_worth(span, best):
            self._then(best)
            return

        def searched(outcome: Found | HutongError) -> None:
            if isinstance(outcome, HutongError):
                self._then(outcome)
            else:
                self._search_next(spans, select, work, is_worth, max(best, outcome, key=_rank))

        try:
            search = self._plan(span, select, work)
        except StorageError:  # retention or cleaning has removed it since
            self._search_next(spans, select, work, is_worth, best)
        else:
            self._reader.read(search, searched)

    def _first_in(self, walk: Walk, timestamp_ms: int) -> Found:
        for run in walk.runs(walk.extents):
            # The index is sparse: an extent that qualifies covers runs that do not.
            if run.max_timestamp_ms < timestamp_ms or run.end_offset <= self._start_offset:
                continue
            for header, batch in iterate_batches(walk.view(run)):
                if header.max_timestamp_ms < timestamp_ms:
                    continue
                found = self._search(header, batch, timestamp_ms)
                if found is not None:
                    return found
        return NOT_FOUND

    def _greatest_in(self, walk: Walk) -> Found:
        best = NOT_FOUND
        for extent in sorted(walk.extents, key=lambda extent: (-extent.max_timestamp_ms, extent.base_offset)):
            # Extents come by falling timestamp: none of the rest can win.
            if not _may_beat(extent.max_timestamp_ms, extent.base_offset, best):
                break
            for run in walk.runs([extent]):
                if not _may_beat(run.max_timestamp_ms, run.base_offset, best):
                    continue
                for header, batch in iterate_batches(walk.view(run)):
                    if _may_beat(header.max_timestamp_ms, header.base_offset, best):
                        best = max(best, self._search(header, batch, None) or NOT_FOUND, key=_rank)
        return best

    def _search(self, header: BatchHeader, batch: memoryview, from_ms: int | None) -> Found | None:
        """The first visible record from `from_ms` on, or the one with the greatest timestamp for None."""
        base_offset, count, base_ms = header.base_offset, header.record_count, header.base_timestamp_ms
        # Of the offsets that readers see; a forged delta may be another batch's.
        least = max(0, self._start_offset - base_offset)
        end = min(self._end_offset - base_offset, header.last_offset_delta + 1)
        if least >= end or not count:  # compaction leaves batches without records
            return None
        try:
            data, start = unpack_in_place(header, batch, min(self._unpacked_bytes_left, DECOMPRESSED_BYTES_MAX))
            # Only a copy counts: records that are not compressed are walked in place.
            if not start:
                self._unpacked_bytes_left -= len(data)
            if header.is_log_append_time:  # all records have the header's timestamp, whatever their own says
                found = first_from(data, start, count, base_ms, INT64_MIN, least, end)
            elif from_ms is not None:
                found = first_from(data, start, count, base_ms, from_ms, least, end)
            else:
                found = greatest_in(data, start, count, base_ms, least, end)
        except (ProtocolError, LimitExceeded, UsageError):
            # If the log starts inside the batch, its first record is not visible.
            return (header.max_timestamp_ms, base_offset) if not least else None
        # The timestamp that the header promises belongs to no visible record.
        if found is None:
            return None
        return header.max_timestamp_ms if header.is_log_append_time else found[0], base_offset + found[1]


def _rank(found: Found) -> tuple[int, int]:
    """The order of answers: of equal timestamps the first record wins."""
    return found[0], -found[1]


def _may_beat(max_timestamp_ms: int, first_offset: int, best: Found) -> bool:
    """True if something that begins at `first_offset` may hold a better answer.

    What is promised may belong to records that were trimmed or are not visible yet, so a promise alone ends no search.
    """
    return max_timestamp_ms > best[0] or (max_timestamp_ms == best[0] and first_offset < best[1])


def _all(extents: Extents) -> Iterator[Extent]:
    return (extents[number] for number in range(len(extents)))
