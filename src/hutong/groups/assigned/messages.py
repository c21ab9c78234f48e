"""Events, instructions and stored state that every kind of group has in which the broker assigns.

Plain values. A *holding* is what a member is given: a partition of a consumer group, a task of a streams group.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Generic, TypeAlias, TypeVar

from hutong.wire.kafka.error_codes import ErrorCode

JOINING: Final = 0
LEAVING: Final = -1
LEAVING_FOR_A_WHILE: Final = -2  # a static member that will come back
NO_TIMEOUT: Final = -1

HoldingT = TypeVar("HoldingT", bound=tuple[object, ...])


class RecordKind(IntEnum):
    """The records of one group, in the order in which they are written. Each kind of group has its key versions."""

    GROUP = 1
    TOPOLOGY = 2  # of streams groups alone
    MEMBER = 3
    TARGET_EPOCH = 4
    TARGET = 5
    CURRENT = 6


RecordKey: TypeAlias = tuple[RecordKind, str]
"""Key of a record: its kind, and the member id for kinds with one record of each member, else an empty string."""

OF_EACH_MEMBER: Final = frozenset({RecordKind.MEMBER, RecordKind.TARGET, RecordKind.CURRENT})


# ---- events


@dataclass(frozen=True, slots=True)
class Removal:
    """One member to be removed by an administrator or its own LeaveGroup; an instance id alone is enough (KIP-345)."""

    member_id: str  # may be empty where there is an instance id
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Remove:
    ticket: int
    now_ms: int
    removals: tuple[Removal, ...]


@dataclass(frozen=True, slots=True)
class RemoveReply:
    """One code for each removal, in the order asked."""

    errors: tuple[ErrorCode, ...]


@dataclass(frozen=True, slots=True)
class SubscribedTopicsChanged:
    """Topics came, went or grew. The catalogue knows it already."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """These records are not on disk: they are stored again with the next change."""

    keys: tuple[RecordKey, ...]


# ---- instructions


@dataclass(frozen=True, slots=True)
class StoreRecords:
    """Make these records durable as the group now has them; those it has no more are deleted."""

    keys: tuple[RecordKey, ...]


@dataclass(frozen=True, slots=True)
class EpochNote:
    """For people and figures: what happened to the group."""

    text: str
    is_rebalance: bool = False


# ---- stored


@dataclass(frozen=True, slots=True)
class StoredCurrent(Generic[HoldingT]):
    """A member's holdings as stored, each with the epoch in which it was assigned."""

    epoch: int
    previous_epoch: int
    state: int  # Kafka's number, checked when the member is restored
    assigned: Mapping[HoldingT, int]
    revoking: Mapping[HoldingT, int]
