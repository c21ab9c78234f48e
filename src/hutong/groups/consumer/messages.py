"""Events, instructions and replies of a consumer group, and its durable state.

Plain values. A `ticket` names one waiting request: the group answers each ticket exactly once, and the driver that
carries the answer out waits until everything that the group had stored until then is durable. `now_ms` is monotonic
time.
"""

from dataclasses import dataclass
from typing import TypeAlias

from hutong.foundation.machine import Answer, Tick
from hutong.groups.assigned import records as stored
from hutong.groups.assigned.messages import (
    NO_TIMEOUT,
    EpochNote,
    Remove,
    RemoveReply,
    StoreFailed,
    StoreRecords,
    SubscribedTopicsChanged,
)
from hutong.groups.classic.messages import Join, JoinReply, Sync, SyncReply
from hutong.groups.consumer.record_tables import MemberValue
from hutong.wire.kafka.error_codes import ErrorCode

Partition: TypeAlias = tuple[bytes, int]
"""(topic id, index). A topic that is deleted and made again under its name is another topic."""

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


Reply: TypeAlias = HeartbeatReply | RemoveReply | JoinReply | SyncReply


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


StoredGroup: TypeAlias = stored.StoredGroup[MemberValue, Partition]
"""A group as replayed from its records."""
