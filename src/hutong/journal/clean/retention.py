"""What may go: which records of a log are too old or too many, and which segments hold nothing alive any more.

Strategy: the unit is a log's span, its share of one segment, as Kafka's is the segment file: a span goes when its
greatest timestamp is too old, or when the log without it is still as large as it may be. Only the start of a log
moves; bytes go when every log has moved past a whole segment, oldest segment first. So that they go at all, a segment
is closed when it has grown old for one of its logs or holds much of one, however quiet the journal is.

Pure: decides, and removes nothing. A look at a log costs as many spans as go, and one more.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hutong.journal.files.spans import Span
from hutong.journal.log import PartitionLog

UNLIMITED: Final = -1


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """How long, in milliseconds, and how much, in bytes, a log keeps; -1 is for ever and everything.

    `roll_ms` and `roll_bytes` say when the segment that is being written is to be closed for this log's sake: when it
    was begun so long ago, or holds so much of the log; -1 is never.
    """

    retention_ms: int = UNLIMITED
    retention_bytes: int = UNLIMITED
    roll_ms: int = UNLIMITED
    roll_bytes: int = UNLIMITED

    def is_unlimited(self) -> bool:
        return self.retention_ms < 0 and self.retention_bytes < 0

    def is_full(self, age_ms: int, held_bytes: int) -> bool:
        """Whether a segment that was begun `age_ms` ago and holds so much of the log is to be closed."""
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
    """Whether a log still keeps something of the oldest segment, which begins at `base_position`."""
    span = log.oldest_span()
    return span is not None and span.base_position <= base_position and log.start_offset < span.end_offset
