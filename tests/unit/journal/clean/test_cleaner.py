"""Cleaning a journal: what stays, where it is read, and what is left of the files."""

import tracemalloc
from collections.abc import Generator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from tests.unit.journal.keyed import EAGER, clean, keyed, newest, put, read_batches, read_records, roll
from tests.unit.journal.stage import DIRECTORY, SMALL, Stage, append_batch

from hutong.journal.append.qos import Qos
from hutong.journal.clean.compaction import CompactionPolicy
from hutong.journal.clean.newest_keys import KeyMap
from hutong.journal.clean.record_filter import LogRules, RecordFilter
from hutong.journal.clean.retention import RetentionPolicy
from hutong.journal.files.segment import parse_segment_name
from hutong.wire.kafka.batch.compression import Compression
from hutong.wire.kafka.batch.record_slices import rebuild_batch
from hutong.wire.kafka.batch.records import HEADER_BYTES, build_batch, iterate_records, parse_batch_header


def overwrite(stage: Stage, log: int, rounds: int, keys: int = 5) -> dict[bytes, bytes]:
    """Write each key again and again over several segments; returns what is newest."""
    written = {}
    for number in range(rounds):
        key = b"key-%d" % (number % keys)
        written[key] = b"%06d" % number + b"." * 80
        put(stage, log, (key, written[key]))
    return written


def segment_files(stage: Stage) -> list[str]:
    return [name for name in stage.disk.list(DIRECTORY) if name.endswith(".journal")]


def test_the_newest_record_of_each_key_stays_where_it_was() -> None:
    stage = Stage()
    written = overwrite(stage, 1, 100)
    before = read_records(stage, 1)
    roll(stage)
    clean(stage, 1)
    after = read_records(stage, 1)
    assert newest(after) == written
    assert set(after) <= set(before)
    assert len(after) == len(written)
    assert stage.journal.cleaner.cleanings_total == 1
    assert len(segment_files(stage)) <= 2, "those in which nothing is left are gone"
    stage.open()
    assert read_records(stage, 1) == after
    assert stage.journal.log(1).start_offset == 0, "cleaning moves no start"
    assert stage.problems() == []
    stage.close()
    assert stage.problems() == []


def test_a_clean_log_is_left_alone() -> None:
    stage = Stage()
    overwrite(stage, 1, 100)
    roll(stage)
    clean(stage, 1)
    writes = stage.disk.writes_total
    clean(stage, 1)
    assert stage.disk.writes_total == writes
    stage.close()
    stage.open()
    writes = stage.disk.writes_total
    clean(stage, 1)
    assert stage.disk.writes_total == writes, "a restart does not forget what is clean"


def test_what_is_written_after_a_cleaning_replaces_what_is_clean() -> None:
    stage = Stage()
    for _ in range(4):
        written = overwrite(stage, 1, 50)
        roll(stage)
        clean(stage, 1)
        assert newest(read_records(stage, 1)) == written
        assert len(read_records(stage, 1)) == len(written)
    assert stage.journal.cleaner.cleanings_total == 4


def test_small_neighbours_become_one_again_and_again() -> None:
    stage = Stage()
    for generation in range(1, 4):
        for number in range(3):
            put(stage, 1, (b"key-%d" % number, b"%d" % generation))
            put(stage, 2, (b"key-%d" % number, b"%d" % generation))
            roll(stage)
        clean(stage, 1, 2)
        (name,) = map(parse_segment_name, segment_files(stage))
        assert name is not None
        assert name.generation == generation
        assert newest(read_records(stage, 1)) == {b"key-%d" % number: b"%d" % generation for number in range(3)}
        stage.open()
        assert len(read_records(stage, 2)) == 3


def test_other_logs_of_the_journal_keep_every_record() -> None:
    stage = Stage()
    for number in range(60):
        put(stage, 1, (b"k", b"%d" % number + bytes(60)))
        put(stage, 2, (b"k", b"%d" % number + bytes(60)))
    roll(stage)
    before = read_records(stage, 2)
    clean(stage, 1)
    assert read_records(stage, 2) == before
    assert len(read_records(stage, 1)) == 1
    stage.open()
    assert read_records(stage, 2) == before


