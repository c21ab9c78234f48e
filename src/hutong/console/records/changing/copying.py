"""Copying a range of records to another topic: what it would copy, and the copy.

Strategy: a number of records is read, then they are written, then the next. A failure ends it: the answer says how far
it came, so that it can go on from there. Copies may be made twice where a part is not known to be stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hutong.bus.durable.records import OutgoingRecord
from hutong.console.limits import COPY_BYTES_MAX, COPY_MS_MAX
from hutong.console.records.reading.part_reader import PartReader
from hutong.console.records.reading.places import begins_of, ends_of, partitions_of
from hutong.rest.records.publishing import publish
from hutong.web.answers import WebRefusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hutong.bus.durable.records import StoredRecord
    from hutong.console.desk import ConsoleDesk
    from hutong.console.records.budget import ReadBudget
    from hutong.console.records.changing.bodies import CopyBody
    from hutong.rest.accounts import Account

Spans = dict[int, tuple[int, int]]
_BATCH: Final = 500
_WAIT_S: Final = 0.2


@dataclass(slots=True)
class CopyOutcome:
    """`next_offsets`: where a further copy goes on, by partition; none where all was copied."""

    copied: int = 0
    copied_bytes: int = 0
    failed: str | None = None
    next_offsets: dict[int, int] = field(default_factory=dict)


def spans_there(account: Account, topic: str, spans: Mapping[int, tuple[int, int]]) -> Spans:
    """The parts of the spans that have offsets. Blocks. Raises WebRefusal, KafkaException."""
    partitions = partitions_of(account, topic, frozenset(spans))
    begins, ends = begins_of(account, topic, partitions), ends_of(account, topic, partitions)
    found = {place: (max(begin, begins[place]), min(end, ends[place])) for place, (begin, end) in spans.items()}
    return {place: (begin, end) for place, (begin, end) in found.items() if begin < end}


def count_of(spans: Mapping[int, tuple[int, int]]) -> int:
    """The records at most: compaction and transactions leave offsets out."""
    return sum(end - begin for begin, end in spans.values())


class Copying:
    """One copy, by a consumer of its own."""

    def __init__(
        self, desk: ConsoleDesk, budget: ReadBudget, account: Account, reader: PartReader, body: CopyBody
    ) -> None:
        self._desk = desk
        self._budget = budget
        self._account = account
        self._reader = reader
        self._body = body

    async def run(self, topic: str, spans: Spans) -> CopyOutcome:
        """Copy records until all are copied, something fails, or a bound is reached."""
        outcome = CopyOutcome(next_offsets={place: begin for place, (begin, _) in spans.items()})
        left = dict(spans)
        await self._desk.blocking(lambda: self._reader.begin(topic, outcome.next_offsets))
        until_ms = self._desk.clock.monotonic_ms() + COPY_MS_MAX
        while left and outcome.failed is None:
            if outcome.copied_bytes >= COPY_BYTES_MAX:
                outcome.failed = f"One copy takes {COPY_BYTES_MAX >> 20} MiB."
            elif self._desk.clock.monotonic_ms() > until_ms:
                outcome.failed = "It took too long."
            else:
                await self._part(left, outcome)
        outcome.next_offsets = {place: outcome.next_offsets[place] for place in left}
        return outcome

    async def _part(self, left: Spans, outcome: CopyOutcome) -> None:
        await self._desk.pause(self._budget.due_in_ms())
        records, ended = await self._desk.blocking(lambda: self._reader.read_parts(_BATCH, _WAIT_S))
        self._budget.count(sum(each.size_bytes for each in records))
        own = [each for each in records if each.partition in left and each.offset < left[each.partition][1]]
        results = await publish(self._account.publisher, [self._copy(each) for each in own])
        for record, result in zip(own, results, strict=True):
            if isinstance(result, WebRefusal):
                # What failed comes first of its partition in the next copy.
                outcome.failed = result.message
                return
            outcome.copied += 1
            outcome.copied_bytes += record.size_bytes
            outcome.next_offsets[record.partition] = record.offset + 1
        for record in records:
            if record.partition in left and record.offset >= left[record.partition][1] - 1:
                del left[record.partition]
        for partition in ended:
            left.pop(partition, None)

    def _copy(self, record: StoredRecord) -> OutgoingRecord:
        return OutgoingRecord(
            self._body.target,
            record.key,
            record.value,
            list(record.headers),
            record.partition if self._body.keeps_partitions else None,
            record.timestamp_ms if self._body.keeps_times and record.timestamp_ms > 0 else None,
        )
