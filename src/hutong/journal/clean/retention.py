"""The decision of retention: which records of a log are too old or too many, and which segments are dead.

Strategy: the unit is a log's span, its share of one segment, as Kafka's is the segment file: a span goes when its
greatest timestamp is too old, or when the log without it is still as large as it may be. Only the start of a log
moves; bytes are removed when every log has moved past a whole segment, oldest segment first. A segment must be closed
for that, so it is when it is too old, or holds too much, for one of its logs, even in a quiet journal.

Pure: decides, and removes nothing. A check of a log costs one step for each span that it gives up, and one more.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hutong.journal.files.spans import Span
from hutong.journal.log import PartitionLog

UNLIMITED: Final = -1


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """The time in milliseconds and the bytes that a log keeps; -1 is for ever and everything.

    `roll_ms` and `roll_bytes` are the age of the active segment, and the bytes of the log in it, at which it is closed
    for this log's sake; -1 is never.
    """

    retention_ms: int = UNLIMITED
    retention_bytes: int = UNLIMITED
    roll_ms: int = UNLIMITED
    roll_bytes: int = UNLIMITED

    def is_unlimited(self) -> bool:
        return self.retention_ms < 0 and self.retention_bytes < 0

    def is_full(self, age_ms: int, held_bytes: int) -> bool:
        """True if a segment of that age, with `held_bytes` of the log, is to be closed."""
        return 0 <= self.roll_ms <= age_ms or 0 <= self.roll_bytes <= held_bytes


def retained_from(
    spans: Iterable[Span], held_bytes: int, start_offset: int, end_offset: int, policy: RetentionPolicy, now_ms: int
) -> int:
    """The offset from which on a log is kept, given its spans, oldest first, what they hold, and where it ends.

    A span without timestamps (-1) never grows old, since nobody knows when it was.
    """
    for span in spans:
        if span.end_offset > end_offset:
            break
        is_old = policy.retention_ms >= 0 and 0 <= span.max_timestamp_ms < now_ms - policy.retention_ms
        is_surplus = policy.retention_bytes >= 0 and held_bytes - span.bytes >= policy.retention_bytes
        if not is_old and not is_surplus and span.end_offset > start_offset:
            break
        held_bytes -= span.bytes
        start_offset = max(start_offset, span.end_offset)
    return start_offset


def is_alive(log: PartitionLog, base_position: int) -> bool:
    """True if a log still keeps something of the oldest segment, which begins at `base_position`."""
    span = log.oldest_span()
    return span is not None and span.base_position <= base_position and log.start_offset < span.end_offset