def test_the_active_segment_is_never_touched() -> None:
    stage = Stage()
    overwrite(stage, 1, 10)
    before = read_records(stage, 1)
    clean(stage, 1)
    assert read_records(stage, 1) == before
    assert stage.journal.cleaner.cleanings_total == 0


def test_records_younger_than_the_least_lag_stay() -> None:
    stage = Stage()
    put(stage, 1, (b"k", b"old"))
    put(stage, 1, (b"k", b"old too"))
    roll(stage)
    stage.advance(1_000)
    put(stage, 1, (b"k", b"young"))
    put(stage, 1, (b"k", b"young too"))
    roll(stage)
    policy = CompactionPolicy(min_lag_ms=500, min_dirty_ratio=0.0)
    clean(stage, 1, policy=policy)
    assert [record.value for record in read_records(stage, 1)] == [b"old too", b"young", b"young too"]
    stage.advance(1_000)
    clean(stage, 1, policy=policy)
    assert [record.value for record in read_records(stage, 1)] == [b"young too"]


def test_a_dirty_share_that_is_small_waits_unless_it_waits_too_long() -> None:
    stage = Stage()
    overwrite(stage, 1, 60, keys=60)
    roll(stage)
    clean(stage, 1)
    put(stage, 1, (b"key-1", b"new"))
    roll(stage)
    half = CompactionPolicy(min_dirty_ratio=0.5, max_lag_ms=10_000)
    clean(stage, 1, policy=half)
    assert stage.journal.cleaner.cleanings_total == 1
    stage.advance(10_000)
    clean(stage, 1, policy=half)
    assert stage.journal.cleaner.cleanings_total == 2
    assert len(read_records(stage, 1)) == 60


def test_a_tombstone_stays_for_its_time_and_then_goes() -> None:
    stage = Stage()
    policy = CompactionPolicy(delete_retention_ms=5_000, min_dirty_ratio=0.0)
    put(stage, 1, (b"a", b"1"), (b"b", b"1"))
    put(stage, 1, (b"a", None))
    put(stage, 1, (b"c", b"1"))
    written_ms = stage.clock.wall_ms()
    roll(stage)
    stage.advance(1_000)
    clean(stage, 1, policy=policy)
    kept = read_records(stage, 1)
    assert [(record.offset, record.key, record.value) for record in kept] == [
        (1, b"b", b"1"),
        (2, b"a", None),
        (3, b"c", b"1"),
    ]
    assert {record.timestamp_ms for record in kept} == {written_ms}, "the horizon in a batch moves no timestamp"
    for passed_ms, is_there in ((4_999, True), (2, False)):
        stage.advance(passed_ms)
        put(stage, 1, (b"d", b"%d" % passed_ms))
        roll(stage)
        clean(stage, 1, policy=policy)
        assert (b"a" in newest(read_records(stage, 1))) is is_there
    stage.open()
    assert set(newest(read_records(stage, 1))) == {b"b", b"c", b"d"}


def test_records_without_a_key_have_no_place() -> None:
    stage = Stage()
    put(stage, 1, (None, b"stray"), (b"k", b"1"))
    put(stage, 1, (b"l", b"1"))
    roll(stage)
    clean(stage, 1)
    assert [record.key for record in read_records(stage, 1)] == [b"k", b"l"]


def test_the_newest_batch_keeps_its_offsets_when_it_loses_its_records() -> None:
    stage = Stage()
    policy = CompactionPolicy(delete_retention_ms=0, min_dirty_ratio=0.0)
    put(stage, 1, (b"a", b"1"))
    put(stage, 1, (b"a", None))
    for _ in range(2):
        roll(stage)
        clean(stage, 1, policy=policy)
        put(stage, 2, (b"x", b"y"))
    roll(stage)
    clean(stage, 1, 2, policy=policy)
    stage.disk.unlink(DIRECTORY / "checkpoint")
    stage.disk.crash(Random(1))
    stage.open()
    assert (stage.journal.log(1).start_offset, stage.journal.log(1).end_offset) == (0, 2)
    assert put(stage, 1, (b"a", b"2")) == 2


