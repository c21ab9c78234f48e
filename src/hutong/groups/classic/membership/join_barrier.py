"""The barrier at which JoinGroup requests wait for each other, and its deadline.

Knows nothing of members: the machine closes the barrier early when everyone is there.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class JoinBarrier:
    """Open until `deadline_ms`. That of an empty group's first members is extended while more arrive."""

    deadline_ms: int
    extended_until_ms: int | None = None  # the limit of extensions; None where absent members are known by name
    newcomer_arrived: bool = False  # since the deadline was last set
    nobody_came: bool = False  # until the last deadline: this one only waits for the sessions of the absent to end

    def hasten(self, now_ms: int, timeout_ms: int) -> None:
        """Somebody came after all: from here on the absent have what a rebalance gives them, and no longer."""
        if self.nobody_came:
            self.nobody_came = False
            self.deadline_ms = min(self.deadline_ms, now_ms + timeout_ms)

    def extend(self, now_ms: int, delay_ms: int) -> bool:
        """Wait on for those still arriving: that costs less than one more rebalance. False when it is time to close."""
        limit_ms = self.extended_until_ms
        if limit_ms is None or not self.newcomer_arrived or now_ms >= limit_ms:
            return False
        self.newcomer_arrived = False
        self.deadline_ms = min(now_ms + delay_ms, limit_ms)
        return True
