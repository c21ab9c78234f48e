"""Lets a group's followers have everything before another node leads: acks=1 did not wait for them.

    begin ──> producers wait ──> all in sync have on disk what was taken, or FOLLOWERS_MS_MAX is over ──> then
                                                                            end: producers go on, elsewhere

Strategy: for the controller, which asks before it lets another node lead, and for a node that stops. The producers go
on when this node leads no more, or when no other leader has come for a while.

Decides nothing.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.cluster.controller.handovers import YIELD_MS_MAX
from hutong.cluster.peers.port import PeerMessage
from hutong.cluster.questions import QuestionCode, decode_yield, encode_yield
from hutong.foundation.errors import Expired, HutongError
from hutong.foundation.waiting.table import WaitTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hutong.broker.produce.congestion import Congestion
    from hutong.cluster.controller.commands import CommandReply
    from hutong.cluster.controller.messages import AskToYield
    from hutong.cluster.driver import ClusterDriver
    from hutong.foundation.clock import Clock
    from hutong.foundation.timers import Timer, TimerWheel
    from hutong.foundation.waiting.pending import Continuation
    from hutong.server.cluster.standings import ClusterStandings

FOLLOWERS_MS_MAX: Final = 500
ELECTION_MS_MAX: Final = YIELD_MS_MAX + 500  # for the next leader


class YieldingLeaders:
    """The groups of this node that others are about to lead."""

    def __init__(
        self,
        driver: ClusterDriver,
        standings: ClusterStandings,
        congestion: Congestion,
        clock: Clock,
        timers: TimerWheel,
    ) -> None:
        self._driver = driver
        self._standings = standings
        self._held: dict[str, tuple[Timer, int]] = {}  # groups whose producers wait for the next epoch, and the present
        self._congestion = congestion
        self._clock = clock
        self._timers = timers
        standings.on_change.append(self._changed)

    def register(self) -> None:
        """Answer the controller's questions."""
        assert self._driver.peers is not None
        self._driver.peers.register(QuestionCode.YIELD_ASKED, self._asked)

    def begin(self, group: str, then: Continuation[None]) -> None:
        """Hold producers of a group; `then` is called when its followers have everything, or after a while."""
        self._congestion.pause(group)
        self._driver.replicas[group].when_committed(then, FOLLOWERS_MS_MAX)

    def end(self, group: str) -> None:
        """Let producers go on: they hear who leads now."""
        held = self._held.pop(group, None)
        if held is not None:
            held[0].cancel()
        self._congestion.go_on(group)

    def _changed(self, group: str) -> None:
        if group not in self._held:
            return
        standing = self._standings.by_group[group]
        # The same node leads in the next epoch where a group was split.
        if standing.leader != self._driver.own.node or standing.leader_epoch > self._held[group][1]:
            self.end(group)

    def ask(self, asked: AskToYield, then: Continuation[None]) -> None:
        """Ask a leader, which may be this node."""
        if asked.node == self._driver.own.node:
            self._yield(asked.group, asked.epoch, then)
            return

        def heard(outcome: PeerMessage | HutongError) -> None:
            then(outcome if isinstance(outcome, HutongError) else None)

        assert self._driver.peers is not None
        self._driver.peers.ask(asked.node, encode_yield(asked.group, asked.epoch), YIELD_MS_MAX, heard)

    def _asked(self, _node: int, message: PeerMessage, then: Continuation[PeerMessage]) -> None:
        self._yield(*decode_yield(message), lambda _: then(PeerMessage(0, {})))

    def _yield(self, group: str, epoch: int, then: Continuation[None]) -> None:
        replica = self._driver.replicas.get(group)
        if replica is None or not replica.is_leading or replica.state is None or replica.state.epoch != epoch:
            then(None)  # there is nothing to wait for
            return
        if group in self._held:
            self.end(group)
        # What it cannot have in time the next leader lacks: the same as where this node ends.
        self.begin(group, lambda _: then(None))
        at_ms = self._clock.monotonic_ms() + ELECTION_MS_MAX
        self._held[group] = self._timers.add(at_ms, partial(self.end, group)), epoch

    async def wait_for_followers(self, led: Sequence[str]) -> None:
        """Let the next leaders have all that was taken here: acks=1 did not wait for them, and they would cut it."""
        followers: WaitTable[None] = WaitTable("followers", self._timers, 1)
        lacking = set(led)

        def stored(name: str, _error: HutongError | None) -> None:
            lacking.discard(name)
            if not lacking:
                followers.resume_all(None, None)

        for name in led:
            self.begin(name, partial(stored, name))
        with suppress(Expired):
            if lacking:
                await followers.wait(None, deadline_ms=self._clock.monotonic_ms() + FOLLOWERS_MS_MAX)


def is_handed_over(reply: CommandReply | HutongError, node: int, driver: ClusterDriver) -> bool:
    """Return True if this node knows of all new leaders, so that its clients are sent to them."""
    handed = () if isinstance(reply, HutongError) else reply.groups
    return all(driver.groups[name].leader != node for name in handed)
