"""Every node's map is that of the log: with lag, changes of the leader, reopened logs and trims."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.broker.state.replicated_logs import NOT_CONTROLLER, Node, Replicas

from hutong.foundation.errors import CorruptData, HutongError, OwnerGone
from hutong.wire.kafka.batch.records import Record, build_batch


def test_a_follower_applies_what_is_committed_and_nothing_else() -> None:
    nodes = Replicas()
    follower = nodes.nodes[1]
    nodes.append(b"k", b"v", b"1")
    for node in nodes.nodes:
        nodes.replicate(node)
    while follower.turn():
        pass
    assert follower.map == {}
    nodes.commit()
    nodes.hear(follower)
    while follower.turn():
        pass
    assert follower.map == {b"k": b"v"}
    assert follower.topic.applied_offset == nodes.leader.topic.applied_offset == 1


def test_a_follower_takes_no_appends() -> None:
    nodes = Replicas()
    told: list[HutongError | None] = []
    nodes.nodes[1].topic.append(b"k", b"v", told.append)
    assert told == [NOT_CONTROLLER]
    assert not nodes.nodes[1].topic.is_leading


def test_what_is_on_its_way_at_the_end_of_a_leader_fails_and_may_come_by_the_tail() -> None:
    nodes = Replicas()
    old = nodes.leader
    nodes.append(b"kept", b"1", b"1")
    nodes.append(b"cut", b"2", b"2")
    nodes.replicate(nodes.nodes[1])
    nodes.fail_over(nodes.nodes[1])
    assert nodes.outcomes == {b"1": NOT_CONTROLLER, b"2": NOT_CONTROLLER}
    nodes.settle()
    assert old.map == nodes.leader.map == {b"kept": b"1"}
    assert old.times == {b"1": 1}


def test_keys_that_died_before_a_trim_are_removed_from_a_follower_that_slept() -> None:
    nodes = Replicas()
    asleep = nodes.nodes[2]
    nodes.append(b"dies", b"0", b"0")
    nodes.append(b"stays", b"1", b"1")
    nodes.settle()
    assert asleep.map == {b"dies": b"0", b"stays": b"1"}
    nodes.append(b"dies", None, b"2")
    for index in range(3, 99):
        if nodes.leader.log.start_offset:
            break
        nodes.append(b"busy", b"%d" % index + b"." * 60, b"%d" % index)
        for node in nodes.nodes:
            nodes.replicate(node, 9)
        nodes.commit()
    before = asleep.topic.applied_offset
    assert asleep.map[b"dies"] == b"0"
    nodes.replicate(asleep, 9)
    nodes.commit()
    nodes.hear(asleep)
    while asleep.topic.applied_offset == before:
        assert asleep.turn()
    assert b"dies" not in asleep.map
    nodes.settle()
    assert asleep.map == nodes.model()


def test_waits_for_an_offset_end_when_it_is_applied_or_with_the_topic() -> None:
    nodes = Replicas()
    follower, told = nodes.nodes[1], list[HutongError | None]()
    follower.topic.when_applied(0, told.append)
    assert told == [None]
    follower.topic.when_applied(1, told.append)
    nodes.append(b"k", b"v", b"1")
    nodes.settle()
    assert told == [None, None]
    follower.topic.when_applied(2, told.append)
    gone = OwnerGone("the node is stopping")
    follower.topic.close(gone)
    assert told == [None, None, gone]


def test_nobody_waits_for_what_was_cut() -> None:
    nodes = Replicas()
    follower, told = nodes.nodes[2], list[HutongError | None]()
    nodes.append(b"kept", b"1", b"1")
    for node in nodes.nodes:
        nodes.replicate(node)
    nodes.append(b"cut", b"2", b"2")
    nodes.replicate(follower)
    follower.topic.when_applied(None, told.append)
    follower.topic.when_applied(2, told.append)
    nodes.fail_over(nodes.nodes[1])
    nodes.hear(follower)
    while follower.turn():
        pass
    assert told == [None], "another record of that number may come"
    nodes.append(b"next", b"3", b"3")
    nodes.settle()
    assert told == [None, None]


def test_a_sweep_whose_last_records_are_cut_ends_with_the_cut() -> None:
    """Both must be so: a start that is behind a trim, and a cut to what is applied."""
    nodes = Replicas()
    index = 0
    while not nodes.leader.log.start_offset:
        nodes.append(b"busy", b"%d" % index + b"." * 60, b"%d" % index)
        nodes.settle()
        index += 1
    restarted, told, committed = Node(), list[HutongError | None](), nodes.model()
    nodes.append(b"cut", b"2", b"last")
    everything = nodes.leader.log.items
    restarted.reopen(everything, nodes.committed)
    restarted.topic.when_applied(None, told.append)
    while restarted.turn():
        pass
    assert told == []
    restarted.reopen(everything[: nodes.committed], nodes.committed)
    assert told == [None]
    assert restarted.map == committed


def test_a_node_that_is_to_lead_and_then_is_not_says_so() -> None:
    nodes = Replicas()
    node, told = nodes.nodes[1], list[HutongError | None]()
    nodes.append(b"k", b"v", b"1")
    nodes.replicate(node)
    node.topic.when_leading(told.append)
    assert told == []
    node.topic.follow(node.log, NOT_CONTROLLER, node.pace)
    assert told == [NOT_CONTROLLER]
    nodes.settle()
    assert not node.topic.is_leading
    assert node.map == {b"k": b"v"}


def test_a_record_that_cannot_be_read_stops_the_tail() -> None:
    nodes = Replicas()
    node, failures, told = nodes.nodes[1], list[CorruptData](), list[HutongError | None]()
    node.topic.on_failure = failures.append
    node.topic.when_applied(1, told.append)
    nodes.leader.log.append(build_batch([Record(value=b"no key")]), lambda _error: None)
    for each in nodes.nodes:
        nodes.replicate(each)
    nodes.commit()
    nodes.hear(node)
    while node.turn():
        pass
    assert len(failures) == 1
    assert told == [failures[0]]


actions = st.sampled_from(
    ["set"] * 8 + ["remove", "take", "take", "take all", "commit", "hear", "turn", "turn", "fail over", "reopen"]
)
keys = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(actions, keys, st.integers(0, 2), st.integers(0, 40)), max_size=120), st.booleans())
def test_every_node_has_the_map_of_the_log(script: list[tuple[str, bytes, int, int]], reads_wait: bool) -> None:
    nodes = Replicas()
    for index, (action, key, number, size) in enumerate(script):
        nodes.nodes[number].log.reads_wait = reads_wait
        do(nodes, action, key, number, b"%d" % index + b"." * size)
        for each in nodes.nodes:
            each.check()
    nodes.settle()
    model = nodes.model()
    for node in nodes.nodes:
        assert node.map == model
        assert node.topic.applied_offset == node.log.end_offset
    assert all(nodes.outcomes[value] in (None, NOT_CONTROLLER) for value in model.values())


def do(nodes: Replicas, action: str, key: bytes, number: int, name: bytes) -> None:
    node = nodes.nodes[number]
    match action:
        case "set":
            nodes.append(key, name, name)
        case "remove":
            nodes.append(key, None, name)
        case "take":
            nodes.replicate(node)
        case "take all":
            for each in nodes.nodes:
                nodes.replicate(each, 100)
        case "commit":
            nodes.commit()
        case "hear":
            nodes.hear(node)
        case "turn":
            node.turn()
        case "fail over":
            nodes.fail_over(node)
        case "reopen" if node is not nodes.leader:
            node.reopen(node.log.items, node.log.heard)
