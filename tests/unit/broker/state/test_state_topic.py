"""A state topic is a map that survives overwrites, refusals, compaction and crashes."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hutong.broker.state.state_topic import StateTopic
from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import CorruptData, DiskFull, HutongError
from hutong.wire.kafka.batch.records import Record, build_batch, parse_batch_header

Then = Callable[[HutongError | None], None]


class FakeStorage:
    """A log whose flushes, refusals and crashes are the test's. Trims become durable with the next flush."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, bytes]] = []  # (base offset, batch), flushed
        self.on_their_way: list[tuple[int, bytes, Then]] = []
        self.lates: dict[int, Callable[[], None]] = {}  # by base offset
        self.failed: list[tuple[int, bytes]] = []  # written again once there is space
        self.start_offset = 0
        self.end_offset = 0
        self.durable_start_offset = 0
        self.refuses = False

    def append(self, batch: bytes, then: Then, late: Callable[[], None] | None = None) -> None:
        if self.refuses:
            then(DiskFull("no space"))
            return
        self.on_their_way.append((self.end_offset, batch, then))
        if late is not None:
            self.lates[self.end_offset] = late
        self.end_offset += parse_batch_header(batch).record_count

    def flush_one(self) -> None:
        offset, batch, then = self.on_their_way.pop(0)
        self.batches.append((offset, batch))
        self.durable_start_offset = self.start_offset
        then(None)

    def fail_one(self) -> None:
        """Report a full disk; the journal keeps the record."""
        offset, batch, then = self.on_their_way.pop(0)
        self.failed.append((offset, batch))
        then(DiskFull("no space"))

    def flush_failed(self) -> None:
        self.batches += self.failed
        self.durable_start_offset = self.start_offset
        for offset, _ in self.failed:
            self.lates[offset]()
        self.failed.clear()

    def flush(self) -> None:
        while self.on_their_way:
            self.flush_one()

    async def read(self, offset: int) -> Sequence[memoryview]:
        """One batch at a time, its base offset rewritten as the journal does."""
        for base_offset, batch in self.batches:
            if base_offset <= offset < base_offset + parse_batch_header(batch).record_count:
                return [memoryview(base_offset.to_bytes(8, "big") + batch[8:])]
        return []

    def trim_before(self, offset: int) -> None:
        assert self.start_offset <= offset <= self.end_offset
        assert all(offset <= base_offset for base_offset, _, _ in self.on_their_way)
        self.start_offset = offset

    def crash(self, surviving: int) -> "FakeStorage":
        """The records after a restart: all that were flushed, and perhaps some that were being written."""
        after = FakeStorage()
        lucky = [(offset, batch) for offset, batch, _ in self.on_their_way[:surviving]]
        after.start_offset = after.durable_start_offset = self.durable_start_offset
        after.batches = [each for each in (*self.batches, *lucky) if each[0] >= after.start_offset]
        if after.batches:
            offset, batch = after.batches[-1]
            after.end_offset = offset + parse_batch_header(batch).record_count
        else:
            after.end_offset = after.start_offset
        return after


def topic_on(storage: FakeStorage, floor_bytes: int = 1_000_000) -> StateTopic:
    return StateTopic("__state", storage, ManualClock(), garbage_floor_bytes=floor_bytes, slice_bytes=100)


def ignore(_error: HutongError | None) -> None:
    pass


def replayed(storage: FakeStorage) -> dict[bytes, bytes]:
    """The state of a node that starts on this log."""
    seen: dict[bytes, bytes | None] = {}
    topic = topic_on(storage)
    asyncio.run(topic.replay(seen.__setitem__))
    topic.check_invariants()
    assert dict(topic.live) == {key: value for key, value in seen.items() if value is not None}
    return dict(topic.live)


def test_an_append_is_seen_when_it_is_durable() -> None:
    storage = FakeStorage()
    topic = topic_on(storage)
    told: list[HutongError | None] = []
    topic.append(b"k", b"v", told.append)
    assert (told, dict(topic.live)) == ([], {})
    storage.flush()
    assert (told, dict(topic.live)) == ([None], {b"k": b"v"})
    assert replayed(storage.crash(0)) == {b"k": b"v"}


def test_the_last_value_wins_and_a_tombstone_removes() -> None:
    storage = FakeStorage()
    topic = topic_on(storage)
    topic.append_all([(b"a", b"1"), (b"b", b"1"), (b"a", b"2")], ignore)
    topic.append(b"b", None, ignore)
    storage.flush()
    assert dict(topic.live) == replayed(storage.crash(0)) == {b"a": b"2"}
    topic.check_invariants()


def test_several_keys_change_together_or_not_at_all() -> None:
    storage = FakeStorage()
    topic_on(storage).append_all([(b"a", b"1"), (b"b", b"1")], ignore)
    assert replayed(storage.crash(0)) == {}
    assert replayed(storage.crash(1)) == {b"a": b"1", b"b": b"1"}


def test_nothing_to_append_is_done_at_once() -> None:
    told: list[HutongError | None] = []
    topic_on(FakeStorage()).append_all([], told.append)
    assert told == [None]


def test_a_refusal_changes_nothing() -> None:
    storage = FakeStorage()
    topic = topic_on(storage)
    topic.append(b"k", b"old", ignore)
    storage.flush()
    storage.refuses = True
    told: list[HutongError | None] = []
    topic.append(b"k", b"new", told.append)
    assert isinstance(told[0], DiskFull)
    assert dict(topic.live) == {b"k": b"old"}
    topic.check_invariants()


