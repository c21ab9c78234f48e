"""Clients of a compacted topic: a producer with a few keys, and the last reader, which sees keys and tombstones.

Strategy: each record has a unique name in a header, as a tombstone has no value that could be unique.
"""

from typing import Any, Final

from hutong.testing.simulation.clients.client import ClientContext
from hutong.testing.simulation.clients.producer import SimProducer
from hutong.testing.simulation.clients.reader import SimReader
from hutong.testing.simulation.history import FinalKeys, KeyedRecord, KeySent
from hutong.testing.simulation.hosts.host import EPOCH_MS
from hutong.testing.simulation.plan.clients import PlannedKeyedProducer
from hutong.wire.kafka.batch.records import Record, iterate_batches, iterate_records

_NAME: Final = "name"


class SimKeyedProducer(SimProducer):
    """Sets one key after the other, and deletes one now and then."""

    def __init__(self, context: ClientContext, plan: PlannedKeyedProducer) -> None:
        super().__init__(context, plan)
        self._keys = plan.keys
        self._chosen: dict[bytes, tuple[bytes, bool]] = {}  # by name, until the record is made

    def sends(self, value: bytes) -> None:
        key, is_tombstone = b"key-%d" % self.random.randrange(self._keys), self.random.random() < 0.2
        self._chosen[value] = (key, is_tombstone)
        self.history.add(KeySent(self.now_us, self.name, self._place, key, value, is_tombstone))

    def record_of(self, value: bytes, padding: bytes) -> Record:
        key, is_tombstone = self._chosen.pop(value)
        headers = [(_NAME, value), ("padding", padding)]
        return Record(timestamp_ms=EPOCH_MS, key=key, value=None if is_tombstone else value, headers=headers)


class SimKeyReader(SimReader):
    """Reads all of a compacted partition."""

    async def read_keys(self, *, keeps_tombstones: bool) -> None:
        """Read to the present end, and add it as `FinalKeys`."""
        self._found: list[KeyedRecord] = []
        while self.end_offset < 0 or self.position < self.end_offset:
            await self.fetch(wait_ms=0)
        self.history.add(FinalKeys(self.place, keeps_tombstones, tuple(self._found)))

    def take(self, part: Any) -> list[tuple[int, bytes]]:
        payload = part.records or b""
        view = memoryview(payload if isinstance(payload, bytes | memoryview) else b"".join(payload))
        for header, batch in iterate_batches(view):
            # Batches may be empty: cleaning keeps the headers of a producer's last ones.
            for record in iterate_records(batch):
                if record.offset >= self.position:
                    name = dict(record.headers)[_NAME] or b""
                    self._found.append(KeyedRecord(record.offset, record.key or b"", name, record.value is None))
            self.position = max(self.position, header.last_offset + 1)
        return []
