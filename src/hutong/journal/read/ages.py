"""The approximate timestamp of the record at an offset, from memory alone: for lag in seconds.

Strategy: in the cache the header of a batch has it. For the rest the index knows the greatest timestamp of each extent,
and the spans that of each closed segment; between two of those the timestamp is interpolated by offset. So an answer
costs a bisection or two for a log of any size.

Knows nothing of files and reads none. Timestamps are what the records carry: their producer's clock, or ours.
"""

from typing import Final

from hutong.foundation.regions import RegionCache
from hutong.journal.files.spans import LogSpans
from hutong.journal.format.index import Extents
from hutong.journal.read.runs import CachedRuns
from hutong.wire.kafka.batch.records import parse_batch_header

UNKNOWN: Final = -1


def cached_timestamp(cache: RegionCache, runs: CachedRuns, offset: int) -> int:
    """The first timestamp of the run that holds `offset`, where the cache holds it; else UNKNOWN.

    A run came in one loop iteration, so its records are of one moment.
    """
    header = runs.header_near(cache, offset)
    return UNKNOWN if header is None else parse_batch_header(header).base_timestamp_ms


def indexed_timestamp(offset: int, spans: LogSpans, extents: Extents | None) -> int:
    """Estimate the timestamp of the record at `offset`, or of the next one; UNKNOWN if there is none."""
    number = spans.number_for(offset)
    if number < len(spans):
        span = spans[number]
        before = spans[number - 1].max_timestamp_ms if number else UNKNOWN
        return _between(before, span.max_timestamp_ms, offset, span.first_offset, span.end_offset)
    if extents is None or offset >= extents.end_offset:
        return UNKNOWN
    before = spans[number - 1].max_timestamp_ms if number else UNKNOWN
    number = extents.number_for(offset)
    if number:
        before = extents.max_timestamps[number - 1]
    is_last = number + 1 == len(extents)
    end_offset = extents.end_offset if is_last else extents.base_offsets[number + 1]
    return _between(before, extents.max_timestamps[number], offset, extents.base_offsets[number], end_offset)


def _between(before_ms: int, greatest_ms: int, offset: int, first_offset: int, end_offset: int) -> int:
    """Interpolate one timestamp between `before_ms` and `greatest_ms`, as if they rose evenly."""
    if before_ms == UNKNOWN or before_ms >= greatest_ms:
        return greatest_ms
    place = max(offset, first_offset) - first_offset + 1
    return before_ms + (greatest_ms - before_ms) * place // max(1, end_offset - first_offset)
