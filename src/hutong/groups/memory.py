"""Memory of the members of all groups of a kind: most of it is their clients' choice, so it has a bound.

Strategy: each group's bytes are recorded after every event, as its maker's, and makers share the bound
(`foundation.fair_shares`). A member that needs more than there is room for is refused; one that needs no more than
before always passes, so that groups continue to work at the bound.

Knows nothing of protocols or times.
"""

from hutong.foundation.fair_shares import FairShares


class GroupMemory:
    """Bytes by group. More than `bytes_max` only by groups that were there at a start, or by a topic that has grown."""

    __slots__ = ("_notes", "_shares")

    def __init__(self, name: str, bytes_max: int) -> None:
        self._shares = FairShares(name, bytes_max)
        self._notes: dict[str, tuple[str, int]] = {}  # group -> (holder, bytes), of those that have any

    @property
    def held_bytes(self) -> int:
        return self._shares.taken

    def note(self, group_id: str, holder: str, now_bytes: int) -> None:
        """Record what the group takes up now."""
        before = self._notes.get(group_id)
        if before == (holder, now_bytes) or (before is None and not now_bytes):
            return
        if before is not None:
            self._shares.release(*before)
        if now_bytes:
            self._notes[group_id] = holder, now_bytes
            self._shares.take(holder, now_bytes)
        else:
            self._notes.pop(group_id, None)

    def forget(self, group_id: str) -> None:
        """The group is gone."""
        self.note(group_id, "", 0)

    def has_room(self, holder: str, wanted_bytes: int) -> bool:
        """Return True if this client may have `wanted_bytes` in addition."""
        return self._shares.may_take(holder, wanted_bytes)
