"""A machine, a log and committed offsets without a broker: what the tests of the machine play on."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hutong.bus.durable.consume.caution import CautionNote
from hutong.bus.durable.consume.machine import DurableConsumerMachine
from hutong.bus.durable.consume.messages import (
    Arrived,
    ConsumerBounds,
    DeadLetterStored,
    Deliver,
    Demand,
    Event,
    Failed,
    Handled,
    Instruction,
    NoteWritten,
    PartitionAssigned,
    Pause,
    RecordEntry,
    Resume,
    Revoked,
    SendDeadLetter,
    WriteNote,
)
from hutong.bus.durable.consume.retry import Order, Retry
from hutong.foundation.machine import Tick

STEADY = Retry(attempts=3, first_delay=0.1, jitter=0)


@dataclass(frozen=True)
class Piece:
    """A record of the log."""

    offset: int
    key: bytes | None = None
    size_bytes: int = 10


@dataclass
class Stage:
    """One consumer process after the other reads `log`; carries out instructions, but for handlers: those the test
    ends."""

    log: dict[int, list[Piece]]
    retry: Retry = STEADY
    order: Order = Order.PARTITION
    bounds: ConsumerBounds = field(default_factory=ConsumerBounds)
    now_ms: int = 0
    committed: dict[int, tuple[int, CautionNote | None]] = field(default_factory=dict)
    done: set[tuple[int, int]] = field(default_factory=set)
    buried: list[RecordEntry] = field(default_factory=list)
    running: list[RecordEntry] = field(default_factory=list)
    said: list[Instruction] = field(default_factory=list)
    paused: set[int] = field(default_factory=set)
    noting: bool = True  # whether notes are written at once

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """A new process: nothing is left of the last one but what it committed."""
        self.machine = DurableConsumerMachine(self.retry, self.order, lambda: 0.0, self.bounds)
        self.position: dict[int, int] = {}
        self.running.clear()
        self.paused.clear()
        self.play(Demand(None))

    def play(self, event: Event) -> list[Instruction]:
        said = self.machine.handle(event)
        self.machine.check_invariants()
        self.said += said
        for instruction in said:
            match instruction:
                case Deliver(entry):
                    self._check_order(entry)
                    self.running.append(entry)
                case SendDeadLetter(entry):
                    self.buried.append(entry)
                    self.done.add((entry.partition.number, entry.offset))
                    self.play(DeadLetterStored(entry))
                case WriteNote(entry, note):
                    self.committed[entry.partition.number] = (entry.offset, note)
                    self._check_committed()
                    self.play(NoteWritten(entry))
                case Pause(number):
                    self.paused.add(number)
                case Resume(number):
                    self.paused.discard(number)
        return said

    def assign(self, *partitions: int) -> None:
        for number in partitions:
            offset, note = self.committed.get(number, (0, None))
            self.position[number] = offset
            self.play(PartitionAssigned(number, offset, note))
            if note is None:
                self.committed[number] = (offset, CautionNote())

    def revoke(self, *partitions: int) -> None:
        for number, position in self.machine.final_positions(partitions).items():
            self.committed[number] = (position, None)
        self._check_committed()
        self.play(Revoked(partitions))
        for number in partitions:
            del self.position[number]
            self.paused.discard(number)

    def fetch(self, number: int, count: int) -> None:
        if number in self.position and number not in self.paused:
            records = [piece for piece in self.log[number] if piece.offset >= self.position[number]][:count]
            if records:
                self.position[number] = records[-1].offset + 1
                self.play(Arrived(number, records))

    def succeed(self, entry: RecordEntry) -> list[Instruction]:
        self.running.remove(entry)
        self.done.add((entry.partition.number, entry.offset))
        return self.play(Handled(entry))

    def fail(self, entry: RecordEntry, after_ms: int | None = None) -> list[Instruction]:
        self.running.remove(entry)
        return self.play(Failed(entry, "ValueError", "no", self.now_ms, 1_000 + self.now_ms, after_ms))

    def wait(self, milliseconds: int) -> list[Instruction]:
        self.now_ms += milliseconds
        return self.play(Tick(self.now_ms))

    def commit(self) -> None:
        self.committed.update(self.machine.take_commits())
        self._check_committed()

    def numbers(self, entries: Iterable[RecordEntry]) -> list[tuple[int, int]]:
        return [(entry.partition.number, entry.offset) for entry in entries]

    def _check_committed(self) -> None:
        for number, (offset, _) in self.committed.items():
            undone = [p.offset for p in self.log[number] if p.offset < offset and (number, p.offset) not in self.done]
            assert not undone, f"partition {number} is committed up to {offset}, past {undone}"

    def _check_order(self, entry: RecordEntry) -> None:
        """All messages before it in its partition, or with its key, are done, and no handler works on any of them."""
        number = entry.partition.number
        for other in self.running:
            same = self.order is Order.PARTITION or (
                entry.record.key is not None and other.record.key == entry.record.key
            )
            assert not (other.partition.number == number and same), "two at a time"
        for piece in self.log[number]:
            same = self.order is Order.PARTITION or (piece.key is not None and piece.key == entry.record.key)
            if piece.offset < entry.offset and same:
                assert (number, piece.offset) in self.done, "out of order"


def log_of(count: int, *, partitions: int = 1, keys: int = 0) -> dict[int, list[Piece]]:
    return {
        number: [Piece(offset, b"%d" % (offset % keys) if keys and offset % 5 else None) for offset in range(count)]
        for number in range(partitions)
    }
