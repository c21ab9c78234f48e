"""The election of the metadata group: transcripts, and histories of several nodes with one register."""

import random
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from hutong.cluster.metadata_machine import HOLD_MS_MAX, RETRY_MS, STAND_MS, MetadataElection
from hutong.cluster.metadata_messages import (
    ApplyState,
    IntentsChanged,
    LiveChanged,
    MetadataEvent,
    MetadataInstruction,
    MetadataShort,
    ReachChanged,
    RefuseProposal,
    RegisterRead,
    RegisterRefused,
    RegisterUnknown,
    RegisterWritten,
    SetProposedHere,
    WriteRegister,
)
from hutong.cluster.set_rules import is_led
from hutong.foundation.machine import Tick
from hutong.replication.group_state import PartitionGroupState

LIVE = {1: 11, 2: 21, 3: 31}


def group(
    leader: int,
    in_sync: set[int],
    *,
    epoch: int = 1,
    version: int = 5,
    eligible: frozenset[int] = frozenset(),
    replicas: tuple[int, ...] = (1, 2, 3),
    min_in_sync: int = 2,
) -> PartitionGroupState:
    incarnation = LIVE.get(leader, 0)
    return PartitionGroupState(
        "metadata", epoch, version, leader, incarnation, replicas, frozenset(in_sync), eligible, min_in_sync
    )


def machine(node: int, state: PartitionGroupState, live: dict[int, int] = LIVE) -> MetadataElection:
    """The machine of a node that knows the state, in version 7 of the register."""
    made = MetadataElection(node, LIVE[node])
    made.handle(RegisterRead(7, state, 0))
    made.handle(LiveChanged(live, 0))
    return made


def test_a_node_founds_the_group_alone_and_then_takes_in_others_one_by_one() -> None:
    first = MetadataElection(1, 11)
    assert first.handle(RegisterRead(0, None, 0)) == []
    (written,) = first.handle(LiveChanged({1: 11, 2: 21, 3: 31}, 0))
    assert written == WriteRegister(0, group(1, {1}, version=1, replicas=(1,), min_in_sync=1))
    assert isinstance(written, WriteRegister)
    applied, added = first.handle(RegisterWritten(1, written.state, 1))
    assert applied == ApplyState(written.state)
    two = group(1, {1}, version=2, replicas=(1, 2), min_in_sync=1)
    assert added == WriteRegister(1, two)
    assert first.handle(RegisterWritten(2, two, 2)) == [ApplyState(two)]
    grown = group(1, {1, 2}, version=3, replicas=(1, 2))
    assert first.handle(SetProposedHere(2, frozenset({(2, 21)}), 3)) == [WriteRegister(2, grown)]
    three = group(1, {1, 2}, version=4)
    assert first.handle(RegisterWritten(3, grown, 4)) == [ApplyState(grown), WriteRegister(3, three)]


def test_a_node_that_was_in_a_cluster_founds_none() -> None:
    node = MetadataElection(1, 11, may_found=False)
    node.handle(RegisterRead(0, None, 0))
    assert node.handle(LiveChanged({1: 11}, 0)) == []


def test_the_first_live_member_stands_at_once_and_the_others_later() -> None:
    state = group(1, {1, 2, 3})
    second, third = machine(2, state), machine(3, state)
    alive = {2: 21, 3: 31}
    led = group(2, {2, 3}, epoch=2, version=6)
    assert second.handle(LiveChanged(alive, 100)) == [WriteRegister(7, led)]
    assert third.handle(LiveChanged(alive, 100)) == []
    assert third.next_tick_ms() == 100 + STAND_MS
    assert third.handle(RegisterRead(8, led, 110)) == [ApplyState(led)]
    assert third.next_tick_ms() is None
    assert third.handle(Tick(100 + STAND_MS)) == []


def test_a_leader_in_another_life_is_elected_anew_and_others_come_first() -> None:
    state = group(1, {1, 2, 3})
    alive = {1: 12, 2: 21, 3: 31}
    assert machine(2, state).handle(LiveChanged(alive, 0)) == [WriteRegister(7, group(2, {2, 3}, epoch=2, version=6))]
    back = MetadataElection(1, 12)
    back.handle(RegisterRead(7, state, 0))
    assert back.handle(LiveChanged(alive, 0)) == []
    assert back.next_tick_ms() == 2 * STAND_MS


