"""The preview of a reset: for each partition the offset before and after, and the reason where it is another one.

Strategy: every offset is clamped into what the log has, since a group outside of it would begin again at a
place of its consumers' own choice (`auto.offset.reset`).

Knows no client.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Place = tuple[str, int]
"""Topic and partition."""

NO_OFFSET: Final = "the group has no offset here that could be shifted"
NOT_IN_OTHER: Final = "the other group has no offset here"
NOTHING_LATER: Final = "no record is as late as that, so the end is taken"


class ResetTo(enum.StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIME = "time"
    SHIFT = "shift"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class ResetWish:
    """`value`: the offset, the time in milliseconds since 1970, or the records to shift by, negative for back."""

    to: ResetTo
    value: int = 0


@dataclass(frozen=True, slots=True)
class LogSpan:
    """The offsets of a partition that the log has, and the group's, None where it has none."""

    place: Place
    begin: int
    end: int
    committed: int | None


@dataclass(frozen=True, slots=True)
class ResetRow:
    """`after` None: the partition is left alone. `reason` says so, or that the offset was clamped."""

    place: Place
    before: int | None
    after: int | None
    begin: int
    end: int
    reason: str = ""

    @property
    def is_change(self) -> bool:
        return self.after is not None and self.after != self.before

    @property
    def again(self) -> int:
        """The records that the group would read again; negative: that it would skip. Without an offset: none."""
        return 0 if self.after is None or self.before is None else self.before - self.after


def planned(wish: ResetWish, spans: Sequence[LogSpan], found: Mapping[Place, int | None]) -> list[ResetRow]:
    """The rows of a preview. `found`: for a time the offset of the first record, for another group its offset."""
    return [_row(span, *_wanted(wish, span, found.get(span.place))) for span in spans]


def clamped(span: LogSpan, offset: int, reason: str = "") -> ResetRow:
    """The row for an offset, moved to where the log begins or ends."""
    return _row(span, offset, reason)


def _wanted(wish: ResetWish, span: LogSpan, found: int | None) -> tuple[int | None, str]:
    match wish.to:
        case ResetTo.EARLIEST:
            return span.begin, ""
        case ResetTo.LATEST:
            return span.end, ""
        case ResetTo.OFFSET:
            return wish.value, ""
        case ResetTo.TIME:
            return (span.end, NOTHING_LATER) if found is None else (found, "")
        case ResetTo.SHIFT:
            return (None, NO_OFFSET) if span.committed is None else (span.committed + wish.value, "")
        case ResetTo.GROUP:
            return (None, NOT_IN_OTHER) if found is None else (found, "")


def _row(span: LogSpan, offset: int | None, reason: str) -> ResetRow:
    after = offset
    if offset is not None and offset < span.begin:
        after, reason = span.begin, f"the log begins at {span.begin}"
    elif offset is not None and offset > span.end:
        after, reason = span.end, f"the log ends at {span.end}"
    return ResetRow(span.place, span.committed, after, span.begin, span.end, reason)
