"""The states of a group under the classic protocol, and the only ways from one to another.

    Empty ── first member ──> PreparingRebalance ── everyone joined, or time is up ──> CompletingRebalance
                                   ^      │                                                  │
                                   │      └─ nobody is left ─> Empty             leader's assignment is durable
                                   │                                                         v
                                   └───── a member comes, goes or changes ──────────────── Stable

A group that is deleted or has expired is Dead: it answers every request with an error. A stable group that becomes a
consumer group (KIP-848) is Dead as a classic one: `HandOver` alone leads there, and no request waits then.
The names are what clients see in ListGroups and DescribeGroups.
"""

from enum import StrEnum
from typing import Final


class GroupState(StrEnum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: Final[dict[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.STABLE, GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.DEAD: frozenset(),
}
