"""Ports between the coordinators of the kinds of groups on one node, for groups that change their kind."""

from typing import Protocol

from hutong.groups.classic.records import GroupRecord


class PeerCoordinator(Protocol):
    """The coordinator of another kind of groups."""

    def release_empty_group(self, group_id: str) -> bool:
        """Release a group without members, which keeps its offsets, so that it can become a classic one.

        False if there is none such.
        """
        ...


class ClassicGroups(Protocol):
    """Classic groups, as far as they change their kind."""

    peers: list[PeerCoordinator]

    def release_empty_group(self, group_id: str) -> bool:
        """Let go of a group that has no members, so that it can become one of another kind; False if it has."""
        ...

    def snapshot(self, group_id: str) -> GroupRecord | None:
        """A stable group as it would be stored; None while it is not stable."""
        ...

    def may_adopt(self, record: GroupRecord) -> bool:
        """Return True if a group of these members is within the bounds of classic groups."""
        ...

    def adopt(self, group_id: str, record: GroupRecord, holder: str) -> None:
        """Take over a group of another kind, which has written this record. Its members have to join again."""
        ...

    def hand_over(self, group_id: str) -> None:
        """Forget a stable group with its members: it has become one of another kind."""
        ...
