"""The decision to clean: which compacted logs are due, and whether cleaning them is worth the work.

Strategy: as Kafka's. The part of a log before its clean offset holds each key once; everything after it is dirty. A log
is due once its dirty share is large, or once its oldest dirty record has waited too long. Records younger than the
least lag, or in the segment that is being written, cannot be cleaned yet. One cleaning covers every log of the journal
with something to gain, since they share segments. For the same reason a small log among large ones waits until the
gain is worth rewriting the bytes around it.

Pure: decides, and cleans nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from hutong.journal.files.segment import Segment
from hutong.journal.log import PartitionLog

UNLIMITED: Final = -1
DAY_MS: Final = 86_400_000
WORTH_SHARE: Final = 1 / 20
"""Of the bytes that would be rewritten, at least this share must be dirty."""
GARBAGE_SHARE: Final = 1 / 2
"""A segment with more garbage than this share of its batches is rewritten for that alone."""
CHEAP_BYTES: Final = 16 * 1024 * 1024  # may be rewritten whatever the gain


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """The settings of a compacted log. Times in milliseconds, -1 is for ever."""

    min_lag_ms: int = 0  # a record is left alone for so long
    max_lag_ms: int = UNLIMITED  # and cleaning is due after so long
    delete_retention_ms: int = DAY_MS  # a tombstone stays for so long after it was first cleaned
    min_dirty_ratio: float = 0.5


class LogShare(NamedTuple):
    """One log as a decision sees it: offsets from `clean_offset` to before `limit_offset` are dirty and may be cleaned.

    `limit_position` is where the first segment begins that may not be touched for its sake. `is_overdue` says that
    something has waited too long.
    """

    partition_id: int
    clean_offset: int
    limit_offset: int
    limit_position: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    min_dirty_ratio: float

    @property
    def dirty_ratio(self) -> float:
        return self.dirty_bytes / max(1, self.clean_bytes + self.dirty_bytes)

    @property
    def is_due(self) -> bool:
        return self.dirty_bytes > 0 and (self.is_overdue or self.dirty_ratio >= self.min_dirty_ratio)


class CompactionDecision(NamedTuple):
    """The logs to clean, the most rewarding first, in the segments that begin before `end_position`.

    The segments that begin at the `garbage` positions are written again even if none of the logs has anything there.
    """

    shares: list[LogShare]
    end_position: int
    garbage: frozenset[int] = frozenset()


def share_of(log: PartitionLog, policy: CompactionPolicy, now_ms: int, closed_position: int) -> LogShare:
    """The part of a log that may be cleaned, in the segments that begin before `closed_position`.

    Records without a timestamp, or with one in the future, count as young: only a lag of zero includes them. Segments
    with data of an open transaction are left out whole.
    """
    spans = log.spans
    first, last = spans.number_for(max(log.clean_offset, log.start_offset)), spans.count_before(closed_position)
    # Behind the last stable offset it is not decided yet which records were aborted.
    if log.transactions is not None:
        last = min(last, spans.number_for(log.last_stable_offset))
    if policy.min_lag_ms > 0:
        # A range also excludes -1, the mark of a segment without timestamps.
        old_enough = range(now_ms - policy.min_lag_ms + 1)
        last = next((number for number in range(first, last) if spans[number].max_timestamp_ms not in old_enough), last)
    limit_offset, limit_position, is_overdue = log.clean_offset, 0, False
    if first < last:
        newest = spans[last - 1]
        limit_offset, limit_position = newest.end_offset, newest.base_position + 1
        # KIP-354: `max.compaction.lag.ms` bounds how long deleted data may stay.
        is_overdue = policy.max_lag_ms >= 0 and 0 <= spans[first].max_timestamp_ms <= now_ms - policy.max_lag_ms
    return LogShare(
        log.partition_id,
        log.clean_offset,
        limit_offset,
        limit_position,
        spans.bytes_between(0, first),
        spans.bytes_between(first, last),
        is_overdue,
        policy.min_dirty_ratio,
    )


def decide(shares: Iterable[LogShare], segments: Iterable[tuple[int, int]]) -> CompactionDecision | None:
    """The logs to clean now, None if nothing is due. `segments`: base position and size of each closed one."""
    cleanable = [share for share in shares if share.dirty_bytes > 0]
    due = [share for share in cleanable if share.is_due]
    if not due:
        return None
    # Logs that are not due come along: they share the segments that are rewritten anyway.
    chosen = sorted(cleanable, key=lambda share: (-share.is_overdue, -share.dirty_ratio, share.partition_id))
    end_position = max(share.limit_position for share in chosen)
    passed_bytes = sum(size for base_position, size in segments if base_position < end_position)
    is_worth = sum(share.dirty_bytes for share in chosen) >= WORTH_SHARE * (passed_bytes - CHEAP_BYTES)
    # A promise of `max.compaction.lag.ms` is kept whatever it costs.
    if not is_worth and not any(share.is_overdue for share in due):
        return None
    return CompactionDecision(chosen, end_position)


def garbage(logs: Iterable[PartitionLog], segments: Iterable[Segment]) -> set[int]:
    """The base positions of the closed segments that are mostly garbage.

    Garbage is the data of deleted logs, and the data before the start of others, but what cleaning must keep of them.
    """
    dead_bytes, held_bytes = {}, {}
    for segment in segments:
        dead_bytes[segment.base_position] = segment.dead_bytes - segment.kept_bytes
        held_bytes[segment.base_position] = segment.held_bytes
    for log in logs:
        # Spans before the log's start hold only deleted records.
        for number in range(log.spans.number_for(log.start_offset)):
            span = log.spans[number]
            if span.base_position in dead_bytes:
                dead_bytes[span.base_position] += span.bytes
    return {base for base, dead in dead_bytes.items() if dead > GARBAGE_SHARE * held_bytes[base]}
