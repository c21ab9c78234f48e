"""Events, instructions and replies of a consumer group, and its durable state.

Plain values. A `ticket` names one waiting request: the group answers each ticket exactly once, and the driver that
carries the answer out waits until everything that the group had stored until then is durable. `now_ms` is monotonic
time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeAlias

from hutong.foundation.machine import Answer, Tick
from hutong.groups.classic.messages import Join, JoinReply, Sync, SyncReply
from hutong.groups.consumer.record_tables import MemberValue
from hutong.wire.kafka.error_codes import ErrorCode

Partition: TypeAlias = tuple[bytes, int]
"""(topic id, index). A topic that is deleted and made again under its name is another topic."""

JOINING: Final = 0
LEAVING: Final = -1
LEAVING_FOR_A_WHILE: Final = -2  # a static member that will come back
NO_TIMEOUT: Final = -1


class RecordKind(IntEnum):
    """The records of one group; the numbers are Kafka's versions of their keys."""

    GROUP = 3
    MEMBER = 5
    TARGET_EPOCH = 6
    TARGET = 7
    CURRENT = 8


RecordKey: TypeAlias = tuple[RecordKind, str]
"""Key of a record: its kind, and the member id for kinds with one record of each member, else an empty string."""


# ---- what members are


@dataclass(frozen=True, slots=True)
class ClassicSpeech:
    """A member's declaration by the classic protocol: (name, metadata) in its order of preference."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


# ---- events


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeat:
    """ConsumerGroupHeartbeat. None means "unchanged". `member_id` is never empty: the driver makes one."""

    ticket: int
    now_ms: int
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NO_TIMEOUT
    topic_names: frozenset[str] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned: frozenset[Partition] | None = None
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True)
class Removal:
    """One member to be removed by an administrator or its own LeaveGroup; an instance id alone is enough (KIP-345)."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Remove:
    ticket: int
    now_ms: int
    removals: tuple[Removal, ...]


@dataclass(frozen=True, slots=True)
class SubscribedTopicsChanged:
    """Topics came, went or grew. The catalogue knows it already."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """These records are not on disk: they are stored again with the next change."""

    keys: tuple[RecordKey, ...]


Event: TypeAlias = ConsumerHeartbeat | Remove | Tick | SubscribedTopicsChanged | StoreFailed | Join | Sync


# ---- replies


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """`assignment` is None where the member knows it already."""

    error: ErrorCode
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: frozenset[Partition] | None = None


@dataclass(frozen=True, slots=True)
class RemoveReply:
    """One code for each removal, in the order asked."""

    errors: tuple[ErrorCode, ...]


Reply: TypeAlias = HeartbeatReply | RemoveReply | JoinReply | SyncReply


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


Instruction: TypeAlias = Answer[Reply] | StoreRecords | EpochNote


# ---- descriptions


@dataclass(frozen=True, slots=True)
class ConsumerMemberDescription:
    member_id: str
    instance_id: str | None
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    topic_names: frozenset[str]
    topic_regex: str | None
    assigned: frozenset[Partition]
    target: frozenset[Partition]
    is_classic: bool = False


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    """A group as ConsumerGroupDescribe shows it."""

    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[ConsumerMemberDescription, ...]


@dataclass(slots=True)
class StoredGroup:
    """A group as replayed from its records."""

    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = 0
    members: dict[str, MemberValue] = field(default_factory=dict)
    targets: dict[str, frozenset[Partition]] = field(default_factory=dict)
    currents: dict[str, "StoredCurrent"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredCurrent:
    """A member's partitions as stored, each with the epoch in which it was assigned."""

    epoch: int
    previous_epoch: int
    state: int
    assigned: Mapping[Partition, int]
    revoking: Mapping[Partition, int]
