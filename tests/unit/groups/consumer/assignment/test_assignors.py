"""Assignors: complete, one owner each, even, sticky, and the same answer to the same question."""

from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hutong.groups.consumer.assignment.assignors import (
    ASSIGNORS,
    Assignment,
    Subscriber,
    _Levels,
    range_,
    uniform,
)

TOPICS = {bytes([number]) * 16: count for number, count in enumerate((0, 1, 3, 4, 7, 12))}
MEMBERS = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(8)]), st.frozensets(st.sampled_from(sorted(TOPICS))), min_size=1
)
ALIKE = st.tuples(st.integers(1, 9), st.frozensets(st.sampled_from(sorted(TOPICS))))


def subscribers(subscribed: dict[str, frozenset[bytes]], previous: Assignment | None = None) -> dict[str, Subscriber]:
    return {name: Subscriber(topics, (previous or {}).get(name, frozenset())) for name, topics in subscribed.items()}


def check(found: Assignment, members: dict[str, frozenset[bytes]]) -> None:
    assert found.keys() == members.keys()
    everything = [partition for share in found.values() for partition in share]
    assert len(everything) == len(set(everything)), "two owners"
    read = frozenset[bytes]().union(*members.values())
    assert set(everything) == {(topic, index) for topic in read for index in range(TOPICS[topic])}, "incomplete"
    assert all(topic in members[name] for name, share in found.items() for topic, _ in share)


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(members=MEMBERS, later=MEMBERS)
def test_everything_that_is_read_has_one_reader(
    name: str, members: dict[str, frozenset[bytes]], later: dict[str, frozenset[bytes]]
) -> None:
    first = ASSIGNORS[name](subscribers(members), TOPICS)
    check(first, members)
    assert first == ASSIGNORS[name](subscribers(members), TOPICS)
    check(ASSIGNORS[name](subscribers(later, first), TOPICS), later)


@given(members=MEMBERS, later=MEMBERS)
def test_uniform_leaves_nothing_to_even_out(
    members: dict[str, frozenset[bytes]], later: dict[str, frozenset[bytes]]
) -> None:
    found = uniform(subscribers(later, uniform(subscribers(members), TOPICS)), TOPICS)
    for owner, share in found.items():
        for topic, _ in share:
            for other, topics in later.items():
                assert topic not in topics or len(found[owner]) - len(found[other]) <= 1


@given(alike=ALIKE, later_count=st.integers(1, 9))
def test_uniform_moves_no_more_than_it_must(alike: tuple[int, frozenset[bytes]], later_count: int) -> None:
    count, topics = alike
    first = uniform(subscribers({f"m{number}": topics for number in range(count)}), TOPICS)
    later = uniform(subscribers({f"m{number}": topics for number in range(later_count)}, first), TOPICS)
    stayed = sum(len(share & first.get(name, frozenset())) for name, share in later.items())
    total = sum(len(share) for share in first.values())
    if later_count >= count:
        assert stayed >= sum(min(len(share), total // later_count) for share in first.values())
    else:
        assert stayed == sum(len(first[name]) for name in later)


@given(members=MEMBERS)
def test_uniform_moves_nothing_for_nothing(members: dict[str, frozenset[bytes]]) -> None:
    first = uniform(subscribers(members), TOPICS)
    assert uniform(subscribers(members, first), TOPICS) == first


def test_range_gives_the_same_run_of_every_topic() -> None:
    orders, bills = b"o" * 16, b"b" * 16
    members = {name: Subscriber(frozenset({orders, bills})) for name in ("a", "b")}
    found = range_(members, {orders: 5, bills: 5})
    assert found["a"] == {(topic, index) for topic in (orders, bills) for index in (0, 1, 2)}
    assert found["b"] == {(topic, index) for topic in (orders, bills) for index in (3, 4)}


def test_range_sorts_static_members_by_their_instance() -> None:
    topic = b"o" * 16
    members = {
        "z": Subscriber(frozenset({topic}), instance_id="1"),
        "a": Subscriber(frozenset({topic}), instance_id="2"),
    }
    assert range_(members, {topic: 2}) == {"z": {(topic, 0)}, "a": {(topic, 1)}}


def test_nobody_gets_nothing() -> None:
    assert uniform({}, TOPICS) == range_({}, TOPICS) == {}


def plain_uniform(members: dict[str, Subscriber]) -> Assignment:
    """A plain model of `uniform` where subscriptions differ; it takes members times partitions."""
    owners: dict[tuple[bytes, int], str] = {}
    for name in sorted(members):
        for topic, index in members[name].previous:
            if topic in members[name].topics and index < TOPICS[topic]:
                owners.setdefault((topic, index), name)
    loads = Counter(owners.values())
    readers = {topic: [name for name in sorted(members) if topic in members[name].topics] for topic in TOPICS}
    read = [(topic, index) for topic in sorted(TOPICS) if readers[topic] for index in range(TOPICS[topic])]

    def least(topic: bytes) -> str:
        return min(readers[topic], key=lambda name: (loads[name], name))

    def give(partition: tuple[bytes, int], to: str) -> None:
        if partition in owners:
            loads[owners[partition]] -= 1
        owners[partition] = to
        loads[to] += 1

    for partition in sorted(read, key=lambda partition: (len(readers[partition[0]]), partition)):
        if partition not in owners:
            give(partition, least(partition[0]))
    while moves := [each for each in read if loads[owners[each]] - loads[least(each[0])] >= 2]:
        for partition in read[read.index(moves[0]) :]:
            if loads[owners[partition]] - loads[least(partition[0])] >= 2:
                give(partition, least(partition[0]))
    return {name: frozenset(each for each, owner in owners.items() if owner == name) for name in members}


@given(members=MEMBERS, later=MEMBERS, previous=st.dictionaries(st.sampled_from(sorted(TOPICS)), st.integers(0, 5)))
def test_uniform_finds_what_comparing_all_readers_finds(
    members: dict[str, frozenset[bytes]], later: dict[str, frozenset[bytes]], previous: dict[bytes, int]
) -> None:
    assume(len(set(members.values())) > 1)
    first = subscribers(members, {name: frozenset(previous.items()) for name in list(members)[:2]})
    found = uniform(first, TOPICS)
    assert found == plain_uniform(first)
    assume(len(set(later.values())) > 1)
    again = subscribers(later, found)
    assert uniform(again, TOPICS) == plain_uniform(again)


def test_uniform_compares_no_reader_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is counted in checks of levels: a few for each partition, for any number of readers."""
    looks = 0
    least = _Levels.least

    def counted(levels: _Levels, readers: int, level: int) -> tuple[int, int]:
        nonlocal looks
        found = least(levels, readers, level)
        looks += 1 + found[0] - level
        return found

    monkeypatch.setattr(_Levels, "least", counted)
    ids = [number.to_bytes(16, "big") for number in range(100)]
    members = {f"m{number:03}": Subscriber(frozenset(ids[number // 50 :])) for number in range(100)}
    found = uniform(members, dict.fromkeys(ids, 4))
    assert {len(share) for share in found.values()} == {4}
    assert looks < 10 * 400
