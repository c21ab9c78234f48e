"""A consumer with a partition assigned by hand: fetches from its position on, at either isolation level."""

import asyncio
from typing import Any, Final

from hutong.testing.simulation.clients.client import ClientContext, KafkaClient
from hutong.testing.simulation.clients.connection import Disconnected
from hutong.testing.simulation.history import EndSeen, FinalRead, ValueRead
from hutong.testing.simulation.history_text import Place
from hutong.testing.simulation.plan.clients import PlannedReader
from hutong.wire.kafka.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from hutong.wire.kafka.apis.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from hutong.wire.kafka.batch.control_records import parse_marker
from hutong.wire.kafka.batch.records import Record, iterate_batches, iterate_records
from hutong.wire.kafka.error_codes import ErrorCode

_WAIT_MS: Final = 500
_OPEN_PAUSE_S: Final = 1.0
_BYTES_MAX: Final = 1 << 20
_COMMITTED: Final = 1
_EARLIEST: Final = -2


def records_in(part: Any, position: int, *, is_committed: bool) -> tuple[list[Record], int]:
    """The records that a client shows of an answer, and the position after it.

    With `is_committed`, batches of aborted transactions are left out, as the answer's list of them says (KIP-98).
    """
    payload = part.records
    if payload is None:
        return [], position
    view = memoryview(payload if isinstance(payload, bytes | memoryview) else b"".join(payload))
    aborted = sorted((each.first_offset, each.producer_id) for each in part.aborted_transactions or ())
    shown: list[Record] = []
    aborting: set[int] = set()
    for header, batch in iterate_batches(view):
        # The list is by first offset: from there on the producer's batches count for nothing until its marker.
        while aborted and aborted[0][0] <= header.last_offset:
            aborting.add(aborted.pop(0)[1])
        if header.is_control:
            if parse_marker(batch) is not None:
                aborting.discard(header.producer_id)
        elif not (is_committed and header.is_transactional and header.producer_id in aborting):
            # A fetch inside a batch gets the whole batch. Batches may be empty: cleaning keeps a producer's last ones.
            shown += [record for record in iterate_records(batch) if record.offset >= position]
        position = max(position, header.last_offset + 1)
    return shown, position


class SimReader(KafkaClient):
    """Reads one partition from its beginning to its end, and goes on."""

    def __init__(self, context: ClientContext, plan: PlannedReader) -> None:
        super().__init__(context)
        self.place: Place = (plan.topic, plan.partition)
        self.is_committed = plan.is_committed
        self.position = 0
        self.start_offset = 0
        self.high_watermark = -1
        self.end_offset = -1  # the high watermark, or the last stable offset
        self._session = 1

    async def run(self) -> None:
        while not self.is_stopping:
            for record in await self.fetch():
                each = (self._session, self.place, record.offset, record.value or b"", self.is_committed)
                self.history.add(ValueRead(self.now_us, self.name, *each))
            if self.random.random() < 0.05:
                await asyncio.sleep(self.random.random() * 3)
            if self.random.random() < 0.02:  # from the beginning again: what is no longer in memory
                self._session += 1
                self.position = self.start_offset

    async def read_all(self) -> None:
        """Read to the end, and add it as a `FinalRead`."""
        records = tuple((record.offset, record.value or b"") for record in await self.read_to_end())
        self.history.add(FinalRead(self.place, self.is_committed, self.start_offset, records))

    async def read_to_end(self) -> list[Record]:
        """All records from the position on. A committed read waits until no transaction is open."""
        records: list[Record] = []
        while self.end_offset < 0 or self.position < self.end_offset or self.end_offset < self.high_watermark:
            records += await self.fetch(wait_ms=0)
            # Nothing new ends a transaction but time: the coordinator aborts it after its timeout.
            if self.end_offset < self.high_watermark:
                await asyncio.sleep(_OPEN_PAUSE_S)
        return records

    async def fetch(self, wait_ms: int = _WAIT_MS) -> list[Record]:
        """One answer with its records; empty where there was none, after a pause."""
        topic, index = self.place
        asked = FetchPartition(partition=index, fetch_offset=self.position, partition_max_bytes=_BYTES_MAX)
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=_BYTES_MAX,
            isolation_level=_COMMITTED if self.is_committed else 0,
            topics=[FetchTopic(topic, partitions=[asked])],
        )
        asked_us = self.now_us
        try:
            response = await self.ask(request, 12)
        except Disconnected:
            await self.pause()
            return []
        if response.error_code or not response.responses:
            await self.pause()
            return []
        part = response.responses[0].partitions[0]
        # Retention has removed what it asked for.
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._go_to_start()
            return []
        if part.error_code:
            await self.pause()
            return []
        self.went_well()
        self.start_offset = max(0, part.log_start_offset)
        self.high_watermark = part.high_watermark
        if self.history.stale_us_max is not None:
            self.history.add(EndSeen(self.now_us, asked_us, self.name, self.place, part.high_watermark))
        self.end_offset = part.last_stable_offset if self.is_committed else part.high_watermark
        records, self.position = records_in(part, self.position, is_committed=self.is_committed)
        return records

    async def _go_to_start(self) -> None:
        """Go on at the log's start, as `auto.offset.reset=earliest` says; never back."""
        topic, index = self.place
        asked = ListOffsetsTopic(topic, [ListOffsetsPartition(index, -1, _EARLIEST)])
        try:
            response = await self.ask(ListOffsetsRequest(-1, 0, [asked]), 7)
        except Disconnected:
            await self.pause()
            return
        part = response.topics[0].partitions[0]
        if part.error_code or part.offset <= self.position:
            await self.pause()
        else:
            # What is passed over was removed, and is perhaps back after a crash that came before the removal's flush.
            self._session += 1
            self.position = self.start_offset = part.offset
