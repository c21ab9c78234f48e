"""One classic group in its host, and what the coordinator keeps of it.

Decides nothing.
"""

from hutong.foundation.machine_host import MachineEntry
from hutong.groups.classic.machine import ClassicGroup
from hutong.groups.classic.states import GroupState
from hutong.groups.offsets.store import Usage
from hutong.groups.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest
from hutong.wire.kafka.apis.k14_sync_group import SyncGroupRequest


def bytes_of_join(request: JoinGroupRequest) -> int:
    """Bytes of the metadata that a new member declares."""
    return sum(len(each.name) + len(each.metadata) for each in request.protocols)


class ClassicGroupEntry(MachineEntry[str, ClassicGroup]):
    __slots__ = ("_read_topics", "empty_since_ms")

    def __init__(self, group: ClassicGroup) -> None:
        super().__init__(group.group_id, group)
        self.empty_since_ms: int | None = None  # wall time; None while it has members, or if it never had any
        self._read_topics: tuple[int, frozenset[str] | None] = (-1, frozenset())  # of the generation

    def more_to_join(self, request: JoinGroupRequest) -> int:
        """Bytes that the group would keep in addition with this member; no less than 0."""
        known = self.machine.member_table.members.get(request.member_id)
        kept = 0 if known is None else sum(len(name) + len(metadata) for name, metadata in known.protocols)
        return max(0, bytes_of_join(request) - kept)

    def more_to_sync(self, request: SyncGroupRequest) -> int:
        """Bytes that the group would keep in addition with these assignments; no less than 0."""
        return max(0, sum(len(each.assignment) for each in request.assignments) - self.machine.assignment_bytes)

    def reads(self, topic: str) -> bool:
        """Return True if the group has members that subscribe to the topic; also if nobody can read what they say."""
        group = self.machine
        if group.protocol_type != CONSUMER_PROTOCOL_TYPE or not group.member_table.members:
            return False
        # Members change what they read in a rebalance only, and a read from the disk should not decode all of it.
        if group.state is GroupState.STABLE and self._read_topics[0] != group.generation_id:
            self._read_topics = group.generation_id, subscribed_topics(group.subscriptions())
        topics = self._read_topics[1]
        return topics is None or topic in topics

    def usage(self) -> Usage:
        """The group's use of its offsets, for retention (KIP-211)."""
        group = self.machine
        is_understood = group.state is GroupState.STABLE and group.protocol_type == CONSUMER_PROTOCOL_TYPE
        return Usage(
            has_members=group.state is not GroupState.EMPTY,
            empty_since_ms=self.empty_since_ms,
            subscribed=subscribed_topics(group.subscriptions()) if is_understood else None,
        )
