"""Clients of a compacted topic: producers with a few keys, and the last reader, which sees keys and tombstones.

Strategy: each record has a unique name in a header, as a tombstone has no value that could be unique.
"""

from random import Random
from typing import Final

from hutong.testing.simulation.clients.client import ClientContext
from hutong.testing.simulation.clients.producer import SimProducer
from hutong.testing.simulation.clients.reader import SimReader
from hutong.testing.simulation.clients.transactions.producer import SimTransactionalProducer
from hutong.testing.simulation.history import FinalKeys, KeyedRecord, KeySent
from hutong.testing.simulation.history_text import Place
from hutong.testing.simulation.hosts.host import EPOCH_MS
from hutong.testing.simulation.plan.clients import PlannedKeyedProducer, PlannedKeyedTeller
from hutong.wire.kafka.batch.records import Record

_NAME: Final = "name"


class _Keys:
    """The key of each value, which it sets, or deletes now and then."""

    def __init__(self, random: Random, total: int) -> None:
        self._random = random
        self._total = total
        self._chosen: dict[bytes, tuple[bytes, bool]] = {}  # by name, until the record is made

    def choose(self, value: bytes) -> tuple[bytes, bool]:
        """The key, and True if it is deleted."""
        key, is_tombstone = b"key-%d" % self._random.randrange(self._total), self._random.random() < 0.2
        self._chosen[value] = (key, is_tombstone)
        return key, is_tombstone

    def record_of(self, value: bytes, padding: bytes) -> Record:
        key, is_tombstone = self._chosen.pop(value)
        headers = [(_NAME, value), ("padding", padding)]
        return Record(timestamp_ms=EPOCH_MS, key=key, value=None if is_tombstone else value, headers=headers)


class SimKeyedProducer(SimProducer):
    """Sets one key after the other, and deletes one now and then."""

    def __init__(self, context: ClientContext, plan: PlannedKeyedProducer) -> None:
        super().__init__(context, plan)
        self._keys = _Keys(self.random, plan.keys)

    def sends(self, value: bytes) -> None:
        key, is_tombstone = self._keys.choose(value)
        self.history.add(KeySent(self.now_us, self.name, self._place, key, value, is_tombstone))

    def record_of(self, value: bytes, padding: bytes) -> Record:
        return self._keys.record_of(value, padding)


class SimKeyedTeller(SimTransactionalProducer):
    """Sets and deletes some keys in each transaction."""

    def __init__(self, context: ClientContext, plan: PlannedKeyedTeller) -> None:
        super().__init__(context, plan)
        self._keys = _Keys(self.random, plan.keys)

    def sends(self, place: Place, value: bytes, source: tuple[Place, int] | None) -> None:
        key, is_tombstone = self._keys.choose(value)
        self.history.add(KeySent(self.now_us, self.name, place, key, value, is_tombstone, self.transaction))

    def record_of(self, value: bytes) -> Record:
        return self._keys.record_of(value, b"")


class SimKeyReader(SimReader):
    """Reads all of a compacted partition."""

    async def read_keys(self, *, keeps_tombstones: bool) -> None:
        """Read to the present end, and add it as `FinalKeys`."""
        records = tuple(
            KeyedRecord(record.offset, record.key or b"", dict(record.headers)[_NAME] or b"", record.value is None)
            for record in await self.read_to_end()
        )
        self.history.add(FinalKeys(self.place, keeps_tombstones, records))
