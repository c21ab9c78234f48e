"""What the logs of a journal must hold, told by what was appended, acknowledged, shown and given up.

Strategy: a model per log remembers each record at the offset it was given, and two bounds that only grow: what must not
be lost any more, because somebody was told or could read it, and what may be gone, because somebody gave it up. A crash
may take everything between; the rest is equality. Nothing here looks into the journal.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.unit.journal.stage import Stage

from hutong.foundation.errors import HutongError
from hutong.journal.log import PartitionLog
from hutong.journal.qos import Qos
from hutong.journal.writer import Appended
from hutong.wire.kafka.records import Record, build_batch, iterate_batches, iterate_records

IN_FLIGHT_MAX: Final = 5  # batches of one idempotent producer, as Kafka's clients have it
Entry = tuple[int, bytes | None, bytes | None]  # offset, key, value


@dataclass(slots=True)
class Sent:
    """One append on its way, the `number`th of all. It is new unless it repeats a batch that the log has."""

    records: list[Record]
    qos: Qos
    number: int
    is_placed: bool = False
    is_new: bool = False
    outcome: Appended | HutongError | None = None

    @property
    def is_open(self) -> bool:
        return self.outcome is None

    @property
    def has_failed(self) -> bool:
        return isinstance(self.outcome, HutongError)


@dataclass(slots=True)
class Batch:
    """What was appended at once."""

    base_offset: int
    end_offset: int
    bytes: int
    max_timestamp_ms: int


@dataclass(slots=True)
class LogModel:
    """One log. `safe_end`: nothing before it may be lost; `start_min` and `start_max`: it begins between them."""

    partition_id: int
    receive_qos: bool = False
    log_append_time: bool = False
    placed: dict[int, Record] = field(default_factory=dict)
    batches: list[Batch] = field(default_factory=list)
    safe_end: int = 0
    start_min: int = 0  # deletions that are on disk
    start_max: int = 0  # deletions that were asked for
    is_deleted: bool = False
    is_surely_deleted: bool = False

    def put(self, base_offset: int, records: Sequence[Record], size: int) -> None:
        for number, record in enumerate(records):
            self.placed[base_offset + number] = record
        newest_ms = max(record.timestamp_ms for record in records)
        self.batches.append(Batch(base_offset, base_offset + len(records), size, newest_ms))

    def forget_from(self, end_offset: int) -> None:
        """A crash took what came after; its offsets will be given again."""
        for offset in [offset for offset in self.placed if offset >= end_offset]:
            del self.placed[offset]
        self.batches = [batch for batch in self.batches if batch.end_offset <= end_offset]
        assert not self.batches or self.batches[-1].end_offset == end_offset, "the log ends within a batch"

    def expected(self, first: int, last: int) -> list[Entry]:
        """The records from offset `first` to before `last`."""
        return [(offset, self.placed[offset].key, self.placed[offset].value) for offset in range(first, last)]

    def retain(self, start_offset: int, kept_bytes: int, oldest_ms: int) -> None:
        """Retention to `kept_bytes`, or to records from `oldest_ms` on (-1: no bound), moved the start there."""
        left_bytes = sum(batch.bytes for batch in self.batches if batch.base_offset >= start_offset)
        is_surplus = 0 <= kept_bytes <= left_bytes
        for batch in self.batches:
            if self.start_max <= batch.base_offset < start_offset:
                assert is_surplus or batch.max_timestamp_ms < oldest_ms, "retention took what it should have kept"
        self.start_max = max(self.start_max, start_offset)

    def check_read(
        self, views: Sequence[memoryview], offset: int, limit: int, max_bytes: int, at_least_one: bool
    ) -> None:
        """What one read from `offset` up to `limit` gave."""
        found = entries_of(views)
        if not found:
            assert not at_least_one, f"nothing at offset {offset} below {limit}"
            return
        first, last = found[0][0], found[-1][0]
        assert first <= offset <= last < limit
        assert found == self.expected(first, last + 1)
        is_one = sum(first <= batch.base_offset <= last for batch in self.batches) == 1
        assert sum(map(len, views)) <= max_bytes or (at_least_one and is_one)


def entries_of(views: Sequence[memoryview]) -> list[Entry]:
    """The records of fetched views; every view must hold whole batches."""
    found: list[Entry] = []
    for view in views:
        size = 0
        for header, batch in iterate_batches(view):
            size += header.size
            found += [(record.offset, record.key, record.value) for record in iterate_records(batch)]
        assert size == len(view), "a batch is cut off"
    return found


def read_all(stage: Stage, log: PartitionLog, max_bytes: int) -> list[Entry]:
    """Every visible record, read as a consumer does."""
    found: list[Entry] = []
    offset = log.start_offset
    while offset < log.high_watermark:
        entries = entries_of(stage.read(log, offset, max_bytes))
        assert entries, f"nothing at offset {offset} below the high watermark {log.high_watermark}"
        found += [entry for entry in entries if entry[0] >= offset]
        offset = entries[-1][0] + 1
    return found


@dataclass(slots=True)
class _Unacknowledged:
    sequence: int
    records: list[Record]
    sent: Sent | None = None


class Client:
    """An idempotent producer with several batches in flight, which sends again what was not acknowledged, in order."""

    def __init__(self, producer_id: int, partition_id: int, qos: Qos) -> None:
        self.producer_id = producer_id
        self.partition_id = partition_id
        self.qos = qos
        self.epoch = 0
        self.next_sequence = 0
        self.unacknowledged: deque[_Unacknowledged] = deque()

    @property
    def has_failed(self) -> bool:
        return any(batch.sent is None or batch.sent.has_failed for batch in self.unacknowledged)

    @property
    def has_room(self) -> bool:
        return len(self.unacknowledged) < IN_FLIGHT_MAX

    def add(self, records: list[Record]) -> _Unacknowledged:
        batch = _Unacknowledged(self.next_sequence, records)
        self.next_sequence += len(records)
        self.unacknowledged.append(batch)
        return batch

    def settle(self) -> None:
        """Forget what is acknowledged."""
        while self.unacknowledged:
            sent = self.unacknowledged[0].sent
            if sent is None or not isinstance(sent.outcome, Appended):
                return
            self.unacknowledged.popleft()

    def lose_connection(self) -> None:
        """No answer will come to what was sent."""
        for batch in self.unacknowledged:
            batch.sent = None

    def renew(self) -> None:
        """Begin again with the next epoch, as a client does that gives up on a batch."""
        self.epoch += 1
        self.next_sequence = 0
        self.unacknowledged.clear()


def batch_of(records: Sequence[Record], client: Client | None = None, sequence: int = -1) -> memoryview:
    if client is None:
        return memoryview(build_batch(records))
    return memoryview(
        build_batch(records, producer_id=client.producer_id, producer_epoch=client.epoch, base_sequence=sequence)
    )
