"""A log of dead letters, a coordinator and targets that are values, and a redrive that runs in them without a loop.

Each step of the machine may fail, be stored without an answer, or be the last one of its process.
"""

import enum
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from hutong.bus.durable.records import StoredRecord
from hutong.console.dead_letters.conventions.known import letter_of
from hutong.console.dead_letters.conventions.letter import DeadLetter
from hutong.console.dead_letters.redriving.machine import RedriveMachine
from hutong.console.dead_letters.redriving.messages import (
    LetterSpan,
    LettersRead,
    LettersStored,
    OpenRedrive,
    ReadLetters,
    RedriveEvent,
    RedriveFailed,
    RedriveInstruction,
    RedriveOpened,
    RedriveOver,
    RedriveWish,
    StoreLetters,
)
from hutong.console.dead_letters.redriving.progress import decode_progress
from hutong.foundation.machine import Tick

STEPS_MAX = 2_000


class Fate(enum.Enum):
    """The outcome of a step."""

    DONE = 0
    FAILED = 1
    UNKNOWN = 2  # stored, and nobody knows
    KILLED = 3  # not stored, and the process is gone
    KILLED_LATE = 4  # stored, and the process is gone


def letter_record(partition: int, offset: int, origin: str = "orders", reason: str = "ValueError") -> StoredRecord:
    headers = [("hutong-dead-topic", origin.encode()), ("hutong-dead-error-type", reason.encode()), ("own", b"1")]
    return StoredRecord("dead", partition, offset, 1_000, b"k", b"%d/%d" % (partition, offset), headers, 10)


class RedriveWorld:
    """`ends` by partition; offsets without a record are gaps. `poison` values are never taken by any target."""

    def __init__(self, records: Iterable[StoredRecord], ends: dict[int, int], poison: frozenset[bytes] = frozenset()):
        self.records = {(record.partition, record.offset): record for record in records}
        self.ends = dict(ends)
        self.poison = poison
        self.refused_targets: frozenset[str] = frozenset()
        self.committed: dict[int, tuple[int, str]] = {}
        self.sent: Counter[tuple[str, bytes]] = Counter()
        self.batches: list[int] = []
        self.now_ms = 0
        self.epoch = 0  # of the producer
        self.steps = 0

    def spans(self) -> dict[int, LetterSpan]:
        return {
            partition: LetterSpan(0, end, decode_progress(*self.committed.get(partition, (0, ""))))
            for partition, end in self.ends.items()
        }

    def store(self, batch: StoreLetters) -> None:
        self.sent.update((record.topic, record.value or b"") for record in batch.records)
        self.batches.append(len(batch.records))
        self.committed.update({each: (progress.offset, progress.encode()) for each, progress in batch.progress.items()})

    def left(self) -> int:
        """Records that the progress does not have."""
        spans = self.spans()
        return sum(offset not in spans[partition].done for partition, offset in self.records)


class RedriveProcess:
    """One redrive until its end or its kill. It reads at its own positions."""

    def __init__(self, world: RedriveWorld, wish: RedriveWish) -> None:
        self.world = world
        self.machine = RedriveMachine(wish)
        self.positions: dict[int, int] = {}
        self.instructions: list[RedriveInstruction] = [*self.machine.begin()]
        self.is_closed = False

    def feed(self, event: RedriveEvent) -> None:
        self.instructions += self.machine.handle(event)
        self.machine.check_invariants()

    def run(self, fates: Iterable[Fate] = ()) -> bool:
        """True at its end, False where it was killed. Without a fate a step succeeds."""
        coming = iter(fates)
        while not self.is_closed:
            self.world.steps += 1
            assert self.world.steps < STEPS_MAX, "it goes round in circles"
            if not self.instructions:
                due_ms = self.machine.next_tick_ms()
                if due_ms is None:
                    return True  # it is paused
                self.world.now_ms = max(self.world.now_ms, due_ms)
                self.feed(Tick(self.world.now_ms))
                continue
            if not self.step(self.instructions.pop(0), next(coming, Fate.DONE)):
                return False
        return True

    def step(self, instruction: RedriveInstruction, fate: Fate) -> bool:
        match instruction:
            case RedriveOver():
                assert not self.instructions, "nothing follows the end"
                self.is_closed = True
            case StoreLetters():
                return self._store(instruction, fate)
            case _ if fate in (Fate.KILLED, Fate.KILLED_LATE):
                return False
            case _ if fate is not Fate.DONE:
                self.feed(RedriveFailed("no answer", self.world.now_ms))
            case OpenRedrive():
                self.feed(RedriveOpened(self.world.spans(), self.world.now_ms))
            case ReadLetters():
                self._read(instruction)
        return True

    def _read(self, instruction: ReadLetters) -> None:
        world = self.world
        self.positions = self.positions or dict(instruction.positions)
        letters: list[tuple[StoredRecord, DeadLetter]] = []
        ended = []
        for partition in sorted(instruction.positions):
            while self.positions[partition] < world.ends[partition] and len(letters) < instruction.records_max:
                record = world.records.get((partition, self.positions[partition]))
                self.positions[partition] += 1
                if record is not None:
                    letters.append((record, letter_of(record)))
            if self.positions[partition] >= world.ends[partition]:
                ended.append(partition)
        self.feed(LettersRead(letters, ended, world.now_ms))

    def _store(self, batch: StoreLetters, fate: Fate) -> bool:
        world = self.world
        refused = {record.topic: "forbidden" for record in batch.records if record.topic in world.refused_targets}
        poisoned = any(record.value in world.poison for record in batch.records)
        if refused:
            self.feed(RedriveFailed("forbidden", world.now_ms, refused_targets=refused))
        elif poisoned:
            self.feed(RedriveFailed("too large", world.now_ms, is_letters_fault=True))
        elif fate is Fate.DONE:
            world.store(batch)
            self.feed(LettersStored(world.now_ms))
        elif fate is Fate.FAILED:
            self.feed(RedriveFailed("aborted", world.now_ms))
        elif fate is Fate.UNKNOWN:
            world.store(batch)
            self.feed(RedriveFailed("no answer", world.now_ms))
        elif fate is Fate.KILLED_LATE:
            world.store(batch)
        return fate not in (Fate.KILLED, Fate.KILLED_LATE)


def all_to_origin(wish: RedriveWish | None = None) -> RedriveWish:
    return replace(wish or RedriveWish("dead"), targets={"orders": "orders", "other": "other"})
