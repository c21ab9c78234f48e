"""Events, instructions and replies of a classic group.

Plain values. A `ticket` names one waiting request: the group answers each ticket exactly once, when it likes, and knows
nothing else about who asked. `now_ms` is monotonic time; wall time appears only where it is stored.
"""

from dataclasses import dataclass
from typing import TypeAlias

from hutong.foundation.machine import Answer, Tick
from hutong.groups.classic.records import GroupRecord
from hutong.wire.kafka.error_codes import ErrorCode

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""(name, metadata) in the member's order of preference. The metadata is the client's own and opaque here."""


# ---- events


@dataclass(frozen=True, slots=True)
class Join:
    """JoinGroup. `new_member_id` is used only if the group decides to hand out an id."""

    ticket: int
    now_ms: int
    member_id: str
    new_member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    requires_known_member_id: bool = True  # KIP-394, version 4 on
    can_skip_assignment: bool = True  # KIP-814, version 9 on
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Sync:
    """SyncGroup. Only the leader's `assignments` count. Null protocol fields mean that the client is too old to say."""

    ticket: int
    now_ms: int
    member_id: str
    group_instance_id: str | None
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Leaver:
    """A member that leaves. An empty `member_id` with an instance id is an administrator's removal (KIP-345)."""

    member_id: str
    group_instance_id: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    ticket: int
    now_ms: int
    leavers: tuple[Leaver, ...]


@dataclass(frozen=True, slots=True)
class Lapse:
    """A member id that was handed out and not used counts no more: its client has too many of them."""

    member_id: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class Assigned:
    """The cause of a record: the leader's assignment of this generation."""

    generation_id: int


@dataclass(frozen=True, slots=True)
class Replaced:
    """The cause of a record: a static member came back under a new id, without a rebalance."""

    ticket: int
    group_instance_id: str
    old_member_id: str
    new_member_id: str
    old_leader_id: str | None
    can_skip_assignment: bool


@dataclass(frozen=True, slots=True)
class Emptied:
    """The cause of a record: the last member left."""

    generation_id: int


Cause: TypeAlias = Assigned | Replaced | Emptied


@dataclass(frozen=True, slots=True)
class GroupPersisted:
    cause: Cause
    now_ms: int


@dataclass(frozen=True, slots=True)
class GroupPersistFailed:
    cause: Cause
    error: ErrorCode
    now_ms: int


@dataclass(frozen=True, slots=True)
class Retire:
    """The group was deleted or expired; only an empty group is ever retired."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """A stable group without waiting requests becomes one of another kind, which is made of its `snapshot`."""


@dataclass(frozen=True, slots=True)
class Rejoin:
    """Every member has to join again: the group has just become a classic one."""

    reason: str
    now_ms: int


Event: TypeAlias = (
    Join | Sync | LeaveGroup | Lapse | Tick | GroupPersisted | GroupPersistFailed | Retire | HandOver | Rejoin
)


# ---- replies


@dataclass(frozen=True, slots=True)
class JoinReply:
    """`members` (member id, instance id, metadata) is filled for the leader only."""

    error: ErrorCode
    member_id: str = ""
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    skip_assignment: bool = False
    members: tuple[tuple[str, str | None, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class SyncReply:
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class LeaveReply:
    """One code for each leaver, in the order asked."""

    errors: tuple[ErrorCode, ...]


Reply: TypeAlias = JoinReply | SyncReply | LeaveReply


# ---- instructions


@dataclass(frozen=True, slots=True)
class PersistGroup:
    """Make the record durable, then send `GroupPersisted(cause)` or `GroupPersistFailed(cause, ...)`."""

    record: GroupRecord
    cause: Cause


@dataclass(frozen=True, slots=True)
class Rebalancing:
    """For people and figures: a rebalance has begun after this generation, for this reason."""

    generation_id: int
    reason: str


Instruction: TypeAlias = Answer[Reply] | PersistGroup | Rebalancing


# ---- descriptions


@dataclass(frozen=True, slots=True)
class ClassicMemberDescription:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class ClassicGroupDescription:
    """A group as DescribeGroups shows it. `protocol_name` is empty until a generation is agreed."""

    group_id: str
    state: str
    protocol_type: str
    protocol_name: str
    members: tuple[ClassicMemberDescription, ...]
