"""A partition group as the cluster has agreed on it.

Knows nothing of how the cluster agrees, nor of what the group stores.
"""

from dataclasses import dataclass
from typing import Final

NO_LEADER: Final = -1


@dataclass(frozen=True, slots=True)
class PartitionGroupState:
    """One version of the state of a group. Nodes have numbers from 0.

    `epoch` rises with each leader, `version` with each change of anything, also in another epoch (KIP-497). One life of
    a node leads, not the node: `leader_incarnation` names it (KIP-903). `replicas` are in the order of preference.
    `eligible` are those that left the set while it was too small to commit, so they have all that is committed
    (KIP-966). `splits` counts the groups that were split off this one.
    """

    name: str
    epoch: int
    version: int
    leader: int
    leader_incarnation: int
    replicas: tuple[int, ...]
    in_sync: frozenset[int]
    eligible: frozenset[int]
    min_in_sync: int
    splits: int = 0
