"""Writes what the cluster agrees on into the standings that the broker's handlers read.

Strategy: one standing for each partition group. `is_led_here` follows this node's own replica, which knows when all
that was committed before can be read; everything else follows the agreed state. A change ends fast paths, and waits of
clients that must ask another node.

Decides nothing.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from hutong.broker.topics.group_standing import GroupStanding
from hutong.replication.group_state import NO_LEADER, PartitionGroupState


class ClusterStandings:
    """The standings of all groups; `on_change` is called with the name of a group whose standing has changed."""

    def __init__(self, groups: Iterable[str], node: int) -> None:
        self._node = node
        self.by_group = {group: GroupStanding(NO_LEADER, is_led_here=False) for group in groups}
        self.on_change: list[Callable[[str], None]] = []

    def group_changed(self, state: PartitionGroupState, live: Collection[int]) -> None:
        """Note the newest state of a group. A leader that is dead is none: clients look again soon."""
        standing = self.by_group.get(state.name)
        if standing is None:
            return
        standing.leader = state.leader if state.leader in live else NO_LEADER
        standing.leader_epoch = state.epoch
        standing.replicas = state.replicas
        standing.in_sync = tuple(node for node in state.replicas if node in state.in_sync)
        standing.eligible = tuple(node for node in state.replicas if node in state.eligible)
        standing.offline_replicas = tuple(node for node in state.replicas if node not in live)
        if state.leader != self._node:
            standing.is_led_here = False
        self._changed(state.name)

    def live_changed(self, states: Mapping[str, PartitionGroupState], live: Collection[int]) -> None:
        """Note that other nodes are alive now."""
        for state in states.values():
            self.group_changed(state, live)

    def set_led_here(self, group: str, *, is_led_here: bool) -> None:
        """Note that this node's replica leads and can be read, or leads no more."""
        self.by_group[group].is_led_here = is_led_here
        self._changed(group)

    def _changed(self, group: str) -> None:
        for callback in self.on_change:
            callback(group)
