"""How long JoinGroup requests wait for each other.

Knows nothing of members: the machine closes the barrier early when everyone is there.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class JoinBarrier:
    """Open until `deadline_ms`. One that gathers the first members of an empty group is extended while more arrive."""

    deadline_ms: int
    gathering_until_ms: int | None = None  # the limit of extensions; None where absent members are known by name
    newcomer_arrived: bool = False  # since the deadline was last set

    def extend(self, now_ms: int, delay_ms: int) -> bool:
        """Wait on for those still arriving: that costs less than one more rebalance. False when it is time to close."""
        limit_ms = self.gathering_until_ms
        if limit_ms is None or not self.newcomer_arrived or now_ms >= limit_ms:
            return False
        self.newcomer_arrived = False
        self.deadline_ms = min(now_ms + delay_ms, limit_ms)
        return True