def test_who_left_a_set_that_was_too_small_may_lead_when_all_members_are_gone() -> None:
    state = group(1, {1}, eligible=frozenset({2}))
    expected = group(2, {2}, epoch=2, version=6, eligible=frozenset({1}))
    assert machine(2, state).handle(LiveChanged({2: 21, 3: 31}, 0)) == [WriteRegister(7, expected)]
    assert machine(3, state).handle(LiveChanged({2: 21, 3: 31}, 0)) == []


def test_the_leader_takes_out_who_is_gone_and_never_itself() -> None:
    leader = machine(1, group(1, {1, 2, 3}))
    (write,) = leader.handle(LiveChanged({1: 11}, 0))
    left = group(1, {1}, version=6, eligible=frozenset({2, 3}))
    assert write == WriteRegister(7, left)
    assert leader.handle(RegisterWritten(8, left, 1)) == [ApplyState(left)]


def test_a_member_in_another_life_is_taken_out() -> None:
    leader = machine(1, group(1, {1, 2, 3}))
    (write,) = leader.handle(LiveChanged({1: 11, 2: 22, 3: 31}, 0))
    assert write == WriteRegister(7, group(1, {1, 3}, version=6))


def test_a_write_of_unknown_outcome_is_repeated_as_it_was_until_something_is_read() -> None:
    leader = machine(1, group(1, {1, 2, 3}))
    (write,) = leader.handle(LiveChanged({1: 11, 3: 31}, 0))
    assert leader.handle(RegisterUnknown(10)) == []
    assert leader.handle(LiveChanged({1: 11, 2: 22, 3: 31}, 20)) == []
    assert leader.next_tick_ms() == 10 + RETRY_MS
    assert leader.handle(Tick(10 + RETRY_MS)) == [write]
    assert leader.handle(RegisterUnknown(2_000)) == []
    # The coordinator is back, and nothing was written.
    assert leader.handle(RegisterRead(7, group(1, {1, 2, 3}), 2_100)) == [write]
    assert isinstance(write, WriteRegister)
    assert leader.handle(RegisterRead(8, write.state, 2_200)) == [ApplyState(write.state)]
    assert leader.handle(RegisterRefused(2_300)) == []


def test_an_election_of_unknown_outcome_is_given_up_when_the_leader_is_back() -> None:
    second = machine(2, group(1, {1, 2, 3}))
    second.handle(LiveChanged({2: 21, 3: 31}, 0))
    second.handle(RegisterUnknown(10))
    second.handle(LiveChanged(LIVE, 20))
    assert second.handle(Tick(10 + RETRY_MS)) == []
    assert second.next_tick_ms() is None


def test_after_a_refusal_the_register_is_read_before_anything_else() -> None:
    second = machine(2, group(1, {1, 2, 3}))
    second.handle(LiveChanged({2: 21, 3: 31}, 0))
    assert second.handle(RegisterRefused(10)) == []
    assert second.handle(Tick(5_000)) == []
    led = group(3, {2, 3}, epoch=2, version=6)
    assert second.handle(RegisterRead(8, led, 20)) == [ApplyState(led)]


def test_a_proposal_for_an_older_version_is_refused() -> None:
    leader = machine(1, group(1, {1, 2, 3}))
    assert leader.handle(SetProposedHere(4, frozenset(), 0)) == [RefuseProposal(4)]


def test_a_proposal_that_was_overtaken_is_refused_when_the_new_state_is_known() -> None:
    leader = machine(1, group(1, {1, 2, 3}))
    (write,) = leader.handle(LiveChanged({1: 11, 2: 21}, 0))
    assert isinstance(write, WriteRegister)
    assert leader.handle(SetProposedHere(5, frozenset({(2, 21)}), 0)) == []
    assert leader.handle(RegisterWritten(8, write.state, 1)) == [ApplyState(write.state), RefuseProposal(5)]


def test_a_proposal_with_an_unknown_life_is_held_until_it_is_known_or_for_a_while() -> None:
    leader = machine(1, group(1, {1, 2}))
    proposal = SetProposedHere(5, frozenset({(2, 21), (3, 32)}), 0)
    assert leader.handle(proposal) == []
    assert leader.next_tick_ms() == HOLD_MS_MAX
    assert leader.handle(LiveChanged({1: 11, 2: 21, 3: 32}, 10)) == [WriteRegister(7, group(1, {1, 2, 3}, version=6))]
    other = machine(1, group(1, {1, 2}))
    other.handle(proposal)
    assert other.handle(Tick(HOLD_MS_MAX)) == [RefuseProposal(5)]


