"""The states of a group in which the broker assigns. They follow from its epochs and members alone.

    Empty        nobody is a member
    NotReady     topics of its topology are missing or do not fit (streams groups alone)
    Assigning    something changed (the group epoch rose), and the target for it is not computed yet
    Reconciling  there is a target, and some member has not reached it yet
    Stable       every member has its target
    Dead         the group was deleted

The names are what clients see in ListGroups and in descriptions.
"""

from enum import StrEnum


class AssignedGroupState(StrEnum):
    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"
