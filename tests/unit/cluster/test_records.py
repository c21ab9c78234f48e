"""The cluster's records: what was written is read, and nothing that no controller has written is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.cluster.image import ClusterImage
from hutong.cluster.records import (
    SETTINGS_KEY,
    FoundingSettings,
    KnownNode,
    PlannedMove,
    SplitTarget,
    decode_group,
    decode_move,
    decode_node,
    decode_number,
    decode_settings,
    decode_split,
    decode_target,
    drained_key,
    encode_group,
    encode_move,
    encode_node,
    encode_settings,
    encode_split,
    encode_target,
    group_key,
    group_record,
    is_cluster_key,
    move_key,
    node_key,
    split_key,
    target_key,
)
from hutong.cluster.set_rules import founded, without_nodes
from hutong.cluster.splits import Split
from hutong.foundation.errors import ProtocolError
from hutong.replication.group_state import NO_LEADER, PartitionGroupState

numbers = st.integers(0, 2**31 - 1)
incarnations = st.integers(1, 2**63 - 1)


@st.composite
def groups(draw: st.DrawFn) -> PartitionGroupState:
    replicas = draw(st.lists(numbers, min_size=1, max_size=6, unique=True))
    in_sync = draw(st.sets(st.sampled_from(replicas), min_size=1))
    least = draw(st.integers(1, len(replicas)))
    others = sorted(set(replicas) - in_sync)
    eligible = draw(st.sets(st.sampled_from(others))) if others and len(in_sync) < least else set()
    leader = draw(st.sampled_from([NO_LEADER, *sorted(in_sync)]))
    return PartitionGroupState(
        draw(st.text(min_size=1, max_size=20)),
        draw(st.integers(1, 2**40)),
        draw(st.integers(1, 2**40)),
        leader,
        draw(incarnations),
        tuple(replicas),
        frozenset(in_sync),
        frozenset(eligible),
        least,
        draw(st.integers(0, 100)),
    )


@given(groups())
def test_a_group_is_read_as_it_was_written(state: PartitionGroupState) -> None:
    assert decode_group(encode_group(state)) == state
    image = ClusterImage()
    assert image.apply(*group_record(state)) == state
    assert image.groups == {state.name: state}


@given(
    st.builds(FoundingSettings, slots=st.integers(1, 64), replicas=st.integers(1, 15), min_in_sync=st.integers(0, 9))
)
def test_settings_are_read_as_they_were_written(settings: FoundingSettings) -> None:
    assert decode_settings(encode_settings(settings)) == settings


@given(st.lists(numbers, min_size=1, max_size=5, unique=True), st.one_of(st.none(), st.text()), numbers)
def test_moves_and_nodes_are_read_as_they_were_written(replicas: list[int], rack: str | None, rate: int) -> None:
    move = PlannedMove(tuple(replicas), tuple(reversed(replicas)), rate)
    assert decode_move(encode_move(move)) == move
    assert decode_node(encode_node(KnownNode(rack))) == KnownNode(rack)
    known = KnownNode(rack, 7, ("days",))
    assert decode_node(encode_node(known)) == known


GOOD = (
    b'{"name":"days","epoch":1,"version":1,"leader":1,"leader_incarnation":5,"replicas":[1,2,3],"in_sync":[1],'
    b'"eligible":[2],"min_in_sync":2}'
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"days"', b'""'),
        (b'"days"', b"7"),
        (b'"days"', b'"\xff"'),
        (b'"epoch":1', b'"epoch":0'),
        (b'"epoch":1', b'"epoch":1.5'),
        (b'"leader":1', b'"leader":2'),
        (b"[1,2,3]", b"[]"),
        (b"[1,2,3]", b"[1,2,2]"),
        (b"[1,2,3]", b"[-1,1,2]"),
        (b"[1,2,3]", b"[2,3]"),
        (b'"in_sync":[1]', b'"in_sync":[]'),
        (b'"in_sync":[1]', b'"in_sync":[1,1]'),
        (b'"in_sync":[1]', b'"in_sync":[1,3]'),
        (b'"eligible":[2]', b'"eligible":[1]'),
        (b'"eligible":[2]', b'"eligible":[4]'),
        (b'"min_in_sync":2', b'"min_in_sync":4'),
        (b'"min_in_sync":2', b'"min_in_sync":0'),
        (b"}", b""),
    ],
)
def test_what_is_no_groups_state_is_refused(old: bytes, new: bytes) -> None:
    assert decode_group(GOOD).name == "days"
    with pytest.raises(ProtocolError):
        decode_group(GOOD.replace(old, new, 1))


@pytest.mark.parametrize("key", [b"cluster/node/", b"cluster/node/x", b"cluster/node/01", b"cluster/node/99999999999"])
def test_what_is_no_number_of_a_node_is_refused(key: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_number(key, b"cluster/node/")


def test_a_group_under_the_key_of_another_is_refused() -> None:
    with pytest.raises(ProtocolError):
        ClusterImage().apply(group_key("hours"), encode_group(founded("days", (1,), 5)))


def test_a_replay_leaves_the_newest_of_each() -> None:
    image = ClusterImage()
    days = founded("days", (1, 2), 5)
    without = without_nodes(days, {2})
    move = PlannedMove((3,), (1,))
    for key, value in (
        (SETTINGS_KEY, encode_settings(FoundingSettings(slots=5))),
        group_record(days),
        group_record(without),
        (node_key(1), encode_node(KnownNode("a"))),
        (node_key(2), encode_node(KnownNode())),
        (drained_key(1), b"{}"),
        (drained_key(2), b"{}"),
        (move_key("days"), encode_move(move)),
        (b"cluster/of-a-later-version", b"?"),
    ):
        assert is_cluster_key(key)
        image.apply(key, value)
    kept = image.copy()
    assert (image.settings, image.groups) == (FoundingSettings(slots=5), {"days": without})
    assert (image.nodes, image.drained, image.moves) == ({1: KnownNode("a"), 2: KnownNode()}, {1, 2}, {"days": move})
    for key in (node_key(2), drained_key(2), move_key("days"), group_key("days")):
        image.apply(key, None)
    assert (image.groups, image.nodes, image.drained, image.moves) == ({}, {1: KnownNode("a")}, {1}, {})
    assert kept.groups == {"days": without}
    assert (image.forgotten, kept.forgotten) == ({2}, set())
    assert not is_cluster_key(b"topic/orders")


def test_splits_and_their_targets_are_read_as_they_were_written() -> None:
    image, split, target = ClusterImage(), Split("days", (7, 8), 3), SplitTarget((2, 1))
    image.apply(split_key("days-100"), encode_split(split))
    image.apply(target_key("days-100"), encode_target(target))
    assert (image.splits, image.targets) == ({"days-100": split}, {"days-100": target})
    copied = image.copy()
    image.apply(split_key("days-100"), None)
    image.apply(target_key("days-100"), None)
    assert (image.splits, image.targets) == ({}, {})
    assert (copied.splits, copied.targets) == ({"days-100": split}, {"days-100": target})


@pytest.mark.parametrize(
    ("key", "content"),
    [
        (b"cluster/split/days", b'{"source":"days","log_ids":[1]}'),
        (b"cluster/split/days-100", b'{"source":"days","log_ids":[]}'),
        (b"cluster/split/days-100", b'{"source":"days","log_ids":[1],"epoch":-1}'),
        (b"cluster/split/days-100", b"{}"),
    ],
)
def test_what_is_no_split_is_refused(key: bytes, content: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_split(key, content)


@pytest.mark.parametrize("content", [b"{}", b'{"replicas":[]}', b'{"replicas":[1,1]}'])
def test_what_is_no_target_is_refused(content: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_target(content)
