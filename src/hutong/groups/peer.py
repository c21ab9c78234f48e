"""The one thing that classic groups ask of the coordinators of other kinds on the same node."""

from typing import Protocol


class PeerCoordinator(Protocol):
    """The coordinator of another kind of groups."""

    def release_empty_group(self, group_id: str) -> bool:
        """Release a group without members, which keeps its offsets, so that it can become a classic one.

        False if there is none such.
        """
        ...
