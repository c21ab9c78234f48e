"""Events and instructions of a handling machine, and its work items.

Knows nothing of how either is decided or carried out.
"""

import enum
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hutong.foundation.machine import Tick

RECORDS_HELD_MAX: Final = 2_000  # of one partition; also how far it reads on behind a record that is not done
BYTES_HELD_MAX: Final = 16 << 20  # of one partition

Place = tuple[str, int]
"""Topic and partition."""


class WorkState(enum.IntEnum):
    """States of a work item."""

    QUEUED = 0  # another one of its key is before it
    READY = 1  # first of its key, no slot yet
    HANDLING = 2  # has a slot; the handler has it
    WAITING = 3  # failed, for its next attempt
    PUBLISHING = 4  # handled or given up; its records are on their way
    DONE = 5
    DROPPED = 6  # its partition was taken away


class TakenRecord:
    """A record as the client library gave it, and what was decoded of it. `problem` says why it cannot be decoded."""

    __slots__ = ("key", "message", "model", "offset", "problem", "size_bytes")

    def __init__(self, offset: int, key: bytes | None, size_bytes: int, message: Any = None) -> None:
        self.offset = offset
        self.key = key
        self.size_bytes = size_bytes
        self.message = message
        self.model: Any = None
        self.problem: Exception | None = None


class WorkItem:
    """One call of the handler: a record, or a batch of them. For the driver a ticket that it gives back.

    `outputs` are the driver's own: records that must be stored before the item counts as done.
    """

    __slots__ = (
        "attempts",
        "error_text",
        "error_type",
        "first_failure_ms",
        "following",
        "is_buried",
        "last_failure_ms",
        "outputs",
        "records",
        "share",
        "state",
    )

    def __init__(self, share: "PartitionShare", records: list[TakenRecord]) -> None:
        self.share = share
        self.records = records
        self.state = WorkState.QUEUED
        self.following: WorkItem | None = None  # the next item of its key
        self.attempts = 0  # begun so far
        self.is_buried = False  # given up: what is published is its dead letters
        self.error_type = ""  # of the last failure
        self.error_text = ""
        self.first_failure_ms = 0
        self.last_failure_ms = 0
        self.outputs: Sequence[Any] = ()

    @property
    def key(self) -> bytes | None:
        return self.records[0].key


@dataclass(slots=True, eq=False)
class PartitionShare:
    """The state of one partition that is ours."""

    place: Place
    position: int | None = None  # the offset that may be committed: everything before it is done
    committed: int | None = None  # what was last taken for a commit
    items: deque[WorkItem] = field(default_factory=deque)  # by offset; the first is not done
    tails: dict[bytes | None, WorkItem] = field(default_factory=dict)  # the last item of each key that has one
    gathering: list[TakenRecord] = field(default_factory=list)  # of the next batch
    gathering_until_ms: int = 0
    finished: list[WorkItem] = field(default_factory=list)  # done, not committed; kept for transactions only
    last_offset: int = -1  # that arrived
    records_held: int = 0
    bytes_held: int = 0
    running: int = 0  # items that are HANDLING, or PUBLISHING without a pause
    is_paused: bool = False
    is_leaving: bool = False  # nothing new is begun


@dataclass(frozen=True, slots=True)
class SharesGiven:
    """These partitions are ours from now on."""

    places: Sequence[Place]


@dataclass(frozen=True, slots=True)
class SharesLeaving:
    """These partitions will be taken away: begin nothing new of them. None: all, for good."""

    places: Sequence[Place] | None


@dataclass(frozen=True, slots=True)
class SharesGone:
    """Others have these partitions: what is left of them counts for nothing. None: all."""

    places: Sequence[Place] | None


@dataclass(slots=True)
class RecordsTaken:
    place: Place
    records: Sequence[TakenRecord]  # by offset
    now_ms: int


class HandlerReturned:
    """The handler is done with an item; with `outputs` it is not finished before they are stored."""

    __slots__ = ("item",)

    def __init__(self, item: WorkItem) -> None:
        self.item = item


@dataclass(slots=True)
class AttemptFailed:
    """`is_final`: no other attempt."""

    item: WorkItem
    error_type: str
    error_text: str
    now_ms: int
    wall_ms: int
    is_final: bool = False


@dataclass(slots=True)
class OutputsStored:
    item: WorkItem


@dataclass(slots=True)
class OutputsRefused:
    """The outputs are not stored. They are sent again, unless it `is_hopeless`."""

    item: WorkItem
    reason: str
    is_hopeless: bool
    now_ms: int
    wall_ms: int


@dataclass(frozen=True, slots=True)
class Begin:
    """Call the handler, then report HandlerReturned or AttemptFailed."""

    item: WorkItem


@dataclass(frozen=True, slots=True)
class PublishOutputs:
    """Publish the item's outputs, or its dead letters where it `is_buried`; then report the outcome."""

    item: WorkItem


@dataclass(frozen=True, slots=True)
class PausePartition:
    place: Place


@dataclass(frozen=True, slots=True)
class ResumePartition:
    place: Place


@dataclass(frozen=True, slots=True)
class PartitionQuiet:
    """Nothing of a leaving partition is in hand any more."""

    place: Place


@dataclass(frozen=True, slots=True)
class HaltHandling:
    """Going on would lose a message: nothing more is begun."""

    reason: str


@dataclass(frozen=True, slots=True)
class PositionTaken:
    """An offset to be committed, and the items whose outputs belong into the same transaction."""

    offset: int
    items: Sequence[WorkItem] = ()


HandlingEvent = (
    SharesGiven
    | SharesLeaving
    | SharesGone
    | RecordsTaken
    | HandlerReturned
    | AttemptFailed
    | OutputsStored
    | OutputsRefused
    | Tick
)
HandlingInstruction = Begin | PublishOutputs | PausePartition | ResumePartition | PartitionQuiet | HaltHandling


@dataclass(frozen=True, slots=True)
class HandlingRules:
    """The options of a handler that its machine needs.

    `batch_max` None: one record for each call. With `keeps_finished` a finished item stays until its position is
    committed, because its outputs belong into that transaction.
    """

    concurrency: int = 1
    batch_max: int | None = None
    batch_wait_ms: int = 0
    has_dead_letters: bool = True
    keeps_finished: bool = False
    records_held_max: int = RECORDS_HELD_MAX
    bytes_held_max: int = BYTES_HELD_MAX
