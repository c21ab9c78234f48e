"""The leader of a partition group: what it commits is on every disk that counts, whatever happens on the way."""

from collections import deque
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from hutong.foundation.machine import Tick
from hutong.journal.append.leader_epochs import EpochStart, LeaderEpochs
from hutong.replication.following.machine import HEARTBEATS, UNSAID_BYTES_MAX, FollowerReplication
from hutong.replication.following.messages import (
    AcknowledgeChunks,
    AskToJoin,
    JoinAccepted,
    LeaderConnected,
    ReplicaGrew,
)
from hutong.replication.leading.machine import (
    GONE_MS_MAX,
    HELD_UP_MS,
    JOIN_LAG_MS_MAX,
    LAG_MS_MAX,
    LeaderReplication,
)
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

BEGIN = 100  # of the leader's epoch; before it is what another has written
FIRST = 110  # behind its first chunk
EPOCHS = LeaderEpochs([EpochStart(1, 0, 9), EpochStart(2, BEGIN, 1)])


def leader(*in_sync: int, min_in_sync: int = 1, end: int = FIRST) -> LeaderReplication:
    return LeaderReplication(1, ReplicaSet(2, 5, frozenset(in_sync), min_in_sync), EPOCHS, end, 0)


def told(machine: LeaderReplication, *events: LeaderEvent) -> list[LeaderInstruction]:
    instructions = []
    for event in events:
        instructions += machine.handle(event)
        machine.check_invariants()
    return instructions


def joined(node: int, end: int = BEGIN, epoch: int = 1, now_ms: int = 0) -> FollowerJoined:
    return FollowerJoined(node, 70 + node, end, epoch, now_ms)


def test_a_leader_alone_commits_what_it_has_flushed() -> None:
    machine = leader(1)
    assert told(machine, StreamGrew(130, 120)) == [Replicated(130, 130), TellCommitted(120)]
    assert told(machine, StreamGrew(130, 130)) == [TellCommitted(130)]


def test_what_every_member_has_stored_is_committed() -> None:
    machine = leader(1, 2, 3)
    assert told(machine, StreamGrew(150, 150), joined(2), joined(3)) == [
        TellJoined(2, 0),
        Ship(2, BEGIN),
        TellJoined(3, 0),
        Ship(3, BEGIN),
    ]
    assert told(machine, Shipped(2, BEGIN, 150), Shipped(3, BEGIN, 150)) == []
    assert told(machine, Acknowledged(2, 150, 150, 1)) == []
    assert told(machine, Acknowledged(3, 150, 120, 1)) == [Replicated(150, 120), TellCommitted(120)]
    assert told(machine, Acknowledged(3, 150, 150, 1)) == [Replicated(150, 150), TellCommitted(150)]


def test_nothing_is_committed_before_a_chunk_of_the_own_epoch() -> None:
    machine = leader(1, 2)
    told(machine, StreamGrew(FIRST, FIRST), joined(2), Shipped(2, BEGIN, FIRST))
    assert told(machine, Acknowledged(2, BEGIN, BEGIN, 1)) == [], "all of it is another leader's"
    assert told(machine, Acknowledged(2, FIRST, FIRST, 2)) == [Replicated(FIRST, FIRST), TellCommitted(FIRST)]


@pytest.mark.parametrize(
    ("end", "epoch", "answer"),
    [
        (60, 1, TellJoined(2, 0)),
        (0, -1, TellJoined(2, 0)),
        (BEGIN + 5, 1, TellDivergence(2, 1, BEGIN)),  # a tail that this leader never had
        (BEGIN + 5, 7, TellDivergence(2, 2, FIRST)),  # of a leader that got no further
        (40, 0, TellDivergence(2, -1, 0)),
    ],
)
def test_a_follower_whose_stream_is_another_hears_where_they_part(
    end: int, epoch: int, answer: LeaderInstruction
) -> None:
    assert told(leader(1, 2), joined(2, end, epoch))[0] == answer