def test_what_a_producer_may_repeat_is_known_without_a_checkpoint() -> None:
    stage = Stage()
    for sequence in range(8):
        put(stage, 1, (b"k", b"%d" % sequence), producer_id=7, producer_epoch=0, base_sequence=sequence)
    put(stage, 1, (b"k", b"last"))
    roll(stage)
    clean(stage, 1)
    assert [record.value for record in read_records(stage, 1)] == [b"last"]
    assert [header.record_count for header, _ in read_batches(stage, 1)] == [0, 0, 0, 0, 0, 1]
    stage.disk.unlink(DIRECTORY / "checkpoint")
    stage.disk.crash(Random(1))
    stage.open()
    repeated = [(b"k", b"5")]
    assert put(stage, 1, *repeated, producer_id=7, producer_epoch=0, base_sequence=5) == 5
    assert stage.journal.log(1).end_offset == 9
    assert put(stage, 1, (b"k", b"8"), producer_id=7, producer_epoch=0, base_sequence=8) == 9


def test_a_start_that_was_moved_stays_moved_without_a_checkpoint() -> None:
    stage = Stage()
    put(stage, 1, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    put(stage, 1, (b"a", b"2"))
    stage.journal.log(1).delete_before(2)
    roll(stage)
    clean(stage, 1)
    assert [record.key for record in read_records(stage, 1)] == [b"c", b"a"]
    stage.disk.unlink(DIRECTORY / "checkpoint")
    stage.disk.crash(Random(1))
    stage.open()
    assert stage.journal.log(1).start_offset == 2
    assert [record.key for record in read_records(stage, 1)] == [b"c", b"a"]


def test_a_cleaned_log_starts_where_it_started_without_a_checkpoint() -> None:
    stage = Stage()
    overwrite(stage, 1, 80)
    put(stage, 2, (b"k", b"1"))
    roll(stage)
    clean(stage, 1)
    stage.disk.unlink(DIRECTORY / "checkpoint")
    stage.disk.crash(Random(1))
    stage.open()
    assert stage.journal.log(1).start_offset == 0
    assert len(read_records(stage, 1)) == 5


def test_a_small_map_takes_several_passes_and_comes_to_the_same() -> None:
    found = []
    for keys_max in (3, 1_000):
        stage = Stage(replace(SMALL, clean_keys_max=keys_max))
        overwrite(stage, 1, 200, keys=20)
        roll(stage)
        clean(stage, 1)
        found.append(read_records(stage, 1))
        assert (stage.journal.cleaner.passes_total > 1) is (keys_max == 3)
    assert found[0] == found[1]
    assert len(found[0]) == 20


def test_a_reader_keeps_its_file_while_the_segment_is_cleaned() -> None:
    stage = Stage()
    stage.disk.is_cached = False
    overwrite(stage, 1, 100)
    roll(stage)
    log = stage.journal.log(1)
    cold = log.read(0, 400)
    outcomes: list[object] = []
    log.read_from_disk(cold, outcomes.append)  # type: ignore[arg-type]
    late = log.read(0, 400)
    stage.journal.enforce_compaction({1: EAGER})
    stage.settle()
    assert len(segment_files(stage)) <= 2
    assert isinstance(outcomes[0], list)
    assert outcomes[0]
    log.read_from_disk(late, outcomes.append)  # type: ignore[arg-type]
    stage.settle()
    assert isinstance(outcomes[1], list), "planned before, carried out after: what is there now is read"
    assert outcomes[1]


def test_a_full_disk_ends_a_cleaning_and_nothing_else() -> None:
    stage = Stage()
    written = overwrite(stage, 1, 100)
    roll(stage)
    before = read_records(stage, 1)
    stage.disk.capacity_bytes = 0
    clean(stage, 1)
    assert stage.journal.cleaner.last_error is not None
    assert read_records(stage, 1) == before
    stage.disk.capacity_bytes = None
    clean(stage, 1)
    assert newest(read_records(stage, 1)) == written
    assert len(read_records(stage, 1)) == 5


def test_rot_is_not_given_a_new_file() -> None:
    stage = Stage()
    overwrite(stage, 1, 100)
    roll(stage)
    first = DIRECTORY / segment_files(stage)[0]
    stage.disk.flip_bit(first, 200)
    files = segment_files(stage)
    clean(stage, 1)
    assert "CRC" in str(stage.journal.cleaner.last_error)
    assert segment_files(stage) == files
    clean(stage, 1)
    assert segment_files(stage) == files


def test_a_batch_that_cannot_be_unpacked_ends_the_cleaning_of_its_log() -> None:
    stage = Stage()
    overwrite(stage, 2, 20)
    put(stage, 1, (b"k", b"1"))
    damaged = keyed(stage.clock.wall_ms(), (b"k", b"2"))
    stage.append_records(1, damaged, attributes=4)  # says zstd, and is not
    stage.settle()
    put(stage, 1, (b"k", b"3"))
    roll(stage)
    clean(stage, 1, 2)
    assert 1 in stage.journal.cleaner.problems
    assert stage.journal.log(1).clean_offset == 1
    assert len(read_records(stage, 2)) == 5
    passes = stage.journal.cleaner.passes_total
    clean(stage, 1, 2)
    assert stage.journal.cleaner.passes_total == passes, "it is not tried again and again"


@pytest.mark.parametrize("seed", range(3))
def test_a_stop_in_the_middle_leaves_a_journal_as_it_was_or_cleaned(seed: int) -> None:
    stage = Stage()
    written = overwrite(stage, 1, 100)
    roll(stage)
    stage.journal.enforce_compaction({1: EAGER})
    for _ in range(seed):
        stage.steps.work()
        stage.steps.tell()
    stage.close()
    assert stage.problems() == []
    stage.open()
    assert newest(read_records(stage, 1)) == written
    assert not [name for name in stage.disk.list(DIRECTORY) if name.endswith(".tmp")]


def test_what_deleted_logs_leave_between_others_is_given_back() -> None:
    stage = Stage()
    put(stage, 1, (b"k", b"1"))
    for number in range(40):
        put(stage, 2, (b"k", b"%d" % number + bytes(200)))
        put(stage, 3, (b"k", b"%d" % number + bytes(200)))
    put(stage, 1, (b"l", b"1"))
    roll(stage)
    clean(stage, 1)
    stage.journal.delete_log(2)
    stage.journal.log(3).delete_before(39)
    stage.settle()
    before = sum(stage.disk.open(DIRECTORY / name).size() for name in segment_files(stage))
    assert before > 16_000
    clean(stage, 1)
    after = sum(stage.disk.open(DIRECTORY / name).size() for name in segment_files(stage))
    assert after < 3_000
    assert [record.key for record in read_records(stage, 1)] == [b"k", b"l"]
    assert [record.offset for record in read_records(stage, 3)] == [39]
    writes = stage.disk.writes_total
    clean(stage, 1)
    assert stage.disk.writes_total == writes
    stage.disk.unlink(DIRECTORY / "checkpoint")
    stage.disk.crash(Random(1))
    stage.open()
    assert stage.journal.log_ids() == [1, 3]
    assert stage.journal.log(3).start_offset == 39


def test_a_cleaning_keeps_to_its_budget() -> None:
    stage = Stage(replace(SMALL, clean_bytes_per_second_max=2_000))
    written = overwrite(stage, 1, 100)
    roll(stage)
    clean(stage, 1)
    cleaner, begun_ms = stage.journal.cleaner, stage.clock.monotonic_ms()
    assert cleaner.is_running, "it waits for its time"
    while cleaner.is_running:
        passed_ms = stage.clock.monotonic_ms() - begun_ms
        assert cleaner.moved_bytes_total <= 2 * passed_ms + 8_192, "no more than the budget and one slice"
        stage.advance(100)
        stage.settle()
    assert stage.clock.monotonic_ms() - begun_ms >= cleaner.moved_bytes_total // 2 - 5_000
    assert newest(read_records(stage, 1)) == written


def test_another_budget_counts_for_a_cleaning_that_waits() -> None:
    stage = Stage(replace(SMALL, clean_bytes_per_second_max=1))
    written = overwrite(stage, 1, 100)
    roll(stage)
    clean(stage, 1)
    cleaner = stage.journal.cleaner
    assert cleaner.is_running, "at a byte a second it waits for hours"
    stage.journal.alter_settings(replace(SMALL, clean_bytes_per_second_max=0))
    stage.settle()
    assert not cleaner.is_running
    assert newest(read_records(stage, 1)) == written
    assert cleaner.passes_total == 1
    stage.journal.alter_settings(replace(SMALL, clean_keys_max=2))
    overwrite(stage, 1, 100)
    roll(stage)
    clean(stage, 1)
    assert cleaner.passes_total > 2, "five keys, two in each pass"


def test_compacted_and_deleted_by_age_as_well() -> None:
    stage = Stage()
    put(stage, 1, (b"a", b"1"), (b"b", b"1"))
    put(stage, 1, (b"a", b"2"))
    roll(stage)
    stage.advance(10_000)
    put(stage, 1, (b"c", b"1"))
    put(stage, 1, (b"c", b"2"))
    roll(stage)
    clean(stage, 1)
    assert [record.offset for record in read_records(stage, 1)] == [1, 2, 4]
    files = segment_files(stage)
    stage.journal.enforce_retention({1: RetentionPolicy(retention_ms=5_000)})
    stage.settle()
    assert stage.journal.log(1).start_offset == 0, "the files have become one, which dies whole"
    stage.advance(6_000)
    stage.journal.enforce_retention({1: RetentionPolicy(retention_ms=5_000)})
    stage.settle()
    assert not set(files) & set(segment_files(stage))
    stage.open()
    assert (stage.journal.log(1).start_offset, stage.journal.log(1).end_offset) == (5, 5)


def test_a_forged_offset_hides_no_other_record() -> None:
    """A batch of one offset whose record says that it is the sixth, stored before records were checked."""
    stage = Stage()
    sent = build_batch(keyed(stage.clock.wall_ms(), (b"k", b"forged")))
    header = parse_batch_header(sent)
    data = bytearray(sent[HEADER_BYTES:])
    data[3] = 5 << 1  # zig-zag
    forged = rebuild_batch(
        header,
        bytes(data),
        1,
        attributes=0,
        base_timestamp_ms=header.base_timestamp_ms,
        max_timestamp_ms=header.max_timestamp_ms,
    )
    append_batch(stage.journal.log(1), forged, Qos.PERSISTENCE, lambda _: None)
    put(stage, 1, (b"k", b"newest"))
    put(stage, 1, *[(b"other", b"1")] * 6)
    roll(stage)
    clean(stage, 1)
    assert b"newest" in [record.value for record in read_records(stage, 1)]
    assert 1 in stage.journal.cleaner.problems


def run_to_end(steps: Generator[int, None, Any]) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def sieve_and_rules() -> tuple[RecordFilter, LogRules]:
    return RecordFilter(KeyMap(100), 10_000, 1 << 20), LogRules(1, 0, 1 << 40, is_compacted=True, mapped_offset=1 << 40)


def test_the_memory_of_a_cleaning_does_not_grow_with_the_number_of_records() -> None:
    """A batch of 12 kB can unpack to millions of records; one byte is held for each."""
    batch = build_batch(keyed(1_000, *[(b"", b"")] * 50_000), compression=Compression.ZSTD)
    record_filter, rules = sieve_and_rules()
    header = parse_batch_header(batch)
    tracemalloc.start()
    try:
        assert run_to_end(record_filter.filter_batch(rules, header, batch)) is batch
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


def test_a_tombstone_of_a_time_out_of_reach_stays_as_it_is() -> None:
    """The delta from its horizon to -2**63 ms would not fit 64 bits, and nobody could read the batch again."""
    record_filter, rules = sieve_and_rules()
    early = build_batch(keyed(-(2**63), (b"k", None)))
    assert run_to_end(record_filter.filter_batch(rules, parse_batch_header(early), early)) is early
    reachable = build_batch(keyed(-(2**62), (b"k", None)))
    moved = run_to_end(record_filter.filter_batch(rules, parse_batch_header(reachable), reachable))
    assert moved != reachable
    assert [(record.key, record.timestamp_ms) for record in iterate_records(moved)] == [(b"k", -(2**62))]