def test_a_proposal_with_a_life_that_is_over_is_refused_at_once() -> None:
    leader = machine(1, group(1, {1, 2}), {1: 11, 2: 21, 3: 31})
    assert leader.handle(LiveChanged({1: 11, 2: 21}, 0)) == []
    assert leader.handle(SetProposedHere(5, frozenset({(2, 21), (3, 31)}), 0)) == [RefuseProposal(5)]
    assert leader.handle(LiveChanged({1: 11, 2: 21, 3: 31}, 1)) == []
    taken = WriteRegister(7, group(1, {1, 2, 3}, version=6))
    assert leader.handle(SetProposedHere(5, frozenset({(2, 21), (3, 31)}), 2)) == [taken]


def test_a_drained_node_is_replaced_and_then_leaves() -> None:
    leader = machine(1, group(1, {1, 2, 3}), {**LIVE, 4: 41})
    (write,) = leader.handle(IntentsChanged(frozenset({2}), frozenset(), 0))
    four = group(1, {1, 2, 3}, version=6, replicas=(1, 2, 3, 4))
    assert write == WriteRegister(7, four)
    leader.handle(RegisterWritten(8, four, 1))
    (write,) = leader.handle(SetProposedHere(6, frozenset({(2, 21), (3, 31), (4, 41)}), 2))
    assert isinstance(write, WriteRegister)
    _, write = leader.handle(RegisterWritten(9, write.state, 3))
    assert write == WriteRegister(9, group(1, {1, 3, 4}, version=8, replicas=(1, 3, 4)))


def test_a_drained_leader_hands_over() -> None:
    leader = machine(1, group(1, {1, 2, 3}))
    (write,) = leader.handle(IntentsChanged(frozenset({1}), frozenset(), 0))
    assert write == WriteRegister(7, group(2, {1, 2, 3}, epoch=2, version=6))


def test_a_leader_that_is_short_of_space_hands_over_and_leaves_the_set() -> None:
    leader = machine(1, group(1, {1, 2, 3}))
    led = group(2, {2, 3}, epoch=2, version=6)
    assert leader.handle(MetadataShort(1, 11, True, 0)) == [WriteRegister(7, led)]
    assert leader.handle(RegisterWritten(8, led, 1)) == [ApplyState(led)]
    # While it is short, others stand before it.
    assert leader.handle(LiveChanged({1: 11, 3: 31}, 2)) == []
    assert leader.next_tick_ms() is None


def test_a_member_that_is_short_of_space_leaves_the_set_until_it_has_some() -> None:
    leader = machine(1, group(1, {1, 2, 3}))
    without = group(1, {1, 2}, version=6)
    assert leader.handle(MetadataShort(3, 31, True, 0)) == [WriteRegister(7, without)]
    assert leader.handle(RegisterWritten(8, without, 1)) == [ApplyState(without)]
    proposal = SetProposedHere(6, frozenset({(2, 21), (3, 31)}), 2)
    assert leader.handle(proposal) == [RefuseProposal(6)]
    assert leader.handle(MetadataShort(3, 31, False, 3)) == []
    assert leader.handle(proposal) == [WriteRegister(8, group(1, {1, 2, 3}, version=7))]


def test_a_leader_goes_on_where_all_members_are_short_of_space() -> None:
    leader = machine(1, group(1, {1, 2}))
    (write,) = leader.handle(MetadataShort(2, 21, True, 0))
    assert isinstance(write, WriteRegister)
    assert leader.handle(RegisterWritten(8, write.state, 1)) == [ApplyState(write.state)]
    assert leader.handle(MetadataShort(1, 11, True, 2)) == []
    # What another leader heard, this one is told anew.
    led = group(2, {1, 2}, epoch=2, version=8)
    leader.handle(RegisterRead(9, led, 3))
    back = group(1, {1, 2}, epoch=3, version=9)
    assert leader.handle(RegisterRead(10, back, 4)) == [
        ApplyState(back),
        WriteRegister(10, group(2, {2}, epoch=4, version=10, eligible=frozenset({1}))),
    ]


