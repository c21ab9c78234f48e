"""The standing of a partition group, as handlers see it: who leads it, in which epoch, and whether this node does.

Strategy: one object for each group, which all its partitions share, so that a change of leader changes one place. A
node alone leads all of its groups in epoch 0, for ever.

Knows nothing of how the cluster agrees: `server/cluster` writes what it hears.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hutong.foundation.errors import Refused
from hutong.wire.kafka.error_codes import ErrorCode

NO_LEADER: Final = -1
LEADER_EPOCH_ALONE: Final = 0


class GroupStanding:
    """One group. `is_led_here` is True once this node leads and all that was committed before can be read.

    `is_followed_here` is True while this node follows in sync, and hears of the leader: consumers may read here, too.
    """

    __slots__ = (
        "eligible",
        "in_sync",
        "is_followed_here",
        "is_led_here",
        "leader",
        "leader_epoch",
        "min_in_sync",
        "offline_replicas",
        "replicas",
    )

    def __init__(
        self, leader: int, leader_epoch: int = LEADER_EPOCH_ALONE, replicas: tuple[int, ...] = (), *, is_led_here: bool
    ) -> None:
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.is_led_here = is_led_here
        self.is_followed_here = False
        self.replicas = replicas or (leader,)
        self.in_sync: tuple[int, ...] = self.replicas
        self.min_in_sync = 1
        self.eligible: tuple[int, ...] = ()
        self.offline_replicas: tuple[int, ...] = ()

    def check_led_here(self) -> None:
        """Raise Refused(NOT_LEADER_OR_FOLLOWER) where another node leads, or nobody: clients look for the leader."""
        if not self.is_led_here:
            self.note_refusal()
            raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "Another node leads this partition.")

    def note_refusal(self) -> None:
        """Note that a batch was refused here which its producer sends again. A node alone refuses none so."""

    @property
    def has_refused_lately(self) -> bool:
        """True where a batch may be out of order because one before it, on its way together with it, was refused."""
        return False

    def check_epoch(self, asked: int) -> None:
        """Raise Refused for a client that knows another leader epoch: it is behind, or ahead of us (KIP-320)."""
        if asked < 0 or asked == self.leader_epoch:
            return
        code = ErrorCode.FENCED_LEADER_EPOCH if asked < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise Refused(code)


def standings_alone(groups: Iterable[str], node: int) -> dict[str, GroupStanding]:
    """The standings of a node alone: it leads all groups."""
    return {group: GroupStanding(node, is_led_here=True) for group in groups}