def test_a_follower_gets_more_when_it_is_shipped() -> None:
    machine = leader(1, 2)
    told(machine, joined(2))
    assert told(machine, StreamGrew(200, 120)) == []
    assert told(machine, Shipped(2, BEGIN, 150)) == [Ship(2, 150)]
    told(machine, FollowerLeft(2, 5), joined(2, 120, 2, 6))
    assert told(machine, Shipped(2, 150, 200)) == [], "that went to the connection before"


def test_a_member_that_does_not_keep_up_leaves_the_set() -> None:
    machine = leader(1, 2, 3)
    told(machine, joined(2), joined(3), Shipped(2, BEGIN, FIRST), Shipped(3, BEGIN, FIRST), StreamGrew(FIRST, FIRST))
    told(machine, Acknowledged(2, FIRST, FIRST, 1_900), Acknowledged(3, FIRST, BEGIN, 1_900))
    assert machine.next_tick_ms() == LAG_MS_MAX
    assert told(machine, Tick(LAG_MS_MAX)) == [ProposeSet(5, frozenset({(2, 72)}))]
    assert told(machine, Acknowledged(2, FIRST, FIRST, LAG_MS_MAX + 1)) == [], "it counts until that is committed"
    changed = SetCommitted(ReplicaSet(2, 6, frozenset({1, 2}), 1), LAG_MS_MAX + 2)
    assert told(machine, changed) == [Replicated(FIRST, FIRST), TellCommitted(FIRST)]


def test_a_leader_that_was_stopped_reads_what_came_before_it_takes_anybody_for_late() -> None:
    """A loop runs its timers before it reads. So a busy machine would leave the leader alone in its set."""
    machine = leader(1, 2, 3)
    told(machine, joined(2), joined(3), Shipped(2, BEGIN, FIRST), Shipped(3, BEGIN, FIRST), StreamGrew(FIRST, FIRST))
    over_ms = LAG_MS_MAX + HELD_UP_MS + 1
    assert told(machine, Tick(over_ms)) == []
    assert machine.next_tick_ms() == over_ms + HELD_UP_MS
    told(machine, Acknowledged(2, FIRST, FIRST, over_ms))
    assert told(machine, Tick(over_ms + HELD_UP_MS)) == [ProposeSet(5, frozenset({(2, 72)}))]


def test_a_silent_member_is_spared_once_however_slowly_the_leader_turns() -> None:
    machine = leader(1, 2)
    told(machine, joined(2))
    assert told(machine, Tick(2 * LAG_MS_MAX)) == []
    assert told(machine, Tick(4 * LAG_MS_MAX)) == [ProposeSet(5, frozenset())]


def test_a_member_whose_connection_ends_leaves_soon() -> None:
    machine = leader(1, 2)
    told(machine, joined(2), FollowerLeft(2, 50))
    assert machine.next_tick_ms() == 50 + GONE_MS_MAX
    assert told(machine, Tick(50 + GONE_MS_MAX - 1)) == []
    assert told(machine, Tick(50 + GONE_MS_MAX)) == [ProposeSet(5, frozenset())]


def test_members_that_are_needed_have_their_whole_time_to_come_back() -> None:
    machine = leader(1, 2, 3, min_in_sync=2)
    told(machine, joined(2), joined(3), FollowerLeft(2, 50), FollowerLeft(3, 60))
    assert machine.next_tick_ms() == LAG_MS_MAX
    assert told(machine, Tick(60 + GONE_MS_MAX)) == []
    # With one of them there are enough, and so the other one leaves.
    told(machine, joined(3))
    assert told(machine, Tick(61 + GONE_MS_MAX)) == [ProposeSet(5, frozenset({(3, 73)}))]


def test_members_that_do_not_come_back_leave_all_the_same() -> None:
    machine = leader(1, 2, 3, min_in_sync=2)
    told(machine, joined(2), joined(3), FollowerLeft(2, 50), FollowerLeft(3, 60))
    assert told(machine, Tick(LAG_MS_MAX)) == [ProposeSet(5, frozenset())]


