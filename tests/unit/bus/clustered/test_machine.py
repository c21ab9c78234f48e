"""The machine of a clustered bus, told as transcripts, and a property over any history."""

from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from hutong.bus.clustered.limits import ClusteredLimits
from hutong.bus.clustered.machine import ClusterMachine, LinkState
from hutong.bus.clustered.messages import (
    ClusterNodesChanged,
    Connect,
    Connected,
    ConnectFailed,
    DisconnectNode,
    Event,
    Fail,
    Forget,
    Instruction,
    NodeConnectionLost,
    Ping,
    PlaceRemote,
    PongReceived,
    ReferenceReceived,
    RegistrationsChanged,
    Release,
    Wanted,
)
from hutong.foundation.machine import Tick
from hutong.wire.vertx.cluster_nodes import NodeInfo

LIMITS: Final = ClusteredLimits(unknown_nodes_max=2, references_max=3)
A, B, OWN = NodeInfo("a", 1), NodeInfo("b", 2), NodeInfo("own", 3)
NODES: Final = {"a": A, "b": B, "own": OWN}


def cluster() -> ClusterMachine:
    """Two others, who have consumers of `x`; a has those of `y` alone."""
    machine = ClusterMachine("own", LIMITS)
    assert machine.handle(ClusterNodesChanged(NODES, 0)) == []
    machine.handle(RegistrationsChanged("x", {"a": 2, "b": 1, "own": 3}))
    machine.handle(RegistrationsChanged("y", {"a": 1}))
    return machine


def connected(machine: ClusterMachine, node: str, now_ms: int = 0) -> ClusterMachine:
    machine.handle(Wanted(node, now_ms))
    assert machine.handle(Connected(node, now_ms)) == [Ping(node)]
    assert machine.handle(PongReceived(node, now_ms)) == [Release(node)]
    return machine


def test_consumers_of_others_are_placed_with_a_turn_for_each() -> None:
    machine = ClusterMachine("own", LIMITS)
    machine.handle(ClusterNodesChanged(NODES, 0))
    assert machine.handle(RegistrationsChanged("x", {"own": 1})) == []
    assert machine.handle(RegistrationsChanged("x", {"a": 2, "b": 1, "own": 3})) == [
        PlaceRemote("x", (("a", 2), ("b", 1)))
    ]
    assert machine.handle(RegistrationsChanged("x", {"a": 2, "b": 1})) == []
    assert machine.handle(RegistrationsChanged("x", {"b": 1})) == [PlaceRemote("x", (("b", 1),))]
    assert machine.handle(RegistrationsChanged("x", {})) == [PlaceRemote("x", ())]


def test_a_service_in_a_reply_counts_before_the_membership_says_so() -> None:
    machine = ClusterMachine("own", LIMITS)
    machine.handle(ClusterNodesChanged(NODES, 0))
    assert machine.handle(ReferenceReceived("r", "a", 10)) == [PlaceRemote("r", (("a", 1),))]
    # Read too early, and then in time: from now on the membership alone counts.
    assert machine.handle(RegistrationsChanged("r", {})) == []
    assert machine.handle(RegistrationsChanged("r", {"a": 1})) == []
    assert machine.handle(ReferenceReceived("r", "b", 10)) == []
    assert machine.next_tick_ms() is None
    assert machine.handle(RegistrationsChanged("r", {})) == [PlaceRemote("r", ())]


def test_a_service_in_a_reply_that_the_membership_never_knows_is_forgotten() -> None:
    machine = ClusterMachine("own", LIMITS)
    machine.handle(ClusterNodesChanged(NODES, 0))
    machine.handle(ReferenceReceived("r", "a", 10))
    assert machine.next_tick_ms() == 10 + LIMITS.reference_ms_max
    assert machine.handle(Tick(9 + LIMITS.reference_ms_max)) == []
    assert machine.handle(Tick(10 + LIMITS.reference_ms_max)) == [PlaceRemote("r", ())]
    for number in range(LIMITS.references_max + 1):
        found = machine.handle(ReferenceReceived(f"r{number}", "a", 10))
        assert bool(found) == (number < LIMITS.references_max)
    machine.check_invariants()


def test_consumers_count_once_their_node_has_an_entry() -> None:
    machine = ClusterMachine("own", LIMITS)
    assert machine.handle(RegistrationsChanged("x", {"a": 1})) == []
    assert machine.handle(ClusterNodesChanged({"a": A}, 0)) == [PlaceRemote("x", (("a", 1),))]
    assert machine.handle(ClusterNodesChanged({}, 0)) == [
        Fail("a", "it has left the cluster"),
        Forget("a"),
        PlaceRemote("x", ()),
    ]
    assert machine.handle(ClusterNodesChanged({"a": A}, 0)) == [PlaceRemote("x", (("a", 1),))]


