"""One classic group, and what the coordinator keeps beside it.

Decides nothing.
"""

from dataclasses import dataclass

from hutong.foundation.timers import Timer
from hutong.groups.machine import ClassicGroup
from hutong.groups.offsets import Usage
from hutong.groups.states import GroupState
from hutong.groups.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics


@dataclass(slots=True)
class Seat:
    """`timer` stands at the earliest thing of the group that can lapse."""

    group: ClassicGroup
    timer: Timer | None = None
    timer_at_ms: int = 0
    memory_bytes: int = 0  # of the group, as noted last
    empty_since_ms: int | None = None  # wall time; None while it has members, or if it never had any

    def usage(self) -> Usage:
        """How the group uses its offsets, for retention."""
        group = self.group
        is_understood = group.state is GroupState.STABLE and group.protocol_type == CONSUMER_PROTOCOL_TYPE
        return Usage(
            has_members=group.state is not GroupState.EMPTY,
            empty_since_ms=self.empty_since_ms,
            subscribed=subscribed_topics(group.subscriptions()) if is_understood else None,
        )
