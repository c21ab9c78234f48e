"""The registry of group ids: an id belongs to one kind of group at a time, and to the client that created it.

Strategy: a coordinator claims the id of a group before it creates the group, and releases it with the group. Clients
name groups without saying their kind, so a request for an id is routed by this registry. Groups of all kinds have one
bound, which their makers share (`foundation.fair_shares`): no client can take all names.

Knows nothing of what groups are.
"""

from enum import Enum
from typing import Final

from hutong.foundation.fair_shares import NOBODY, FairShares

GROUPS_MAX: Final = 10_000


class GroupKind(Enum):
    """The kinds of groups. The value is the type that ListGroups shows."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class GroupDirectory:
    """The ids of all groups of this node. A holder is a client as `GroupCaller.holder` names it."""

    __slots__ = ("_holders", "_kinds", "_shares")

    def __init__(self, groups_max: int = GROUPS_MAX) -> None:
        self._kinds: dict[str, GroupKind] = {}
        self._holders: dict[str, str] = {}
        self._shares = FairShares("group.max_groups", groups_max)

    def __len__(self) -> int:
        return len(self._kinds)

    def newest_last(self) -> list[str]:
        """Every id in the order in which this process came to know them."""
        return list(self._kinds)

    def kind(self, group_id: str) -> GroupKind | None:
        """The kind of group that has this id, or None."""
        return self._kinds.get(group_id)

    def holder(self, group_id: str) -> str:
        """The client that made the group; NOBODY for one that was there at the start."""
        return self._holders.get(group_id, NOBODY)

    def has_room(self, group_id: str, holder: str) -> bool:
        """Return True if the group exists, or the client `holder` may create it."""
        return group_id in self._kinds or self._shares.may_take(holder)

    def claim(self, group_id: str, kind: GroupKind, holder: str = NOBODY) -> bool:
        """Take the id. False if another kind has it. A group that nobody holds is held by the first who claims it."""
        if self._kinds.setdefault(group_id, kind) is not kind:
            return False
        before = self._holders.get(group_id)
        if before is None or (before == NOBODY and holder != NOBODY):
            if before is not None:
                self._shares.release(before)
            self._holders[group_id] = holder
            self._shares.take(holder)
        return True

    def release(self, group_id: str, kind: GroupKind) -> None:
        """Give the id up; what another kind has stays with it."""
        if self._kinds.get(group_id) is kind:
            del self._kinds[group_id]
            self._shares.release(self._holders.pop(group_id))
