"""Liveness and readiness of the node.

Strategy: `/healthz` answers as long as the loop runs: a supervisor that restarts on its silence helps, one that
restarts because a disk is full does not. `/readyz` answers 503 while the node recovers or stops, and while a partition
group takes no records or could not read some a moment ago, with the reason of each, one a line.

Knows nothing of HTTP: `pages` has the routes.
"""

from collections.abc import Mapping

from hutong.journal.journal import Journal


class Health:
    """The state of a node for both pages. The node sets `is_serving` while its listeners are open."""

    def __init__(self, journals: Mapping[str, Journal]) -> None:
        self.is_serving = False
        self._journals = journals

    def reasons(self) -> list[str]:
        """The reasons for which the node is not ready; none where it is."""
        reasons = [] if self.is_serving else ["the node is not accepting clients"]
        for group, journal in self._journals.items():
            if journal.offline is not None:
                reasons.append(f"partition group {group} is offline: {journal.offline}")
            elif journal.failure is not None:
                reasons.append(f"partition group {group} has failed: {journal.failure}")
            elif journal.is_disk_full:
                reasons.append(f"partition group {group} has no space left")
            elif journal.shortage is not None:
                reasons.append(f"partition group {group} cannot write for now: {journal.shortage}")
            if (error := journal.reader.failures.recent) is not None:
                reasons.append(f"partition group {group} could not be read: {error}")
        return reasons
