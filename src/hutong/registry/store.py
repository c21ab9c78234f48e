"""The topic `_schemas` in the node's own logs: read into a machine, and appended to.

Strategy: the log is the only way into the machine, also for what this node appends, so that records of others (a
mirror, another registry) count as its own do. A topic that was deleted and made anew begins a new machine.

Decides nothing. All calls come on the loop.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.produce.record_appends import StoredRecords, append_records
from hutong.foundation.errors import HutongError, LimitExceeded, OwnerGone, ProtocolError, Refused, UsageError
from hutong.foundation.waiting.pending import settle_future
from hutong.foundation.waiting.table import Owner
from hutong.journal.log import DiskRead
from hutong.registry.machine import RegistryMachine
from hutong.registry.records import RawRecord, decode_record
from hutong.registry.values import RegistryCode
from hutong.wire.kafka.batch.records import Record, iterate_batches, iterate_records

if TYPE_CHECKING:
    from hutong.broker.broker import Broker
    from hutong.broker.topics.partition import Partition, Topic

TOPIC: Final = "_schemas"
TOPIC_CONFIG: Final = {"cleanup.policy": "compact"}
READ_BYTES: Final = 256 * 1024
_log: Final = logging.getLogger("hutong.registry")


class SchemaStore:
    """`get_topic` finds the topic, and makes it where it is missing."""

    def __init__(self, broker: "Broker", get_topic: "Callable[[], Awaitable[Topic]]") -> None:
        self._broker = broker
        self._get_topic = get_topic
        self._owner = Owner()
        self._reading = asyncio.Lock()
        self._partition: Partition | None = None
        self._next_offset = 0
        self.machine = RegistryMachine()

    async def catch_up(self) -> None:
        """Read what is new. Raises Refused."""
        partition = self._partition
        if partition is None or self._broker.topics.partition(TOPIC, 0) is not partition:
            partition = await self._begin()
        # The usual question: nothing was recorded since the last one.
        if self._next_offset < partition.log.last_stable_offset:
            async with self._reading:
                await self._read_all(partition)

    async def append(self, records: Sequence[RawRecord]) -> None:
        """Record changes, and return once they are durable and applied. Raises Refused."""
        now_ms = self._broker.clock.wall_ms()
        batch = [Record(timestamp_ms=now_ms, key=key, value=value) for key, value in records]
        stored: asyncio.Future[StoredRecords] = asyncio.get_running_loop().create_future()
        partition = self._partition
        assert partition is not None, "it was read before it is changed"
        append_records(self._broker, partition, batch, self._owner, partial(settle_future, stored), is_durable=True)
        try:
            outcome = await stored
        except HutongError as error:
            raise Refused(RegistryCode.STORE, f"Register operation failed: {error}") from error
        # The record is in the log and may be durable a moment later: the client asks again and finds it.
        if not outcome.is_flushed:
            raise Refused(RegistryCode.TIMED_OUT, "The disk takes long; try again.")
        await self.catch_up()

    def close(self) -> None:
        """End what waits."""
        self._owner.end(OwnerGone("the node is stopping"))

    async def _begin(self) -> "Partition":
        async with self._reading:
            topic = await self._get_topic()
            partition = topic.partitions[0]
            # Another request has begun it meanwhile.
            if partition is not self._partition:
                if len(topic.partitions) > 1:
                    _log.error("%s has %d partitions; the first one alone is read.", TOPIC, len(topic.partitions))
                self._partition, self._next_offset, self.machine = partition, 0, RegistryMachine()
            return partition

    async def _read_all(self, partition: "Partition") -> None:
        log = partition.log
        while self._next_offset < (end := log.last_stable_offset):
            self._next_offset = max(self._next_offset, log.start_offset)
            try:
                partition.check_served()
                found = log.read(self._next_offset, READ_BYTES, up_to=end)
                buffers = await self._from_disk(partition, found) if isinstance(found, DiskRead) else found.buffers
            except HutongError as error:
                raise Refused(RegistryCode.STORE, f"The topic {TOPIC} cannot be read: {error}") from error
            before = self._next_offset
            for buffer in buffers:
                for header, batch in iterate_batches(buffer):
                    if not header.is_control:
                        self._apply_all(batch)
                    self._next_offset = header.last_offset + 1
            # Compaction leaves gaps behind the last batch.
            if self._next_offset == before:
                self._next_offset = end

    async def _from_disk(self, partition: "Partition", read: DiskRead[list[memoryview]]) -> list[memoryview]:
        done: asyncio.Future[list[memoryview]] = asyncio.get_running_loop().create_future()
        partition.log.read_from_disk(read, partial(settle_future, done))
        return await done

    def _apply_all(self, batch: memoryview) -> None:
        try:
            records = [*iterate_records(batch)]
        # A client that may write to the topic may write anything; there is nobody to answer.
        except (ProtocolError, LimitExceeded, UsageError) as error:
            _log.error("a batch of %s cannot be read, and is left out: %s", TOPIC, error)
            return
        for record in records:
            try:
                change = decode_record(record.key or b"", record.value)
            except ProtocolError as error:
                _log.error("record %d of %s is left out: %s", record.offset, TOPIC, error)
                continue
            if change is not None:
                self.machine.apply(change)
