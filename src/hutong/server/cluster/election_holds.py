"""Holds producers back while the next leader of a partition group is on its way.

    the leader is dead, or may be      this node is chosen, but what was committed before cannot be read yet
                     └────────────── hold ──────────────┘
                                      │ this node leads, or another one does, or it takes too long
                                   release

Strategy: a client that has lost a leader sends what it had in flight to the next one, several batches one behind the
other. Were the first refused, as this node does not lead yet, and the next ones taken, the client would see its batches
stored out of order, and wait before it tries again. So the connection is not read until it is known who leads.

Decides nothing about who leads. A hold is short: the same connection may have requests for other groups.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.replication.group_state import NO_LEADER

if TYPE_CHECKING:
    from hutong.broker.produce.congestion import Congestion
    from hutong.foundation.clock import Clock
    from hutong.foundation.timers import Timer, TimerWheel
    from hutong.server.cluster.standings import ClusterStandings

HOLD_MS_MAX: Final = 500


class ElectionHolds:
    """Watches all standings from its construction. A hold that took too long is not begun again before an election."""

    def __init__(
        self, node: int, standings: ClusterStandings, congestion: Congestion, clock: Clock, timers: TimerWheel
    ) -> None:
        self._node = node
        self._standings = standings
        self._congestion = congestion
        self._clock = clock
        self._timers = timers
        self._awaited: dict[str, Timer] = {}
        standings.on_change.append(self._changed)

    def _changed(self, group: str) -> None:
        standing = self._standings.by_group[group]
        # A leader whose lease is over does not lead sooner by waiting: it hears of nobody.
        is_awaited = not standing.is_leading and standing.leader in (self._node, NO_LEADER)
        if is_awaited == (group in self._awaited):
            return
        if is_awaited:
            at_ms = self._clock.monotonic_ms() + HOLD_MS_MAX
            self._awaited[group] = self._timers.add(at_ms, partial(self._congestion.go_on, group))
            self._congestion.pause(group)
        else:
            self._awaited.pop(group).cancel()
            self._congestion.go_on(group)