def test_a_follower_joins_with_all_that_was_promised_on_its_disk() -> None:
    machine = leader(1)
    told(machine, joined(2), StreamGrew(150, 120), Shipped(2, BEGIN, 150))
    assert machine.committed_position == 120
    assert told(machine, Acknowledged(2, 150, FIRST - 1, 1)) == []
    assert machine.maximal_set == {1}, "it has not stored what there was when it came"
    # Alone the leader has promised all of its stream. From now on the follower counts.
    assert told(machine, Acknowledged(2, 150, 130, 2)) == []
    assert machine.maximal_set == {1, 2}
    assert told(machine, StreamGrew(160, 160)) == [Ship(2, 150), TellCommitted(150)]
    assert told(machine, Acknowledged(2, 150, 150, 3)) == [ProposeSet(5, frozenset({(2, 72)}))]
    assert told(machine, ProposalRefused(5, 4)) == [ProposeSet(5, frozenset({(2, 72)}))]


def test_a_follower_that_leaves_before_it_has_joined_holds_nothing_up() -> None:
    machine = leader(1)
    told(machine, joined(2), StreamGrew(150, 120), Shipped(2, BEGIN, 150), Acknowledged(2, 150, 130, 2))
    assert told(machine, StreamGrew(160, 160)) == [Ship(2, 150), TellCommitted(150)]
    assert told(machine, FollowerLeft(2, 5), Tick(6)) == [Replicated(160, 160), TellCommitted(160)]


def test_a_follower_that_falls_silent_while_it_joins_holds_nothing_up_for_long() -> None:
    machine = leader(1)
    told(machine, joined(2), StreamGrew(150, 120), Shipped(2, BEGIN, 150), Acknowledged(2, 150, 130, 2))
    told(machine, StreamGrew(160, 160))
    assert machine.next_tick_ms() == JOIN_LAG_MS_MAX + 1
    assert told(machine, Tick(JOIN_LAG_MS_MAX + 1)) == [Replicated(160, 160), TellCommitted(160)]


def test_too_few_members_commit_nothing() -> None:
    machine = leader(1, 2, min_in_sync=2)
    told(machine, joined(2), FollowerLeft(2, 1), Tick(LAG_MS_MAX))
    alone = SetCommitted(ReplicaSet(2, 6, frozenset({1}), 2), LAG_MS_MAX)
    assert told(machine, alone) == [ReplicasMissing(1, 2)]
    assert told(machine, StreamGrew(FIRST, FIRST)) == []
    back = LAG_MS_MAX + 10
    told(machine, joined(2, now_ms=back), Shipped(2, BEGIN, FIRST))
    assert told(machine, Acknowledged(2, FIRST, FIRST, back)) == [ProposeSet(6, frozenset({(2, 72)}))]
    assert told(machine, SetCommitted(ReplicaSet(2, 7, frozenset({1, 2}), 2), back)) == [
        Replicated(FIRST, FIRST),
        TellCommitted(FIRST),
    ]


class _Follower:
    """A follower's stream, and what is on its way to it and back."""

    def __init__(self) -> None:
        self.held = self.stored = BEGIN
        self.is_connected = False
        self.incoming: deque[tuple[int, int]] = deque()
        self.outgoing: deque[tuple[int, int]] = deque()
        self.incarnation = 0


