"""The leader of one partition group: ships its stream, decides what is committed, and who is in sync.

    FollowerJoined ──> same stream up to its end? ── no ──> TellDivergence: it cuts, and joins again (KIP-101, KIP-279)
                              │ yes
                              v
          Ship, Shipped ──> Acknowledged ──> Replicated, TellCommitted      by every member of the maximal set
                              │
                              └──> ProposeSet ──> SetCommitted              one change at a time (KIP-497)

Strategy: the rules that make an in-sync set safe. What is committed waits for the *maximal* set while a change is on
its way: the union of what is known and what is proposed, for either may turn out to be true. Nothing is committed
before a chunk of the leader's own epoch is. Nothing is committed while fewer than the least number are in sync, so who
leaves the set then is still complete (KIP-966). A follower that nearly keeps up counts at once, and is proposed when it
has on disk all that was promised without it. It leaves when it has not kept up for a while, or shortly after its
connection has ended, unless the set would be too small without it.

Knows nothing of bytes, connections, clocks or how a cluster agrees.
"""

from collections.abc import Iterator
from typing import Final

from hutong.foundation.machine import Tick
from hutong.journal.append.leader_epochs import LeaderEpochs
from hutong.replication.leading.follower_standing import FollowerStanding
from hutong.replication.leading.messages import (
    Acknowledged,
    FollowerJoined,
    FollowerLeft,
    LeaderEvent,
    LeaderInstruction,
    ProposalRefused,
    ProposeSet,
    ReplicaSet,
    ReplicasMissing,
    Replicated,
    SetCommitted,
    Ship,
    Shipped,
    StreamGrew,
    TellCommitted,
    TellDivergence,
    TellJoined,
)

# replica.lag.time.max.ms. Kafka's default is 30,000, and so long every acks=all waits for a node that hangs.
LAG_MS_MAX: Final = 2_000
JOIN_LAG_MS_MAX: Final = 200  # of one that may join: for about so long all acknowledgements wait for it
GONE_MS_MAX: Final = 250  # for a connection that comes back at once, before its node leaves the set
HELD_UP_MS: Final = 100  # a leader that looks later than this after its time has not read either


