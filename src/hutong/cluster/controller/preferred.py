"""Preferred leadership: groups go back to the first of their replicas once it has been in sync for a while.

Strategy: the wait lets a node that has just come back catch up with everything, and keeps a node that comes and goes
from leading. A replica that is new leads as soon as it is in sync, so that a young cluster is led by all of its nodes.
A few groups at a time: each change of leaders costs its clients a refresh.

Knows nothing of records: it names groups that should change hands.
"""

from collections.abc import Iterable
from typing import Final

from hutong.cluster.controller.decisions import ClusterDecisions
from hutong.cluster.controller.live_nodes import LiveNodes
from hutong.cluster.set_rules import elected, is_led
from hutong.replication.group_state import PartitionGroupState

PREFERRED_WAIT_MS: Final = 5_000
RETURNS_AT_ONCE_MAX: Final = 4
RETURN_INTERVAL_MS: Final = 250


class PreferredLeaders:
    """The groups that are not led as preferred, though they could be, and since when."""

    def __init__(self, wait_ms: int) -> None:
        self._wait_ms = wait_ms
        self._since_ms: dict[str, int] = {}
        self._hastened: set[str] = set()  # they have not been led as preferred yet
        self._next_ms = 0  # not before that time another one returns

    def next_tick_ms(self) -> int | None:
        if not self._since_ms:
            return None
        return max(min(map(self._due_ms, self._since_ms)), self._next_ms)

    def hasten(self, names: Iterable[str]) -> None:
        """Let these groups not wait, which have new replicas."""
        self._hastened.update(names)

    def settle(self, decisions: ClusterDecisions, live: LiveNodes, now_ms: int) -> None:
        """Note who could lead, and let those return that have waited."""
        wishes = {state.name for state in decisions.states() if wished_leader(decisions, state, live) is not None}
        self._since_ms = {name: self._since_ms.get(name, now_ms) for name in sorted(wishes)}
        due = [name for name in self._since_ms if now_ms >= self._due_ms(name)]
        if due and now_ms >= self._next_ms:
            for name in due[:RETURNS_AT_ONCE_MAX]:
                return_leadership(decisions, decisions.groups[name], live)
                del self._since_ms[name]
            self._next_ms = now_ms + RETURN_INTERVAL_MS
        groups = decisions.groups
        self._hastened -= {name for name in self._hastened if _leads_as_preferred(decisions, groups[name])}

    def _due_ms(self, name: str) -> int:
        return self._since_ms[name] + (0 if name in self._hastened else self._wait_ms)


def preferred_leader(decisions: ClusterDecisions, state: PartitionGroupState) -> int | None:
    """The first replica that is not drained."""
    return next((node for node in state.replicas if node not in decisions.drained), None)


def _leads_as_preferred(decisions: ClusterDecisions, state: PartitionGroupState) -> bool:
    return state.leader == preferred_leader(decisions, state)


def wished_leader(decisions: ClusterDecisions, state: PartitionGroupState, live: LiveNodes) -> int | None:
    """The node that should lead instead of the one that does, and can; None where nothing is to be changed."""
    node = preferred_leader(decisions, state)
    # Asked for each group after each event, so what is true of most groups comes first.
    if node is None or node == state.leader or node not in state.in_sync:
        return None
    lives = live.of(state.name)
    can_lead = node in lives and node not in live.unreached
    return node if can_lead and state.name not in decisions.moves and is_led(state, lives) else None


def return_leadership(decisions: ClusterDecisions, state: PartitionGroupState, live: LiveNodes) -> int | None:
    """Let the preferred leader lead. Returns it, or None where that is not possible or not needed."""
    node = wished_leader(decisions, state, live)
    if node is None:
        return None
    lives = live.of(state.name)
    decisions.put_group(elected(state, node, lives[node], lives))
    return node
