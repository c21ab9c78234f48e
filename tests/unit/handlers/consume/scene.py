"""A handling machine and a log without a broker: what the tests of the machine play on."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hutong.bus.durable.consume.retry import Retry
from hutong.foundation.machine import Tick
from hutong.handlers.consume.machine import HandlingMachine
from hutong.handlers.consume.messages import (
    AttemptFailed,
    Begin,
    HandlerReturned,
    HandlingEvent,
    HandlingInstruction,
    HandlingRules,
    OutputsRefused,
    OutputsStored,
    PausePartition,
    Place,
    PublishOutputs,
    RecordsTaken,
    ResumePartition,
    SharesGiven,
    SharesGone,
    TakenRecord,
    WorkItem,
)

STEADY = Retry(attempts=3, first_delay=0.1, jitter=0)
FIRST: Place = ("orders", 0)


def record(offset: int, key: bytes | None = None, *, size_bytes: int = 10, is_readable: bool = True) -> TakenRecord:
    made = TakenRecord(offset, key, size_bytes)
    if not is_readable:
        made.problem = ValueError("not an order")
    return made


@dataclass
class Scene:
    """One member. It keeps what the machine has said; the test ends the handlers."""

    rules: HandlingRules = field(default_factory=HandlingRules)
    retry: Retry = STEADY
    now_ms: int = 0
    running: list[WorkItem] = field(default_factory=list)
    publishing: list[WorkItem] = field(default_factory=list)
    said: list[HandlingInstruction] = field(default_factory=list)
    paused: set[Place] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.machine = HandlingMachine(self.retry, lambda: 0.0, self.rules)

    def feed(self, event: HandlingEvent) -> list[HandlingInstruction]:
        said = list(self.machine.handle(event))
        self.hear(said)
        return said

    def hear(self, said: Iterable[HandlingInstruction]) -> None:
        for instruction in said:
            self.said.append(instruction)
            match instruction:
                case Begin(item):
                    self.running.append(item)
                case PublishOutputs(item):
                    self.publishing.append(item)
                case PausePartition(place):
                    self.paused.add(place)
                case ResumePartition(place):
                    self.paused.remove(place)

    def give(self, *places: Place) -> None:
        self.feed(SharesGiven(places or (FIRST,)))

    def take(self, *records: TakenRecord, place: Place = FIRST) -> None:
        self.feed(RecordsTaken(place, records, self.now_ms))

    def gone(self, *places: Place) -> None:
        self.feed(SharesGone(places or None))

    def end(self, offset: int, *outputs: str) -> None:
        item = self._running_at(offset)
        item.outputs = outputs
        self.feed(HandlerReturned(item))

    def fail(self, offset: int, *, is_final: bool = False) -> None:
        self.feed(AttemptFailed(self._running_at(offset), "ValueError", "no", self.now_ms, 1_000, is_final))

    def store(self, offset: int) -> None:
        self.feed(OutputsStored(self._publishing_at(offset)))

    def refuse(self, offset: int, *, is_hopeless: bool) -> None:
        self.feed(OutputsRefused(self._publishing_at(offset), "away", is_hopeless, self.now_ms, 1_000))

    def pass_time(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.feed(Tick(self.now_ms))

    @property
    def begun(self) -> list[int]:
        """First offsets of the items in hand."""
        return [item.records[0].offset for item in self.running]

    @property
    def batches(self) -> list[list[int]]:
        return [[taken.offset for taken in item.records] for item in self.running]

    def positions(self) -> dict[Place, int]:
        taken = self.machine.take_positions()
        self.hear(self.machine.committed(taken))
        return {place: position.offset for place, position in taken.items()}

    def _running_at(self, offset: int) -> WorkItem:
        [item] = [item for item in self.running if item.records[0].offset == offset]
        self.running.remove(item)
        return item

    def _publishing_at(self, offset: int) -> WorkItem:
        [item] = [item for item in self.publishing if item.records[0].offset == offset]
        self.publishing.remove(item)
        return item