class Cluster:
    """A leader, followers and a register, with everything on its way drawn by chance."""

    def __init__(self, seed: int, followers: int, min_in_sync: int) -> None:
        self.random = Random(seed)
        self.now_ms = 0
        self.end = self.flushed = FIRST
        self.register = ReplicaSet(2, 5, frozenset(range(1, followers + 2)), min_in_sync)
        self.leader = LeaderReplication(1, self.register, EPOCHS, self.end, 0)
        self.followers = {node: _Follower() for node in range(2, followers + 2)}
        self.proposals: deque[ProposeSet] = deque()
        self.answers: deque[LeaderEvent] = deque()
        self.wanted: dict[int, int] = {}

    def handle(self, event: LeaderEvent) -> None:
        for instruction in self.leader.handle(event):
            match instruction:
                case Ship(node, start):
                    self.wanted[node] = start
                case ProposeSet():
                    self.proposals.append(instruction)
                case TellDivergence():
                    raise AssertionError("followers have no other chunks here")
                case _:
                    pass
        self.leader.check_invariants()
        self.check()

    def check(self) -> None:
        """Check that all that is committed is on the disks of all that are in sync by the register."""
        assert self.leader.committed_position <= self.flushed
        for node in self.register.in_sync - {1}:
            assert self.leader.committed_position <= max(self.followers[node].stored, BEGIN)

    def step(self, *, is_calm: bool) -> None:
        node = self.random.choice([*self.followers])
        follower = self.followers[node]
        steps = [self.flush, lambda: self.pass_time(10 if is_calm else 300), self.register_answers, self.hear_register]
        steps += [lambda: self.ship(node), lambda: self.take(follower), lambda: self.store(follower)] * 2
        steps += [lambda: self.acknowledge(node, follower)] * 3
        if not follower.is_connected:
            steps += [lambda: self.join(node, follower)] * 3
        # A busy stream keeps nobody out for good.
        if not is_calm or (self.register.in_sync != {1, *self.followers} and self.random.random() < 0.2):
            steps.append(lambda: self.grow(2 if is_calm else 20))
        if not is_calm and follower.is_connected:
            steps.append(lambda: self.disconnect(node, follower, loses=self.random.random() < 0.5))
        self.random.choice(steps)()

    def grow(self, bytes_max: int) -> None:
        self.end += self.random.randint(1, bytes_max)
        self.handle(StreamGrew(self.end, self.flushed))

    def flush(self) -> None:
        self.flushed = self.random.randint(self.flushed, self.end)
        self.handle(StreamGrew(self.end, self.flushed))

    def pass_time(self, milliseconds_max: int) -> None:
        self.now_ms += self.random.randint(1, milliseconds_max)
        due_ms = self.leader.next_tick_ms()
        if due_ms is not None and due_ms <= self.now_ms:
            self.handle(Tick(self.now_ms))

    def ship(self, node: int) -> None:
        follower = self.followers[node]
        start = self.wanted.pop(node, None)
        if start is not None and follower.is_connected:
            end = self.random.randint(start + 1, self.end)
            follower.incoming.append((start, end))
            self.handle(Shipped(node, start, end))

    def take(self, follower: _Follower) -> None:
        if follower.incoming:
            start, end = follower.incoming.popleft()
            assert start <= follower.held, "a gap"
            follower.held = max(follower.held, end)
            follower.outgoing.append((follower.held, follower.stored))

    def store(self, follower: _Follower) -> None:
        follower.stored = self.random.randint(follower.stored, follower.held)
        if follower.is_connected:
            follower.outgoing.append((follower.held, follower.stored))

    def acknowledge(self, node: int, follower: _Follower) -> None:
        while len(follower.outgoing) > 5:  # one for several, as many come
            follower.outgoing.popleft()
        if follower.outgoing:
            self.handle(Acknowledged(node, *follower.outgoing.popleft(), self.now_ms))

    def join(self, node: int, follower: _Follower) -> None:
        follower.is_connected = True
        follower.incarnation += 1
        epoch = 2 if follower.held > BEGIN else 1
        self.handle(FollowerJoined(node, follower.incarnation, follower.held, epoch, self.now_ms))

    def disconnect(self, node: int, follower: _Follower, *, loses: bool) -> None:
        """The connection ends; with `loses` the node's power goes, and with it what is not on disk."""
        follower.is_connected = False
        follower.incoming.clear()
        follower.outgoing.clear()
        self.wanted.pop(node, None)
        if loses:
            follower.held = follower.stored
        self.handle(FollowerLeft(node, self.now_ms))

    def register_answers(self) -> None:
        """The register takes a change of its version, or refuses; the answer is on its way."""
        if not self.proposals:
            return
        proposal = self.proposals.popleft()
        if proposal.version != self.register.version or self.random.random() < 0.2:
            self.answers.append(ProposalRefused(proposal.version, self.now_ms))
            return
        in_sync = frozenset({1, *(node for node, _ in proposal.followers)})
        self.register = replace(self.register, version=proposal.version + 1, in_sync=in_sync)
        self.answers.append(SetCommitted(self.register, self.now_ms))
        self.check()

    def hear_register(self) -> None:
        if self.answers:
            event = self.answers.popleft()
            assert isinstance(event, SetCommitted | ProposalRefused)
            self.handle(structs.replace(event, now_ms=self.now_ms))


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 3))
def test_what_is_committed_is_on_every_disk_that_counts(seed: int, followers: int, min_in_sync: int) -> None:
    cluster = Cluster(seed, followers, min(min_in_sync, followers + 1))
    for _ in range(150):
        cluster.step(is_calm=False)
    # When nothing breaks any more, all are in sync again, and everything is committed.
    everybody = {1, *cluster.followers}
    for _ in range(10_000):
        if cluster.register.in_sync == everybody and cluster.leader.committed_position == cluster.end:
            break
        cluster.step(is_calm=True)
        for each in cluster.followers.values():
            if each.is_connected and not each.outgoing:
                each.outgoing.append((each.held, each.stored))  # as its heartbeat does
    assert cluster.register.in_sync == everybody
    assert cluster.leader.committed_position == cluster.end


