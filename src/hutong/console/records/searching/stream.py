"""A search as server-sent events: `matches`, `progress`, and in the end `ended` or `failed`.

Strategy: one step after the other on another thread; each reads some records and looks at them. A search with paths
asks for the schemas of the records in between, on the loop. After a step it pauses as its pace and the console's rate
say. A browser that goes ends it before the next step.

Decides nothing about records: the machine does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from hutong.console.limits import PREVIEW_CHARS_MAX, SEARCH_CLOCKS_DIFFER_MS
from hutong.console.records.reading.part_reader import PartReader
from hutong.console.records.reading.places import begins_of, ends_of, offsets_at, partitions_of
from hutong.console.records.record_stream import RecordStream
from hutong.console.records.searching.machine import SearchMachine, Span
from hutong.console.records.searching.pace import SearchPace
from hutong.console.records.shown import AskedForms
from hutong.console.streams import Rounds, event
from hutong.foundation.clock import thread_processor_us
from hutong.web.answers import WebRefusal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from hutong.bus.durable.records import StoredRecord
    from hutong.console.desk import ConsoleDesk
    from hutong.console.records.budget import ReadBudget
    from hutong.console.records.decoding.shown import SchemaOf
    from hutong.console.records.searching.asked import AskedSearch
    from hutong.console.records.searching.conditions import Conditions
    from hutong.console.records.showing import RecordShowing
    from hutong.rest.accounts import Account

_STEP_RECORDS: Final = 200
_WAIT_S: Final = 0.1
_PROGRESS_MS: Final = 250
T = TypeVar("T")


class SearchStream(RecordStream):
    """One search. `open` comes first, on another thread; then `step` until there are no more events."""

    def __init__(
        self, desk: ConsoleDesk, budget: ReadBudget, showing: RecordShowing, account: Account, topic: str
    ) -> None:
        super().__init__(desk, budget, showing, account, topic)
        self._pace = SearchPace()
        self._machine: SearchMachine
        self._needs_schemas = False
        self._is_placed = False  # the consumer reads the round
        self._told_ms = 0

    def open(self, asked: AskedSearch) -> PartReader:
        """Find out what is to be read. Blocks. Raises WebRefusal, KafkaException."""
        spans = _spans(self._account, self._topic, asked.conditions)
        self._machine = SearchMachine(asked.conditions, spans, is_newest_first=asked.is_newest_first)
        self._needs_schemas = bool(asked.conditions.paths)
        return self.open_reader()

    def rounds(self) -> Rounds:
        def close() -> None:
            self._machine.cancel()
            self._desk.gateway.close_soon(self._account, self._reader)

        return Rounds(self._make, self._desk.pause, 0, close)

    async def _make(self) -> list[bytes]:
        if self._is_over:
            raise StopAsyncIteration
        try:
            found, worked_us = await self._find()
            matches = await self._showing.shown(found, AskedForms(chars_max=PREVIEW_CHARS_MAX))
        except WebRefusal as refusal:
            self._is_over = True
            return [event("failed", {"message": refusal.message})]
        events = [event("matches", {"records": matches})] if matches else []
        progress = self._machine.progress()
        now_ms = self._desk.clock.monotonic_ms()
        if self._machine.is_ended:
            self._is_over = True
            return [*events, event("ended", progress)]
        if events or now_ms - self._told_ms >= _PROGRESS_MS:
            self._told_ms = now_ms
            events.append(event("progress", progress))
        await self._pause(worked_us)
        return events

    async def _pause(self, worked_us: int) -> None:
        pause_ms = max(self._pace.pause_ms(worked_us), self._budget.due_in_ms())
        begun_us = self._desk.clock.monotonic_us()
        await self._desk.pause(pause_ms)
        self._pace.note_pause(pause_ms, self._desk.clock.monotonic_us() - begun_us)

    async def _find(self) -> tuple[list[StoredRecord], int]:
        """Matches that can be shown, and the processor time that they took, in microseconds."""
        if not self._needs_schemas:
            return await self._desk.blocking(lambda: _timed(lambda: self._look_at(*self._read(), None)))
        (records, ended), reading_us = await self._desk.blocking(lambda: _timed(self._read))
        schema_of = await self._showing.schemas_of(records)
        found, looking_us = await self._desk.blocking(lambda: _timed(lambda: self._look_at(records, ended, schema_of)))
        return found, reading_us + looking_us

    def _read(self) -> tuple[Sequence[StoredRecord], Collection[int]]:
        """Some records of the round, and the partitions that have ended."""
        machine = self._machine
        if not machine.is_ended and not self._is_placed:
            self._reader.begin(self._topic, {partition: at for partition, (at, _) in machine.round().items()})
            self._is_placed = True
        if machine.is_round_over:
            return (), ()
        records, ended = self._reader.read_parts(_STEP_RECORDS, _WAIT_S)
        self._budget.count(sum(each.size_bytes for each in records))
        return records, ended

    def _look_at(
        self, records: Sequence[StoredRecord], ended: Collection[int], schema_of: SchemaOf | None
    ) -> list[StoredRecord]:
        machine = self._machine
        found = machine.receive(records, schema_of)
        for partition in ended:
            machine.reach_end(partition)
        if machine.is_round_over and not machine.is_ended:
            found += machine.next_round()
            self._is_placed = False
        return found


def _timed(work: Callable[[], T]) -> tuple[T, int]:
    """The result, and the processor time of this thread that it took, in microseconds."""
    begun_us = thread_processor_us()
    return work(), thread_processor_us() - begun_us


def _spans(account: Account, topic: str, conditions: Conditions) -> dict[int, Span]:
    partitions = partitions_of(account, topic, conditions.partitions)
    begins, ends = begins_of(account, topic, partitions), ends_of(account, topic, partitions)
    if conditions.time_begin_ms is not None:
        # All records before it are earlier; those after it may be, too.
        for partition, offset in offsets_at(account, topic, partitions, conditions.time_begin_ms).items():
            begins[partition] = offset if offset >= 0 else ends[partition]
    if conditions.time_end_ms is not None:
        late_ms = conditions.time_end_ms + SEARCH_CLOCKS_DIFFER_MS
        for partition, offset in offsets_at(account, topic, partitions, late_ms).items():
            ends[partition] = offset if offset >= 0 else ends[partition]
    return {
        partition: (max(begins[partition], conditions.offset_begin), min(ends[partition], conditions.offset_end))
        for partition in partitions
    }
