"""The nodes that are alive, by their registrations and by the links with them.

    registered      not registered                       process gone
    alive           dead; alive while it is linked and   dead, until a link with it opens
                    registrations cannot be trusted

Strategy: a registration outlives its process by a session, and a link ends at once, so the end of a link counts where
the address of the node refuses connections. Acting early is safe, because epochs fence: the worst is a needless
election. After an outage of the coordinator nodes register one after the other, so for a while the links count.

A node whose link has just ended is in doubt for a moment: it is alive for all decisions, but no client is sent there.
One that is registered, but has had no link for longer, is out of reach of this node. It is alive all the same.

Knows nothing of connections or sessions: it hears of them. Time arrives with each call.
"""

from collections.abc import Mapping
from typing import Final

from hutong.cluster.coordinator.port import SessionState
from hutong.cluster.nodes import ClusterNode
from hutong.cluster.reach import out_of_reach

DOUBT_MS: Final = 500
"""A process that dies closes its links and its listener one after the other, some ten milliseconds apart. The first
question of a client that has lost it comes in between, and one that hears of the old leader asks a second later."""
UNREACHED_MS: Final = 1_000
"""A link that has only broken is made anew within milliseconds."""


class Liveness:
    """The nodes as one of them sees them. It is always alive to itself."""

    def __init__(self, own: ClusterNode) -> None:
        self._own = own
        self._members: Mapping[int, ClusterNode] = {}
        self._last_known: dict[int, ClusterNode] = {}  # registered once, by number
        self._linked: dict[int, int] = {}  # incarnations, by number
        self._gone: set[tuple[int, int]] = set()  # numbers and incarnations of processes that are gone
        self._doubted_until_ms: dict[int, int] = {}  # by number
        self._unlinked_since_ms: dict[int, int] = {}  # by number
        self._session = SessionState.LOST
        self._was_connected = False
        self.trusted_from_ms = 0  # before that time a missing registration says nothing of a linked node

    def describe_own(self, own: ClusterNode) -> None:
        """Note that this node has another description now."""
        self._own = own

    def members_changed(self, members: Mapping[int, ClusterNode]) -> None:
        self._members = members
        self._last_known |= members

    def session_changed(self, state: SessionState, now_ms: int, session_ms: int) -> None:
        if state is SessionState.CONNECTED:
            # Nodes whose sessions were lost in the same outage need a while to register again.
            if self._was_connected and self._session is not state:
                self.trusted_from_ms = now_ms + 2 * session_ms
            self._was_connected = True
        self._session = state

    def link_opened(self, node: int, incarnation: int) -> None:
        self._linked[node] = incarnation
        self._gone.discard((node, incarnation))
        self._doubted_until_ms.pop(node, None)

    def link_closed(self, node: int, now_ms: int, *, is_process_gone: bool) -> None:
        incarnation = self._linked.pop(node, None)
        known = self._last_known.get(node)
        if not is_process_gone:
            self._doubted_until_ms[node] = now_ms + DOUBT_MS
            return
        if incarnation is not None:
            self._gone.add((node, incarnation))
        if known is not None:
            self._gone.add((node, known.incarnation))

    def live(self, now_ms: int) -> dict[int, ClusterNode]:
        """All nodes that are alive, by number."""
        trusts = self._session is SessionState.CONNECTED and now_ms >= self.trusted_from_ms
        nodes = dict(self._members)
        if not trusts:
            for node, incarnation in self._linked.items():
                known = self._last_known.get(node)
                if node not in nodes and known is not None and known.incarnation == incarnation:
                    nodes[node] = known
        # During an outage the members of before stay: nobody can say that they are dead but their links.
        found = {node: each for node, each in nodes.items() if (node, each.incarnation) not in self._gone}
        found[self._own.node] = self._own
        return dict(sorted(found.items()))

    def doubted(self, now_ms: int) -> frozenset[int]:
        """The nodes that may be gone, as far as clients go."""
        self._doubted_until_ms = {node: until for node, until in self._doubted_until_ms.items() if now_ms < until}
        return frozenset(self._doubted_until_ms)

    def doubted_until_ms(self) -> int | None:
        """The time at which the first doubt is over."""
        return min(self._doubted_until_ms.values(), default=None)

    def unreached(self, now_ms: int) -> frozenset[int]:
        """The registered nodes that have no link with this one, though most nodes have."""
        others = self._members.keys() - {self._own.node}
        unlinked = others - self._linked.keys()
        self._unlinked_since_ms = {node: self._unlinked_since_ms.get(node, now_ms) for node in unlinked}
        # A node that reaches no majority knows nothing of others: it is itself the one that is cut off.
        if 2 * len(unlinked) > len(others):
            return frozenset()
        return frozenset(node for node in unlinked if now_ms >= self._unlinked_since_ms[node] + UNREACHED_MS)

    def unlinked(self, now_ms: int) -> tuple[int, ...]:
        """The registered nodes that have no link with this one for a while, for others to know."""
        since_ms = self._unlinked_since_ms
        missing = (node for node in self._present() if node in since_ms and now_ms >= since_ms[node] + UNREACHED_MS)
        return tuple(sorted(missing))

    def out_of_reach(self, now_ms: int) -> frozenset[int]:
        """The nodes that reach no majority, while others do: this one among them if it says so itself."""
        said = {node: each.description.unlinked for node, each in self._present().items()}
        return out_of_reach(self._own.node, {**said, self._own.node: self.unlinked(now_ms)})

    def _present(self) -> dict[int, ClusterNode]:
        """The registered nodes whose processes are not known to be gone."""
        return {n: each for n, each in self._members.items() if (n, each.incarnation) not in self._gone}

    def unreached_from_ms(self, now_ms: int) -> int | None:
        """The time at which the next node counts as out of reach, if its link does not open before."""
        due_ms = (since_ms + UNREACHED_MS for since_ms in self._unlinked_since_ms.values())
        return min((each for each in due_ms if each > now_ms), default=None)

    def registered(self) -> Mapping[int, ClusterNode]:
        """All nodes that are registered, alive or not: those to link with."""
        return self._members
