"""The states of a consumer group, which follow from its epochs and members alone.

    Empty        nobody is a member
    Assigning    something changed (the group epoch rose), and the target for it is not computed yet
    Reconciling  there is a target, and some member has not reached it yet
    Stable       every member has its target
    Dead         the group was deleted

The names are what clients see in ListGroups and ConsumerGroupDescribe.
"""

from enum import StrEnum


class ConsumerGroupState(StrEnum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"
