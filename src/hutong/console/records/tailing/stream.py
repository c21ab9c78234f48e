"""The live tail as server-sent events: `records` with figures, some times a second.

Strategy: a turn asks for the ends of the partitions, which costs the brokers next to nothing, and reads what the
sample takes of the new records. Between turns nothing is fetched. So a tail of a topic with 100,000 records a second
costs what one of a topic with 50 does.

Decides nothing about what is shown: the sampler does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.console.limits import LISTED_BYTES_MAX, TAIL_READ_MS_MAX, TAIL_TURN_MS
from hutong.console.records.reading.part_reader import PartReader
from hutong.console.records.reading.places import ends_of, partitions_of
from hutong.console.records.record_stream import RecordStream
from hutong.console.records.shown import AskedForms
from hutong.console.records.tailing.sampling import SampleFigures, TailSampler
from hutong.console.streams import Rounds, event
from hutong.web.answers import WebRefusal

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.console.records.budget import ReadBudget
    from hutong.console.records.seen import SeenRecord
    from hutong.console.records.showing import RecordShowing
    from hutong.rest.accounts import Account

_BATCH: Final = 200
_WAIT_S: Final = 0.1


class TailStream(RecordStream):
    """One tail. `open` comes first, on another thread."""

    def __init__(
        self, desk: ConsoleDesk, budget: ReadBudget, showing: RecordShowing, account: Account, topic: str
    ) -> None:
        super().__init__(desk, budget, showing, account, topic)
        self._forms = AskedForms()
        self._partitions: list[int] = []
        self._sampler: TailSampler
        self._told: SampleFigures | None = None

    def open(self, partitions: frozenset[int] | None, forms: AskedForms) -> PartReader:
        """Begin at the ends. Blocks. Raises WebRefusal, KafkaException."""
        self._forms = forms
        self._partitions = partitions_of(self._account, self._topic, partitions)
        ends = ends_of(self._account, self._topic, self._partitions)
        self._sampler = TailSampler(ends, self._desk.clock.monotonic_ms())
        return self.open_reader()

    def rounds(self) -> Rounds:
        def close() -> None:
            self._desk.gateway.close_soon(self._account, self._reader)

        return Rounds(self._make, self._desk.pause, TAIL_TURN_MS, close)

    async def _make(self) -> list[bytes]:
        if self._is_over:
            raise StopAsyncIteration
        # A turn that comes late shows more of what has come meanwhile, as the sampler's rate says.
        await self._desk.pause(self._budget.due_in_ms())
        try:
            records = await self._showing.shown(await self._desk.blocking(self._turn), self._forms)
        except WebRefusal as refusal:
            self._is_over = True
            return [event("failed", {"message": refusal.message})]
        figures = self._sampler.figures()
        if not records and figures == self._told:
            return []
        self._told = figures
        return [event("records", {"records": records, "figures": figures})]

    def _turn(self) -> list[SeenRecord]:
        ends = ends_of(self._account, self._topic, self._partitions)
        spans = self._sampler.turn(ends, self._desk.clock.monotonic_ms())
        if not spans:
            return []
        self._reader.begin(self._topic, {partition: begin for partition, (begin, _) in spans.items()})
        found: list[SeenRecord] = []
        until_ms = self._desk.clock.monotonic_ms() + TAIL_READ_MS_MAX
        waiting = {partition: end for partition, (_, end) in spans.items()}
        while waiting and self._desk.clock.monotonic_ms() < until_ms:
            records, ended = self._reader.read_parts(_BATCH, _WAIT_S, LISTED_BYTES_MAX)
            for record in records:
                end = waiting.get(record.partition, 0)
                if record.offset < end:
                    found.append(record)
                if record.offset >= end - 1:
                    waiting.pop(record.partition, None)
            for partition in ended:
                waiting.pop(partition, None)
        self._reader.stop()
        self._budget.count(sum(each.size_bytes for each in found))
        found.sort(key=lambda each: (each.timestamp_ms, each.partition, each.offset), reverse=True)
        return found
