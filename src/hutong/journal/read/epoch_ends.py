"""Searching a log for the end of a leader epoch: its first batch that a later leader has written (KIP-101, KIP-320).

Strategy: the stream knows at which position each epoch begins, so one segment at most has batches from before and from
after. In it the chunk headers are looked at, by bisection over the extents and then one by one. They name their epoch,
also where cleaning has moved them to other positions.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final

from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Continuation
from hutong.journal.files.segments import Segments
from hutong.journal.files.spans import Span
from hutong.journal.format.index import Extent, Extents
from hutong.journal.read.reader import DiskRead, JournalReader
from hutong.journal.read.walk import Walk

_NOT_HERE: Final = -1
PlanSearch = Callable[[Span, Callable[[Extents], list[Extent]], Callable[[Walk], int]], DiskRead[int]]


def find_end_of_epoch(
    epoch: int,
    position: int,
    spans: Sequence[Span],
    end_offset: int,
    segments: Segments,
    plan: PlanSearch,
    reader: JournalReader,
    then: Continuation[int],
) -> None:
    """`then` gets the offset of the first batch of a later epoch, which begins at `position`, or else `end_offset`.

    `spans` are the log's shares of all segments, oldest first. All of them are on disk.
    """
    later = bisect_left(spans, position, key=lambda span: span.base_position)
    otherwise = spans[later].first_offset if later < len(spans) else end_offset
    mixed = spans[later - 1] if later else None
    # Everything in it is of this epoch or of earlier ones.
    if mixed is not None:
        next_position = segments.at(mixed.base_position).next_position
        mixed = mixed if next_position is None or next_position > position else None
    if mixed is None:
        then(otherwise)
        return

    def searched(found: int | HutongError) -> None:
        then(otherwise if found == _NOT_HERE else found)

    reader.read(plan(mixed, _all, lambda walk: _first_after(walk, epoch)), searched)


def _all(extents: Extents) -> list[Extent]:
    return extents.between(0, len(extents))


def _first_after(walk: Walk, epoch: int) -> int:
    """The offset of the first batch of a later epoch in the segment. Runs on a worker."""
    extents = walk.extents
    number = bisect_left(extents, True, key=lambda extent: walk.epoch_of(extent) > epoch)
    # The extent before may go on into the later epoch.
    for run in walk.runs(extents[max(0, number - 1) : number]):
        if walk.leader_epoch > epoch:
            return run.base_offset
    return extents[number].base_offset if number < len(extents) else _NOT_HERE
