"""The table of committed offsets, and which of them grow old (KIP-211)."""

from hypothesis import given
from hypothesis import strategies as st

from hutong.groups.offsets.records import StoredOffset
from hutong.groups.offsets.store import OffsetStore, Usage
from hutong.groups.record_keys import OffsetKey

RETENTION_MS = 1_000
NOW_MS = 10_000


def committed(offset: int = 5, at_ms: int = 0, expires_at_ms: int = -1) -> StoredOffset:
    return StoredOffset(offset, 3, "note", at_ms, expires_at_ms)


def store_of(**at_ms: int) -> OffsetStore:
    """One offset in group g for each topic, committed at that time."""
    store = OffsetStore()
    for topic, time_ms in at_ms.items():
        store.apply(OffsetKey("g", topic, 0), committed(at_ms=time_ms))
    return store


def expired_topics(store: OffsetStore, usage: Usage) -> set[str]:
    return {key.topic for key in store.expired("g", usage, NOW_MS, RETENTION_MS)}


def test_what_is_committed_is_found_with_epoch_and_metadata() -> None:
    store = store_of(t=1)
    assert store.get("g", "t", 0) == committed(at_ms=1)
    assert store.get("g", "t", 1) is None
    assert store.get("other", "t", 0) is None
    assert store.of_group("g") == {"t": {0: committed(at_ms=1)}}
    assert store.of_group("other") == {}


def test_a_tombstone_leaves_nothing_behind() -> None:
    store = store_of(t=1)
    store.apply(OffsetKey("g", "t", 0), None)
    store.apply(OffsetKey("g", "t", 0), None)
    assert len(store) == 0
    assert list(store.groups()) == []


def test_keys_are_found_by_group_and_by_topic() -> None:
    store = store_of(t=1, u=1)
    store.apply(OffsetKey("h", "t", 4), committed())
    assert set(store.keys_of_group("g")) == {OffsetKey("g", "t", 0), OffsetKey("g", "u", 0)}
    assert set(store.keys_of_topic("t")) == {OffsetKey("g", "t", 0), OffsetKey("h", "t", 4)}


def test_offsets_without_a_group_age_from_their_commit() -> None:
    store = store_of(old=NOW_MS - RETENTION_MS, young=NOW_MS - RETENTION_MS + 1)
    assert expired_topics(store, Usage(has_members=False)) == {"old"}


def test_offsets_of_an_emptied_group_age_from_then_on() -> None:
    store = store_of(old=0)
    assert expired_topics(store, Usage(has_members=False, empty_since_ms=NOW_MS - RETENTION_MS + 1)) == set()
    assert expired_topics(store, Usage(has_members=False, empty_since_ms=NOW_MS - RETENTION_MS)) == {"old"}


def test_a_commit_to_an_emptied_group_ages_from_the_commit() -> None:
    store = store_of(reset=NOW_MS - 1)
    assert expired_topics(store, Usage(has_members=False, empty_since_ms=0)) == set()


def test_living_members_keep_what_they_read() -> None:
    store = store_of(read=0, dropped=0)
    assert expired_topics(store, Usage(has_members=True, subscribed=frozenset({"read"}))) == {"dropped"}
    assert expired_topics(store, Usage(has_members=True)) == set()


def test_an_expiry_of_the_clients_own_goes_before_retention() -> None:
    store = OffsetStore()
    store.apply(OffsetKey("g", "soon", 0), committed(at_ms=NOW_MS, expires_at_ms=NOW_MS))
    store.apply(OffsetKey("g", "late", 0), committed(at_ms=0, expires_at_ms=NOW_MS + 1))
    assert expired_topics(store, Usage(has_members=False)) == {"soon"}


keys = st.builds(OffsetKey, st.sampled_from("gh"), st.sampled_from("tuv"), st.integers(0, 2))


@given(st.lists(st.tuples(keys, st.none() | st.integers(0, 9))))
def test_the_table_is_the_last_value_of_each_key(changes: list[tuple[OffsetKey, int | None]]) -> None:
    store, model = OffsetStore(), dict[OffsetKey, int]()
    for key, offset in changes:
        store.apply(key, None if offset is None else committed(offset))
        if offset is None:
            model.pop(key, None)
        else:
            model[key] = offset
    assert len(store) == len(model)
    assert {key for group_id in store.groups() for key in store.keys_of_group(group_id)} == model.keys()
    for key, offset in model.items():
        found = store.get(key.group_id, key.topic, key.partition)
        assert found is not None
        assert found.offset == offset
