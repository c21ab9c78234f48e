"""What the machine of high availability decides, without a loop."""

from collections.abc import Sequence

import pytest

from hutong.bus.clustered.availability.entries import VERTICLES_MAX, HaVerticle, NodeEntry
from hutong.bus.clustered.availability.machine import AvailabilityMachine, VerticleState, java_hash
from hutong.bus.clustered.availability.messages import (
    Accept,
    ClusterSeen,
    CutOff,
    DeployAsked,
    Drop,
    Event,
    Instruction,
    Leaving,
    NodeTakenOver,
    NoteFailover,
    NoteNoRoom,
    NoteQuorum,
    OperationFailed,
    OwnWritten,
    StartVerticle,
    StopVerticle,
    TakeOver,
    UndeployAsked,
    VerticleFailed,
    VerticleStarted,
    VerticleStopped,
    WriteOwn,
)

A, B = HaVerticle("1", "shop:A", {}), HaVerticle("2", "shop:B", {})


class Machine(AvailabilityMachine):
    """One that checks itself after each event. Its node is "me", of the group "g"."""

    def __init__(self, quorum: int = 1) -> None:
        super().__init__("me", "g", quorum)

    def handle(self, event: Event) -> Sequence[Instruction]:
        instructions = super().handle(event)
        self.check_invariants()
        return instructions

    def joined(self, *others: str) -> "Machine":
        """As it is once its empty entry is written."""
        self.handle(seen("me", *others))
        self.handle(OwnWritten(0))
        self.handle(seen("me", *others, me=((), 0), **dict.fromkeys(others, ((), 0))))
        return self

    def running(self, *verticles: HaVerticle) -> "Machine":
        """As it is once these run and are in its entry."""
        for verticle in verticles:
            self.handle(DeployAsked(verticle))
            self.handle(VerticleStarted(verticle.id))
            assert self._version is not None
            self.handle(OwnWritten(self._version + 1))
        return self


def seen(*nodes: str, **entries: tuple[tuple[HaVerticle, ...], int]) -> ClusterSeen:
    """The nodes, and the entries of their group with their versions."""
    return ClusterSeen(
        frozenset(nodes), {node: (NodeEntry("g", found), version) for node, (found, version) in entries.items()}
    )


def in_group(group: str | None, *nodes: str) -> ClusterSeen:
    """This node alone, with entries of these nodes in another group."""
    found = {node: (NodeEntry(group, (A,)), 1) for node in nodes}
    return ClusterSeen(frozenset(["me", *nodes]), {"me": (NodeEntry("g", ()), 0), **found})


def test_a_verticle_is_started_and_then_written_and_then_accepted() -> None:
    machine = Machine()
    assert machine.handle(DeployAsked(A)) == []
    assert machine.handle(seen("me")) == [NoteQuorum(True, 1), StartVerticle(A), WriteOwn((), None)]
    assert machine.handle(VerticleStarted("1")) == []
    assert machine.handle(OwnWritten(0)) == [WriteOwn((A,), 0)]
    assert machine.handle(OwnWritten(1)) == [Accept("1")]
    assert machine.states == {"1": VerticleState.RUNNING}


def test_one_that_fails_to_start_is_dropped() -> None:
    machine = Machine().joined()
    machine.handle(DeployAsked(A))
    assert machine.handle(VerticleFailed("1")) == [Drop("1")]


def test_it_is_undeployed_everywhere() -> None:
    machine = Machine().joined().running(A, B)
    assert machine.handle(UndeployAsked("1")) == [StopVerticle("1", "it is undeployed"), WriteOwn((B,), 2)]
    assert machine.handle(VerticleStopped("1")) == [Drop("1")]
    assert machine.handle(OwnWritten(3)) == []
    assert machine.handle(UndeployAsked("1")) == []


def test_one_that_is_undeployed_while_it_starts_is_stopped() -> None:
    machine = Machine().joined()
    machine.handle(DeployAsked(A))
    assert machine.handle(UndeployAsked("1")) == []
    assert machine.handle(VerticleStarted("1")) == [StopVerticle("1", "it is undeployed")]
    assert machine.handle(VerticleStopped("1")) == [Drop("1")]


def test_simple_failover() -> None:
    machine = Machine().joined("dead").running(A)
    there = seen("me", me=((A,), 1), dead=((B,), 4))
    assert machine.handle(there) == [TakeOver("dead", 4, (A, B), 1)]
    assert machine.handle(NodeTakenOver(2)) == [NoteFailover("dead", 1), StartVerticle(B)]
    assert machine.handle(VerticleStarted("2")) == []
    assert machine.states == {"1": VerticleState.RUNNING, "2": VerticleState.RUNNING}


