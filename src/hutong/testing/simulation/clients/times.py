"""The last reader of a partition that also looks offsets up by their times (ListOffsets with a timestamp)."""

from typing import Final

from hutong.testing.simulation.clients.connection import Disconnected
from hutong.testing.simulation.clients.reader import SimReader
from hutong.testing.simulation.history import FinalTimes
from hutong.wire.kafka.apis.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from hutong.wire.kafka.batch.records import Record

MAX_TIMESTAMP: Final = -3
"""In the place of a time it asks for the record with the greatest one (KIP-734)."""
_QUESTIONS: Final = 20


class SimTimeReader(SimReader):
    """Reads everything, and asks for some of the times that it found, and for others near them."""

    async def look_up_times(self) -> None:
        """Add a `FinalTimes`."""
        records = await self.read_to_end()
        answers = [(asked_ms, *await self._look_up(asked_ms)) for asked_ms in self._times_to_ask_for(records)]
        times = tuple((record.offset, record.timestamp_ms) for record in records)
        self.history.add(FinalTimes(self.place, times, tuple(answers)))

    def _times_to_ask_for(self, records: list[Record]) -> list[int]:
        times = [record.timestamp_ms for record in records]
        chosen = self.random.sample(times, min(_QUESTIONS, len(times)))
        near = [time + self.random.choice((-1, 0, 1)) for time in chosen]
        # One before all and one after all among them.
        return [MAX_TIMESTAMP, 0, max(times, default=0) + 1, *near]

    async def _look_up(self, asked_ms: int) -> tuple[int, int]:
        """The offset and the time that the node names."""
        topic, index = self.place
        request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, [ListOffsetsPartition(index, -1, asked_ms)])])
        while True:
            try:
                part = (await self.ask(request, 7)).topics[0].partitions[0]
            except Disconnected:
                await self.pause()
                continue
            if not part.error_code:
                return part.offset, part.timestamp
            await self.pause()
