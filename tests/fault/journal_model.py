"""What the logs of a journal must hold, told by what was appended, acknowledged, shown and given up.

Strategy: a model per log remembers each record at the offset it was given, and two bounds that only grow: what must not
be lost any more, because somebody was told or could read it, and what may be gone, because somebody gave it up. A crash
may take everything between; the rest is equality. Nothing here looks into the journal.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.fault.transaction_model import TransactionAccount
from tests.unit.journal.stage import Stage

from hutong.foundation.clock import Clock, ManualClock
from hutong.foundation.errors import HutongError
from hutong.journal.append.log_appends import Appended
from hutong.journal.append.qos import Qos
from hutong.journal.clean.compaction import CompactionPolicy
from hutong.journal.log import PartitionLog
from hutong.wire.kafka.batch.control_records import build_marker
from hutong.wire.kafka.batch.records import (
    TRANSACTIONAL,
    BatchHeader,
    Record,
    build_batch,
    iterate_batches,
    iterate_records,
)

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
    """Records that were appended at once."""

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
    is_keyed: bool = False
    clock: Clock = field(default_factory=ManualClock)
    cleanable: set[int] = field(default_factory=set)  # offsets that a cleaning may have met
    tombstones: dict[int, int] = field(default_factory=dict)  # those of them without a value, and when they may go
    is_deleted: bool = False
    is_surely_deleted: bool = False
    account: TransactionAccount = field(default_factory=TransactionAccount)

    def put(self, base_offset: int, records: Sequence[Record], size: int) -> None:
        values = {record.value for record in self.placed.values() if record.value is not None}
        assert values.isdisjoint(record.value for record in records), "a batch is in the log twice"
        for number, record in enumerate(records):
            self.placed[base_offset + number] = record
        newest_ms = max(record.timestamp_ms for record in records)
        self.batches.append(Batch(base_offset, base_offset + len(records), size, newest_ms))

    def put_marker(self, offset: int, producer_id: int, *, is_commit: bool, timestamp_ms: int) -> None:
        """The end of a producer's transaction."""
        marker = build_marker(producer_id, 0, is_commit=is_commit, coordinator_epoch=0, timestamp_ms=timestamp_ms)
        (self.placed[offset],) = iterate_records(marker)
        self.batches.append(Batch(offset, offset + 1, len(marker), timestamp_ms))
        self.account.put_marker(offset, producer_id, is_commit=is_commit)

    def forget_from(self, end_offset: int) -> None:
        """A crash took what came after; its offsets will be given again."""
        for offset in [offset for offset in self.placed if offset >= end_offset]:
            del self.placed[offset]
            assert offset not in self.cleanable, "what was cleaned is not all on disk"
        self.account.forget_from(end_offset)
        self.batches = [batch for batch in self.batches if batch.end_offset <= end_offset]
        assert not self.batches or self.batches[-1].end_offset == end_offset, "the log ends within a batch"

    def expected(self, first: int, last: int) -> list[Entry]:
        """The records from offset `first` to before `last`."""
        return [(offset, self.placed[offset].key, self.placed[offset].value) for offset in range(first, last)]

    def retain(self, start_offset: int, kept_bytes: int, oldest_ms: int) -> None:
        """Retention to `kept_bytes`, or to records from `oldest_ms` on (-1: no bound), moved the start there."""
        behind_bytes = 0  # what is behind a surplus batch may have gone for its age
        for batch in reversed(self.batches):
            is_gone = self.start_max <= batch.base_offset < start_offset
            if is_gone and not self.log_append_time:  # which has times of its own
                is_surplus = 0 <= kept_bytes <= behind_bytes
                assert is_surplus or batch.max_timestamp_ms < oldest_ms, "retention took what it should have kept"
            behind_bytes += batch.bytes
        self.start_max = max(self.start_max, start_offset)

    def compact(self, limit: int, policy: CompactionPolicy, now_ms: int) -> None:
        """Let records before offset `limit` be cleaned from now on, as far as the policy lets it."""
        markers = self.account.markers()
        for offset, record in self.placed.items():
            if offset >= limit or record.timestamp_ms > now_ms - policy.min_lag_ms:
                continue
            self.cleanable.add(offset)
            if record.value is None or offset in markers:
                over_ms = now_ms + policy.delete_retention_ms
                self.tombstones[offset] = min(over_ms, self.tombstones.get(offset, over_ms))

    def may_be_gone(self, offset: int) -> bool:
        """True if cleaning may have taken it: a later record of its key counts, or it is an old tombstone or marker.

        What was aborted counts for nothing, and may go at once.
        """
        key = self.placed[offset].key
        now_ms = self.clock.wall_ms()
        aborted = self.account.aborted_offsets()
        return offset in self.cleanable and (
            offset in aborted
            or self.tombstones.get(offset, now_ms + 1) <= now_ms
            or any(
                other > offset and other not in aborted and self.placed[other].key == key for other in self.cleanable
            )
        )

    def check_found(self, found: Sequence[Entry], first: int, last: int) -> None:
        """Records that a reader got, who has read everything from offset `first` to before `last`."""
        if not self.is_keyed:
            assert found == self.expected(first, last)
            return
        assert all(entry == self.expected(entry[0], entry[0] + 1)[0] for entry in found), "not what was appended"
        offsets = [offset for offset, _, _ in found]
        assert offsets == sorted(set(offsets)), "offsets do not rise"
        gone = set(range(first, last)).difference(offsets)
        assert all(self.may_be_gone(offset) for offset in gone), "cleaning took what counts"

    def check_newest(self, found: Sequence[Entry], last: int) -> None:
        """Of a log read to the end, no key may seem to have an older value than it has."""
        uncounted = self.account.aborted_offsets() | self.account.markers()
        seen = {key: offset for offset, key, _ in found if offset not in uncounted}
        newest = {
            record.key: offset
            for offset, record in sorted(self.placed.items())
            if offset < last and offset not in uncounted
        }
        assert all(newest[key] == offset for key, offset in seen.items()), "an old value is back"

    def check_read(
        self, views: Sequence[memoryview], offset: int, limit: int, max_bytes: int, at_least_one: bool
    ) -> None:
        """The outcome of one read from `offset` up to `limit`."""
        headers, found = contents_of(views)
        if not headers:
            assert not at_least_one, f"nothing at offset {offset} below {limit}"
            return
        first, last = headers[0].base_offset, headers[-1].last_offset
        assert offset <= last < limit
        assert self.is_keyed or first <= offset
        self.check_found(found, min(first, offset), last + 1)
        assert sum(map(len, views)) <= max_bytes or (at_least_one and len(headers) == 1)