def test_every_node_computes_the_same_successor() -> None:
    nodes = [f"node-{number}" for number in range(5)]
    for dead in (f"dead-{number}" for number in range(20)):
        entries = {node: (NodeEntry("g", ()), 0) for node in [*nodes, dead]}
        chosen = []
        for node in nodes:
            machine = AvailabilityMachine(node, "g", 1)
            if machine.handle(ClusterSeen(frozenset(nodes), entries))[1:]:
                chosen.append(node)
        assert len(chosen) == 1


def test_the_hash_is_that_of_java() -> None:
    assert java_hash("") == 0
    assert java_hash("hello") == 99162322
    assert java_hash("d7c5b005-0b9d-4a89-8951-13c6d957536e") == -95645627
    assert java_hash("polygenelubricants") == -(1 << 31)
    assert java_hash("😀") == 1772899


def test_a_verticle_waits_for_the_quorum() -> None:
    machine = Machine(quorum=2).joined()
    assert machine.handle(DeployAsked(A)) == []
    both = seen("me", "other", me=((), 0), other=((), 0))
    assert machine.handle(both) == [NoteQuorum(True, 2), StartVerticle(A)]


def test_a_node_without_an_entry_counts_for_no_quorum() -> None:
    machine = Machine(quorum=2).joined()
    machine.handle(DeployAsked(A))
    assert machine.handle(seen("me", "new", me=((), 0))) == []
    assert machine.handle(in_group(None, "theirs")) == []
    assert machine.handle(in_group("other", "theirs")) == []


def test_quorum_lost_and_back() -> None:
    machine = Machine(quorum=2).joined("other").running(A)
    alone = seen("me", me=((A,), 1))
    assert machine.handle(alone) == [NoteQuorum(False, 1), StopVerticle("1", "there is no quorum")]
    # It stays in the entry: another quorum may run it if this node dies meanwhile.
    assert machine.handle(VerticleStopped("1")) == []
    both = seen("me", "other", me=((A,), 1), other=((), 0))
    assert machine.handle(both) == [NoteQuorum(True, 2), StartVerticle(A)]
    assert machine.handle(VerticleStarted("1")) == []


def test_without_a_quorum_nothing_is_taken_over() -> None:
    machine = Machine(quorum=2).joined("dead")
    assert machine.handle(seen("me", me=((), 0), dead=((A,), 1))) == [NoteQuorum(False, 1)]
    found = machine.handle(seen("me", "new", me=((), 0), new=((), 0), dead=((A,), 1)))
    # The new one may be the successor.
    assert found in ([NoteQuorum(True, 2)], [NoteQuorum(True, 2), TakeOver("dead", 1, (A,), 0)])


def test_failure_in_failover() -> None:
    """The successor dies during the failover: all of its entry is taken over, the first dead node's verticles too."""
    machine = Machine().joined()
    assert machine.handle(seen("me", me=((), 0), one=((A,), 1), two=((), 3))) == [TakeOver("one", 1, (A,), 0)]
    # Another node was faster: it dies, too.
    assert machine.handle(OperationFailed()) == []
    assert machine.handle(seen("me", me=((), 0), two=((A, B), 4))) == [TakeOver("two", 4, (A, B), 0)]
    assert machine.handle(NodeTakenOver(1)) == [NoteFailover("two", 2), StartVerticle(A), StartVerticle(B)]


def test_one_that_cannot_start_here_stays_in_the_entry_for_the_next() -> None:
    machine = Machine(quorum=2).joined("other")
    dead = java_successor_is_me(machine)
    machine.handle(seen("me", "other", me=((), 0), other=((), 0), **{dead: ((A,), 1)}))
    machine.handle(NodeTakenOver(1))
    assert machine.handle(VerticleFailed("1")) == []
    assert machine.states == {"1": VerticleState.FAILED}
    # It is tried again with the next quorum.
    machine.handle(seen("me", me=((A,), 1)))
    found = machine.handle(seen("me", "other", me=((A,), 1), other=((), 0)))
    assert found == [NoteQuorum(True, 2), StartVerticle(A)]


def java_successor_is_me(machine: AvailabilityMachine) -> str:
    """A node whose successor among "me" and "other" is this one."""
    return next(name for name in map(str, range(10)) if machine._successor_of(name) == "me")


def test_groups_keep_apart() -> None:
    machine = Machine().joined()
    for group in ("other", None):
        dead = in_group(group, "dead")
        assert machine.handle(ClusterSeen(frozenset(["me"]), dead.entries)) == []


def test_a_node_that_comes_back_gives_up_what_was_taken_over() -> None:
    machine = Machine().joined("other").running(A)
    machine.handle(DeployAsked(B))
    machine.handle(CutOff())
    # B has started meanwhile and is in no entry yet, so nobody else has it.
    machine.handle(VerticleStarted("2"))
    found = machine.handle(seen("me", "other", other=((A,), 3)))
    assert found == [StopVerticle("1", "another node has taken it over"), WriteOwn((B,), None)]
    assert machine.handle(VerticleStopped("1")) == [Drop("1")]
    assert machine.handle(OwnWritten(0)) == [Accept("2")]


