"""The nodes that are alive, and for each group those of them that can replicate it.

Strategy: a replica whose journal has failed is dead for its group alone, until its node begins another life. Other
groups of the node go on (as log directories do, KIP-112). One that is short of space is dead for its group meanwhile,
as long as another member of the set is not: with all disks full the leader stays, for it can be read.

Knows nothing of sets.
"""

from collections.abc import Iterable, Mapping

from hutong.cluster.controller.messages import LiveNode
from hutong.replication.group_state import PartitionGroupState


class LiveNodes:
    """A look at all nodes; `nodes` does not change."""

    def __init__(
        self,
        nodes: Mapping[int, LiveNode],
        failed: Mapping[tuple[int, str], int],
        short: Mapping[tuple[int, str], int],
        states: Mapping[str, PartitionGroupState],
    ) -> None:
        """`failed` has the life of a node in which its replica of a group failed, by both; `short` likewise."""
        self.nodes = nodes
        self.unreached = frozenset(node for node, each in nodes.items() if not each.is_reached)
        self._incarnations = {node: each.incarnation for node, each in nodes.items()}
        self._of: dict[str, dict[int, int]] = {}  # of groups with failed replicas alone
        self._leave_out(failed.items())
        members = {group: states[group].in_sync for _, group in short if group in states}
        able = {group: {node for node in members[group] if (node, group) not in short} for group in members}
        helped = {group for group, nodes in able.items() if not nodes.isdisjoint(self.of(group))}
        self._leave_out(each for each in short.items() if each[0][1] in helped)

    def of(self, group: str) -> Mapping[int, int]:
        """The incarnations of the nodes that can replicate the group."""
        return self._of.get(group, self._incarnations)

    def _leave_out(self, lives: Iterable[tuple[tuple[int, str], int]]) -> None:
        for (node, group), incarnation in lives:
            if self._incarnations.get(node) == incarnation:
                self._of.setdefault(group, dict(self._incarnations)).pop(node, None)
