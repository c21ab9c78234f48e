"""What classic groups ask of the groups of other kinds on the same node."""

from typing import Protocol


class Neighbour(Protocol):
    """The coordinator of another kind of groups, whose committed offsets lie with those of classic groups."""

    def give_up(self, group_id: str) -> bool:
        """Let go of a group that has no members, so that it can become a classic one; False if there is none such."""
        ...

    def enforce_retention(self, now_ms: int) -> None:
        """Forget old offsets of its groups. `now_ms` is wall time."""
        ...