def test_a_follower_is_heard_several_times_before_it_is_late() -> None:
    epochs = LeaderEpochs()
    follower = FollowerReplication(lambda: epochs, 0, 0, 100 // HEARTBEATS)
    follower.handle(LeaderConnected(1, 1_000))
    # Also at once: an idle one need not wait for its first heartbeat to be in sync.
    assert follower.handle(JoinAccepted(0, 1_000)) == [AcknowledgeChunks(0, 0)]
    assert follower.next_tick_ms() == 1_025
    follower.handle(Tick(1_025))
    assert follower.next_tick_ms() == 1_050


def following(interval_ms: int = 100, now_ms: int = 0) -> FollowerReplication:
    """A follower without a chunk that has joined."""
    epochs = LeaderEpochs()
    follower = FollowerReplication(lambda: epochs, 0, 0, interval_ms)
    follower.handle(LeaderConnected(1, now_ms))
    follower.handle(JoinAccepted(0, now_ms))
    return follower


def test_followers_that_joined_at_different_times_are_heard_at_the_same_moments() -> None:
    assert {following(25, now_ms).next_tick_ms() for now_ms in (1_000, 1_001, 1_024)} == {1_025}


def test_a_follower_acknowledges_a_flush_once() -> None:
    follower = following()
    assert follower.handle(ReplicaGrew(100, 0, 1, is_flushing=True)) == []
    assert follower.handle(ReplicaGrew(150, 0, 2, is_flushing=True)) == []
    # The next flush has begun already.
    assert follower.handle(ReplicaGrew(150, 100, 3, is_flushing=True)) == [AcknowledgeChunks(150, 100)]
    assert follower.handle(ReplicaGrew(150, 150, 4)) == [AcknowledgeChunks(150, 150)]
    # What nobody flushes yet is acknowledged as it comes.
    assert follower.handle(ReplicaGrew(200, 150, 5)) == [AcknowledgeChunks(200, 150)]


def test_a_follower_acknowledges_much_that_it_holds_before_the_flush_ends() -> None:
    follower = following()
    assert follower.handle(ReplicaGrew(UNSAID_BYTES_MAX - 1, 0, 1, is_flushing=True)) == []
    held = UNSAID_BYTES_MAX
    assert follower.handle(ReplicaGrew(held, 0, 2, is_flushing=True)) == [AcknowledgeChunks(held, 0)]
    assert follower.handle(ReplicaGrew(held + 1, 0, 3, is_flushing=True)) == []
    # Its heartbeat does not wait for a slow disk.
    assert follower.handle(Tick(100)) == [AcknowledgeChunks(held + 1, 0)]


def test_a_follower_without_a_chunk_names_no_epoch_in_spite_of_its_list() -> None:
    """Its leader would tell it to cut what it does not have, again and again."""
    follower = FollowerReplication(lambda: LeaderEpochs([EpochStart(0, 0)]), 0, 0, 100)

    assert follower.handle(LeaderConnected(7, 0)) == [AskToJoin(0, -1)]