def test_garbage_is_trimmed_once_a_snapshot_is_durable() -> None:
    storage = FakeStorage()
    topic = topic_on(storage, floor_bytes=1_000)
    topic.append(b"kept", b"v", ignore)
    while not storage.start_offset:
        topic.append(b"k", b"v" * 50, ignore)
        storage.flush()
        assert storage.end_offset < 100
    assert topic.snapshots_total == 1
    topic.append(b"last", b"v", ignore)
    storage.flush()
    assert replayed(storage.crash(0)) == {b"kept": b"v", b"k": b"v" * 50, b"last": b"v"}


def test_an_append_that_is_durable_after_it_failed_is_not_trimmed() -> None:
    storage = FakeStorage()
    topic = topic_on(storage, floor_bytes=10)  # the append itself is more
    topic.append(b"k", b"v", ignore)
    storage.fail_one()
    storage.flush_failed()
    assert dict(topic.live) == replayed(storage.crash(0)) == {b"k": b"v"}


def test_a_large_snapshot_is_written_slice_by_slice() -> None:
    storage = FakeStorage()
    topic = topic_on(storage, floor_bytes=1_000)
    for number in range(20):
        topic.append(b"key %d" % number, b"v" * 40, ignore)
    storage.flush()
    for _ in range(50):
        topic.append(b"key 0", b"w" * 40, ignore)
    storage.flush()
    assert topic.snapshots_total >= 1
    assert all(len(batch) < 350 for _, batch in storage.batches)
    assert len(replayed(storage.crash(0))) == 20


def test_after_a_restart_garbage_is_known() -> None:
    storage = FakeStorage()
    topic = topic_on(storage)
    for _ in range(20):
        topic.append(b"k", b"v" * 100, ignore)
    storage.flush()
    after = storage.crash(0)
    restarted = topic_on(after, floor_bytes=1_000)
    assert asyncio.run(restarted.replay(lambda _key, _value: None)) == 20
    restarted.append(b"other", b"v", ignore)
    after.flush()
    assert restarted.snapshots_total == 1


def test_a_log_that_ends_too_soon_is_corrupt() -> None:
    storage = FakeStorage()
    storage.end_offset = 3
    with pytest.raises(CorruptData, match="ends at offset 0, where 3 was expected"):
        replayed(storage)


SOUND = build_batch([Record(key=b"k", value=b"v")])


@pytest.mark.parametrize(
    "batch",
    [build_batch([Record(value=b"no key")]), SOUND[:61] + b"\x7f" * len(SOUND[61:]), SOUND[:-1]],
    ids=["no key", "garbage", "cut short"],
)
def test_a_log_of_something_else_is_corrupt(batch: bytes) -> None:
    storage = FakeStorage()
    storage.batches, storage.end_offset = [(0, batch)], 1
    with pytest.raises(CorruptData):
        replayed(storage)


actions = st.sampled_from(["set", "set", "set", "remove", "flush", "flush all", "refuse"])
keys = st.sampled_from([b"a", b"b", b"c", b"d"])


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(actions, keys, st.integers(0, 120)), max_size=80), st.integers(0, 8))
@example([("set", b"b", 0), ("set", b"a", 0), ("set", b"b", 0), ("flush", b"a", 0), ("flush", b"a", 0)], 0)
def test_a_crash_at_any_moment_loses_nothing_that_was_acknowledged(
    script: list[tuple[str, bytes, int]], surviving: int
) -> None:
    """With a floor this low nearly every append makes a snapshot begin, overlap or end."""
    storage = FakeStorage()
    topic = topic_on(storage, floor_bytes=200)
    acknowledged: dict[bytes, bytes | None] = {}
    pending: list[tuple[bytes, bytes | None]] = []

    def change(key: bytes, value: bytes | None) -> None:
        pending.append((key, value))

        def settle(error: HutongError | None) -> None:
            pending.remove((key, value))
            if error is None:
                acknowledged[key] = value

        topic.append(key, value, settle)

    for index, (action, key, size) in enumerate(script):
        match action:
            case "set":
                change(key, b"%d" % index + b"." * size)
            case "remove":
                change(key, None)
            case "flush" if storage.on_their_way:
                storage.flush_one()
            case "flush all":
                storage.flush()
            case "refuse":
                storage.refuses = not storage.refuses
        topic.check_invariants()
        assert dict(topic.live) == {key: value for key, value in acknowledged.items() if value is not None}

    after = storage.crash(surviving)
    found = replayed(after)
    lucky = {key for _, batch, _ in storage.on_their_way[:surviving] for key in keys_in(batch)}
    for key in {b"a", b"b", b"c", b"d"} - lucky:
        assert found.get(key) == acknowledged.get(key)
    for key in lucky & found.keys():
        assert found[key] in [acknowledged.get(key), *(value for each, value in pending if each == key)]


def keys_in(batch: bytes) -> set[bytes]:
    seen: dict[bytes, bytes | None] = {}
    storage = FakeStorage()
    storage.batches, storage.end_offset = [(0, batch)], parse_batch_header(batch).record_count
    asyncio.run(topic_on(storage).replay(seen.__setitem__))
    return set(seen)