def test_the_first_message_connects() -> None:
    machine = cluster()
    assert machine.handle(Wanted("a", 5)) == [Connect("a", A)]
    assert machine.handle(Wanted("a", 6)) == []
    assert machine.handle(Connected("a", 7)) == [Ping("a")]
    assert machine.handle(Wanted("a", 8)) == []
    assert machine.handle(PongReceived("a", 9)) == [Release("a")]
    assert machine.handle(Wanted("a", 10)) == []


def test_a_node_that_cannot_be_connected_to_receives_nothing_until_a_probe_succeeds() -> None:
    machine = cluster()
    machine.handle(Wanted("a", 0))
    assert machine.handle(ConnectFailed("a", "refused", 10)) == [
        PlaceRemote("x", (("b", 1),)),
        PlaceRemote("y", ()),
        Fail("a", "refused"),
    ]
    assert machine.handle(Wanted("a", 11)) == [Fail("a", "refused")]
    assert machine.next_tick_ms() == 10 + LIMITS.retry_ms_first
    assert machine.handle(Tick(50)) == []
    assert machine.handle(Tick(110)) == [Connect("a", A)]
    assert machine.handle(Wanted("a", 111)) == [Fail("a", "refused")]
    assert machine.handle(ConnectFailed("a", "refused again", 120)) == [Fail("a", "refused again")]
    assert machine.next_tick_ms() == 120 + 2 * LIMITS.retry_ms_first
    machine.handle(Tick(320))
    assert machine.handle(Connected("a", 330)) == [Ping("a")]
    assert machine.handle(PongReceived("a", 331)) == [
        Release("a"),
        PlaceRemote("x", (("a", 2), ("b", 1))),
        PlaceRemote("y", (("a", 1),)),
    ]


def test_a_connection_that_stood_is_tried_again_at_once() -> None:
    machine = connected(cluster(), "a")
    assert machine.handle(NodeConnectionLost("a", 5_000)) == [Connect("a", A)]
    assert machine.handle(Connected("a", 5_001)) == [Ping("a")]
    assert machine.handle(PongReceived("a", 5_001)) == [Release("a")]
    assert machine.handle(NodeConnectionLost("a", 5_002))[-1] == Fail("a", "it closed the connection at once")
    assert machine.state_of("a") is LinkState.UNREACHABLE


def test_a_ping_without_an_answer_ends_the_connection() -> None:
    machine = connected(cluster(), "a", 0)
    assert machine.next_tick_ms() == 20_000
    assert machine.handle(Tick(20_000)) == [Ping("a")]
    assert machine.handle(PongReceived("a", 20_001)) == []
    assert machine.handle(Tick(40_000)) == [Ping("a")]
    assert machine.handle(Tick(60_000)) == [
        DisconnectNode("a"),
        PlaceRemote("x", (("b", 1),)),
        PlaceRemote("y", ()),
        Fail("a", "it did not answer a ping"),
    ]


def test_a_connection_counts_once_a_ping_was_answered() -> None:
    """One that is stopped has a kernel that accepts for it, and another one at its place closes the connection."""
    machine = cluster()
    machine.handle(Wanted("a", 0))
    assert machine.handle(Connected("a", 5)) == [Ping("a")]
    assert machine.next_tick_ms() == 5 + LIMITS.connect_ms_max
    assert machine.handle(Tick(5 + LIMITS.connect_ms_max))[0] == DisconnectNode("a")
    assert machine.state_of("a") is LinkState.UNREACHABLE
    machine.handle(Tick(20_000))
    machine.handle(Connected("a", 20_001))
    assert machine.handle(NodeConnectionLost("a", 30_000)) == [Fail("a", "it closed the connection at once")]


def test_a_node_at_the_place_of_another_replaces_it() -> None:
    machine = connected(cluster(), "a")
    assert machine.handle(ClusterNodesChanged({**NODES, "again": A}, 1)) == [
        DisconnectNode("a"),
        Fail("a", "another node has its place"),
        Forget("a"),
        PlaceRemote("x", (("b", 1),)),
        PlaceRemote("y", ()),
    ]
    assert machine.handle(RegistrationsChanged("y", {"a": 1, "again": 1})) == [PlaceRemote("y", (("again", 1),))]
    # For as long as its entry is there, and no longer.
    machine.handle(ClusterNodesChanged(NODES, 2))
    assert machine.state_of("a") is None
    machine.handle(ClusterNodesChanged({"b": B, "own": OWN}, 3))
    machine.handle(ClusterNodesChanged(NODES, 4))
    assert machine.state_of("a") is LinkState.IDLE
    assert machine.handle(ClusterNodesChanged({**NODES, "former": OWN}, 5)) == []
    assert machine.state_of("former") is None


