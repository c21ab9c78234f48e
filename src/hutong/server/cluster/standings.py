"""Writes what the cluster agrees on into the standings that the broker's handlers read.

Strategy: one standing for each partition group. `is_led_here` follows this node's own replica, which knows when all
that was committed before can be read, and its lease; everything else follows the agreed state. A change ends fast
paths, and waits of clients that must ask another node.

Decides nothing.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from hutong.broker.topics.group_standing import GroupStanding
from hutong.foundation.clock import Clock
from hutong.foundation.histograms import Histogram
from hutong.replication.group_state import NO_LEADER, PartitionGroupState

NEVER_LED: Final = -2  # unlike the epoch of a group of which nothing is known
REFUSAL_MS_MAX: Final = 5_000  # from a refusal to the last request that its producer had sent before it heard of it


class LeasedStanding(GroupStanding):
    """A standing that is led here, or followed, until its deadline, which `server/cluster/leases` moves on.

    The clock is asked each time: a process that was stopped must find out before it serves anything.
    """

    __slots__ = (
        "_clock",
        "_refused_ms",
        "followed_until_ms",
        "is_leading",
        "left_epoch",
        "served_until_ms",
        "was_served",
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._refused_ms = -REFUSAL_MS_MAX  # when a batch was last refused
        self.is_leading = False  # by this node's replica
        self.left_epoch = NEVER_LED  # the last one in which it stepped down
        self.served_until_ms = self.followed_until_ms = 0
        self.was_served = False  # at the last look
        super().__init__(NO_LEADER, is_led_here=False)

    @property
    def is_led_here(self) -> bool:
        return self.is_leading and self._clock.monotonic_ms() < self.served_until_ms

    @is_led_here.setter
    def is_led_here(self, is_led_here: bool) -> None:
        self.is_leading = is_led_here

    @property
    def is_lapsed(self) -> bool:
        """True where this node's replica leads, and its lease is over."""
        return self.is_leading and not self.is_led_here

    @property
    def has_left(self) -> bool:
        """True where this node's replica has led in the newest epoch that is known, and does no more.

        It has stepped down since another node has a later epoch, of which the metadata tell it soon.
        """
        return not self.is_leading and self.left_epoch == self.leader_epoch

    def note_refusal(self) -> None:
        self._refused_ms = self._clock.monotonic_ms()

    @property
    def has_refused_lately(self) -> bool:
        return self._clock.monotonic_ms() < self._refused_ms + REFUSAL_MS_MAX

    @property
    def is_followed_here(self) -> bool:
        return self._clock.monotonic_ms() < self.followed_until_ms

    @is_followed_here.setter
    def is_followed_here(self, is_followed_here: bool) -> None:
        if not is_followed_here:
            self.followed_until_ms = 0


class ClusterStandings:
    """The standings of all groups; `on_change` is called with the name of a group whose standing has changed."""

    def __init__(self, groups: Iterable[str], node: int, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        self.by_group: dict[str, LeasedStanding] = {}
        for group in groups:
            self.add(group)
        self.on_change: list[Callable[[str], None]] = []
        self.shrinks_total = self.expands_total = 0  # of sets of groups that this node leads
        self.elections_total = 0  # of leaders, wherever they are
        self.election_us = Histogram()  # from the end of one leader to the next, as far as this node has heard
        self._leaderless_us: dict[str, int] = {}  # since when, by group
        self.doubted: frozenset[int] = frozenset()  # nodes where no client should be sent
        self.renew: Callable[[str], None] = lambda _group: None  # moves the deadlines of a group

    def add(self, group: str) -> None:
        """Begin with a group of which nothing is known yet."""
        self.by_group[group] = LeasedStanding(self._clock)

    def remove(self, group: str) -> None:
        """Forget a group that is no more."""
        del self.by_group[group]
        self._leaderless_us.pop(group, None)

    def group_changed(self, state: PartitionGroupState, live: Collection[int]) -> None:
        """Note the newest state of a group. A leader that is dead, or may be, is none: clients look again soon."""
        standing = self.by_group.get(state.name)
        if standing is None:
            return
        if state.leader == self._node and state.epoch == standing.leader_epoch:
            self.shrinks_total += not state.in_sync.issuperset(standing.in_sync)
            self.expands_total += not state.in_sync.issubset(standing.in_sync)
        # The first state of a group that this node hears of is no news of an election.
        self.elections_total += state.epoch > standing.leader_epoch > 0 and state.leader != NO_LEADER
        is_there = state.leader in live and state.leader not in self.doubted
        self._note_election(standing, state, is_there=is_there)
        standing.leader = state.leader if is_there else NO_LEADER
        standing.leader_epoch = state.epoch
        standing.replicas, standing.min_in_sync = state.replicas, state.min_in_sync
        standing.in_sync = tuple(node for node in state.replicas if node in state.in_sync)
        standing.eligible = tuple(node for node in state.replicas if node in state.eligible)
        standing.offline_replicas = tuple(node for node in state.replicas if node not in live)
        if state.leader != self._node:
            standing.is_led_here = False
        self.renew(state.name)
        self.changed(state.name)

    def _note_election(self, before: LeasedStanding, state: PartitionGroupState, *, is_there: bool) -> None:
        now_us = self._clock.monotonic_us()
        if not is_there:
            if before.leader != NO_LEADER:
                self._leaderless_us[state.name] = now_us
            return
        since_us = self._leaderless_us.pop(state.name, now_us)
        # A leader that was doubted, and goes on, was not elected.
        if state.epoch > before.leader_epoch > 0:
            self.election_us.record(now_us - since_us)

    def live_changed(self, states: Mapping[str, PartitionGroupState], live: Collection[int]) -> None:
        """Note that other nodes are alive now."""
        for state in states.values():
            self.group_changed(state, live)

    def set_led_here(self, group: str, *, is_led_here: bool) -> None:
        """Note that this node's replica leads and can be read, or leads no more."""
        standing = self.by_group[group]
        if standing.is_leading and not is_led_here:
            standing.left_epoch = standing.leader_epoch
        standing.is_leading = is_led_here
        if is_led_here:
            self.renew(group)
        standing.was_served = standing.is_led_here
        self.changed(group)

    def changed(self, group: str) -> None:
        """Tell that a standing has changed."""
        for callback in self.on_change:
            callback(group)
