"""What may go: which records of a log are too old or too many, and which segments hold nothing alive any more.

Strategy: the unit is a log's span, its share of one segment, as Kafka's is the segment file: a span goes when its
greatest timestamp is too old, or when the log without it is still as large as it may be. Only the start of a log
moves; bytes go when every log has moved past a whole segment, oldest segment first.

Pure: decides, and removes nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hutong.journal.spans import Span

if TYPE_CHECKING:
    from hutong.journal.log import PartitionLog

UNLIMITED: Final = -1


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """How long, in milliseconds, and how much, in bytes, a log keeps; -1 is for ever and everything."""

    retention_ms: int = UNLIMITED
    retention_bytes: int = UNLIMITED


def retained_from(
    spans: Sequence[Span], start_offset: int, end_offset: int, policy: RetentionPolicy, now_ms: int
) -> int:
    """The offset from which on a log is kept, given its spans, oldest first, and where it ends.

    A span without timestamps (-1) never grows old, since nobody knows when it was.
    """
    held_bytes = sum(span.bytes for span in spans)
    for number, span in enumerate(spans):
        following = spans[number + 1].first_offset if number + 1 < len(spans) else end_offset
        if following > end_offset:
            break
        is_old = policy.retention_ms >= 0 and 0 <= span.max_timestamp_ms < now_ms - policy.retention_ms
        is_surplus = policy.retention_bytes >= 0 and held_bytes - span.bytes >= policy.retention_bytes
        if not is_old and not is_surplus and following > start_offset:
            break
        held_bytes -= span.bytes
        start_offset = max(start_offset, following)
    return start_offset


def is_alive(log: "PartitionLog", base_position: int) -> bool:
    """Whether a log still keeps something of the oldest segment, which begins at `base_position`."""
    spans = log.oldest_spans(2)
    if not spans or spans[0].base_position > base_position:
        return False
    following = spans[1].first_offset if len(spans) > 1 else log.sealed_offset
    return log.start_offset < following


def is_dead(logs: "Iterable[PartitionLog]", base_position: int) -> bool:
    """Whether no log keeps anything of the oldest segment."""
    return not any(is_alive(log, base_position) for log in logs)
