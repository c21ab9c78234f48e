"""Shards of coordinators: Kafka's hash of a name, and the partition groups of their logs."""

import pytest

from hutong.broker.topics.lifetimes import (
    COORDINATOR_GROUPS,
    STATE_GROUPS,
    coordinator_groups,
    data_groups,
    group_of_slot,
    is_state_group,
    lifetime_of,
    shard_of,
)

INT_MAX = 2**31 - 1


@pytest.mark.parametrize(
    ("key", "hash_code"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("Ünïcode-Grüppe", None),
        ("polygenelubricants", 0),  # its hash is Java's least int, of which there is no positive one
        ("😀", 1772899),  # two units of UTF-16
        ("zzzzzzzzzz", None),
    ],
)
def test_the_shard_is_that_of_kafkas_partition(key: str, hash_code: int | None) -> None:
    if hash_code is None:
        hash_code = abs(java_hash(key))
    for shards in (2, 3, 12, 50, INT_MAX):
        assert shard_of(key, shards) == hash_code % shards


def java_hash(key: str) -> int:
    """String.hashCode, by Java's own definition: units to the power of 31, in 32 bits with a sign."""
    data = key.encode("utf-16-be")
    units = [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]
    total: int = sum(unit * 31 ** (len(units) - 1 - at) for at, unit in enumerate(units))
    return (total + 2**31) % 2**32 - 2**31


def test_one_shard_has_everything() -> None:
    assert {shard_of(f"group-{number}", 1) for number in range(100)} == {0}


def test_keys_spread_over_all_shards() -> None:
    assert {shard_of(f"group-{number}", 12) for number in range(200)} == set(range(12))


def test_the_first_shard_has_the_name_that_a_node_alone_has() -> None:
    assert coordinator_groups(1) == COORDINATOR_GROUPS
    assert len(set(coordinator_groups(12))) == 36


def test_the_state_of_nodes_is_known_by_its_groups_names() -> None:
    assert all(is_state_group(group) for group in (*STATE_GROUPS, *coordinator_groups(12)))
    assert not any(is_state_group(group) for group in data_groups(12))
    assert [lifetime_of(group_of_slot("days", slot)) for slot in (0, 1, 11)] == ["days"] * 3
