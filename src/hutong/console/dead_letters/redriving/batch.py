"""Letters that are read and not stored, and the progress that is true once some of them are.

Offsets without a record (markers of transactions, compaction) count as done where they follow a letter that is: so
they neither hold the progress up nor take room in it.

Decides nothing.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from hutong.bus.durable.records import OutgoingRecord, StoredRecord
from hutong.console.dead_letters.conventions.letter import DeadLetter
from hutong.console.dead_letters.redriving.messages import LetterSpan, StoreLetters
from hutong.console.dead_letters.redriving.progress import RedriveProgress
from hutong.console.dead_letters.redriving.returned import returned_record


@dataclass(frozen=True, slots=True)
class PendingLetter:
    """A letter for `target`. No record is between the offset `gap` and its own."""

    record: StoredRecord
    letter: DeadLetter
    target: str
    gap: int

    @property
    def is_in(self) -> tuple[int, int]:
        return self.record.partition, self.record.offset


def store_instruction(letters: Sequence[PendingLetter], spans: Mapping[int, LetterSpan]) -> StoreLetters:
    """The transaction for these letters."""
    progress: dict[int, RedriveProgress] = {}
    records: list[OutgoingRecord] = []
    for each in letters:
        partition, offset = each.is_in
        if partition not in progress:
            progress[partition] = spans[partition].done.copy()
        _add(progress[partition], each.gap, offset)
        records.append(returned_record(each.record, each.letter, each.target))
    return StoreLetters(records, progress)


def closing_instruction(
    spans: Mapping[int, LetterSpan], seen: Mapping[int, int], left_in: Container[int]
) -> StoreLetters | None:
    """The transaction that passes offsets without a letter, if there are any. Letters were left `left_in` partitions.

    All letters of the other partitions are done, so their whole spans are.
    """
    progress: dict[int, RedriveProgress] = {}
    for partition, span in spans.items():
        gap = seen[partition] if partition in left_in else span.begin
        closed = span.done.copy()
        if partition not in left_in or _is_reached(span.done, gap):
            closed.add(gap, span.end)
        if closed.offset != span.done.offset or closed.runs != span.done.runs:
            progress[partition] = closed
    return StoreLetters((), progress) if progress else None


def _add(progress: RedriveProgress, gap: int, offset: int) -> None:
    progress.add(gap if _is_reached(progress, gap) else offset, offset + 1)


def _is_reached(progress: RedriveProgress, offset: int) -> bool:
    return offset <= progress.offset or offset - 1 in progress