class LeaderReplication:
    """Leads one group in one epoch. `check_invariants` holds between two events."""

    def __init__(
        self,
        node: int,
        replicas: ReplicaSet,
        epochs: LeaderEpochs,
        end_position: int,
        now_ms: int,
        lag_ms_max: int = LAG_MS_MAX,
    ) -> None:
        """`epochs` is the journal's own list; its newest epoch is that of this leader, and has its first chunk."""
        self._node = node
        self._lag_ms_max = lag_ms_max
        self._replicas = replicas
        self._epochs = epochs
        self._end_position = end_position
        self._flushed_position = 0
        self._followers: dict[int, FollowerStanding] = {
            member: FollowerStanding(now_ms, is_member=True) for member in sorted(replicas.in_sync - {node})
        }
        self._members = list(self._followers.values())  # of the known set, without the leader
        self._proposed: frozenset[int] | None = None
        self._joining: set[int] = set()
        self._told: Replicated = Replicated(0, 0)
        self.committed_position = 0
        # A chunk of this epoch must be stored everywhere first (Raft, 5.4.2: figure 8 shows what happens else).
        self._own_position = epochs.starts()[-1].position

    @property
    def maximal_set(self) -> frozenset[int]:
        """Everybody who may be in sync, as far as the leader knows."""
        return self._replicas.in_sync.union(self._proposed or (), self._joining)

    @property
    def is_changing_set(self) -> bool:
        """True while the known set is perhaps not the one that the cluster agrees on soon."""
        return self._proposed is not None or bool(self._joining)

    @property
    def proposed(self) -> frozenset[int]:
        """Those outside the set who are in the proposal that is not decided yet."""
        return (self._proposed or frozenset()) - self._replicas.in_sync

    @property
    def joining(self) -> frozenset[int]:
        """Those outside the set who count already."""
        return frozenset(self._joining).union(self._proposed or ()) - self._replicas.in_sync

    def follower_lags(self) -> dict[int, int]:
        """The part of the stream that each follower has not stored, in bytes."""
        end_position = self._end_position
        return {node: max(0, end_position - each.stored_position) for node, each in self._followers.items()}

    def handle(self, event: LeaderEvent) -> list[LeaderInstruction]:
        match event:
            case StreamGrew(end_position, flushed_position):
                # What a leader with followers has only sealed commits nothing.
                may_commit = flushed_position > self._flushed_position or not self._members
                self._end_position, self._flushed_position = end_position, flushed_position
                return [*self._ship_all(), *self._advance()] if may_commit else [*self._ship_all()]
            case Acknowledged():
                return self._acknowledged(event)
            case Shipped():
                return self._shipped(event)
            case FollowerJoined():
                return self._joined(event)
            case FollowerLeft(node, now_ms):
                if node in self._followers:  # it may have left before it asked for anything
                    self._followers[node].leave(now_ms)
                return []
            case SetCommitted(replicas, now_ms):
                return self._set_committed(replicas, now_ms)
            case ProposalRefused(version, now_ms):
                return self._refused(version, now_ms)
            case Tick(now_ms):
                return self._settle(now_ms)

    def next_tick_ms(self) -> int | None:
        """The time at which the next member is late, or a follower that is joining holds the others up no longer."""
        due_ms: int | None = None
        for node in self._joining:
            held_up_ms = self._followers[node].caught_up_ms + JOIN_LAG_MS_MAX + 1
            due_ms = held_up_ms if due_ms is None or held_up_ms < due_ms else due_ms
        # While a change is on its way, nothing can be done about a late member.
        for member in self._members if self._proposed is None else ():
            late_ms = self._late_ms(member)
            due_ms = late_ms if due_ms is None or late_ms < due_ms else due_ms
        return due_ms

    def check_invariants(self) -> None:
        assert self.committed_position <= self._flushed_position <= self._end_position
        assert self._node in self._replicas.in_sync
        assert len(self._members) == len(self._replicas.in_sync) - 1
        for node in self.maximal_set - {self._node}:
            assert node in self._followers
        for each in self._followers.values():
            assert each.stored_position <= each.held_position <= each.next_position
            assert not each.is_following or each.next_position <= self._end_position

    # -- followers

    def _joined(self, event: FollowerJoined) -> list[LeaderInstruction]:
        follower = self._followers.setdefault(event.node, FollowerStanding(event.now_ms, is_member=False))
        epoch, end_position = self._epochs.end_of(event.last_epoch, self._end_position)
        if epoch != event.last_epoch or event.end_position > end_position:
            follower.leave(event.now_ms)
            return [TellDivergence(event.node, epoch, end_position)]
        follower.follow(event.incarnation, event.end_position, self._end_position, event.now_ms)
        return [TellJoined(event.node, self.committed_position), *self._ship(event.node, follower)]

    def _shipped(self, event: Shipped) -> list[LeaderInstruction]:
        follower = self._followers[event.node]
        # It may have left meanwhile, and even have joined again somewhere else.
        if not follower.is_shipping or event.start_position != follower.next_position:
            return []
        follower.is_shipping = False
        follower.next_position = min(event.end_position, self._end_position)
        return [*self._ship(event.node, follower)]

    def _acknowledged(self, event: Acknowledged) -> list[LeaderInstruction]:
        follower = self._followers[event.node]
        if not follower.is_following:
            return []
        follower.acknowledge(event.held_position, event.stored_position, self._end_position, event.now_ms)
        return self._settle(event.now_ms)

    def _ship_all(self) -> Iterator[LeaderInstruction]:
        for node, follower in self._followers.items():
            yield from self._ship(node, follower)

    def _ship(self, node: int, follower: FollowerStanding) -> Iterator[LeaderInstruction]:
        if follower.is_following and not follower.is_shipping and follower.next_position < self._end_position:
            follower.is_shipping = True
            yield Ship(node, follower.next_position)

    # -- what is committed

    def _advance(self) -> Iterator[LeaderInstruction]:
        if len(self._replicas.in_sync) < self._replicas.min_in_sync:
            return
        members = self._members
        if self._proposed is not None or self._joining:
            members = [self._followers[node] for node in self.maximal_set if node != self._node]
        stored_position = held_position = self._end_position
        for member in members:
            if member.stored_position < stored_position:
                stored_position = member.stored_position
            if member.held_position < held_position:
                held_position = member.held_position
        if stored_position <= self._own_position:
            return
        told = self._told
        replicated = Replicated(max(told.held_position, held_position), max(told.stored_position, stored_position))
        if replicated != told:
            self._told = replicated
            yield replicated
        committed_position = min(replicated.stored_position, self._flushed_position)
        if committed_position > self.committed_position:
            self.committed_position = committed_position
            yield TellCommitted(committed_position)

    # -- who is in sync

    def _set_committed(self, replicas: ReplicaSet, now_ms: int) -> list[LeaderInstruction]:
        # An answer that was overtaken by a later one says nothing new.
        if replicas.version <= self._replicas.version:
            return []
        self._replicas, self._proposed = replicas, None
        for node in replicas.in_sync - {self._node}:
            self._followers.setdefault(node, FollowerStanding(now_ms, is_member=True))
        self._members = [self._followers[node] for node in sorted(replicas.in_sync - {self._node})]
        if len(replicas.in_sync) < replicas.min_in_sync:
            return [ReplicasMissing(len(replicas.in_sync), replicas.min_in_sync), *self._settle(now_ms)]
        return self._settle(now_ms)

    def _refused(self, version: int, now_ms: int) -> list[LeaderInstruction]:
        if version == self._replicas.version:
            self._proposed = None
        return self._settle(now_ms)

    def _settle(self, now_ms: int) -> list[LeaderInstruction]:
        """Propose first: who is joining counts from then on."""
        proposal = self._propose(now_ms)
        return [*self._advance(), *proposal]

    def _propose(self, now_ms: int) -> list[LeaderInstruction]:
        # The usual state, at each acknowledgement: nobody is outside, and nobody is late.
        is_settled = self._proposed is None and len(self._members) == len(self._followers)
        if is_settled and now_ms < min(map(self._late_ms, self._members), default=now_ms + 1):
            self._joining = set()
            return []
        in_sync = self._replicas.in_sync
        on_time = {node for node in in_sync if node != self._node and self._is_on_time(self._followers[node], now_ms)}
        outside = self._followers.keys() - in_sync
        self._joining = {node for node in outside if self._may_join(self._followers[node], now_ms)}
        if self._proposed is not None:
            return []
        ready = {node for node in self._joining if self._has_what_was_promised(self._followers[node])}
        wanted = frozenset({self._node, *on_time, *ready})
        if wanted == in_sync:
            return []
        self._proposed = wanted
        followers = frozenset((node, self._followers[node].incarnation) for node in wanted - {self._node})
        return [ProposeSet(self._replicas.version, followers)]

    def _may_join(self, follower: FollowerStanding, now_ms: int) -> bool:
        # What is committed follows a busy stream too closely to be reached. So it waits, for one that nearly has it.
        is_near = now_ms - follower.caught_up_ms <= JOIN_LAG_MS_MAX
        return follower.is_following and is_near and follower.stored_position > self._own_position

    def _has_what_was_promised(self, follower: FollowerStanding) -> bool:
        """A leader alone promises its whole stream, flushed or not. While a follower is joining nothing is added."""
        told = self._told
        has_all = follower.held_position >= told.held_position and follower.stored_position >= told.stored_position
        return follower.is_following and has_all

    def _is_on_time(self, follower: FollowerStanding, now_ms: int) -> bool:
        late_ms = self._late_ms(follower)
        # This process has not run in time, and a loop runs its timers before it reads what came meanwhile. Once only:
        # on a machine that stays busy a dead follower must leave, too.
        if now_ms > late_ms + HELD_UP_MS and late_ms > follower.spared_until_ms:
            follower.spared_until_ms = now_ms + HELD_UP_MS
        return now_ms < self._late_ms(follower)

    def _late_ms(self, follower: FollowerStanding) -> int:
        late_ms = follower.caught_up_ms + self._lag_ms_max
        # Where too few are connected nothing is committed, with it in the set or without. So it may come back in its
        # whole time, as followers of a new leader do on a busy machine: else all that waits would fail meanwhile.
        if follower.left_ms is not None and self._has_enough_connected():
            late_ms = min(late_ms, follower.left_ms + GONE_MS_MAX)
        return max(late_ms, follower.spared_until_ms)

    def _has_enough_connected(self) -> bool:
        connected = 1 + sum(member.left_ms is None for member in self._members)
        return connected >= self._replicas.min_in_sync
