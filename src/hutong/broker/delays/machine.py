"""The way of delayed records that have come out of their queues.

    came out, or fired ── a second or more is left ──▶ append to the queue of a step
            │
        less is left ──▶ held here until then ──▶ fired
            │
         it is due ──▶ append to its topic, with others for the same partition
            │
        it was recalled, or its queue is closed ──▶ forget it
            │
        an append failed ──▶ held for a second, and fired

Strategy: only what is due within a second is in memory, in a heap. It has a bound: above it queues are not read.

Times are of the wall clock. Knows no log: the driver carries out appends, and reports what became of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, NamedTuple

from hutong.broker.delays.progress import QueueProgress
from hutong.broker.delays.recalls import Recalls
from hutong.broker.delays.steps import STEPS_S, DelayedRecord, DeliveryPlace, step_for
from hutong.wire.kafka.batch.records import Record
from hutong.wire.rocketmq.codes import UNIQUE_KEY

HELD_MAX: Final = 20_000  # about as many as a node appends in the second that they are held for
HELD_BYTES_MAX: Final = 32 * 1024 * 1024
HELD_MS_MAX: Final = 1_000  # also where the clock was set back meanwhile
AGAIN_MS: Final = 1_000  # after an append that failed
BATCH_RECORDS_MAX: Final = 500
BATCH_BYTES_MAX: Final = 256 * 1024
_RECORD_BYTES: Final = 100  # of a record around its fields


@dataclass(frozen=True, slots=True, eq=False)
class DelayedEntry:
    """A delayed record that is not settled. `progress` is that of the queue it came from."""

    progress: QueueProgress
    offset: int
    delayed: DelayedRecord
    bytes: int


class Append(NamedTuple):
    """Append the entries as one batch: to a partition of their topic, or to the queue of a step."""

    entries: list[DelayedEntry]
    place: DeliveryPlace | None
    step: int


class LeaveOut(NamedTuple):
    """Settle the entries: they were recalled, or another node delivers them."""

    entries: list[DelayedEntry]


def entry_of(progress: QueueProgress, offset: int, delayed: DelayedRecord) -> DelayedEntry:
    """The entry of a record that has come out of its queue."""
    return DelayedEntry(progress, offset, delayed, size_of(delayed.record))


def id_of(record: Record) -> bytes | None:
    """The id that a RocketMQ producer gave a record."""
    return next((value for name, value in record.headers if name == UNIQUE_KEY), None)


def size_of(record: Record) -> int:
    """About the bytes of a record."""
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return _RECORD_BYTES + len(record.key or b"") + len(record.value or b"") + headers


class DelayMachine:
    """All records of a node that are between two queues, or between a queue and their topic."""

    def __init__(self, recalls: Recalls) -> None:
        self._recalls = recalls
        self._heap: list[tuple[int, int, DelayedEntry]] = []
        self._number = 0  # orders entries of one time
        self._unsettled: set[DelayedEntry] = set()
        self._bytes = 0

    @property
    def has_room(self) -> bool:
        """False: read no queue now."""
        return len(self._unsettled) < HELD_MAX and self._bytes < HELD_BYTES_MAX

    @property
    def wake_ms(self) -> int | None:
        """The time of the next `fire`, None where nothing is held."""
        return self._heap[0][0] if self._heap else None

    @property
    def unsettled(self) -> int:
        """The number of those that have come out and are not settled."""
        return len(self._unsettled)

    @property
    def oldest_due_ms(self) -> int | None:
        """The least time of those, None where there are none."""
        return min((entry.delayed.due_ms for entry in self._unsettled), default=None)

    def come_out(self, entries: Iterable[DelayedEntry], now_ms: int) -> list[Append | LeaveOut]:
        """Take in records that have come out of a queue."""
        entries = list(entries)
        self._unsettled.update(entries)
        self._bytes += sum(entry.bytes for entry in entries)
        return self._sorted_out(entries, now_ms)

    def fire(self, now_ms: int, entries_max: int) -> list[Append | LeaveOut]:
        """Let go of what is held until now; more than `entries_max` leave with the next call."""
        entries: list[DelayedEntry] = []
        while self._heap and self._heap[0][0] <= now_ms and len(entries) < entries_max:
            entries.append(heappop(self._heap)[2])
        return self._sorted_out(entries, now_ms)

    def settle(self, entries: Iterable[DelayedEntry]) -> None:
        """LeaveOut records that are elsewhere."""
        for entry in entries:
            entry.progress.settle(entry.offset, entry.delayed.due_ms)
            self._unsettled.remove(entry)
            self._bytes -= entry.bytes

    def fail(self, entries: Iterable[DelayedEntry], now_ms: int) -> None:
        """Keep records whose append has failed, for another one."""
        for entry in entries:
            self._hold(now_ms + AGAIN_MS, entry)

    def check_invariants(self) -> None:
        assert {entry for _, _, entry in self._heap} <= self._unsettled
        assert self._bytes == sum(entry.bytes for entry in self._unsettled)

    def _sorted_out(self, entries: Iterable[DelayedEntry], now_ms: int) -> list[Append | LeaveOut]:
        batches = _Batches()
        left_out: list[DelayedEntry] = []
        for entry in entries:
            if not entry.progress.is_open or self._is_recalled(entry.delayed):
                left_out.append(entry)
                continue
            wait_ms = entry.delayed.due_ms - now_ms
            step = step_for(wait_ms)
            if wait_ms <= 0:
                batches.add(entry, entry.delayed.place, 0)
            elif STEPS_S[step]:
                batches.add(entry, None, step)
            # The step of no time would bring it back at once.
            else:
                self._hold(now_ms + min(wait_ms, HELD_MS_MAX), entry)
        return [*batches.appends, LeaveOut(left_out)] if left_out else [*batches.appends]

    def _is_recalled(self, delayed: DelayedRecord) -> bool:
        # Most nodes have no recalls, and the id is one of several headers.
        if not self._recalls:
            return False
        record_id = id_of(delayed.record)
        return record_id is not None and self._recalls.has(delayed.place.topic, record_id)

    def _hold(self, until_ms: int, entry: DelayedEntry) -> None:
        self._number += 1
        heappush(self._heap, (until_ms, self._number, entry))


class _Batches:
    """Entries by where they go, in batches of a bounded size."""

    def __init__(self) -> None:
        self.appends: list[Append] = []
        self._open: dict[tuple[DeliveryPlace | None, int], tuple[list[DelayedEntry], int]] = {}  # with the bytes so far

    def add(self, entry: DelayedEntry, place: DeliveryPlace | None, step: int) -> None:
        entries, held_bytes = self._open.get((place, step), ([], 0))
        is_full = len(entries) >= BATCH_RECORDS_MAX or held_bytes + entry.bytes > BATCH_BYTES_MAX
        # A larger record is a batch of its own.
        if not entries or is_full:
            entries, held_bytes = [], 0
            self.appends.append(Append(entries, place, step))
        entries.append(entry)
        self._open[place, step] = entries, held_bytes + entry.bytes
