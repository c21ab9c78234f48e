"""The members of one classic group: the table, the leader, and the protocol that all support.

Strategy: keep small indexes next to the member table (instance id to member id, how many members speak each protocol)
so that every question a join asks is O(1) in the size of the group. The table keeps the order of arrival: leadership
passes to the member that joined first.

Knows nothing of states, generations or time; the machine decides what a change means.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hutong.groups.classic.messages import Protocols
from hutong.wire.kafka.error_codes import ErrorCode

_MEMBER_OVERHEAD_BYTES: Final = 100  # host and numbers


@dataclass(slots=True)
class ClassicMember:
    """One consumer process. A ticket is a parked request; at most one of the two is set at any time."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False  # has never been in a generation: it cannot send heartbeats yet
    join_ticket: int | None = None
    sync_ticket: int | None = None
    session_deadline_ms: int | None = None  # None while a parked request replaces heartbeats

    @property
    def footprint_bytes(self) -> int:
        """Bytes of this member in its group's record, and more: most of them are the client's choice."""
        words = len(self.member_id) + len(self.client_id) + len(self.group_instance_id or "")
        return _MEMBER_OVERHEAD_BYTES + words + sum(len(name) + len(metadata) for name, metadata in self.protocols)

    @property
    def is_parked_here(self) -> bool:
        """A waiting request replaces heartbeats. Not for a new member: its client may be gone for long."""
        return not self.is_new and (self.join_ticket is not None or self.sync_ticket is not None)

    def metadata_for(self, protocol_name: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""


class MemberTable:
    """Members in order of arrival. There is a leader exactly when there are members."""

    __slots__ = ("_speakers", "footprint_bytes", "leader_id", "members", "pending", "static_ids")

    def __init__(self) -> None:
        self.members: dict[str, ClassicMember] = {}
        self.static_ids: dict[str, str] = {}  # group instance id -> member id
        self.pending: dict[str, int] = {}  # ids handed out but not yet used (KIP-394) -> when they lapse, monotonic ms
        self.leader_id: str | None = None
        self.footprint_bytes = 0  # the sum of the members' own
        self._speakers: Counter[str] = Counter()  # protocol name -> members that speak it

    def add(self, member: ClassicMember) -> None:
        self.pending.pop(member.member_id, None)
        self.members[member.member_id] = member
        self._count(member, 1)
        if member.group_instance_id is not None:
            self.static_ids[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member: ClassicMember) -> None:
        del self.members[member.member_id]
        self._count(member, -1)
        if member.group_instance_id is not None:
            del self.static_ids[member.group_instance_id]
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)

    def rename(self, member: ClassicMember, member_id: str, client_id: str, client_host: str) -> None:
        """Give a static member's place to another process; assignment and leadership stay with it (KIP-345)."""
        assert member.group_instance_id is not None
        self._count(member, -1)
        if self.leader_id == member.member_id:
            self.leader_id = member_id
        del self.members[member.member_id]
        member.member_id, member.client_id, member.client_host = member_id, client_id, client_host
        self._count(member, 1)
        self.members[member_id] = member
        self.static_ids[member.group_instance_id] = member_id

    def set_protocols(self, member: ClassicMember, protocols: Protocols) -> None:
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)

    def validate(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Check a member id. A fenced instance gets another error than an unknown member (KIP-345)."""
        if group_instance_id is not None:
            current_id = self.static_ids.get(group_instance_id)
            if current_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def has_common_protocol(self, protocols: Protocols) -> bool:
        """Return True if every member supports one of these protocols; an empty table supports all."""
        count = len(self.members)
        return any(self._speakers[name] == count for name, _ in protocols)

    def select_protocol(self) -> str:
        """The protocol most members prefer among those that all of them speak. Ties go to the eldest member's order."""
        count = len(self.members)
        votes: Counter[str] = Counter()
        for member in self.members.values():
            # There is one: a join without a protocol in common with all members is refused.
            votes[next(name for name, _ in member.protocols if self._speakers[name] == count)] += 1
        return votes.most_common(1)[0][0]

    @property
    def has_everyone_joined(self) -> bool:
        return not self.pending and all(member.join_ticket is not None for member in self.members.values())

    def absent_dynamic(self) -> list[ClassicMember]:
        """Members that missed the join barrier and have no instance id to come back under."""
        return [m for m in self.members.values() if m.join_ticket is None and m.group_instance_id is None]

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it has joined, else pick the eldest that has; False if nobody has."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.join_ticket is not None:
            return True
        for member in self.members.values():
            if member.join_ticket is not None:
                self.leader_id = member.member_id
                return True
        return False

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member asks to be waited for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def check_invariants(self) -> None:
        assert (self.leader_id in self.members) if self.members else (self.leader_id is None)
        statics = {m.group_instance_id: m.member_id for m in self.members.values() if m.group_instance_id is not None}
        assert statics == self.static_ids
        assert not self.pending.keys() & self.members.keys()
        assert all(member_id == member.member_id for member_id, member in self.members.items())
        spoken = Counter(name for m in self.members.values() for name in _names(m.protocols))
        assert spoken == self._speakers
        assert self.footprint_bytes == sum(member.footprint_bytes for member in self.members.values())
        assert all(m.join_ticket is None or m.sync_ticket is None for m in self.members.values())

    def _count(self, member: ClassicMember, by: int) -> None:
        self.footprint_bytes += by * member.footprint_bytes
        for name in _names(member.protocols):
            self._speakers[name] += by
            if not self._speakers[name]:
                del self._speakers[name]


def _names(protocols: Protocols) -> Iterable[str]:
    """Each name once: a client that repeats a protocol has one vote."""
    return dict(protocols).keys()
