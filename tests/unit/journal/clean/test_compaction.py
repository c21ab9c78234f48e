"""When cleaning is due, the map of keys, and the property that defines compaction: a log reads as its last values."""

from dataclasses import replace
from random import Random
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.journal.keyed import clean, keyed, newest, read_batches, read_records, roll
from tests.unit.journal.stage import SMALL, Stage

from hutong.foundation.errors import CorruptData
from hutong.journal.clean.compaction import CHEAP_BYTES, CompactionPolicy, LogShare, decide
from hutong.journal.clean.newest_keys import KeyMap, hash_of, keys_in
from hutong.journal.format.clean_offsets import encode_clean_offsets, parse_clean_offsets
from hutong.wire.kafka.batch.compression import Compression

# -- the decision

SHARE = LogShare(1, 0, 100, 1_001, clean_bytes=500, dirty_bytes=500, is_overdue=False, min_dirty_ratio=0.5)


def test_a_log_is_due_by_its_dirty_share_or_when_it_has_waited_too_long() -> None:
    assert SHARE.is_due
    assert not SHARE._replace(dirty_bytes=499).is_due
    assert SHARE._replace(dirty_bytes=499, is_overdue=True).is_due
    assert not SHARE._replace(dirty_bytes=0, min_dirty_ratio=0.0, is_overdue=True).is_due


def test_all_that_has_something_to_gain_is_cleaned_with_what_is_due() -> None:
    later = SHARE._replace(partition_id=2, dirty_bytes=1, limit_position=5_001)
    clean_one = SHARE._replace(partition_id=3, dirty_bytes=0)
    overdue = SHARE._replace(partition_id=4, dirty_bytes=1, is_overdue=True)
    decision = decide([later, clean_one, SHARE, overdue], [(0, 1_000), (1_000, 4_000)])
    assert decision is not None
    assert [share.partition_id for share in decision.shares] == [4, 1, 2]
    assert decision.end_position == 5_001
    assert decide([later, clean_one], [(0, 1_000)]) is None


def test_a_little_among_much_waits_unless_it_is_overdue() -> None:
    small = SHARE._replace(limit_position=CHEAP_BYTES * 100, min_dirty_ratio=0.0)
    around = [(0, CHEAP_BYTES * 2)]
    assert decide([small], around) is None
    assert decide([small], [(0, CHEAP_BYTES)]) is not None
    assert decide([small._replace(is_overdue=True)], around) is not None
    assert decide([small._replace(dirty_bytes=CHEAP_BYTES)], around) is not None


# -- the map of keys


@given(st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=3))), st.integers(1, 20))
def test_the_map_knows_the_newest_offset_of_as_many_keys_as_it_takes(
    keys: list[tuple[int, bytes]], entries_max: int
) -> None:
    found, model = KeyMap(entries_max), dict[tuple[int, bytes], int]()
    for offset, (log, key) in enumerate(keys):
        fits = (log, key) in model or len(model) < entries_max
        assert found.put(hash_of(log, key), offset) is fits
        if fits:
            model[log, key] = offset
    assert len(found) == len(model)
    for log, key in keys:
        assert found.newest(hash_of(log, key)) == model.get((log, key), -1)


@pytest.mark.parametrize("buffer_bytes", [64 * 1024, 1_000_000, 16 * 1024 * 1024])
def test_a_map_stays_within_its_buffer(buffer_bytes: int) -> None:
    entries = keys_in(buffer_bytes)
    assert buffer_bytes // 4 <= KeyMap(entries).buffer_bytes <= buffer_bytes


@given(st.dictionaries(st.integers(0, 2**32 - 1), st.integers(0, 2**63 - 1)))
def test_clean_offsets_are_read_as_written_or_not_at_all(offsets: dict[int, int]) -> None:
    content = encode_clean_offsets(offsets)
    assert parse_clean_offsets(content) == offsets
    for damaged in (content[:-1], b"?" + content[1:], content + b"\0"):
        with pytest.raises(CorruptData):
            parse_clean_offsets(damaged)


# -- the property

PAIR = st.tuples(st.sampled_from([b"a", b"b", b"c", b"", b"long" * 20]), st.none() | st.binary(max_size=120))
BATCH = st.tuples(
    st.lists(PAIR, min_size=1, max_size=6),
    st.sampled_from([Compression.NONE, Compression.GZIP, Compression.ZSTD]),
    st.booleans(),  # of an idempotent producer
)
Batch = tuple[list[tuple[bytes, bytes | None]], Compression, bool]
STEP: st.SearchStrategy[Batch | str | int] = st.one_of(
    BATCH,
    st.sampled_from(["roll", "clean", "clean", "restart", "crash"]),
    st.integers(1, 4_000),  # milliseconds pass
)


@hypothesis.settings(deadline=None, max_examples=150)
@given(st.lists(STEP, max_size=40), st.integers(1, 6), st.integers(0, 2**16))
def test_a_compacted_log_reads_as_the_last_value_map(steps: list[Batch | str | int], keys_max: int, seed: int) -> None:
    """For any history: every record that is left is where it was written and what it was, the newest of each key is
    left, only tombstones whose time is over are not, and cleaning what is clean changes nothing."""
    stage = Stage(replace(SMALL, clean_keys_max=keys_max))
    policy = CompactionPolicy(min_dirty_ratio=0.0, delete_retention_ms=3_000)
    written: dict[int, tuple[bytes, bytes | None, int]] = {}
    sequence = 0
    for step in steps:
        match step:
            case int():
                stage.advance(step)
            case "roll":
                roll(stage)
            case "clean":
                clean(stage, 1, policy=policy)
            case "restart":
                stage.close()
                stage.open()
            case "crash":
                stage.crash(Random(seed))
                stage.open()
            case (pairs, codec, is_idempotent):
                by: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0, "base_sequence": sequence}
                sequence += len(pairs) if is_idempotent else 0
                now_ms = stage.clock.wall_ms()
                records = keyed(now_ms, *pairs)
                append = stage.append_records(1, records, compression=codec, **(by if is_idempotent else {}))
                stage.settle()
                written |= {
                    append.base_offset + number: (key, value, now_ms) for number, (key, value) in enumerate(pairs)
                }
    roll(stage)
    clean(stage, 1, policy=policy)
    check_map(stage, written, keys_max)
    before = read_records(stage, 1)
    clean(stage, 1, policy=policy)
    assert read_records(stage, 1) == before


def check_map(stage: Stage, written: dict[int, tuple[bytes, bytes | None, int]], keys_max: int) -> None:
    found = read_records(stage, 1, max_bytes=300)
    assert all(written[offset] == (key, value, time_ms) for offset, time_ms, key, value in found)
    offsets = [record.offset for record in found]
    assert offsets == sorted(set(offsets))
    expected = {key: value for key, value, _ in written.values()}
    left = newest(found)
    assert {key: value for key, value in left.items() if value is not None} == {
        key: value for key, value in expected.items() if value is not None
    }
    assert all(expected[key] is None for key in set(expected) - set(left))
    if not stage.journal.cleaner.problems:  # a batch may have more keys than so small a map
        assert len(found) == len(left), "an overwritten record is left"
    assert stage.journal.log(1).end_offset == len(written)
    last_offsets = [header.last_offset for header, _ in read_batches(stage, 1)]
    assert not written or last_offsets[-1] == len(written) - 1
    assert stage.problems() == []
