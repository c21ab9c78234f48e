"""Memory that the members of one group take up, by what each of them declared.

Knows nothing of partitions: the group counts those.
"""

from collections.abc import Mapping
from typing import Protocol


class Weighed(Protocol):
    """A member that knows its size."""

    @property
    def footprint_bytes(self) -> int: ...


class Footprints:
    """Bytes of each member, and their sum, so that a request's check costs the same however many members there are."""

    __slots__ = ("_of_members", "total_bytes")

    def __init__(self) -> None:
        self._of_members: dict[str, int] = {}
        self.total_bytes = 0

    def of(self, member_id: str) -> int:
        """Bytes of one member; 0 for an unknown one."""
        return self._of_members.get(member_id, 0)

    def count(self, member_id: str, member: Weighed | None) -> None:
        """Count a member that declared something else, or is gone (None)."""
        self.total_bytes -= self._of_members.pop(member_id, 0)
        if member is not None:
            self._of_members[member_id] = member.footprint_bytes
            self.total_bytes += self._of_members[member_id]

    def check_invariants(self, members: Mapping[str, Weighed]) -> None:
        assert self._of_members == {member_id: member.footprint_bytes for member_id, member in members.items()}
        assert self.total_bytes == sum(self._of_members.values())