def contents_of(views: Sequence[memoryview]) -> tuple[list[BatchHeader], list[Entry]]:
    """The batches and the records of fetched views; every view must hold whole batches."""
    headers: list[BatchHeader] = []
    found: list[Entry] = []
    for view in views:
        size = 0
        for header, batch in iterate_batches(view):
            size += header.size
            headers.append(header)
            found += [(record.offset, record.key, record.value) for record in iterate_records(batch)]
        assert size == len(view), "a batch is cut off"
    return headers, found


def read_all(stage: Stage, log: PartitionLog, max_bytes: int) -> list[Entry]:
    """Every visible record, read as a consumer does: each read goes on behind the last batch that came."""
    found: list[Entry] = []
    offset = log.start_offset
    while offset < log.high_watermark:
        headers, entries = contents_of(stage.read(log, offset, max_bytes))
        assert headers, f"nothing at offset {offset} below the high watermark {log.high_watermark}"
        assert headers[-1].last_offset >= offset, "a batch came that the reader has passed"
        found += [entry for entry in entries if entry[0] >= offset]
        offset = headers[-1].last_offset + 1
    return found


@dataclass(slots=True)
class _Unacknowledged:
    sequence: int
    records: list[Record]
    sent: Sent | None = None


class Client:
    """An idempotent producer with several batches in flight, which sends again what was not acknowledged, in order."""

    def __init__(self, producer_id: int, partition_id: int, qos: Qos, *, is_transactional: bool = False) -> None:
        self.is_transactional = is_transactional
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
        build_batch(
            records,
            attributes=TRANSACTIONAL if client.is_transactional else 0,
            producer_id=client.producer_id,
            producer_epoch=client.epoch,
            base_sequence=sequence,
        )
    )
