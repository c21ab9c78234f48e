"""Searching by time gives what looking at every record gives."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.journal.stage import SMALL, Stage, append_batch

from hutong.foundation.errors import HutongError
from hutong.journal.append.qos import Qos
from hutong.journal.log import PartitionLog
from hutong.journal.read.timestamps import NOT_FOUND, Found, TimestampSearch
from hutong.wire.kafka.batch.compression import Compression
from hutong.wire.kafka.batch.record_slices import rebuild_batch
from hutong.wire.kafka.batch.records import LOG_APPEND_TIME, Record, build_batch, parse_batch_header

batches = st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=4), max_size=30)


def first_from(stage: Stage, log: PartitionLog, timestamp_ms: int) -> Found | HutongError:
    outcomes: list[Found | HutongError] = []
    log.offset_for_timestamp(timestamp_ms, outcomes.append)
    stage.settle()
    (outcome,) = outcomes
    return outcome


def greatest(stage: Stage, log: PartitionLog) -> Found | HutongError:
    outcomes: list[Found | HutongError] = []
    log.offset_of_max_timestamp(outcomes.append)
    stage.settle()
    (outcome,) = outcomes
    return outcome


@settings(max_examples=60, deadline=None)
@given(batches, st.integers(0, 30), st.booleans())
def test_a_search_agrees_with_looking_at_every_record(script: list[list[int]], trimmed: int, is_reopened: bool) -> None:
    stage = Stage()
    told: list[Found] = []
    for number, timestamps in enumerate(script):
        records = [Record(timestamp_ms=timestamp_ms, value=bytes(90)) for timestamp_ms in timestamps]
        compression = Compression.GZIP if number % 3 == 0 else Compression.NONE
        stage.append_records(1, records, compression=compression)
        stage.append(2, bytes(100))
        told += [(timestamp_ms, len(told) + at) for at, timestamp_ms in enumerate(timestamps)]
        if number % 2:
            stage.settle()
    stage.settle()
    start = min(trimmed, len(told))
    stage.journal.log(1).delete_before(start)
    stage.settle()
    if is_reopened:
        stage.close()
        stage.open()
    log, visible = stage.journal.log(1), told[start:]
    for timestamp_ms in range(0, 42, 3):
        expected = next((found for found in visible if found[0] >= timestamp_ms), NOT_FOUND)
        assert first_from(stage, log, timestamp_ms) == expected
    best = max(visible, key=lambda found: (found[0], -found[1]), default=NOT_FOUND)
    assert greatest(stage, log) == best


def test_a_search_waits_for_what_readers_of_the_cache_can_see() -> None:
    stage = Stage()
    log = stage.journal.log(1)
    log.configure(receive_qos=True, log_append_time=False)
    stage.append_records(log, [Record(timestamp_ms=7, value=b"v")])
    stage.turn()
    outcomes: list[Found | HutongError] = []
    log.offset_for_timestamp(5, outcomes.append)
    assert outcomes == []
    stage.settle()
    assert outcomes == [(7, 0)]


def test_a_batch_that_cannot_be_decoded_answers_with_its_first_offset() -> None:
    stage = Stage()
    stage.append_records(1, [Record(timestamp_ms=5, value=b"v")])
    stage.append_records(1, [Record(timestamp_ms=9, value=b"v")] * 3, attributes=Compression.GZIP)  # but it is not
    stage.settle()
    assert first_from(stage, stage.journal.log(1), 8) == (9, 1)


ONE_NULL_RECORD = b"\x0c\0\0\0\x01\x01\0"


def append_raw(
    stage: Stage,
    content: bytes,
    count: int,
    *,
    offsets: int = 1,
    max_timestamp_ms: int = 9,
    compression: Compression = Compression.NONE,
    attributes: int = 0,
) -> None:
    """Store a batch that says `count` records and `offsets` offsets, whatever it holds."""
    like = parse_batch_header(build_batch([Record()] * offsets, compression=compression))
    batch = rebuild_batch(
        like,
        content,
        count,
        attributes=attributes | compression,
        base_timestamp_ms=5,
        max_timestamp_ms=max_timestamp_ms,
    )
    log = stage.journal.log(1)
    append_batch(log, batch, Qos.PERSISTENCE, lambda outcome: None)
    stage.settle()


def test_a_search_holds_no_list_of_records() -> None:
    """A batch of 12 kB can unpack to millions of records; a search takes no memory for each."""
    stage = Stage()
    count = 100_000
    append_raw(stage, ONE_NULL_RECORD * count, count, compression=Compression.ZSTD)
    log = stage.journal.log(1)
    assert first_from(stage, log, 5) == (5, 0)
    tracemalloc.start()
    try:
        assert first_from(stage, log, 8) == NOT_FOUND
        assert greatest(stage, log) == (5, 0)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("count", [2**31 - 1, 2, -5])
@pytest.mark.parametrize("search", [lambda stage, log: first_from(stage, log, 8), greatest], ids=["first", "greatest"])
def test_a_count_that_is_wrong_answers_with_the_header(count: int, search: Callable[..., Any]) -> None:
    stage = Stage()
    append_raw(stage, ONE_NULL_RECORD, count)
    assert search(stage, stage.journal.log(1)) == (9, 0)


def test_a_forged_offset_delta_answers_for_no_other_batch() -> None:
    stage = Stage()
    append_raw(stage, b"\x0c\0\0\x02\x01\x01\0", 1)  # offset delta 1 of a batch of one offset
    stage.append_records(1, [Record(timestamp_ms=7, value=b"v")])
    stage.settle()
    log = stage.journal.log(1)
    assert first_from(stage, log, 1) == greatest(stage, log) == (7, 1)


@pytest.mark.parametrize("compression", Compression)
def test_a_batch_that_compaction_has_emptied_answers_nothing(compression: Compression) -> None:
    stage = Stage()
    append_raw(stage, b"", 0, compression=compression)
    stage.append_records(1, [Record(timestamp_ms=9, value=b"v")])
    stage.settle()
    log = stage.journal.log(1)
    assert first_from(stage, log, 8) == greatest(stage, log) == (9, 1)


def test_a_time_that_the_log_gave_is_that_of_every_record() -> None:
    stage = Stage()
    records = b"\x0c\0\x10\0\x01\x01\0\x0c\0\0\x02\x01\x01\0"  # times 13 and 5
    append_raw(stage, records, 2, offsets=2, attributes=LOG_APPEND_TIME)
    log = stage.journal.log(1)
    assert first_from(stage, log, 8) == greatest(stage, log) == (9, 0)
    log.delete_before(1)
    stage.settle()
    assert first_from(stage, log, 8) == greatest(stage, log) == (9, 1)


def test_what_one_search_unpacks_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches whose headers promise too much make a search go on; it ends with a header once it has done enough."""
    stage = Stage(SMALL)
    for _ in range(4):
        append_raw(stage, ONE_NULL_RECORD * 1000, 1000, compression=Compression.GZIP)
    log = stage.journal.log(1)
    assert first_from(stage, log, 8) == NOT_FOUND
    monkeypatch.setattr("hutong.journal.read.timestamps.UNPACKED_BYTES_MAX", 2 * 7000 + 6999)
    assert first_from(stage, log, 8) == (9, 2)


def test_a_batch_that_readers_do_not_see_yet_answers_nothing() -> None:
    """Nor with its header, where its content cannot be decoded."""
    stage = Stage()
    log = stage.journal.log(1)
    append_raw(stage, ONE_NULL_RECORD, 2)
    append_raw(stage, ONE_NULL_RECORD, 2, max_timestamp_ms=50)
    assert first_from(stage, log, 40) == greatest(stage, log) == (50, 1)
    outcomes: list[Found | HutongError] = []
    search = TimestampSearch(list(log.all_spans()), 0, 1, log._plan_search, stage.journal.reader, outcomes.append)
    search.first_from(40)
    stage.settle()
    assert outcomes == [NOT_FOUND]