def test_a_node_that_is_cut_off_counts_itself_alone() -> None:
    machine = Machine(quorum=2).joined("other").running(A)
    assert machine.handle(CutOff()) == [NoteQuorum(False, 1), StopVerticle("1", "there is no quorum")]
    machine.handle(VerticleStopped("1"))
    both = seen("me", "other", me=((A,), 1), other=((), 0))
    assert machine.handle(both) == [NoteQuorum(True, 2), StartVerticle(A)]
    # With a quorum of one it goes on.
    assert Machine().joined("other").running(A).handle(CutOff()) == []


def test_a_node_that_is_not_among_the_nodes_has_no_quorum() -> None:
    machine = Machine(quorum=1).joined("other").running(A)
    away = seen("other", me=((A,), 1), other=((), 0))
    assert machine.handle(away) == [NoteQuorum(False, 1), StopVerticle("1", "there is no quorum")]


def test_a_takeover_whose_answer_was_lost_counts_where_it_was_done() -> None:
    machine = Machine().joined()
    assert machine.handle(seen("me", me=((), 0), dead=((A,), 1))) == [TakeOver("dead", 1, (A,), 0)]
    assert machine.handle(OperationFailed()) == []
    assert machine.handle(seen("me", me=((A,), 1))) == [NoteFailover("dead", 1), StartVerticle(A)]


def test_a_takeover_whose_answer_was_lost_is_tried_again_where_it_was_not_done() -> None:
    machine = Machine().joined()
    there = seen("me", me=((), 0), dead=((A,), 1))
    machine.handle(there)
    machine.handle(OperationFailed())
    assert machine.handle(there) == [TakeOver("dead", 1, (A,), 0)]


def test_a_writing_whose_answer_was_lost_is_accepted_where_it_was_done() -> None:
    machine = Machine().joined()
    machine.handle(DeployAsked(A))
    assert machine.handle(VerticleStarted("1")) == [WriteOwn((A,), 0)]
    assert machine.handle(OperationFailed()) == []
    assert machine.handle(seen("me", me=((A,), 1))) == [Accept("1")]


def test_too_many_verticles_are_left_where_they_are() -> None:
    machine = Machine().joined()
    many = tuple([HaVerticle(f"v{number}", "shop:A", {}) for number in range(VERTICLES_MAX + 1)])
    there = seen("me", me=((), 0), dead=(many, 1))
    assert machine.handle(there) == [NoteNoRoom("dead", VERTICLES_MAX + 1)]
    assert machine.handle(there) == []


def test_a_verticle_that_is_here_already_is_not_taken_twice() -> None:
    machine = Machine().joined().running(A)
    assert machine.handle(seen("me", me=((A,), 1), dead=((A, B), 1))) == [TakeOver("dead", 1, (A, B), 1)]
    assert machine.handle(NodeTakenOver(2)) == [NoteFailover("dead", 1), StartVerticle(B)]


def test_a_node_that_leaves_begins_nothing() -> None:
    machine = Machine().joined()
    machine.handle(Leaving())
    assert machine.handle(seen("me", me=((), 0), dead=((A,), 1))) == []
    assert machine.handle(DeployAsked(B)) == []


@pytest.mark.parametrize("event", [NodeTakenOver(1), OwnWritten(1)])
def test_an_operation_that_nobody_began_is_a_fault_of_ours(event: Event) -> None:
    with pytest.raises(AssertionError):
        Machine().handle(event)


def test_what_may_have_been_written_is_given_up_with_the_rest() -> None:
    machine = Machine().joined("other").running(A)
    machine.handle(DeployAsked(B))
    assert machine.handle(VerticleStarted("2")) == [WriteOwn((A, B), 1)]
    machine.handle(OperationFailed())
    found = machine.handle(seen("me", "other", other=((A, B), 3)))
    stops = [StopVerticle(id, "another node has taken it over") for id in ("1", "2")]
    assert found == [*stops, WriteOwn((), None)]


def test_what_comes_back_while_it_stops_is_started_again() -> None:
    machine = Machine().joined("other").running(A)
    machine.handle(seen("me", "other", other=((A,), 3)))
    machine.handle(OwnWritten(0))
    # The other one has died with it, and here it has not stopped yet.
    assert machine.handle(seen("me", me=((), 0), other=((A,), 3))) == [TakeOver("other", 3, (A,), 0)]
    assert machine.handle(NodeTakenOver(1)) == [NoteFailover("other", 1)]
    assert machine.handle(VerticleStopped("1")) == [StartVerticle(A)]
