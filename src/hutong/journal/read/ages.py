"""About when the record at an offset was written, from what is in memory alone: for lag in seconds.

Strategy: what is still in the cache says it itself, by the header of a batch. Of the rest the index knows the
greatest timestamp of each extent, and the spans that of each closed segment; between two of those a record is taken to
lie where its offset lies between theirs. So an answer costs a bisection or two, whatever the size of the log.

Knows nothing of files and reads none. Timestamps are what the records carry: their producer's clock, or ours.
"""

from typing import Final

from hutong.foundation.regions import RegionCache
from hutong.journal.files.spans import LogSpans
from hutong.journal.format.index import Extents
from hutong.journal.read.runs import CachedRuns
from hutong.wire.kafka.records import parse_batch_header

UNKNOWN: Final = -1


def cached_timestamp(cache: RegionCache, hot: CachedRuns, offset: int) -> int:
    """The first timestamp of the run that holds `offset`, where the cache holds it; else UNKNOWN.

    A run is what one turn of the loop took in, so its records are of one moment.
    """
    header = hot.header_near(cache, offset)
    return UNKNOWN if header is None else parse_batch_header(header).base_timestamp_ms


def indexed_timestamp(offset: int, spans: LogSpans, extents: Extents | None) -> int:
    """About the timestamp of what is at `offset`, or of the next that is there; UNKNOWN where nothing is."""
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
    """Of records whose timestamps rise evenly from behind `before_ms` to `greatest_ms`, that of one."""
    if before_ms == UNKNOWN or before_ms >= greatest_ms:
        return greatest_ms
    place = max(offset, first_offset) - first_offset + 1
    return before_ms + (greatest_ms - before_ms) * place // max(1, end_offset - first_offset)
