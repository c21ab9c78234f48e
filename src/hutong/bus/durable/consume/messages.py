"""What the machine of a durable consumer hears and says, and what it holds of a record.

Knows nothing of how either is decided or carried out.
"""

import enum
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from hutong.bus.durable.consume.caution import Caution, Note

HANDLING_MAX: Final = 64
BUFFERED_RECORDS_MAX: Final = 1_000  # of one partition; also how far it reads on behind a record that is not done
BUFFERED_BYTES_MAX: Final = 16 << 20  # of one partition


class Record(Protocol):
    """What the machine needs to know of a record."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def size_bytes(self) -> int: ...


class State(enum.Enum):
    QUEUED = "queued"  # somebody in its lane is before it
    READY = "ready"  # first of its lane, no slot yet
    NOTING = "noting"  # has a slot; a note is written before it begins
    HANDLING = "handling"  # has a slot; the handler has it
    WAITING = "waiting"  # failed, for its next attempt
    BURYING = "burying"  # given up; the dead letter is on its way
    DONE = "done"
    DROPPED = "dropped"  # its partition was revoked


@dataclass(slots=True, eq=False)
class Entry:
    """One record in the machine's hands; for the driver a ticket that it gives back with the outcome."""

    partition: "Partition"
    record: Record
    lane: Hashable
    state: State = State.QUEUED
    attempts: int = 0  # begun so far
    error_type: str = ""  # of the last failure
    error_text: str = ""
    first_failure_ms: int = 0
    last_failure_ms: int = 0

    @property
    def offset(self) -> int:
        return self.record.offset


@dataclass(slots=True, eq=False)
class Partition:
    """What is held of one partition."""

    number: int
    position: int  # the offset that may be committed: everything before it is done
    committed: int  # what was last taken for a commit
    caution: Caution | None = None
    entries: deque[Entry] = field(default_factory=deque)  # by offset; the first is not done
    lanes: dict[Hashable, deque[Entry]] = field(default_factory=dict)  # none is empty
    last_offset: int = -1  # that arrived
    bytes_held: int = 0
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class Assigned:
    """A partition is ours, from `offset`. `note`: its last owner ended without a goodbye and left this."""

    partition: int
    offset: int
    note: Note | None = None


@dataclass(frozen=True, slots=True)
class Revoked:
    partitions: Sequence[int]


@dataclass(frozen=True, slots=True)
class Arrived:
    partition: int
    records: Iterable[Record]  # by offset


@dataclass(frozen=True, slots=True)
class Noted:
    entry: Entry


@dataclass(frozen=True, slots=True)
class Handled:
    entry: Entry


@dataclass(frozen=True, slots=True)
class Failed:
    """`after_ms`: the handler's own wish for the pause; it counts all the same. `is_final`: no other attempt."""

    entry: Entry
    error_type: str
    error_text: str
    now_ms: int
    wall_ms: int
    after_ms: int | None = None
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Buried:
    entry: Entry


@dataclass(frozen=True, slots=True)
class NotBuried:
    """The dead letter was refused. It is tried again unless it `is_hopeless`."""

    entry: Entry
    reason: str
    is_hopeless: bool
    now_ms: int


@dataclass(frozen=True, slots=True)
class Demand:
    """So many more may be delivered; None: any number; 0 takes all demand back."""

    count: int | None


@dataclass(frozen=True, slots=True)
class Tick:
    now_ms: int


@dataclass(frozen=True, slots=True)
class Deliver:
    entry: Entry


@dataclass(frozen=True, slots=True)
class Bury:
    entry: Entry


@dataclass(frozen=True, slots=True)
class WriteNote:
    """Commit the entry's offset with this note, then say Noted, also when it failed: a note is a help, no promise."""

    entry: Entry
    note: Note


@dataclass(frozen=True, slots=True)
class TakeBackNote:
    """Commit the offset with this note some time soon; nobody waits for it."""

    partition: int
    offset: int
    note: Note


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


Event = Assigned | Revoked | Arrived | Noted | Handled | Failed | Buried | NotBuried | Demand | Tick
Instruction = Deliver | Bury | WriteNote | TakeBackNote | Pause | Resume | Stop


@dataclass(frozen=True, slots=True)
class Bounds:
    handling: int = HANDLING_MAX
    records: int = BUFFERED_RECORDS_MAX
    bytes: int = BUFFERED_BYTES_MAX
