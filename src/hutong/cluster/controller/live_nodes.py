"""The nodes that are alive, and for each group those of them that can replicate it.

Strategy: a replica whose journal has failed is dead for its group alone, until its node begins another life. Other
groups of the node go on (as log directories do, KIP-112).

Knows nothing of sets.
"""

from collections.abc import Mapping

from hutong.cluster.controller.messages import LiveNode


class LiveNodes:
    """A look at all nodes; `nodes` does not change."""

    def __init__(self, nodes: Mapping[int, LiveNode], failed: Mapping[tuple[int, str], int]) -> None:
        """`failed` has the life of a node in which its replica of a group failed, by both."""
        self.nodes = nodes
        self._incarnations = {node: each.incarnation for node, each in nodes.items()}
        self._of: dict[str, dict[int, int]] = {}  # of groups with failed replicas alone
        for (node, group), incarnation in failed.items():
            if self._incarnations.get(node) == incarnation:
                self._of.setdefault(group, dict(self._incarnations)).pop(node)

    def of(self, group: str) -> Mapping[int, int]:
        """The incarnations of the nodes that can replicate the group."""
        return self._of.get(group, self._incarnations)
