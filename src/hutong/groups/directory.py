"""Which kind of group has which name: a group id belongs to one kind at a time.

Strategy: whoever seats a group claims its id first and releases it when the group is dropped. Clients name groups
without saying their kind, so whoever is asked about a name looks here to learn whom to ask.

Knows nothing of what groups are.
"""

from enum import Enum


class GroupKind(Enum):
    """The kinds of groups. The value is the type that ListGroups shows."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"


class GroupDirectory:
    """The ids of all groups of this node."""

    __slots__ = ("_kinds",)

    def __init__(self) -> None:
        self._kinds: dict[str, GroupKind] = {}

    def __len__(self) -> int:
        return len(self._kinds)

    def newest_last(self) -> list[str]:
        """Every id in the order in which this process came to know them."""
        return list(self._kinds)

    def kind(self, group_id: str) -> GroupKind | None:
        """Who has this id, or None."""
        return self._kinds.get(group_id)

    def claim(self, group_id: str, kind: GroupKind) -> bool:
        """Take the id. False if another kind has it; to claim what one has already changes nothing."""
        return self._kinds.setdefault(group_id, kind) is kind

    def release(self, group_id: str, kind: GroupKind) -> None:
        """Give the id up; what another kind has stays with it."""
        if self._kinds.get(group_id) is kind:
            del self._kinds[group_id]
