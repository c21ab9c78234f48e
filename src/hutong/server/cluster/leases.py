"""Keeps the leases of what this node leads or follows: looks at session and links, and moves standings' deadlines.

Strategy: a timer that looks a few times in a session time. A standing compares its deadline with the clock whenever it
is asked, so a process that was stopped refuses before any timer of it has run. A look that finds a lease over, or
begun again, tells so: waits of clients end. After a stop they end with the next look, for a loop runs its timers before
it reads what came meanwhile.

Decides nothing: `cluster/lease` does.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol

from hutong.cluster.coordinator.port import SessionState
from hutong.cluster.lease import LeaderLease
from hutong.foundation.clock import Clock
from hutong.foundation.timers import Timer, TimerWheel
from hutong.replication.group_state import NO_LEADER
from hutong.server.cluster.standings import ClusterStandings, LeasedStanding

_log: Final = logging.getLogger("hutong.cluster")


class AnsweringPeers(Protocol):
    """The links of this node, as far as leases go."""

    def answered_ms(self, node: int) -> int | None: ...


class LeaseKeeper:
    """Looks from its construction until `close`. `lapsed_total` counts the leases that ended."""

    def __init__(
        self,
        lease: LeaderLease,
        standings: ClusterStandings,
        session: Callable[[], SessionState],
        controller: Callable[[], int],
        peers: AnsweringPeers,
        clock: Clock,
        timers: TimerWheel,
    ) -> None:
        self.lapsed_total = 0
        self.on_lapse: Callable[[str], None] = lambda _group: None  # called with the group whose lease has ended
        self._lease = lease
        self._node = lease.node
        self._standings = standings
        self._session = session
        self._controller = controller
        self._peers = peers
        self._clock = clock
        self._timers = timers
        self._timer: Timer | None = None
        self._due_ms = clock.monotonic_ms()  # of the next look
        self._lapsed: set[str] = set()  # groups whose waits end with the next look, if nothing is heard by then
        standings.renew = self.renew
        self._look()

    def close(self) -> None:
        """Look no more: leases run out."""
        if self._timer is not None:
            self._timer.cancel()

    def renew(self, group: str) -> None:
        """Move the deadlines of a group to where they are now."""
        standing = self._standings.by_group[group]
        standing.followed_until_ms = self._followed_until_ms(standing)
        if not standing.is_leading:
            return
        members = {*standing.in_sync, *standing.eligible}
        standing.served_until_ms = self._lease.served_until_ms(members, self._peers.answered_ms)

    def _followed_until_ms(self, standing: LeasedStanding) -> int:
        """The time until which consumers may read here what another node leads: what is new there arrives here."""
        leader = standing.leader
        if leader in (NO_LEADER, self._node) or self._node not in standing.in_sync:
            return 0
        answered_ms = self._peers.answered_ms(leader)
        return 0 if answered_ms is None else answered_ms + self._lease.session_ms

    def _look(self) -> None:
        now_ms = self._clock.monotonic_ms()
        controller = self._controller()
        controller_ms = now_ms if controller == self._node else self._peers.answered_ms(controller)
        self._lease.look(self._session(), controller_ms, now_ms)
        lapsed, self._lapsed = self._lapsed, set()
        for group, standing in self._standings.by_group.items():
            self.renew(group)
            if standing.is_leading and standing.is_led_here != standing.was_served:
                self._turned(group, is_served=standing.is_led_here)
            elif standing.is_lapsed and group in lapsed:
                self.on_lapse(group)
        was_stopped = now_ms - self._due_ms > self._lease.look_ms
        if not was_stopped:
            for group in self._lapsed:
                self.on_lapse(group)
            self._lapsed.clear()
        self._due_ms = now_ms + self._lease.look_ms
        self._timer = self._timers.add(self._due_ms, self._look)

    def _turned(self, group: str, *, is_served: bool) -> None:
        self._standings.by_group[group].was_served = is_served
        if is_served:
            _log.info("this node serves %s again: it hears of the cluster.", group)
        else:
            self.lapsed_total += 1
            self._lapsed.add(group)
            _log.warning(
                "this node leads %s, and serves it no more: it hears neither of the coordinator nor of a majority of "
                "the replicas that are in sync.",
                group,
            )
        self._standings.changed(group)
