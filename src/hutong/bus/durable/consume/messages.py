"""Events and instructions of a durable consumer's machine, and its entries for records.

Knows nothing of how either is decided or carried out.
"""

import enum
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from hutong.bus.durable.consume.caution import Caution, CautionNote
from hutong.foundation.machine import Tick

HANDLING_MAX: Final = 64
BUFFERED_RECORDS_MAX: Final = 1_000  # of one partition; also how far it reads on behind a record that is not done
BUFFERED_BYTES_MAX: Final = 16 << 20  # of one partition


class FetchedRecord(Protocol):
    """The fields of a record that the machine needs."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def size_bytes(self) -> int: ...


class RecordState(enum.Enum):
    QUEUED = "queued"  # another one of its queue is before it
    READY = "ready"  # first of its queue, no slot yet
    NOTING = "noting"  # has a slot; a note is written before it begins
    HANDLING = "handling"  # has a slot; the handler has it
    WAITING = "waiting"  # failed, for its next attempt
    SENDING_DEAD_LETTER = "burying"  # given up; the dead letter is on its way
    DONE = "done"
    DROPPED = "dropped"  # its partition was revoked


@dataclass(slots=True, eq=False)
class RecordEntry:
    """One record in the machine's hands; for the driver a ticket that it gives back with the outcome."""

    partition: "PartitionState"
    record: FetchedRecord
    queue_key: Hashable
    state: RecordState = RecordState.QUEUED
    attempts: int = 0  # begun so far
    error_type: str = ""  # of the last failure
    error_text: str = ""
    first_failure_ms: int = 0
    last_failure_ms: int = 0

    @property
    def offset(self) -> int:
        return self.record.offset


@dataclass(slots=True, eq=False)
class PartitionState:
    """The state of one partition."""

    number: int
    position: int  # the offset that may be committed: everything before it is done
    committed: int  # what was last taken for a commit
    caution: Caution | None = None
    entries: deque[RecordEntry] = field(default_factory=deque)  # by offset; the first is not done
    queues: dict[Hashable, deque[RecordEntry]] = field(default_factory=dict)  # none is empty
    last_offset: int = -1  # that arrived
    bytes_held: int = 0
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class PartitionAssigned:
    """A partition is ours, from `offset`. `note`: its last owner crashed and left this."""

    partition: int
    offset: int
    note: CautionNote | None = None


@dataclass(frozen=True, slots=True)
class Revoked:
    partitions: Sequence[int]


@dataclass(frozen=True, slots=True)
class Arrived:
    partition: int
    records: Iterable[FetchedRecord]  # by offset


@dataclass(frozen=True, slots=True)
class NoteWritten:
    entry: RecordEntry


@dataclass(frozen=True, slots=True)
class Handled:
    entry: RecordEntry


@dataclass(frozen=True, slots=True)
class Failed:
    """`after_ms`: the handler's own wish for the pause; it counts all the same. `is_final`: no other attempt."""

    entry: RecordEntry
    error_type: str
    error_text: str
    now_ms: int
    wall_ms: int
    after_ms: int | None = None
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class DeadLetterStored:
    entry: RecordEntry


@dataclass(frozen=True, slots=True)
class DeadLetterNotStored:
    """The dead letter was refused. It is tried again unless it `is_hopeless`."""

    entry: RecordEntry
    reason: str
    is_hopeless: bool
    now_ms: int


@dataclass(frozen=True, slots=True)
class Demand:
    """The number of further messages to deliver; None: any number; 0 cancels all demand."""

    count: int | None


@dataclass(frozen=True, slots=True)
class Deliver:
    entry: RecordEntry


@dataclass(frozen=True, slots=True)
class SendDeadLetter:
    entry: RecordEntry


@dataclass(frozen=True, slots=True)
class WriteNote:
    """Commit the entry's offset with this note, then report NoteWritten, also after a failure."""

    entry: RecordEntry
    note: CautionNote


@dataclass(frozen=True, slots=True)
class RevertNote:
    """Commit the offset with this note some time soon; no message waits for it."""

    partition: int
    offset: int
    note: CautionNote


@dataclass(frozen=True, slots=True)
class Pause:
    partition: int


@dataclass(frozen=True, slots=True)
class Resume:
    partition: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Going on would lose a message: nothing more is delivered."""

    reason: str


Event = (
    PartitionAssigned
    | Revoked
    | Arrived
    | NoteWritten
    | Handled
    | Failed
    | DeadLetterStored
    | DeadLetterNotStored
    | Demand
    | Tick
)
Instruction = Deliver | SendDeadLetter | WriteNote | RevertNote | Pause | Resume | Stop


@dataclass(frozen=True, slots=True)
class ConsumerBounds:
    handling: int = HANDLING_MAX
    records: int = BUFFERED_RECORDS_MAX
    bytes: int = BUFFERED_BYTES_MAX
