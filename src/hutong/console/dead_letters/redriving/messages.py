"""Events and instructions of a redrive, and the user's wish.

Knows nothing of how either is decided or carried out.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hutong.bus.durable.records import OutgoingRecord, StoredRecord
from hutong.console.dead_letters.conventions.letter import DeadLetter
from hutong.console.dead_letters.redriving.progress import RedriveProgress
from hutong.foundation.machine import Tick

BATCH_RECORDS_MAX: Final = 1_000
CHOSEN_MAX: Final = 1_000
RATE_MAX: Final = 1_000_000
"""Letters a second."""
NO_ORIGIN: Final = ""
"""Of letters that do not say where they came from, or name no topic that records may go to."""


@dataclass(frozen=True, slots=True)
class RedriveWish:
    """`targets`: the topic for letters of each origin; those of other origins are left.

    `chosen`: offsets by partition; None: all letters. `reasons`: only letters of these. A dry run writes nothing, and
    ends after `records_max` letters.
    """

    topic: str
    targets: Mapping[str, str] = field(default_factory=dict)
    chosen: Mapping[int, frozenset[int]] | None = None
    reasons: frozenset[str] | None = None
    rate_per_s: int | None = None
    is_dry: bool = False
    records_max: int | None = None


@dataclass(slots=True)
class LetterSpan:
    """The letters of one partition from `begin` up to `end`, as they were when the redrive began."""

    begin: int
    end: int
    done: RedriveProgress


class RedriveState(enum.StrEnum):
    OPENING = "opening"
    RUNNING = "running"
    PAUSED = "paused"
    WAITING = "waiting"  # for the brokers, after a failure
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


REDRIVE_ENDS: Final = frozenset((RedriveState.DONE, RedriveState.CANCELLED, RedriveState.FAILED))


@dataclass(frozen=True, slots=True)
class RedriveOpened:
    """The clients are ready. `spans` have the progress that is committed now."""

    spans: Mapping[int, LetterSpan]
    now_ms: int


@dataclass(frozen=True, slots=True)
class LettersRead:
    """Letters in order of each partition; `ended` are partitions that have no more of them."""

    letters: Sequence[tuple[StoredRecord, DeadLetter]]
    ended: Sequence[int]
    now_ms: int


@dataclass(frozen=True, slots=True)
class LettersStored:
    now_ms: int


@dataclass(frozen=True, slots=True)
class RedriveFailed:
    """A step failed. Of a batch nothing is stored, or it is not known.

    `refused_targets`: topics that take no record of this user, by the reason. `is_letters_fault`: a letter of the batch
    will never be taken, and no one knows which. `is_final`: trying again would not help.
    """

    reason: str
    now_ms: int
    is_final: bool = False
    is_letters_fault: bool = False
    refused_targets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PauseRedrive:
    """Begin nothing more until ResumeRedrive."""


@dataclass(frozen=True, slots=True)
class ResumeRedrive:
    now_ms: int


@dataclass(frozen=True, slots=True)
class CancelRedrive:
    """End after the step that is under way. What is stored stays."""


@dataclass(frozen=True, slots=True)
class OpenRedrive:
    """Open clients, which fences an earlier redrive of the topic; report RedriveOpened."""


@dataclass(frozen=True, slots=True)
class ReadLetters:
    """Read `records_max` letters at most; report LettersRead. `positions` are those of partitions that have more."""

    records_max: int
    positions: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class StoreLetters:
    """Store the records, and the progress of these partitions, in one transaction; report LettersStored."""

    records: Sequence[OutgoingRecord]
    progress: Mapping[int, RedriveProgress]


@dataclass(frozen=True, slots=True)
class RedriveOver:
    """Close the clients."""


RedriveEvent = (
    RedriveOpened | LettersRead | LettersStored | RedriveFailed | PauseRedrive | ResumeRedrive | CancelRedrive | Tick
)
RedriveInstruction = OpenRedrive | ReadLetters | StoreLetters | RedriveOver