def test_a_leader_out_of_reach_hands_over_and_leaves_the_set() -> None:
    leader = machine(1, group(1, {1, 2, 3}))
    led = group(2, {2, 3}, epoch=2, version=6)
    assert leader.handle(ReachChanged(frozenset({1}), 0)) == [WriteRegister(7, led)]
    assert leader.handle(RegisterWritten(8, led, 1)) == [ApplyState(led)]
    assert leader.handle(Tick(60_000)) == []


def test_a_leader_out_of_reach_hands_over_to_one_that_left_a_set_that_commits_nothing() -> None:
    leader = machine(1, group(1, {1}, eligible=frozenset({2, 3})))
    led = group(3, {3}, epoch=2, version=6, eligible=frozenset({1, 2}))
    assert leader.handle(ReachChanged(frozenset({1, 2}), 0)) == [WriteRegister(7, led)]


def test_a_leader_that_may_commit_alone_keeps_live_members_that_others_reach() -> None:
    """With `cluster.min_in_sync` below the majority, a set without them would commit, and none of them could lead."""
    state = group(1, {1, 2, 3}, min_in_sync=1)
    leader = machine(1, state)
    assert leader.handle(SetProposedHere(5, frozenset(), 0)) == []
    led = group(2, {2, 3}, epoch=2, version=6, min_in_sync=1)
    assert leader.handle(ReachChanged(frozenset({1}), 500)) == [WriteRegister(7, led)]
    # Where nobody is out of reach, the others are slow, and the leader waits for one of them.
    waiting = machine(1, state)
    assert waiting.handle(SetProposedHere(5, frozenset(), 0)) == []
    assert waiting.handle(Tick(HOLD_MS_MAX)) == [RefuseProposal(5)]
    one_more = WriteRegister(7, group(1, {1, 2}, version=6, min_in_sync=2))
    assert waiting.handle(SetProposedHere(5, frozenset({(2, 21)}), HOLD_MS_MAX + 1)) == [one_more]


def test_a_leader_that_may_commit_alone_does_so_once_the_others_are_dead() -> None:
    leader = machine(1, group(1, {1, 2}, min_in_sync=1), {1: 11, 2: 21})
    alone = group(1, {1}, version=6, min_in_sync=1)
    assert leader.handle(SetProposedHere(5, frozenset(), 0)) == [WriteRegister(7, alone)]


def test_the_metadata_never_need_more_than_a_majority() -> None:
    leader = MetadataElection(1, 11, min_in_sync=3)
    leader.handle(RegisterRead(7, group(1, {1, 2}), 0))
    leader.handle(LiveChanged(LIVE, 0))
    proposal = SetProposedHere(5, frozenset({(2, 21), (3, 31)}), 1)
    assert leader.handle(proposal) == [WriteRegister(7, group(1, {1, 2, 3}, version=6, min_in_sync=2))]


def test_a_leader_out_of_reach_stays_where_nobody_within_reach_has_everything() -> None:
    """Alone in a set that commits, it may have what no other node has."""
    leader = machine(1, group(1, {1}, min_in_sync=1))
    assert leader.handle(ReachChanged(frozenset({1}), 0)) == []


def test_a_member_out_of_reach_does_not_stand_before_others() -> None:
    state = group(1, {1, 2, 3})
    alive = {2: 21, 3: 31}
    second, third = machine(2, state), machine(3, state)
    for each in (second, third):
        each.handle(ReachChanged(frozenset({2}), 0))
    assert second.handle(LiveChanged(alive, 100)) == []
    assert third.handle(LiveChanged(alive, 100)) == [WriteRegister(7, group(3, {2, 3}, epoch=2, version=6))]


def test_a_leader_within_reach_leaves_members_out_of_reach_to_their_acknowledgements() -> None:
    """The leader's replica proposes a set without them when they are late."""
    leader = machine(1, group(1, {1, 2, 3}))
    assert leader.handle(ReachChanged(frozenset({3}), 0)) == []


def test_a_forgotten_node_leaves_at_once() -> None:
    leader = machine(1, group(1, {1, 2}), {1: 11, 2: 21})
    (write,) = leader.handle(IntentsChanged(frozenset(), frozenset({3}), 0))
    assert write == WriteRegister(7, group(1, {1, 2}, version=6, replicas=(1, 2)))


