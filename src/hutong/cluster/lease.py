"""The lease of a leader: how long it may serve reads without a sign that it is still part of the cluster.

    the coordinator answers, and
    the controller does            every group: until the earlier of both + a session
    members of the set answer      groups whose set they, with this node, are a majority of: the same
    nobody else is in the set      for ever: nobody else can be elected

Strategy: epochs fence writes of an old leader, and only time can fence its reads. So what counts is a question of this
node that was answered, from the moment at which it was asked. An answer that had waited in a buffer while the process
was stopped proves nothing newer. Of the coordinator only the state of the session is known: it counts at each look as
long as looks come in time. After a pause it counts again once the session has outlasted one session time. It counts
only with the controller, which lets others lead what it cannot reach.

Knows nothing of clocks, timers or links: times arrive with each call.
"""

from collections.abc import Callable, Collection
from typing import Final

from hutong.cluster.coordinator.port import SessionState

FOR_EVER_MS: Final = 1 << 62
LOOKS_PER_SESSION: Final = 8
"""Looks come so often, and no seldomer: one that is later than two of them shows that the process was stopped."""


class LeaderLease:
    """The lease of one node for all that it leads. Call `look` each `look_ms`."""

    def __init__(self, node: int, session_ms: int, now_ms: int) -> None:
        self.node = node
        self.session_ms = session_ms
        self._is_connected = False
        self._looked_ms = now_ms
        self._trusted_from_ms = now_ms  # before that a session that seems to be there may be over
        self._coordinator_ms: int | None = None  # when coordinator and controller were last known to be there

    @property
    def look_ms(self) -> int:
        return max(1, self.session_ms // LOOKS_PER_SESSION)

    def look(self, session: SessionState, controller_ms: int | None, now_ms: int) -> None:
        """Note the state of the session. Suspended is as good as lost: nothing is heard.

        `controller_ms` is the time of the newest question that the controller has answered, now if this node is it.
        """
        is_connected = session is SessionState.CONNECTED
        if is_connected and not self._is_connected:
            self._trusted_from_ms = now_ms
        elif now_ms - self._looked_ms > 2 * self.look_ms:
            self._trusted_from_ms = now_ms + self.session_ms
        self._is_connected, self._looked_ms = is_connected, now_ms
        if is_connected and now_ms >= self._trusted_from_ms and controller_ms is not None:
            self._coordinator_ms = min(now_ms, controller_ms)

    def served_until_ms(self, members: Collection[int], answered_ms: Callable[[int], int | None]) -> int:
        """The time until which a group may be served whose next leader is one of `members`.

        `answered_ms` gives the time of the newest question that a node has answered, None for none.
        """
        others = [node for node in members if node != self.node]
        if not others:
            return FOR_EVER_MS
        answers = sorted((at_ms for node in others if (at_ms := answered_ms(node)) is not None), reverse=True)
        # This node counts for itself, so of three members one other is enough, and of two the other.
        needed = (len(others) + 1) // 2
        heard = [] if self._coordinator_ms is None else [self._coordinator_ms]
        if len(answers) >= needed:
            heard.append(answers[needed - 1])
        return max(heard) + self.session_ms if heard else 0
