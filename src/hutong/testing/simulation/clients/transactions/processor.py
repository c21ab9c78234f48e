"""A processor with exactly-once semantics (KIP-447): what it writes and its offset are in one transaction.

Strategy: the group's offset says where to go on. After each new identity, and after each transaction that was not
committed for certain, it is asked for again: another instance with the same transactional id may have moved it.
"""

from contextlib import suppress
from typing import Final

from hutong.testing.simulation.clients.client import ClientContext
from hutong.testing.simulation.clients.connection import Disconnected
from hutong.testing.simulation.clients.groups.group_consumer import see_offsets
from hutong.testing.simulation.clients.reader import SimReader
from hutong.testing.simulation.clients.transactions.session import TransactionFailed, TransactionSession
from hutong.testing.simulation.history_text import Place
from hutong.testing.simulation.plan.clients import PlannedProcessor, PlannedReader
from hutong.wire.kafka.batch.records import Record

_LAST_RECORDS: Final = 200
"""In each transaction of the quiet time; their values fit into the smallest batch that settings allow."""


class SimProcessor(TransactionSession):
    """Makes one value of each record of its source partition. Instances of one transactional id have one source."""

    def __init__(self, context: ClientContext, plan: PlannedProcessor) -> None:
        super().__init__(context, plan)
        self._source: Place = (plan.source, plan.source_partition)
        self._target: Place = (plan.topic, plan.partition)
        self._group = plan.group
        topic, index = self._source
        # Only what is committed: an aborted record must not become anything.
        reading = PlannedReader(name=self.name, topic=topic, partition=index, is_committed=True)
        self._reader = SimReader(context, reading)
        self._position: int | None = None
        self._values_total = 0

    async def run(self) -> None:
        await self.initialise()
        while not self._has_finished:
            if self._position is None:
                await self._find_position()
            else:
                await self._process(self._position)
            # What is left has to be done in the quiet time.
            if not self.is_stopping:
                await self.rest(self._plan.pause_ms)

    @property
    def _has_finished(self) -> bool:
        """In the quiet time it has to come to the end of its source."""
        return self.is_stopping and self._position is not None and 0 <= self._reader.end_offset <= self._position

    async def _find_position(self) -> None:
        with suppress(Disconnected):
            _, seen = await see_offsets(self, self._group, self._source[0], [self._source])
            for _, offset in seen:
                self._position = max(0, offset)
        if self._position is None:
            await self.pause()

    async def _process(self, position: int) -> None:
        self._reader.position = position
        records = await self._reader.fetch(wait_ms=100)
        taken = records[: _LAST_RECORDS if self.is_stopping else self.random.choice((1, 3, 10))]
        # Behind the last record there may be markers and aborted records.
        self._position = taken[-1].offset + 1 if len(taken) < len(records) else self._reader.position
        if not taken:
            return
        self.begin()
        is_commit = self.is_stopping or self.random.random() < 0.9
        try:
            await self._send_all(taken)
            await self.commit_offsets(self._group, self._source, self._position)
        except TransactionFailed:
            is_commit = False
        if not await self.end(is_commit=is_commit):
            self._position = None
            await self.pause()

    async def _send_all(self, records: list[Record]) -> None:
        values = []
        for _ in records:
            self._values_total += 1
            values.append(b"%s/%d" % (self.name.encode(), self._values_total))
        await self.send(self._target, values, [(self._source, record.offset) for record in records])
