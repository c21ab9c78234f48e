"""What the members of all classic groups take up together: most of it is their clients' choice, so it has a bound.

Strategy: each group's share is noted after whatever happens to it. Who would take more than there is room for is sent
away for a while; what takes no more than before always passes, so that groups go on at the bound.

Knows nothing of protocols or times.
"""

from hutong.groups.seats import Seat
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest
from hutong.wire.kafka.apis.k14_sync_group import SyncGroupRequest


class GroupMemory:
    """`held_bytes` of at most `bytes_max`, but for what is noted of groups that were taken up at a start."""

    def __init__(self, bytes_max: int) -> None:
        self.held_bytes = 0
        self._bytes_max = bytes_max

    def note(self, seat: Seat) -> None:
        """Something happened to the group."""
        now_bytes = seat.group.memory_bytes
        self.held_bytes += now_bytes - seat.memory_bytes
        seat.memory_bytes = now_bytes

    def forget(self, seat: Seat) -> None:
        self.held_bytes -= seat.memory_bytes
        seat.memory_bytes = 0

    def has_room_to_join(self, request: JoinGroupRequest, seat: Seat | None) -> bool:
        wanted = sum(len(each.name) + len(each.metadata) for each in request.protocols)
        if self.held_bytes + wanted <= self._bytes_max:
            return True
        members = seat.group.roster.members if seat is not None else {}
        known = members.get(request.member_id)
        return known is not None and wanted <= sum(len(name) + len(metadata) for name, metadata in known.protocols)

    def has_room_to_sync(self, request: SyncGroupRequest, seat: Seat) -> bool:
        wanted = sum(len(each.assignment) for each in request.assignments)
        return wanted <= seat.group.assignment_bytes or self.held_bytes + wanted <= self._bytes_max
