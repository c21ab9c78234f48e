"""The window of a partition in which a share group is at work, as runs of offsets of the same state.

    start_offset <= ... runs, without a gap ... < end_offset
    all before it is finished          none from it on was handed out yet

Strategy: a sorted list of runs; adjacent offsets of the same state are one run, so what is kept is bounded by twice the
number of offsets that are not done, however far the window reaches. A change cuts the runs at its ends and joins them
again.

Knows nothing of why a run changes, nor of time.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final


class ShareRecordState(IntEnum):
    """Kafka's numbers, as they are stored; 3 is ours for what waits for its dead letter."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    BURYING = 3
    ARCHIVED = 4


DONE: Final = frozenset({ShareRecordState.ACKNOWLEDGED, ShareRecordState.ARCHIVED})


@dataclass(frozen=True, slots=True)
class OffsetRun:
    """Offsets `first` to `last`, both included.

    `member_id` and `deadline_ms` are those of an acquired run; `is_rejected` says of a burying one that a member
    refused it, else it was delivered too often.
    """

    first: int
    last: int
    state: ShareRecordState
    deliveries: int = 0
    member_id: str = ""
    deadline_ms: int = 0
    is_rejected: bool = False

    def __len__(self) -> int:
        return self.last - self.first + 1

    def is_like(self, other: "OffsetRun") -> bool:
        """Return True if the two may become one run. Outcome and deliveries of finished records don't matter."""
        if self.state in DONE or other.state in DONE:
            return self.state in DONE and other.state in DONE
        return (
            self.state is other.state
            and self.deliveries == other.deliveries
            and self.member_id == other.member_id
            and self.deadline_ms == other.deadline_ms
            and self.is_rejected == other.is_rejected
        )


RunChange = Callable[[OffsetRun], OffsetRun]


class DeliveryWindow:
    """The runs between two offsets."""

    __slots__ = ("_runs", "end_offset", "start_offset", "unfinished")

    def __init__(self, start_offset: int, runs: Iterable[OffsetRun] = ()) -> None:
        self._runs: list[OffsetRun] = []
        self.start_offset = start_offset
        for run in runs:
            _push(self._runs, run)
        self.end_offset = self._runs[-1].last + 1 if self._runs else start_offset
        self.unfinished = sum(len(run) for run in self._runs if run.state not in DONE)  # offsets that are not done
        self.trim()

    def __iter__(self) -> Iterator[OffsetRun]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def between(self, first: int, last: int) -> Iterator[OffsetRun]:
        """The parts of runs between `first` and `last`, oldest first."""
        for index in range(self._index(first), len(self._runs)):
            run = self._runs[index]
            if run.first > last:
                return
            if run.last >= first:
                yield _cut(run, first, last)

    def first_available(self) -> int | None:
        """The first offset that is available again, of those handed out before."""
        return next((run.first for run in self._runs if run.state is ShareRecordState.AVAILABLE), None)

    def extend(self, end_offset: int) -> None:
        """Extend the window by offsets that no member has had yet."""
        if end_offset > self.end_offset:
            _push(self._runs, OffsetRun(self.end_offset, end_offset - 1, ShareRecordState.AVAILABLE))
            self.unfinished += end_offset - self.end_offset
            self.end_offset = end_offset

    def change(self, first: int, last: int, change: RunChange) -> None:
        """Replace each part of a run between `first` and `last` by the result of `change`."""
        low = max(0, self._index(first) - 1)  # the run before may be joined
        high, pieces = low, list[OffsetRun]()
        while high < len(self._runs):
            run = self._runs[high]
            if run.first > last + 1:
                break
            for piece in _pieces(run, first, last, change):
                self.unfinished += len(piece) * (piece.state not in DONE)
                _push(pieces, piece)
            self.unfinished -= len(run) * (run.state not in DONE)
            high += 1
        self._runs[low:high] = pieces

    def trim(self) -> bool:
        """Remove finished runs at the start. True if there were any."""
        done = 0
        while done < len(self._runs) and self._runs[done].state in DONE:
            done += 1
        if not done:
            return False
        self.start_offset = self._runs[done - 1].last + 1
        del self._runs[:done]
        return True

    def forget_before(self, offset: int) -> None:
        """Let the window start at `offset`, or later."""
        if offset <= self.start_offset:
            return
        kept = [run if run.first >= offset else replace(run, first=offset) for run in self._runs if run.last >= offset]
        self._runs = kept
        self.unfinished = sum(len(run) for run in kept if run.state not in DONE)
        self.start_offset = offset
        self.end_offset = max(self.end_offset, offset)
        self.trim()

    def check_invariants(self) -> None:
        position = self.start_offset
        for before, run in zip([None, *self._runs], self._runs, strict=False):
            assert run.first == position <= run.last
            assert before is None or not before.is_like(run)
            assert (run.state is ShareRecordState.ACQUIRED) == bool(run.member_id)
            position = run.last + 1
        assert position == self.end_offset
        assert not self._runs or self._runs[0].state not in DONE
        assert self.unfinished == sum(len(run) for run in self._runs if run.state not in DONE)
        assert len(self._runs) <= 2 * self.unfinished

    def _index(self, offset: int) -> int:
        """Of the run that holds `offset`, or of the first one."""
        return max(0, bisect_right(self._runs, offset, key=lambda run: run.first) - 1)


def _cut(run: OffsetRun, first: int, last: int) -> OffsetRun:
    if run.first >= first and run.last <= last:
        return run
    return replace(run, first=max(run.first, first), last=min(run.last, last))


def _pieces(run: OffsetRun, first: int, last: int, change: RunChange) -> Iterator[OffsetRun]:
    """Split a run: the part before, the changed part between, the part after."""
    if run.last < first or run.first > last:
        yield run
        return
    if run.first < first:
        yield replace(run, last=first - 1)
    yield change(_cut(run, first, last))
    if run.last > last:
        yield replace(run, first=last + 1)


def _push(runs: list[OffsetRun], run: OffsetRun) -> None:
    """Add a run behind the others, as part of the last one where they are alike."""
    if runs and runs[-1].is_like(run):
        runs[-1] = replace(runs[-1], last=run.last)
    else:
        runs.append(run)