def test_a_node_that_leaves_is_disconnected() -> None:
    machine = connected(cluster(), "a")
    assert machine.handle(ClusterNodesChanged({"b": B}, 1)) == [
        DisconnectNode("a"),
        Fail("a", "it has left the cluster"),
        Forget("a"),
        PlaceRemote("x", (("b", 1),)),
        PlaceRemote("y", ()),
    ]
    assert machine.state_of("a") is None


def test_an_answer_waits_for_the_entry_of_a_node_that_has_asked() -> None:
    machine = ClusterMachine("own", LIMITS)
    assert machine.handle(Wanted("new", 0)) == []
    assert machine.handle(ClusterNodesChanged({"new": A}, 10)) == [Connect("new", A)]
    assert machine.handle(Wanted("never", 10)) == []
    assert machine.handle(Tick(10 + LIMITS.unknown_node_ms_max)) == [
        Fail("never", "it is not in the cluster"),
        Forget("never"),
    ]
    for node in ("one", "two"):
        assert machine.handle(Wanted(node, 0)) == []
    assert machine.handle(Wanted("three", 0)) == [Fail("three", "it is not in the cluster"), Forget("three")]


def test_a_node_that_has_moved_is_probed_at_once() -> None:
    machine = cluster()
    machine.handle(Wanted("a", 0))
    machine.handle(ConnectFailed("a", "refused", 0))
    assert machine.handle(ClusterNodesChanged({**NODES, "a": B}, 1)) == []
    assert machine.handle(Tick(1)) == [Connect("a", B)]


NAMES = st.sampled_from(["a", "b", "c"])
KINDS = ("wanted", "ended", "lost", "pong", "reference", "tick")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("nodes"), st.sets(NAMES), st.integers(0, 3_000)),
        st.tuples(st.just("register"), st.dictionaries(NAMES, st.integers(0, 3)), st.sampled_from(["x", "y"])),
        st.tuples(st.sampled_from(KINDS), NAMES, st.integers(0, 25_000)),
    ),
    max_size=60,
)  # fmt: skip


@given(STEPS)
def test_any_history_keeps_the_invariants(steps: list[tuple[str, Any, Any]]) -> None:
    """The driver's rules: an attempt has one outcome, and a connection is lost once, unless both were given up."""
    machine, now_ms = ClusterMachine("own", LIMITS), 0
    attempts: set[str] = set()
    open_now: set[str] = set()
    for kind, what, more in steps:
        now_ms += more if isinstance(more, int) else 0
        event = event_of(kind, what, more, now_ms)
        if isinstance(event, Connected | ConnectFailed):
            if event.node not in attempts:
                continue
            attempts.discard(event.node)
        if isinstance(event, Connected):
            open_now.add(event.node)
        if isinstance(event, NodeConnectionLost | PongReceived) and event.node not in open_now:
            continue
        if isinstance(event, NodeConnectionLost):
            open_now.discard(event.node)
        for instruction in machine.handle(event):
            follow(instruction, attempts, open_now)
        machine.check_invariants()


def event_of(kind: str, what: Any, more: Any, now_ms: int) -> Event:
    if kind == "nodes":
        return ClusterNodesChanged({node: NodeInfo(node if more % 3 else "a", 1) for node in sorted(what)}, now_ms)
    if kind == "register":
        return RegistrationsChanged(more, what)
    if kind == "ended":
        return Connected(what, now_ms) if more % 2 else ConnectFailed(what, "refused", now_ms)
    events: dict[str, Event] = {
        "wanted": Wanted(what, now_ms),
        "lost": NodeConnectionLost(what, now_ms),
        "pong": PongReceived(what, now_ms),
        "reference": ReferenceReceived("x", what, now_ms),
    }
    return events.get(kind, Tick(now_ms))


def follow(instruction: Instruction, attempts: set[str], open_now: set[str]) -> None:
    if isinstance(instruction, Connect):
        assert instruction.node not in attempts | open_now, "one connection at a time"
        attempts.add(instruction.node)
    elif isinstance(instruction, DisconnectNode):
        assert instruction.node in attempts | open_now
        attempts.discard(instruction.node)
        open_now.discard(instruction.node)
    elif isinstance(instruction, Release | Ping):
        assert instruction.node in open_now
    elif isinstance(instruction, Forget):
        assert instruction.node not in attempts | open_now
