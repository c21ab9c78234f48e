"""Committed offsets of one client's groups: it may have a fair share of the bounds on all offsets and their notes.

Knows nothing of how offsets are stored (`store.py`).
"""

from collections.abc import Sequence

from hutong.groups.directory import GroupDirectory
from hutong.groups.memory import GroupMemory
from hutong.groups.offsets.offset_log import Change
from hutong.groups.offsets.store import OffsetBounds, OffsetStore


class OffsetShares:
    """Follows the store from its replay on."""

    __slots__ = ("_directory", "_notes", "_offsets", "_store")

    def __init__(self, store: OffsetStore, directory: GroupDirectory, bounds: OffsetBounds) -> None:
        self._store = store
        self._directory = directory
        self._offsets = GroupMemory("offsets_max", bounds.offsets_max)
        self._notes = GroupMemory("offset_notes_bytes_max", bounds.offset_notes_bytes_max)
        store.on_size = self._resized

    def has_room(self, group_id: str, changes: Sequence[Change], holder: str) -> bool:
        """Return True if the group's client has room for these changes. Changes that add nothing always pass."""
        offsets, notes_bytes = self._store.added_by(changes)
        owner = self._directory.holder(group_id) or holder
        return (not offsets or self._offsets.has_room(owner, offsets)) and (
            not notes_bytes or self._notes.has_room(owner, notes_bytes)
        )

    def _resized(self, group_id: str, offsets: int, notes_bytes: int) -> None:
        holder = self._directory.holder(group_id)
        self._offsets.note(group_id, holder, offsets)
        self._notes.note(group_id, holder, notes_bytes)
