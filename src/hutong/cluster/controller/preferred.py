"""Preferred leadership: groups go back to the first of their replicas once it has been in sync for a while.

Strategy: the wait lets a node that has just come back catch up with everything, and keeps a node that comes and goes
from leading. A replica that is new leads as soon as it is in sync, so that a young cluster is led by all of its nodes.
A few groups at a time: each change of leaders costs its clients a refresh.

Knows nothing of records: it names groups that should change hands.
"""

from collections.abc import Callable, Iterable
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

    def __init__(self, wait_ms: int, is_under_way: Callable[[str], bool]) -> None:
        """`is_under_way` says of a group that its leader was asked to yield."""
        self._is_under_way = is_under_way
        self._wait_ms = wait_ms
        self._since_ms: dict[str, int] = {}
        self._hastened: set[str] = set()  # they have not been led as preferred yet
        self._next_ms = 0  # not before that time another one returns

    def next_tick_ms(self) -> int | None:
        # A leader that is about to hand over says so itself.
        waiting = [name for name in self._since_ms if not self._is_under_way(name)]
        return max(min(map(self._due_ms, waiting)), self._next_ms) if waiting else None

    def hasten(self, names: Iterable[str]) -> None:
        """Let these groups not wait, which have new replicas."""
        self._hastened.update(names)

    def settle(self, decisions: ClusterDecisions, live: LiveNodes, now_ms: int) -> None:
        """Note who could lead, and let those return that have waited."""
        wishes = {state.name for state in decisions.states() if wished_leader(decisions, state, live) is not None}
        self._since_ms = {name: self._since_ms.get(name, now_ms) for name in sorted(wishes)}
        due = [name for name in self._since_ms if now_ms >= self._due_ms(name)]
        for name in self._chosen(due, now_ms):
            return_leadership(decisions, decisions.groups[name], live)
            if _leads_as_preferred(decisions, decisions.groups[name]):
                del self._since_ms[name]
        groups = decisions.groups
        self._hastened -= {name for name in self._hastened if _leads_as_preferred(decisions, groups[name])}

    def _chosen(self, due: list[str], now_ms: int) -> list[str]:
        """Those whose leaders are about to hand over, and a few more."""
        going = [name for name in due if self._is_under_way(name)]
        if now_ms < self._next_ms:
            return going
        more = [name for name in due if not self._is_under_way(name)][: max(0, RETURNS_AT_ONCE_MAX - len(going))]
        if more:
            self._next_ms = now_ms + RETURN_INTERVAL_MS
        return [*going, *more]

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
    """Let the preferred leader lead, once the present one has yielded: ask again then.

    Returns it, or None where that is not possible or not needed.
    """
    node = wished_leader(decisions, state, live)
    if node is None or not decisions.handovers.may_leave(state):
        return node
    lives = live.of(state.name)
    decisions.put_group(elected(state, node, lives[node], lives))
    return node