def test_a_leader_writes_its_state_again_when_the_coordinator_has_lost_it() -> None:
    state = group(1, {1, 2, 3})
    leader, follower = machine(1, state), machine(2, state)
    again = replace(state, version=6)
    assert leader.handle(RegisterRead(0, None, 10)) == [WriteRegister(0, again)]
    assert leader.handle(RegisterWritten(1, again, 11)) == [ApplyState(again)]
    assert follower.handle(RegisterRead(0, None, 10)) == []
    assert follower.handle(RegisterRead(1, again, 11)) == [ApplyState(again)]
    led = group(2, {2, 3}, epoch=2, version=7)
    assert follower.handle(LiveChanged({2: 21, 3: 31}, 20)) == [WriteRegister(1, led)]


def test_an_older_value_that_comes_late_does_no_harm() -> None:
    leader = machine(1, group(1, {1, 2, 3}))
    (write,) = leader.handle(RegisterRead(6, group(1, {1, 2}, version=4), 10))
    assert isinstance(write, WriteRegister)
    assert write.version == 6
    assert leader.handle(RegisterRefused(11)) == []
    assert leader.handle(LiveChanged({1: 11, 2: 21}, 12)) == [WriteRegister(7, group(1, {1, 2}, version=6))]


# ---- histories


@dataclass
class History:
    """Nodes with their machines, and the register. Writes, reads and news of the living arrive when chance says so.

    Leaders commit as `LeaderReplication` does, here by numbers: what is committed is stored by the whole maximal set.
    """

    seed: int
    node_count: int = 4
    now_ms: int = 0
    version: int = 0
    value: PartitionGroupState | None = None
    is_out: bool = False
    machines: dict[int, MetadataElection] = field(default_factory=dict)
    lives: dict[int, int] = field(default_factory=dict)
    writes: dict[int, list[WriteRegister]] = field(default_factory=dict)
    states: list[PartitionGroupState] = field(default_factory=list)
    committed: int = 0
    stored: dict[int, int] = field(default_factory=dict)  # stays when a process ends
    proposed: dict[int, tuple[int, frozenset[int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.incarnations = iter(range(1, 1_000_000))

    def feed(self, node: int, event: MetadataEvent) -> None:
        machine = self.machines[node]
        instructions: list[MetadataInstruction] = machine.handle(event)
        machine.check_invariants()
        for instruction in instructions:
            if isinstance(instruction, WriteRegister):
                self.writes[node].append(instruction)
                assert len(self.writes[node]) == 1, "one write at a time"
            elif isinstance(instruction, ApplyState) or instruction.version == self.proposed.get(node, (0,))[0]:
                self.proposed.pop(node, None)
        due_ms = machine.next_tick_ms()
        assert not isinstance(event, Tick) or due_ms is None or due_ms > self.now_ms, "the timer would never rest"

    def start(self, node: int) -> None:
        if node not in self.lives:
            self.lives[node] = next(self.incarnations)
            self.machines[node] = MetadataElection(node, self.lives[node])
            self.writes[node] = []

    def stop(self, node: int) -> None:
        """Its write that is on its way may still succeed."""
        if node in self.lives:
            if self.writes[node] and self.chance.random() < 0.5:
                self.apply(self.writes[node][0])
            del self.lives[node], self.machines[node], self.writes[node]
            self.proposed.pop(node, None)

    def apply(self, write: WriteRegister) -> bool:
        if write.version != self.version:
            return False
        before = self.value
        self.version, self.value = self.version + 1, write.state
        self.states.append(write.state)
        check_step(before, write.state)
        if before is not None and before.epoch != write.state.epoch:
            assert self.stored.get(write.state.leader, 0) == self.committed, "a leader lacks what is committed"
        return True

    def settle_write(self, node: int) -> None:
        write = self.writes[node].pop()
        if self.is_out:
            if self.chance.random() < 0.3:
                self.apply(write)  # it came through, but its answer did not
            self.feed(node, RegisterUnknown(self.now_ms))
        elif self.apply(write):
            self.feed(node, RegisterWritten(self.version, write.state, self.now_ms))
        else:
            self.feed(node, RegisterRefused(self.now_ms))

    def see_living(self, node: int, *, is_wrong: bool = False) -> None:
        """Let it know who lives; it may wrongly take some for dead, though never itself."""
        live = {each: life for each, life in self.lives.items() if not is_wrong or self.chance.random() < 0.7}
        self.feed(node, LiveChanged({**live, node: self.lives[node]}, self.now_ms))

    def propose(self, node: int) -> None:
        state = self.machines[node].state
        if state is None or not self.machines[node].is_leading or node in self.proposed:
            return
        wanted = {each for each in state.replicas if each in self.lives and self.chance.random() < 0.8} - {node}
        followers = frozenset((each, self.lives[each]) for each in wanted)
        # Who is new in it has stored all that is committed, and counts from now on.
        for each in wanted - state.in_sync:
            if not self.follows(each, state.epoch):
                return
            self.stored[each] = max(self.stored.get(each, 0), self.stored.get(node, 0))
        self.proposed[node] = (state.version, frozenset(wanted))
        self.feed(node, SetProposedHere(state.version, followers, self.now_ms))

    def follows(self, node: int, epoch: int) -> bool:
        """True if it stores chunks of a leader of this epoch."""
        if node not in self.lives:
            return False
        known = self.machines[node].state
        return known is None or known.epoch <= epoch

    def commit(self, node: int) -> None:
        state = self.machines[node].state
        if state is None or not self.machines[node].is_leading or len(state.in_sync) < state.min_in_sync:
            return
        members = state.in_sync | self.proposed.get(node, (0, frozenset()))[1]
        if all(each == node or self.follows(each, state.epoch) for each in members):
            assert self.stored.get(node, 0) == self.committed, "two leaders commit"
            self.committed += 1
            self.stored |= dict.fromkeys(members, self.committed)

    def step(self) -> None:
        self.now_ms += self.chance.randrange(300)
        kind = self.chance.choice(("start", "start", "stop", "write", "write", "write", "read", "read", "see", "wrong",
                                   "propose", "propose", "commit", "commit", "tick", "out"))  # fmt: skip
        if kind == "out":
            self.is_out = self.chance.random() < 0.3
        node = self.chance.randrange(1, self.node_count + 1)
        if kind == "start":
            self.start(node)
        elif node in self.lives:
            self._act(kind, node)

    def _act(self, kind: str, node: int) -> None:
        if kind == "stop":
            self.stop(node)
        elif kind == "write" and self.writes[node]:
            self.settle_write(node)
        elif kind == "read" and not self.is_out:
            self.feed(node, RegisterRead(self.version, self.value, self.now_ms))
        elif kind in {"see", "wrong"}:
            self.see_living(node, is_wrong=kind == "wrong")
        elif kind == "propose":
            self.propose(node)
        elif kind == "commit":
            self.commit(node)
        elif kind == "tick":
            self.feed(node, Tick(self.now_ms))

    def calm_down(self) -> None:
        """The coordinator answers, and everybody hears everything for a while."""
        self.is_out = False
        for _ in range(60):
            self.now_ms += 200
            for node in sorted(self.lives):
                while self.writes[node]:
                    self.settle_write(node)
                self.feed(node, RegisterRead(self.version, self.value, self.now_ms))
                self.see_living(node)
                self.feed(node, Tick(self.now_ms))
                self.propose(node)
                self.commit(node)


def check_step(before: PartitionGroupState | None, after: PartitionGroupState) -> None:
    if before is None:
        return
    assert after.version == before.version + 1
    assert after.epoch in (before.epoch, before.epoch + 1)
    is_same_leader = (after.leader, after.leader_incarnation) == (before.leader, before.leader_incarnation)
    assert (after.epoch == before.epoch) == is_same_leader
    if after.epoch != before.epoch:
        assert after.leader in before.in_sync | before.eligible
        assert after.in_sync <= before.in_sync | {after.leader}
    # Who is electable had all that was committed: it was so before, or leaves a set that cannot commit without it.
    assert after.eligible <= before.eligible | before.in_sync
    assert not after.eligible or len(after.in_sync) < after.min_in_sync


@given(st.integers(0, 2**32))
def test_there_is_one_leader_in_each_epoch_and_one_comes_where_a_member_lives(seed: int) -> None:
    history = History(seed)
    history.start(1)
    for _ in range(150):
        history.step()
    history.calm_down()
    leaders = {(each.epoch, each.leader, each.leader_incarnation) for each in history.states}
    assert len(leaders) == len({epoch for epoch, _, _ in leaders})
    state = history.value
    if state is not None and (state.in_sync | state.eligible) & history.lives.keys():
        assert is_led(state, history.lives)
        assert history.machines[state.leader].is_leading
        assert len(state.replicas) == min(3, max(len(state.replicas), len(history.lives)))
